// SPDX-License-Identifier: GPL-2.0-only
//! BPF maps. Their values live in guest memory and never move.

mod create;
mod hash;
mod index;
mod queue;
mod ring;
mod timer;

pub use timer::TimerId;
pub(crate) use timer::{Timer, Timers};

use crate::errno::{E2BIG, EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM};
use crate::{FaultKind, GuestAddr, Memory, RegionId};
use bpf_object::MapKind;
use hash::HashStore;
use queue::QueueStore;
use ring::Ring;

/// Update flag: create or replace.
const BPF_ANY: u64 = 0;
/// Update flag: create only.
const BPF_NOEXIST: u64 = 1;
/// Update flag: replace only.
const BPF_EXIST: u64 = 2;
/// Update flag: hold the value's spin lock during the update. Has no effect, because one execution runs at a time.
const BPF_F_LOCK: u64 = 4;

/// What an update may do with an existing or missing key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Any,
    NoExist,
    Exist,
}

fn check_flag(flags: u64) -> Result<Flag, i32> {
    match flags & !BPF_F_LOCK {
        BPF_ANY => Ok(Flag::Any),
        BPF_NOEXIST => Ok(Flag::NoExist),
        BPF_EXIST => Ok(Flag::Exist),
        _ => Err(-EINVAL),
    }
}

/// A map of a loaded machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapHandle(pub u32);

#[derive(Debug)]
pub(crate) struct Map {
    pub name: String,
    pub kind: MapKind,
    pub key_size: u32,
    pub value_size: u32,
    store: Store,
    /// Frozen by libbpf (`BPF_MAP_FREEZE`): read-only for user space too.
    frozen: bool,
    /// A timer was initialized in one of its values.
    has_timers: bool,
}

/// Storage of a map's values.
#[derive(Debug)]
enum Store {
    /// Slot = index * `per_slot` + CPU; `per_slot` is 1 unless the map is per-CPU.
    Array {
        values: RegionId,
        entries: u32,
        per_slot: u32,
    },
    /// Keyed by bytes, or by the address of the owner (local storage).
    Hash(HashStore),
    Queue(QueueStore),
    /// Maps by index.
    Inner(Vec<Option<MapHandle>>),
    Ring(Ring),
    /// A map that programs may use but that is always empty here: perf events, user ring buffers.
    Opaque,
}

/// A key and a value of a map, for callbacks.
pub(crate) struct Element {
    /// Slot to continue from.
    pub next: u32,
    pub key: ElementKey,
    pub value: GuestAddr,
}

/// A key passed to a callback: in guest memory, or an array index that must be written there.
pub(crate) enum ElementKey {
    At(GuestAddr),
    Index(u32),
}

/// All maps of one machine.
#[derive(Debug)]
pub struct Maps {
    /// Maps by handle; the handle is also the slot in `objects`.
    list: Vec<Map>,
    /// Targets of map pointers; their content is never read.
    objects: RegionId,
    /// Number of CPUs.
    pub(crate) cpus: u32,
    pub(crate) timers: Timers,
    /// Buffers for copying a key and a value within guest memory.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Maps {
    fn default() -> Maps {
        // Region 0 has no slots, so no address is a map.
        let objects = RegionId(0);
        Maps { list: Vec::new(), objects, cpus: 1, timers: Timers::default(), key: Vec::new(), value: Vec::new() }
    }
}

impl Maps {
    /// The map with this name.
    pub fn find(&self, name: &str) -> Option<MapHandle> {
        self.list.iter().position(|map| map.name == name).map(|at| MapHandle(at as u32))
    }

    /// Whether the map is per-CPU.
    pub fn is_per_cpu(&self, map: MapHandle) -> bool {
        matches!(self.get(map).kind, MapKind::PercpuArray | MapKind::PercpuHash)
    }

    /// The guest pointer to a map.
    pub fn addr(&self, memory: &Memory, map: MapHandle) -> GuestAddr {
        memory.addr(self.objects, map.0)
    }

