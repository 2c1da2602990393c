// SPDX-License-Identifier: GPL-2.0-only
//! Guest memory: regions of equal slots, at addresses that look like kernel addresses and are never host addresses.
//!
//! An address is `0xffff_RRRR_OOOO_OOOO`: region and offset. A region is an array of slots with a power-of-two stride
//! and one object per slot, so that a mask suffices to check an access against the bounds of its object. `[0, 4 GiB)`
//! is reserved for the arena.

use crate::FaultKind;

/// A 64-bit address in guest memory.
pub type GuestAddr = u64;

/// Addresses below this one count as NULL plus a member offset, like the kernel's first page.
const NULL_PAGE: u64 = 4096;

/// Maximum size of a region in bytes: offsets have 32 bits.
const REGION_SPAN: u64 = 1 << 32;

/// Upper half of the address of region 0.
const KERNEL_HALF: u32 = 0xffff_0000;

/// Default of the most bytes that all maps of an object may take: 20 times the largest known scheduler.
pub const MAP_BYTES: u64 = 512 << 20;

/// Number of a region; 0 is never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u16);

/// Access of programs to a region. The host can always read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Programs may only load.
    ReadOnly,
    /// Programs may load and store.
    ReadWrite,
}

/// An array of guest objects of one size. It is aligned to a cache line, so that indexing by number is a shift.
#[derive(Debug)]
#[repr(align(64))]
pub struct Region {
    /// Storage of all slots, `pitch` bytes each.
    data: Vec<u8>,
    /// Bytes of storage per slot. Guest addresses have power-of-two strides; with the same strides in storage, a
    /// field of all tasks would share a few cache sets. Large objects therefore take an odd number of cache lines.
    pitch: u32,
    /// Pitch divided by stride, as a fixed-point number with 31 fraction bits: converts a slot's address offset to
    /// its storage offset.
    scale: u64,
    /// Stride minus one: masks the offset within a slot.
    mask: u32,
    /// Log2 of the stride.
    shift: u32,
    /// Object size in bytes, at most the stride.
    size: u32,
    /// Number of object bytes that programs may write: all or none.
    writable: u32,
    slots: u32,
}

/// Fraction bits of [`Region::scale`]. The largest stride is 2^31, so the scale is exact; offset times scale fits in
/// 64 bits, because a pitch is at most 5/4 of a stride.
const SCALE_PLACES: u32 = 31;

impl Region {
    /// Storage offset of `len` bytes at an address offset, if they lie in one object.
    #[inline(always)]
    fn find(&self, offset: u32, len: u32) -> Option<usize> {
        let (slot, inside) = (offset >> self.shift, offset & self.mask);
        // The stride is at most 2 GiB, so the sum cannot wrap for lengths up to 2 GiB.
        let fits = len <= self.size && inside <= self.size - len;
        (fits && slot < self.slots).then_some(slot as usize * self.pitch as usize + inside as usize)
    }

    /// Storage offset of `N` bytes within the first `size` bytes of an object. A missing slot yields an offset beyond
    /// `data`.
    #[inline(always)]
    fn find_few<const N: usize>(&self, offset: u32, size: u32) -> Option<usize> {
        const { assert!(N <= 8) };
        let inside = offset & self.mask;
        let begin = (u64::from(offset - inside) * self.scale) >> SCALE_PLACES;
        (inside + N as u32 <= size).then_some(begin as usize + inside as usize)
    }

    /// Storage offset of `N` bytes at `offset` in a slot. A missing slot yields an offset beyond `data`.
    #[inline(always)]
    fn place_of_field<const N: usize>(&self, slot: u32, offset: u32) -> usize {
        assert!(offset as usize + N <= self.size as usize, "offset {offset} of {} bytes", self.size);
        slot as usize * self.pitch as usize + offset as usize
    }

