// SPDX-License-Identifier: GPL-2.0-only
//! Values found by key: hash maps, their per-CPU and LRU variants, and task and cgroup storage (the key is then the
//! owner's address).

use super::index::{Index, hash};
use super::{Flag, check_flag};
use crate::errno::{E2BIG, EEXIST, ENOENT, ENOMEM};
use crate::{Access, GuestAddr, Memory, RegionId};

/// Keys, values and LRU order of a hash map.
#[derive(Debug)]
pub(super) struct HashStore {
    index: Index,
    /// Keys; one per slot.
    pub keys: RegionId,
    /// Values; `per_slot` per slot.
    pub values: RegionId,
    /// 1, or the number of CPUs of a per-CPU map.
    pub per_slot: u32,
    /// Maximum number of slots in use.
    capacity: u32,
    /// Order of use, for LRU maps.
    order: Option<Order>,
}

/// Shape of a new store.
pub(super) struct Shape<'a> {
    pub name: &'a str,
    pub key_size: u32,
    pub value_size: u32,
    pub per_slot: u32,
    pub capacity: u32,
    pub lru: bool,
}

impl HashStore {
    pub fn new(memory: &mut Memory, shape: &Shape<'_>) -> HashStore {
        let keys = memory.add_region(&format!("key of {}", shape.name), shape.key_size, 0, Access::ReadOnly);
        let values = memory.add_region(shape.name, shape.value_size, 0, Access::ReadWrite);
        HashStore {
            index: Index::default(),
            keys,
            values,
            per_slot: shape.per_slot,
            capacity: shape.capacity,
            order: shape.lru.then(Order::default),
        }
    }

    /// Slot of a key.
    #[inline]
    pub fn find(&self, memory: &Memory, key: &[u8]) -> Option<u32> {
        self.index.find(hash(key), |slot| memory.slot(self.keys, slot) == key)
    }

    /// Slot of an owner, where keys are owner addresses.
    #[inline]
    pub fn find_owner(&self, memory: &Memory, owner: GuestAddr) -> Option<u32> {
        self.index.find(hash(&owner.to_le_bytes()), |slot| memory.get_u64(self.keys, slot, 0) == owner)
    }

    /// Marks a slot as most recently used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if let Some(order) = &mut self.order {
            order.touch(slot);
        }
    }

    /// Address of the value of a slot on a CPU.
    #[inline]
    pub fn value(&self, memory: &Memory, slot: u32, cpu: u32) -> GuestAddr {
        memory.addr(self.values, self.value_slot(slot, cpu))
    }

    /// Slot of a value in `values`.
    #[inline]
    pub fn value_slot(&self, slot: u32, cpu: u32) -> u32 {
        if self.per_slot == 1 { slot } else { slot * self.per_slot + cpu }
    }

    /// The next slot in use, from `from` on.
    pub fn next(&self, from: u32) -> Option<u32> {
        self.index.next(from)
    }

    /// Returns the slot for `key`; a new one is zeroed, and may evict another key.
    pub fn slot_for(&mut self, memory: &mut Memory, key: &[u8], flags: u64) -> Result<u32, i32> {
        let flag = check_flag(flags)?;
        match (self.find(memory, key), flag) {
            (Some(_), Flag::NoExist) => Err(-EEXIST),
            (None, Flag::Exist) => Err(-ENOENT),
            (Some(slot), _) => {
                self.touch(slot);
                Ok(slot)
            }
            (None, _) => {
                self.make_room()?;
                self.insert(memory, key).ok_or(-ENOMEM)
            }
        }
    }

    /// Evicts the least recently used slot of a full LRU map.
    fn make_room(&mut self) -> Result<(), i32> {
        if self.index.len() >= self.capacity {
            let oldest = self.order.as_ref().and_then(Order::oldest).ok_or(-E2BIG)?;
            self.remove(oldest);
        }
        Ok(())
    }

    /// Returns `None` if the maps would take more memory than they may.
    fn insert(&mut self, memory: &mut Memory, key: &[u8]) -> Option<u32> {
        let slot = self.index.insert(hash(key));
        // Doubling limits the copying when keys are inserted one by one.
        if slot >= memory.slots(self.keys) {
            let room = (slot + 1).next_power_of_two().max(8).min(self.capacity.max(slot + 1));
            if !memory.grow_map(self.values, room * self.per_slot) {
                self.index.remove(slot);
                return None;
            }
            memory.grow(self.keys, room);
        }
        memory.slot_mut(self.keys, slot).copy_from_slice(key);
        for cpu in 0..self.per_slot {
            memory.slot_mut(self.values, slot * self.per_slot + cpu).fill(0);
        }
        self.touch(slot);
        Some(slot)
    }

    /// Frees a slot in use.
    pub fn remove(&mut self, slot: u32) {
        self.index.remove(slot);
        if let Some(order) = &mut self.order {
            order.unlink(slot);
        }
    }
}

/// End of the list, or not in the list.
const NONE: u32 = u32::MAX;

/// Slots ordered by last use. The kernel's LRU is approximate (two lists, reference bits, one set per CPU); an exact
/// one is deterministic and needs no tuning.
#[derive(Debug)]
struct Order {
    /// Neighbors of each slot (newer, older).
    links: Vec<(u32, u32)>,
    newest: u32,
    oldest: u32,
}

impl Default for Order {
    fn default() -> Order {
        Order { links: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl Order {
    fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    fn touch(&mut self, slot: u32) {
        if self.newest == slot {
            return;
        }
        self.unlink(slot);
        let at = slot as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, (NONE, NONE));
        }
        self.links[at] = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = slot,
            second => self.links[second as usize].0 = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Some(&(newer, older)) = self.links.get(slot as usize) else { return };
        if newer == NONE && self.newest != slot {
            return;
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].1 = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].0 = newer,
        }
        self.links[slot as usize] = (NONE, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn insert_fails_once_the_maps_take_all_the_memory_that_they_may() {
        let mut memory = Memory::default();
        memory.map_bytes_left = 16 << 10;
        let shape = Shape { name: "m", key_size: 4, value_size: 1 << 10, per_slot: 1, capacity: 100, lru: false };
        let mut store = HashStore::new(&mut memory, &shape);
        let mut insert = |key: u32| store.slot_for(&mut memory, &key.to_le_bytes(), 0).map(drop);
        let results: Vec<Result<(), i32>> = (0..10).map(&mut insert).collect();
        // Room is made for 8 values, then for 16, which would take more than the limit with their spacing.
        assert_eq!(results[..8], [Ok(()); 8]);
        assert_eq!(results[8..], [Err(-ENOMEM); 2]);
        assert_eq!(insert(3), Ok(()), "an existing key can be replaced");
    }

    proptest! {
        #[test]
        fn lru_order_matches_a_list(steps in prop::collection::vec((any::<bool>(), 0_u32..8), 1..200)) {
            let mut order = Order::default();
            let mut list: Vec<u32> = Vec::new();
            for (touch, slot) in steps {
                list.retain(|&other| other != slot);
                if touch {
                    order.touch(slot);
                    list.insert(0, slot);
                } else {
                    order.unlink(slot);
                }
                prop_assert_eq!(order.oldest(), list.last().copied());
            }
        }
    }
}