    /// The map at a guest pointer.
    #[inline]
    pub(crate) fn at(&self, memory: &Memory, addr: GuestAddr) -> Result<MapHandle, FaultKind> {
        match memory.slot_in(self.objects, addr) {
            Some(slot) => Ok(MapHandle(slot)),
            None => Err(FaultKind::BadArgument(format!("{addr:#x} is not the address of a map"))),
        }
    }

    pub(crate) fn get(&self, map: MapHandle) -> &Map {
        &self.list[map.0 as usize]
    }

    /// Address of the value of `key`, as `bpf_map_lookup_elem` returns it to a program on `cpu`. Queues take an empty
    /// key and return the next value to be popped; storage takes the owner's address; an array of maps returns the
    /// inner map's pointer.
    #[inline]
    pub fn lookup(&self, memory: &Memory, map: MapHandle, key: &[u8], cpu: u32) -> Option<GuestAddr> {
        match &self.get(map).store {
            Store::Array { values, entries, per_slot } => {
                let index = array_index(key).filter(|index| index < entries)?;
                cpu_slot(index, *per_slot, cpu).map(|slot| memory.addr(*values, slot))
            }
            Store::Hash(store) => {
                let slot = store.find(memory, key)?;
                (store.per_slot == 1 || cpu < store.per_slot).then(|| store.value(memory, slot, cpu))
            }
            Store::Queue(store) => store.peek(memory),
            Store::Inner(maps) => {
                let inner = maps.get(array_index(key)? as usize).copied().flatten()?;
                Some(self.addr(memory, inner))
            }
            Store::Ring(_) | Store::Opaque => None,
        }
    }

    /// Lookup by a program, which also counts as a use in an LRU map.
    #[inline]
    pub(crate) fn lookup_by_program(
        &mut self,
        memory: &Memory,
        map: MapHandle,
        key: GuestAddr,
        cpu: u32,
    ) -> Result<Option<GuestAddr>, FaultKind> {
        let key = memory.bytes(key, self.get(map).key_size)?;
        if self.get(map).kind == MapKind::LruHash
            && let Store::Hash(store) = &mut self.list[map.0 as usize].store
            && let Some(slot) = store.find(memory, key)
        {
            store.touch(slot);
        }
        Ok(self.lookup(memory, map, key, cpu))
    }

    /// Stores a value like `bpf_map_update_elem`; the error is a negative errno. Queues take an empty key; an array
    /// of maps takes the number of a map as 4 bytes.
    pub fn update(
        &mut self,
        memory: &mut Memory,
        map: MapHandle,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: u32,
    ) -> Result<(), i32> {
        let maps = self.list.len() as u32;
        let Map { key_size, value_size, store, frozen, has_timers, .. } = &mut self.list[map.0 as usize];
        if *frozen {
            return Err(-EPERM);
        }
        if key.len() != *key_size as usize || value.len() != *value_size as usize {
            return Err(-EINVAL);
        }
        let (region, slot) = match store {
            Store::Array { values, entries, per_slot } => {
                let flag = check_flag(flags)?;
                let index = array_index(key).filter(|index| index < entries).ok_or(-E2BIG)?;
                if flag == Flag::NoExist {
                    return Err(-EEXIST);
                }
                (*values, cpu_slot(index, *per_slot, cpu).ok_or(-EINVAL)?)
            }
            Store::Hash(store) => {
                if store.per_slot > 1 && cpu >= store.per_slot {
                    return Err(-EINVAL);
                }
                let slot = store.slot_for(memory, key, flags)?;
                (store.values, store.value_slot(slot, cpu))
            }
            Store::Queue(store) => return store.push(memory, value, flags),
            Store::Inner(inner) => {
                let index = array_index(key).ok_or(-EINVAL)? as usize;
                let number = array_index(value).filter(|number| *number < maps).ok_or(-EINVAL)?;
                *inner.get_mut(index).ok_or(-E2BIG)? = Some(MapHandle(number));
                return Ok(());
            }
            Store::Ring(_) | Store::Opaque => return Err(-EOPNOTSUPP),
        };
        // The kernel frees timers in the old value.
        if *has_timers {
            self.timers.end_in(memory.addr(region, slot), *value_size);
        }
        memory.slot_mut(region, slot).copy_from_slice(value);
        Ok(())
    }

