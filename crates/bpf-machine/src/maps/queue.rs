// SPDX-License-Identifier: GPL-2.0-only
//! Queue and stack maps: values without keys.

use super::{BPF_ANY, BPF_EXIST};
use crate::errno::{E2BIG, EINVAL, ENOENT};
use crate::{Access, GuestAddr, Memory, RegionId};

/// A circular buffer of values.
#[derive(Debug)]
pub(super) struct QueueStore {
    values: RegionId,
    /// Whether the newest value is popped first (stack).
    lifo: bool,
    capacity: u32,
    /// Slot of the oldest value.
    oldest: u32,
    len: u32,
}

impl QueueStore {
    pub fn new(memory: &mut Memory, name: &str, value_size: u32, capacity: u32, lifo: bool) -> QueueStore {
        // Programs only get copies, never a pointer into the buffer.
        let values = memory.add_region(name, value_size, capacity, Access::ReadOnly);
        QueueStore { values, lifo, capacity, oldest: 0, len: 0 }
    }

    /// `bpf_map_push_elem`; `BPF_EXIST` drops the oldest value of a full map.
    pub fn push(&mut self, memory: &mut Memory, value: &[u8], flags: u64) -> Result<(), i32> {
        if flags != BPF_ANY && flags != BPF_EXIST {
            return Err(-EINVAL);
        }
        if self.len == self.capacity {
            if flags != BPF_EXIST {
                return Err(-E2BIG);
            }
            self.oldest = self.wrap(self.oldest + 1);
            self.len -= 1;
        }
        let slot = self.wrap(self.oldest + self.len);
        memory.slot_mut(self.values, slot).copy_from_slice(value);
        self.len += 1;
        Ok(())
    }

    /// Address of the next value to be popped.
    pub fn peek(&self, memory: &Memory) -> Option<GuestAddr> {
        let slot = if self.lifo { self.wrap(self.oldest + self.len.checked_sub(1)?) } else { self.oldest };
        (self.len > 0).then(|| memory.addr(self.values, slot))
    }

    /// Copies the next value to `value`, and removes it if `remove`. An empty map yields zeros and -ENOENT.
    pub fn take(&mut self, memory: &Memory, value: &mut Vec<u8>, size: u32, remove: bool) -> Result<(), i32> {
        value.clear();
        let Some(addr) = self.peek(memory) else {
            value.resize(size as usize, 0);
            return Err(-ENOENT);
        };
        value.extend_from_slice(memory.bytes(addr, size).expect("a value of the map"));
        if remove {
            self.len -= 1;
            if !self.lifo {
                self.oldest = self.wrap(self.oldest + 1);
            }
        }
        Ok(())
    }

    fn wrap(&self, slot: u32) -> u32 {
        if slot >= self.capacity { slot - self.capacity } else { slot }
    }
}
