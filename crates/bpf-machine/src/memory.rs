// SPDX-License-Identifier: GPL-2.0-only
//! Guest memory: regions of equal slots at addresses that look like a kernel's and never are the host's.
//!
//! An address is `0xffff_RRRR_OOOO_OOOO`: region and offset. A region is an array of slots of a power-of-two stride,
//! one object a slot, so that an access can be held against the bounds of its object with a mask. `[0, 4 GiB)` is
//! left for the arena.

use crate::FaultKind;

/// A 64-bit address in guest memory.
pub type GuestAddr = u64;

/// A region by number; 0 is never used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u16);

/// What programs may do with a region. The host may always do both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads only.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// An array of guest objects of one size.
#[derive(Debug)]
pub struct Region {}

/// All guest memory of one machine.
#[derive(Debug, Default)]
pub struct Memory {}

impl Memory {
    /// Adds a region of `slots` objects of `size` bytes each, zeroed.
    pub fn add_region(&mut self, name: &str, size: u32, slots: u32, access: Access) -> RegionId {
        todo!("{name} {size} {slots} {access:?}")
    }

    /// Makes room for at least `slots` objects, the new ones zeroed. Addresses stay valid.
    pub fn grow(&mut self, region: RegionId, slots: u32) {
        todo!("{region:?} {slots}")
    }

    /// Address of the first byte of a slot.
    pub fn addr(&self, region: RegionId, slot: u32) -> GuestAddr {
        todo!("{region:?} {slot}")
    }

    /// Region, slot and offset in the slot of an address inside an object.
    pub fn locate(&self, addr: GuestAddr) -> Option<(RegionId, u32, u32)> {
        todo!("{addr}")
    }

    /// Slot of `addr` if it is the address (of any byte) of an object of `region`.
    pub fn slot_in(&self, region: RegionId, addr: GuestAddr) -> Option<u32> {
        todo!("{region:?} {addr}")
    }

    /// What a program's load of 1, 2, 4 or 8 bytes gives, zero-extended.
    pub fn load(&self, addr: GuestAddr, size: u32) -> Result<u64, FaultKind> {
        todo!("{addr} {size}")
    }

    /// What a program's store of 1, 2, 4 or 8 bytes does.
    pub fn store(&mut self, addr: GuestAddr, size: u32, value: u64) -> Result<(), FaultKind> {
        todo!("{addr} {size} {value}")
    }

    /// Bytes of one object, for helpers that take a pointer and a length.
    pub fn bytes(&self, addr: GuestAddr, len: u32) -> Result<&[u8], FaultKind> {
        todo!("{addr} {len}")
    }

    /// The same, to be written by a helper on behalf of the program (read-only regions are refused).
    pub fn bytes_mut(&mut self, addr: GuestAddr, len: u32) -> Result<&mut [u8], FaultKind> {
        todo!("{addr} {len}")
    }

    /// A NUL-terminated string of at most `limit` bytes, lossily as UTF-8.
    pub fn c_string(&self, addr: GuestAddr, limit: u32) -> Result<String, FaultKind> {
        todo!("{addr} {limit}")
    }

    /// All bytes of a slot, for the host. Infallible: the host knows its own objects.
    pub fn slot(&self, region: RegionId, slot: u32) -> &[u8] {
        todo!("{region:?} {slot}")
    }

    /// All bytes of a slot, for the host to change, read-only or not.
    pub fn slot_mut(&mut self, region: RegionId, slot: u32) -> &mut [u8] {
        todo!("{region:?} {slot}")
    }

    /// A little-endian u64 in a slot, for the host.
    #[inline]
    pub fn get_u64(&self, region: RegionId, slot: u32, offset: u32) -> u64 {
        let at = offset as usize;
        u64::from_le_bytes(self.slot(region, slot)[at..at + 8].try_into().expect("8 bytes"))
    }

    /// Stores a little-endian u64 in a slot, for the host.
    #[inline]
    pub fn set_u64(&mut self, region: RegionId, slot: u32, offset: u32, value: u64) {
        let at = offset as usize;
        self.slot_mut(region, slot)[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A little-endian u32 in a slot, for the host.
    #[inline]
    pub fn get_u32(&self, region: RegionId, slot: u32, offset: u32) -> u32 {
        let at = offset as usize;
        u32::from_le_bytes(self.slot(region, slot)[at..at + 4].try_into().expect("4 bytes"))
    }

    /// Stores a little-endian u32 in a slot, for the host.
    #[inline]
    pub fn set_u32(&mut self, region: RegionId, slot: u32, offset: u32, value: u32) {
        let at = offset as usize;
        self.slot_mut(region, slot)[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}