    /// `bpf_map_update_elem` and `bpf_map_push_elem` from a program: key and value are addresses.
    pub(crate) fn update_by_program(
        &mut self,
        memory: &mut Memory,
        map: MapHandle,
        (key, value): (Option<GuestAddr>, GuestAddr),
        flags: u64,
        cpu: u32,
    ) -> Result<Result<(), i32>, FaultKind> {
        let Map { key_size, value_size, .. } = *self.get(map);
        let (mut key_copy, mut value_copy) = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        let copied = key.map_or(Ok(()), |key| copy(memory, key, key_size, &mut key_copy));
        let copied = copied.and_then(|()| copy(memory, value, value_size, &mut value_copy));
        let result = copied.map(|()| self.update(memory, map, &key_copy, &value_copy, flags, cpu));
        key_copy.clear();
        (self.key, self.value) = (key_copy, value_copy);
        result
    }

    /// Deletes a key like `bpf_map_delete_elem`; the error is a negative errno.
    pub fn delete(&mut self, memory: &Memory, map: MapHandle, key: &[u8]) -> Result<(), i32> {
        let Map { store, value_size, has_timers, .. } = &mut self.list[map.0 as usize];
        match store {
            Store::Hash(store) => {
                let slot = store.find(memory, key).ok_or(-ENOENT)?;
                if *has_timers {
                    self.timers.end_in(store.value(memory, slot, 0), *value_size);
                }
                store.remove(slot);
                Ok(())
            }
            Store::Inner(maps) => {
                let index = array_index(key).ok_or(-EINVAL)? as usize;
                maps.get_mut(index).ok_or(-E2BIG)?.take().map(drop).ok_or(-ENOENT)
            }
            Store::Array { .. } => Err(-EINVAL),
            Store::Queue(_) | Store::Ring(_) | Store::Opaque => Err(-EOPNOTSUPP),
        }
    }

    /// Deletes a key given by address, for a program.
    pub(crate) fn delete_by_program(
        &mut self,
        memory: &Memory,
        map: MapHandle,
        key: GuestAddr,
    ) -> Result<Result<(), i32>, FaultKind> {
        let key = memory.bytes(key, self.get(map).key_size)?;
        Ok(self.delete(memory, map, key))
    }

    /// `bpf_map_pop_elem` and `bpf_map_peek_elem` of a program: copies the next value to `to`, and removes it if
    /// `remove`.
    pub(crate) fn take_by_program(
        &mut self,
        memory: &mut Memory,
        map: MapHandle,
        to: GuestAddr,
        remove: bool,
    ) -> Result<Result<(), i32>, FaultKind> {
        let (store, value_size) = match &mut self.list[map.0 as usize] {
            Map { store: Store::Queue(store), value_size, .. } => (store, value_size),
            other => return Err(wrong_kind("a queue or stack", other)),
        };
        // Checks the destination before the value is removed.
        memory.bytes_mut(to, *value_size)?;
        let result = store.take(memory, &mut self.value, *value_size, remove);
        memory.bytes_mut(to, *value_size)?.copy_from_slice(&self.value);
        Ok(result)
    }

    /// Deletes the values of all storage maps for the object at `owner`, which is freed.
    pub fn forget_owner(&mut self, memory: &mut Memory, owner: GuestAddr) -> Result<(), FaultKind> {
        for map in 0..self.list.len() as u32 {
            if is_storage(self.get(MapHandle(map)).kind) {
                // An error is ignored: most owners have no value in most maps.
                let _: Result<(), i32> = self.delete(memory, MapHandle(map), &owner.to_le_bytes());
            }
        }
        Ok(())
    }