    /// Slot, and offset within it, of the object at an address offset.
    #[inline(always)]
    fn object_at(&self, offset: u32) -> Option<(u32, u32)> {
        self.find(offset, 1).map(|_| (offset >> self.shift, offset & self.mask))
    }
}

/// Bytes of storage for an object of `size` bytes: from four cache lines on, an odd number of lines.
pub(crate) const fn pitch(size: u32) -> u32 {
    const LINE: u32 = 64;
    let lines = size.div_ceil(LINE);
    match lines {
        0..4 => size,
        _ => (lines | 1) * LINE,
    }
}

/// Little-endian bytes as a number.
#[inline(always)]
fn word<const N: usize>(bytes: [u8; N]) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes);
    u64::from_le_bytes(word)
}

/// Number of the region of an address; it may not exist.
#[inline(always)]
fn number(addr: GuestAddr) -> usize {
    ((addr >> 32) as u32).wrapping_sub(KERNEL_HALF) as usize
}

/// Zeroes the last `len` bytes. A separate function, because compilers would otherwise merge it with the fixed-length
/// case into one `memset` call.
#[cold]
#[inline(never)]
fn zero_last(data: &mut [u8], len: usize) {
    let first = data.len() - len;
    data[first..].fill(0);
}

/// All guest memory of one machine.
#[derive(Debug)]
pub struct Memory {
    /// Regions by number; the first is a placeholder without slots.
    regions: Vec<Region>,
    names: Vec<String>,
    /// Most bytes of all maps of an object.
    pub(crate) map_bytes: u64,
    /// Part of it in bytes that the values of hash maps and storage, which grow, have not used yet.
    pub(crate) map_bytes_left: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        let mut memory = Memory { regions: Vec::new(), names: Vec::new(), map_bytes: MAP_BYTES, map_bytes_left: 0 };
        memory.add_region("none", 1, 0, Access::ReadOnly);
        memory
    }
}

impl Memory {
    /// Adds a region of `slots` zeroed objects of `size` bytes each.
    ///
    /// # Panics
    /// If `size` is 0 or above 2 GiB, if the slots do not fit into 4 GiB, or on the 65536th region.
    pub fn add_region(&mut self, name: &str, size: u32, slots: u32, access: Access) -> RegionId {
        self.add_region_with_stride(name, size, size.next_power_of_two(), slots, access)
    }

    /// Adds a region with at least one unused byte after each slot, so that the address just past an object is not in
    /// the next one.
    pub(crate) fn add_guarded_region(&mut self, name: &str, size: u32, slots: u32, access: Access) -> RegionId {
        self.add_region_with_stride(name, size, (size + 1).next_power_of_two(), slots, access)
    }

    fn add_region_with_stride(&mut self, name: &str, size: u32, stride: u32, slots: u32, access: Access) -> RegionId {
        assert!(size > 0 && size <= 1 << 31, "region {name}: objects of {size} bytes");
        let id = u16::try_from(self.regions.len()).expect("at most 65535 regions");
        let (mask, shift) = (stride - 1, stride.trailing_zeros());
        let pitch = pitch(size);
        let scale = u64::from(pitch) << (SCALE_PLACES - shift);
        let writable = if access == Access::ReadWrite { size } else { 0 };
        self.regions.push(Region { data: Vec::new(), pitch, scale, mask, shift, size, writable, slots: 0 });
        self.names.push(name.to_owned());
        let bytes = self.span(RegionId(id), slots);
        // The allocator provides zeroed pages lazily; growing from empty would touch them all.
        self.regions[usize::from(id)].data = vec![0; bytes];
        self.regions[usize::from(id)].slots = slots;
        RegionId(id)
    }

    /// Storage of `slots` slots of a region, in bytes.
    fn span(&self, region: RegionId, slots: u32) -> usize {
        let r = self.region(region);
        let last = u64::from(slots.saturating_sub(1));
        let end = (last << r.shift) + u64::from(r.size);
        assert!(end <= REGION_SPAN, "region {}: {slots} slots do not fit", self.name(region));
        slots as usize * r.pitch as usize
    }

