// SPDX-License-Identifier: GPL-2.0-only
//! Iterators over dispatch queues. The structure on the program's stack holds only a handle; the state is kept here,
//! out of the program's reach.

use crate::core::DsqCursor;
use bpf_machine::{FaultKind, GuestAddr, Memory};

/// An iterator between its `new` and `destroy` calls.
#[derive(Clone, Debug)]
pub(crate) struct DsqIterator {
    pub cursor: DsqCursor,
    /// One-shot overrides of slice and virtual time for the next move (contract K3).
    pub slice: Option<u64>,
    pub vtime: Option<u64>,
    /// Address of the program's structure: a copy of it at another address is not an iterator.
    place: GuestAddr,
}

#[derive(Debug, Default)]
pub(crate) struct Iterators {
    slots: Vec<Option<DsqIterator>>,
}

impl Iterators {
    /// Creates an iterator in the structure at `place`; without a cursor it yields nothing.
    pub fn begin(&mut self, memory: &mut Memory, place: GuestAddr, cursor: Option<DsqCursor>) -> Result<(), FaultKind> {
        let mut handle = 0;
        if let Some(cursor) = cursor {
            let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            self.slots[slot] = Some(DsqIterator { cursor, slice: None, vtime: None, place });
            handle = slot as u64 + 1;
        }
        memory.store(place, 8, handle)
    }

    /// The iterator at `place`; `None` if its queue did not exist.
    pub fn at(&mut self, memory: &Memory, place: GuestAddr) -> Result<Option<&mut DsqIterator>, FaultKind> {
        let handle = memory.load(place, 8)?;
        if handle == 0 {
            return Ok(None);
        }
        match self.slots.get_mut(handle as usize - 1) {
            Some(Some(iterator)) if iterator.place == place => Ok(Some(iterator)),
            _ => Err(FaultKind::BadArgument(format!("{place:#x} is not an iterator over a dispatch queue"))),
        }
    }

    /// Destroys the iterator at `place`.
    pub fn end(&mut self, memory: &mut Memory, place: GuestAddr) -> Result<(), FaultKind> {
        if self.at(memory, place)?.is_some() {
            let handle = memory.load(place, 8)?;
            self.slots[handle as usize - 1] = None;
        }
        memory.store(place, 8, 0)
    }
}