    /// The values of all storage maps for the object at `owner`, as 8-byte words; zeros where there is no value.
    pub fn stored_words(&self, memory: &Memory, owner: GuestAddr) -> Vec<u64> {
        let mut words = Vec::new();
        for map in (0..self.list.len() as u32).map(MapHandle).filter(|&map| is_storage(self.get(map).kind)) {
            let size = self.get(map).value_size;
            let value = self.lookup(memory, map, &owner.to_le_bytes(), 0);
            let bytes = value.and_then(|value| memory.bytes(value, size).ok());
            let whole = bytes.map_or(&[][..], |bytes| bytes.as_chunks::<8>().0);
            words
                .extend((0..size as usize / 8).map(|word| whole.get(word).map_or(0, |word| u64::from_le_bytes(*word))));
        }
        words
    }

    /// The map at a guest pointer, if it is a storage map.
    pub(crate) fn storage_at(&self, memory: &Memory, addr: GuestAddr) -> Option<MapHandle> {
        self.at(memory, addr).ok().filter(|&map| is_storage(self.get(map).kind))
    }

    /// The value of a storage map for `owner`, if any.
    #[inline(always)]
    pub(crate) fn kept(&self, memory: &Memory, map: MapHandle, owner: GuestAddr) -> Option<GuestAddr> {
        let Store::Hash(store) = &self.get(map).store else { return None };
        let slot = store.find_owner(memory, owner).filter(|_| owner != 0)?;
        Some(store.value(memory, slot, 0))
    }

    /// The value of a storage map for `owner`. A missing value is created if `create` is given, from `initial` or
    /// zeroed. `None` if there is none, or no room.
    #[inline]
    pub(crate) fn storage(
        &mut self,
        memory: &mut Memory,
        map: MapHandle,
        owner: GuestAddr,
        create: Option<Option<GuestAddr>>,
    ) -> Result<Option<GuestAddr>, FaultKind> {
        let (store, value_size) = match &mut self.list[map.0 as usize] {
            Map { kind, store: Store::Hash(store), value_size, .. } if is_storage(*kind) => (store, value_size),
            other => return Err(wrong_kind("a storage map", other)),
        };
        if let Some(slot) = store.find_owner(memory, owner) {
            return Ok(Some(store.value(memory, slot, 0)));
        }
        let Some(initial) = create else { return Ok(None) };
        let key = owner.to_le_bytes();
        if let Some(initial) = initial {
            copy(memory, initial, *value_size, &mut self.value)?;
        }
        let Ok(slot) = store.slot_for(memory, &key, BPF_NOEXIST) else { return Ok(None) };
        if initial.is_some() {
            memory.slot_mut(store.values, slot).copy_from_slice(&self.value);
        }
        Ok(Some(store.value(memory, slot, 0)))
    }

    /// The first element from slot `from` on, in the order of `bpf_for_each_map_elem`: arrays by index, others by
    /// slot.
    pub(crate) fn element(
        &self,
        memory: &Memory,
        map: MapHandle,
        from: u32,
        cpu: u32,
    ) -> Result<Option<Element>, FaultKind> {
        match &self.get(map).store {
            Store::Array { values, entries, per_slot } => {
                if from >= *entries {
                    return Ok(None);
                }
                let slot = cpu_slot(from, *per_slot, cpu).ok_or_else(|| bad_cpu(cpu))?;
                let value = memory.addr(*values, slot);
                Ok(Some(Element { next: from + 1, key: ElementKey::Index(from), value }))
            }
            Store::Hash(store) if !is_storage(self.get(map).kind) => Ok(store.next(from).map(|slot| {
                let key = ElementKey::At(memory.addr(store.keys, slot));
                Element { next: slot + 1, key, value: store.value(memory, slot, cpu) }
            })),
            _ => Err(wrong_kind("a map that can be walked", self.get(map))),
        }
    }

    /// Registers the timer whose struct is at `addr` in a value of `map`; returns the word to store there, or `None`
    /// if `addr` is not in a value.
    pub(crate) fn add_timer(&mut self, memory: &Memory, map: MapHandle, addr: GuestAddr) -> Option<u64> {
        self.element_at(memory, map, addr)?;
        self.list[map.0 as usize].has_timers = true;
        Some(self.timers.add(addr, map))
    }