    /// Grows a region to at least `slots` objects; new ones are zeroed. Addresses stay valid.
    ///
    /// # Panics
    /// If they do not fit into 4 GiB.
    pub fn grow(&mut self, region: RegionId, slots: u32) {
        if slots > self.region(region).slots {
            let bytes = self.span(region, slots);
            let r = self.region_mut(region);
            r.data.resize(bytes, 0);
            r.slots = slots;
        }
    }

    /// Limits the maps of objects that are loaded from now on to this many bytes; the default is [`MAP_BYTES`].
    pub fn limit_maps(&mut self, bytes: u64) {
        self.map_bytes = bytes;
    }

    /// As [`Memory::grow`], for the values of a map. Returns false, and changes nothing, if the maps would then take more
    /// than they may.
    pub(crate) fn grow_map(&mut self, region: RegionId, slots: u32) -> bool {
        let r = self.region(region);
        let more = u64::from(slots.saturating_sub(r.slots)) * u64::from(r.pitch);
        let Some(left) = self.map_bytes_left.checked_sub(more) else { return false };
        self.map_bytes_left = left;
        self.grow(region, slots);
        true
    }

    /// The region that was added last.
    pub fn last_region(&self) -> RegionId {
        RegionId(self.regions.len() as u16 - 1)
    }

    /// Number of objects in a region.
    pub fn slots(&self, region: RegionId) -> u32 {
        self.region(region).slots
    }

    /// Name of a region.
    pub fn name(&self, region: RegionId) -> &str {
        &self.names[usize::from(region.0)]
    }

    /// Address of the first byte of a slot.
    #[inline]
    pub fn addr(&self, region: RegionId, slot: u32) -> GuestAddr {
        let r = self.region(region);
        assert!(slot < r.slots, "region {} has no slot {slot}", self.name(region));
        u64::from(KERNEL_HALF | u32::from(region.0)) << 32 | u64::from(slot) << r.shift
    }

    /// Region, slot and offset within the slot, for an address inside an object.
    #[inline]
    pub fn locate(&self, addr: GuestAddr) -> Option<(RegionId, u32, u32)> {
        let (number, region, offset) = self.split(addr)?;
        let (slot, inside) = region.object_at(offset)?;
        Some((RegionId(number as u16), slot, inside))
    }

    /// Slot of the object of `region` that contains `addr`.
    #[inline]
    pub fn slot_in(&self, region: RegionId, addr: GuestAddr) -> Option<u32> {
        if (addr >> 32) as u32 != KERNEL_HALF | u32::from(region.0) {
            return None;
        }
        self.region(region).object_at(addr as u32).map(|(slot, _)| slot)
    }

    /// Slot of the object of `region` that begins at `addr`.
    #[inline]
    pub fn slot_at(&self, region: RegionId, addr: GuestAddr) -> Option<u32> {
        let (r, offset) = (self.region(region), addr as u32);
        let begins = (addr >> 32) as u32 == KERNEL_HALF | u32::from(region.0) && offset & r.mask == 0;
        (begins && offset >> r.shift < r.slots).then_some(offset >> r.shift)
    }

    /// Executes a program's load of 1, 2, 4 or 8 bytes, zero-extended.
    #[inline]
    pub fn load(&self, addr: GuestAddr, size: u32) -> Result<u64, FaultKind> {
        let value = match size {
            1 => self.load_le::<1>(addr),
            2 => self.load_le::<2>(addr),
            4 => self.load_le::<4>(addr),
            8 => self.load_le::<8>(addr),
            _ => panic!("load of {size} bytes"),
        };
        value.ok_or_else(|| self.bad_load(addr, size))
    }

