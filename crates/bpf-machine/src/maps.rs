// SPDX-License-Identifier: GPL-2.0-only
//! BPF maps. Their values live in guest memory and never move.

use crate::{FaultKind, GuestAddr, Memory};

/// A map of a loaded machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapHandle(pub u32);

/// All maps of one machine.
#[derive(Debug, Default)]
pub struct Maps {}

impl Maps {
    /// The map with this name.
    pub fn find(&self, name: &str) -> Option<MapHandle> {
        todo!("{name}")
    }

    /// Address of the value of `key`, as `bpf_map_lookup_elem` gives it to a program on `cpu`.
    pub fn lookup(&self, memory: &Memory, map: MapHandle, key: &[u8], cpu: u32) -> Option<GuestAddr> {
        todo!("{memory:?} {map:?} {key:?} {cpu}")
    }

    /// Stores a value, as `bpf_map_update_elem` does; the error is the negative errno.
    pub fn update(
        &mut self,
        memory: &mut Memory,
        map: MapHandle,
        key: &[u8],
        value: &[u8],
        flags: u64,
        cpu: u32,
    ) -> Result<(), i32> {
        todo!("{memory:?} {map:?} {key:?} {value:?} {flags} {cpu}")
    }

    /// Frees what every task-storage map keeps for the object at `owner` (a task that is freed).
    pub fn forget_owner(&mut self, memory: &mut Memory, owner: GuestAddr) -> Result<(), FaultKind> {
        todo!("{memory:?} {owner}")
    }
}