    /// Key and start of the value that contains `addr`.
    pub(crate) fn element_at(&self, memory: &Memory, map: MapHandle, addr: GuestAddr) -> Option<Element> {
        let (region, per_slot) = match &self.get(map).store {
            Store::Array { values, per_slot, .. } => (*values, *per_slot),
            Store::Hash(store) => (store.values, store.per_slot),
            _ => return None,
        };
        let value_slot = memory.slot_in(region, addr)?;
        let slot = value_slot / per_slot;
        let key = match &self.get(map).store {
            Store::Hash(store) => ElementKey::At(memory.addr(store.keys, slot)),
            _ => ElementKey::Index(slot),
        };
        Some(Element { next: slot + 1, key, value: memory.addr(region, value_slot) })
    }

    /// Passes every finished record of a ring buffer to `visit` and frees it, as user space does; returns their
    /// number. 0 for other maps.
    pub fn drain(&mut self, memory: &Memory, map: MapHandle, mut visit: impl FnMut(&[u8])) -> u32 {
        match &mut self.list[map.0 as usize].store {
            Store::Ring(ring) => ring.drain(memory, &mut visit),
            _ => 0,
        }
    }

    /// `bpf_ringbuf_reserve`.
    pub(crate) fn ring_reserve(
        &mut self,
        memory: &Memory,
        map: MapHandle,
        len: u64,
    ) -> Result<Option<GuestAddr>, FaultKind> {
        Ok(self.ring(map)?.reserve(memory, len))
    }

    /// `bpf_ringbuf_query`.
    pub(crate) fn ring_query(&mut self, map: MapHandle, what: u64) -> Result<u64, FaultKind> {
        Ok(self.ring(map)?.query(what))
    }

    /// `bpf_ringbuf_submit` and `bpf_ringbuf_discard`.
    pub(crate) fn ring_commit(&mut self, memory: &Memory, addr: GuestAddr, discard: bool) -> Result<(), FaultKind> {
        let done = self.list.iter_mut().any(|map| match &mut map.store {
            Store::Ring(ring) if ring.owns(memory, addr) => ring.commit(memory, addr, discard),
            _ => false,
        });
        let problem = || FaultKind::BadArgument(format!("{addr:#x} is not a reserved record of a ring buffer"));
        if done { Ok(()) } else { Err(problem()) }
    }

    fn ring(&mut self, map: MapHandle) -> Result<&mut Ring, FaultKind> {
        match &mut self.list[map.0 as usize] {
            Map { store: Store::Ring(ring), .. } => Ok(ring),
            other => Err(wrong_kind("a ring buffer", other)),
        }
    }
}

fn is_storage(kind: MapKind) -> bool {
    matches!(kind, MapKind::TaskStorage | MapKind::CgroupStorage)
}

fn wrong_kind(expected: &str, map: &Map) -> FaultKind {
    FaultKind::BadArgument(format!("map {} ({:?}) is not {expected}", map.name, map.kind))
}

fn bad_cpu(cpu: u32) -> FaultKind {
    FaultKind::BadArgument(format!("there is no CPU {cpu}"))
}

/// The index in an array's key.
#[inline]
fn array_index(key: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(key.try_into().ok()?))
}

/// Slot of an array value; `None` if the CPU does not exist.
#[inline]
fn cpu_slot(index: u32, per_slot: u32, cpu: u32) -> Option<u32> {
    if per_slot == 1 {
        return Some(index);
    }
    (cpu < per_slot).then(|| index * per_slot + cpu)
}

/// Copies bytes out of guest memory.
fn copy(memory: &Memory, from: GuestAddr, len: u32, to: &mut Vec<u8>) -> Result<(), FaultKind> {
    let bytes = memory.bytes(from, len)?;
    to.clear();
    to.extend_from_slice(bytes);
    Ok(())
}