    /// Executes a program's store of 1, 2, 4 or 8 bytes.
    #[inline]
    pub fn store(&mut self, addr: GuestAddr, size: u32, value: u64) -> Result<(), FaultKind> {
        let done = match size {
            1 => self.store_le::<1>(addr, value),
            2 => self.store_le::<2>(addr, value),
            4 => self.store_le::<4>(addr, value),
            8 => self.store_le::<8>(addr, value),
            _ => panic!("store of {size} bytes"),
        };
        done.ok_or_else(|| self.bad_store(addr, size))
    }

    /// Bytes within one object, for helpers that take a pointer and a length.
    #[inline]
    pub fn bytes(&self, addr: GuestAddr, len: u32) -> Result<&[u8], FaultKind> {
        let found = self.split(addr).and_then(|(_, region, offset)| {
            let at = region.find(offset, len)?;
            region.data.get(at..at + len as usize)
        });
        found.ok_or_else(|| self.bad_load(addr, len))
    }

    /// Bytes within one object that a helper writes for the program; a read-only region is an error.
    #[inline]
    pub fn bytes_mut(&mut self, addr: GuestAddr, len: u32) -> Result<&mut [u8], FaultKind> {
        let found = self.split(addr).and_then(|(number, region, offset)| {
            let at = region.find(offset, len)?;
            (region.writable > 0).then_some((number, at))
        });
        match found {
            Some((number, at)) => Ok(&mut self.regions[number].data[at..at + len as usize]),
            None => Err(self.bad_store(addr, len)),
        }
    }

    /// A NUL-terminated string of at most `limit` bytes, lossily as UTF-8.
    pub fn c_string(&self, addr: GuestAddr, limit: u32) -> Result<String, FaultKind> {
        let bytes = self.bytes_to_end(addr, limit).ok_or_else(|| self.bad_load(addr, 1))?;
        let len = bytes.iter().position(|&byte| byte == 0);
        match len {
            Some(len) => Ok(String::from_utf8_lossy(&bytes[..len]).into_owned()),
            None if bytes.len() == limit as usize => Ok(String::from_utf8_lossy(bytes).into_owned()),
            None => Err(self.bad_load(addr, bytes.len() as u32 + 1)),
        }
    }

    /// The bytes from `addr` to the end of its object, but at most `limit`.
    pub(crate) fn bytes_to_end(&self, addr: GuestAddr, limit: u32) -> Option<&[u8]> {
        let (_, region, offset) = self.split(addr)?;
        let at = region.find(offset, 1)?;
        let len = limit.min(region.size - (offset & region.mask)) as usize;
        region.data.get(at..at + len)
    }

    /// All bytes of a slot, for the host.
    #[inline]
    pub fn slot(&self, region: RegionId, slot: u32) -> &[u8] {
        let r = self.region(region);
        let at = slot as usize * r.pitch as usize;
        &r.data[at..at + r.size as usize]
    }

    /// All bytes of a slot, writable for the host even if read-only for programs.
    #[inline]
    pub fn slot_mut(&mut self, region: RegionId, slot: u32) -> &mut [u8] {
        let r = self.region_mut(region);
        let at = slot as usize * r.pitch as usize;
        &mut r.data[at..at + r.size as usize]
    }

    /// A little-endian u64 in a slot, for the host.
    #[inline]
    pub fn get_u64(&self, region: RegionId, slot: u32, offset: u32) -> u64 {
        u64::from_le_bytes(*self.field(region, slot, offset))
    }

    /// Stores a little-endian u64 in a slot, for the host.
    #[inline]
    pub fn set_u64(&mut self, region: RegionId, slot: u32, offset: u32, value: u64) {
        *self.field_mut(region, slot, offset) = value.to_le_bytes();
    }

    /// A little-endian u32 in a slot, for the host.
    #[inline]
    pub fn get_u32(&self, region: RegionId, slot: u32, offset: u32) -> u32 {
        u32::from_le_bytes(*self.field(region, slot, offset))
    }

    /// Stores a little-endian u32 in a slot, for the host.
    #[inline]
    pub fn set_u32(&mut self, region: RegionId, slot: u32, offset: u32, value: u32) {
        *self.field_mut(region, slot, offset) = value.to_le_bytes();
    }

    /// `N` bytes of an object, for the host.
    #[inline(always)]
    fn field<const N: usize>(&self, region: RegionId, slot: u32, offset: u32) -> &[u8; N] {
        let r = self.region(region);
        let at = r.place_of_field::<N>(slot, offset);
        r.data[at..at + N].first_chunk().expect("that many")
    }

    /// `N` writable bytes of an object, for the host.
    #[inline(always)]
    fn field_mut<const N: usize>(&mut self, region: RegionId, slot: u32, offset: u32) -> &mut [u8; N] {
        let r = self.region_mut(region);
        let at = r.place_of_field::<N>(slot, offset);
        r.data[at..at + N].first_chunk_mut().expect("that many")
    }

    /// Loads `N` bytes, zero-extended; on `None`, [`Memory::bad_load`] gives the reason.
    #[inline(always)]
    pub(crate) fn load_le<const N: usize>(&self, addr: GuestAddr) -> Option<u64> {
        let (_, region, offset) = self.split(addr)?;
        let at = region.find_few::<N>(offset, region.size)?;
        Some(word(*region.data.get(at..at + N)?.first_chunk::<N>()?))
    }

    /// Stores the low `N` bytes; on `None`, [`Memory::bad_store`] gives the reason.
    #[inline(always)]
    pub(crate) fn store_le<const N: usize>(&mut self, addr: GuestAddr, value: u64) -> Option<()> {
        let region = self.regions.get_mut(number(addr))?;
        let at = region.find_few::<N>(addr as u32, region.writable)?;
        region.data.get_mut(at..at + N)?.copy_from_slice(&value.to_le_bytes()[..N]);
        Some(())
    }

    /// Region and storage offset of an access, if it lies in an object. The location never changes.
    pub(crate) fn place(&self, addr: GuestAddr, len: u32) -> Option<(RegionId, usize)> {
        let (number, region, offset) = self.split(addr)?;
        Some((RegionId(number as u16), region.find(offset, len)?))
    }

    /// End of a slot's object in the region's storage.
    #[inline]
    pub(crate) fn storage_end(&self, region: RegionId, slot: u32) -> usize {
        let r = self.region(region);
        slot as usize * r.pitch as usize + r.size as usize
    }

    /// Zeroes the `len` bytes of a region's storage before `end`. Up to 64 bytes in all may be zeroed, because that
    /// takes only four instructions.
    #[inline(always)]
    pub(crate) fn zero_before(&mut self, region: RegionId, end: usize, len: usize) {
        const LINE: usize = 64;
        let data = &mut self.region_mut(region).data[..end];
        match data.last_chunk_mut::<LINE>() {
            Some(line) if len <= LINE => *line = [0; LINE],
            _ => zero_last(data, len),
        }
    }

    /// The `N` bytes of a region's storage before `end`.
    #[inline(always)]
    pub(crate) fn before_mut<const N: usize>(&mut self, region: RegionId, end: usize) -> &mut [u8; N] {
        self.region_mut(region).data[..end].last_chunk_mut().expect("it is part of an object")
    }

    /// Loads `N` bytes from a location returned by [`Memory::place`].
    #[inline(always)]
    pub(crate) fn load_at<const N: usize>(&self, region: u16, at: usize) -> Option<u64> {
        let bytes = self.regions.get(usize::from(region))?.data.get(at..)?.first_chunk::<N>()?;
        Some(word(*bytes))
    }

    /// Stores the low `N` bytes at a location returned by [`Memory::place`] that programs may write.
    #[inline(always)]
    pub(crate) fn store_at<const N: usize>(&mut self, region: u16, at: usize, value: u64) -> Option<()> {
        let region = self.regions.get_mut(usize::from(region))?;
        region.data.get_mut(at..)?.first_chunk_mut::<N>()?.copy_from_slice(&value.to_le_bytes()[..N]);
        Some(())
    }

    /// Reason of a failed load.
    #[cold]
    pub(crate) fn bad_load(&self, addr: GuestAddr, size: u32) -> FaultKind {
        self.bad_access("load", addr, size)
    }

    /// Reason of a failed store.
    #[cold]
    pub(crate) fn bad_store(&self, addr: GuestAddr, size: u32) -> FaultKind {
        if let Some((number, region, offset)) = self.split(addr)
            && region.find(offset, size).is_some()
        {
            return FaultKind::ReadOnly { addr, size, region: self.names[number].clone() };
        }
        self.bad_access("store", addr, size)
    }

    fn bad_access(&self, access: &'static str, addr: GuestAddr, size: u32) -> FaultKind {
        if addr < NULL_PAGE {
            return FaultKind::Null { access, addr, size };
        }
        FaultKind::OutOfBounds { access, addr, size, nearby: self.nearby(addr) }
    }

    /// Describes the surroundings of a bad address.
    fn nearby(&self, addr: GuestAddr) -> String {
        let Some((number, region, offset)) = self.split(addr).filter(|found| found.0 > 0) else {
            return "no object there".to_owned();
        };
        let (slot, inside, name) = (offset >> region.shift, offset & region.mask, &self.names[number]);
        if slot >= region.slots {
            return format!("no object there: {name} has {} of {} bytes", region.slots, region.size);
        }
        format!("{name} {slot}, byte {inside} of {}", region.size)
    }

    /// Region number, region and offset.
    #[inline(always)]
    fn split(&self, addr: GuestAddr) -> Option<(usize, &Region, u32)> {
        let number = number(addr);
        Some((number, self.regions.get(number)?, addr as u32))
    }

    fn region(&self, region: RegionId) -> &Region {
        &self.regions[usize::from(region.0)]
    }

    fn region_mut(&mut self, region: RegionId) -> &mut Region {
        &mut self.regions[usize::from(region.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_across_object_boundary_faults() {
        let mut memory = Memory::default();
        let region = memory.add_region("task", 24, 3, Access::ReadWrite);
        let (first, second) = (memory.addr(region, 0), memory.addr(region, 1));
        assert_eq!((first, second), (0xffff_0001_0000_0000, 0xffff_0001_0000_0020));
        memory.store(first + 16, 8, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(memory.load(first + 20, 4), Ok(0x1122_3344));
        assert_eq!(memory.get_u64(region, 0, 16), 0x1122_3344_5566_7788);
        assert_eq!(
            memory.load(first + 17, 8).unwrap_err().to_string(),
            "load of 8 bytes at 0xffff000100000011 is out of bounds (task 0, byte 17 of 24)"
        );
        assert!(memory.store(first + 24, 1, 0).is_err(), "padding is not part of an object");
        assert!(memory.load(second - 1, 2).is_err());
        assert!(memory.load(memory.addr(region, 2) + 32, 1).is_err(), "one slot too far");
        assert_eq!(memory.locate(second + 5), Some((region, 1, 5)));
        assert_eq!(memory.locate(second + 24), None);
        assert_eq!(memory.slot_in(region, second + 23), Some(1));
        assert_eq!(memory.slot_in(RegionId(0), second), None);
    }

    #[test]
    fn null_and_unmapped_addresses_fault() {
        let memory = Memory::default();
        assert!(matches!(memory.load(0, 8), Err(FaultKind::Null { addr: 0, size: 8, access: "load" })));
        assert!(matches!(memory.load(4095, 1), Err(FaultKind::Null { .. })));
        for addr in [4096, 0xffff_ffff, 1 << 32, 0xffff_0000_0000_0000, 0xffff_0001_0000_0000, u64::MAX] {
            assert!(matches!(memory.load(addr, 1), Err(FaultKind::OutOfBounds { .. })), "{addr:#x}");
        }
    }

    #[test]
    fn read_only_region_is_writable_for_the_host_only() {
        let mut memory = Memory::default();
        let region = memory.add_region(".rodata", 16, 1, Access::ReadOnly);
        let addr = memory.addr(region, 0);
        let refused = FaultKind::ReadOnly { addr, size: 8, region: ".rodata".to_owned() };
        assert_eq!(memory.store(addr, 8, 1), Err(refused));
        assert!(memory.bytes_mut(addr, 1).is_err());
        memory.set_u64(region, 0, 0, 7);
        assert_eq!(memory.load(addr, 8), Ok(7));
    }

    #[test]
    fn growing_a_region_keeps_addresses_and_contents() {
        let mut memory = Memory::default();
        let region = memory.add_region("task", 2048, 1, Access::ReadWrite);
        let first = memory.addr(region, 0);
        memory.set_u32(region, 0, 4, 9);
        memory.grow(region, 1000);
        memory.grow(region, 10);
        assert_eq!((memory.addr(region, 0), memory.load(first + 4, 4)), (first, Ok(9)));
        assert_eq!(memory.get_u64(region, 999, 2040), 0);
        assert_eq!(memory.slots(region), 1000);
    }

    /// The pitch of 256-byte objects is 5/4 of their stride, the maximum.
    #[test]
    fn access_to_a_missing_slot_faults() {
        let mut memory = Memory::default();
        for size in [24, 256, 320, 4096] {
            let region = memory.add_region("object", size, 3, Access::ReadWrite);
            let (first, stride) = (memory.addr(region, 0), u64::from(size.next_power_of_two()));
            for slot in 0..(1 << 32) / stride {
                let (exists, addr) = (slot < 3, first + slot * stride + 8);
                if exists || slot % 4_099 == 0 || slot > (1 << 32) / stride - 8 {
                    assert_eq!(memory.store(addr, 8, slot).is_ok(), exists, "{size}: {slot}");
                    assert_eq!(memory.load(addr, 8).ok(), exists.then_some(slot), "{size}: {slot}");
                }
            }
            assert_eq!(memory.get_u64(region, 2, 8), 2);
        }
    }

    #[test]
    fn address_space_fits_100000_tasks_and_4096_cpus() {
        let mut memory = Memory::default();
        let tasks = memory.add_region("task", 2048, 100_000, Access::ReadWrite);
        let cpus = memory.add_region("rq", 4096, 4096, Access::ReadWrite);
        assert_eq!(memory.locate(memory.addr(tasks, 99_999) + 2047), Some((tasks, 99_999, 2047)));
        assert_eq!(memory.locate(memory.addr(cpus, 4095) + 1), Some((cpus, 4095, 1)));
    }

    #[test]
    fn c_string_ends_at_nul_or_limit_within_the_object() {
        let mut memory = Memory::default();
        let region = memory.add_region("text", 4, 2, Access::ReadWrite);
        memory.slot_mut(region, 0).copy_from_slice(b"ab\0c");
        memory.slot_mut(region, 1).copy_from_slice(b"wxyz");
        let (first, second) = (memory.addr(region, 0), memory.addr(region, 1));
        assert_eq!(memory.c_string(first, 16).unwrap(), "ab");
        assert_eq!(memory.c_string(first, 1).unwrap(), "a");
        assert_eq!(memory.c_string(second, 4).unwrap(), "wxyz");
        assert!(memory.c_string(second, 5).is_err());
        assert!(memory.c_string(0, 5).is_err());
    }

    #[test]
    fn guarded_objects_are_not_adjacent() {
        let mut memory = Memory::default();
        let region = memory.add_guarded_region("stack", 512, 2, Access::ReadWrite);
        let second = memory.addr(region, 1);
        assert!(memory.load(second - 1, 1).is_err());
        assert!(memory.load(memory.addr(region, 0) + 512, 1).is_err());
    }
}
