// SPDX-License-Identifier: GPL-2.0-only
//! Iterators over dispatch queues. The structure on the program's stack holds only a handle; the state is kept here,
//! out of the program's reach.

use crate::core::DsqCursor;
use bpf_machine::{FaultKind, GuestAddr, Memory};
use std::collections::BTreeMap;

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
    /// Numbers of free slots.
    free: Vec<usize>,
    /// Slots in use by the address of the program's structure.
    places: BTreeMap<GuestAddr, usize>,
}

impl Iterators {
    /// Creates an iterator in the structure at `place`; without a cursor it yields nothing.
    ///
    /// # Errors
    /// If there is one already, which was not destroyed. The verifier of a kernel refuses such a program; here the check
    /// also bounds their number, because stacks have few places.
    pub fn begin(&mut self, memory: &mut Memory, place: GuestAddr, cursor: Option<DsqCursor>) -> Result<(), FaultKind> {
        if self.places.contains_key(&place) {
            let problem = format!("the iterator at {place:#x} was never destroyed (bpf_iter_scx_dsq_destroy)");
            return Err(FaultKind::BadArgument(problem));
        }
        let mut handle = 0;
        if let Some(cursor) = cursor {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            self.places.insert(place, slot);
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
            let slot = memory.load(place, 8)? as usize - 1;
            self.slots[slot] = None;
            self.free.push(slot);
            self.places.remove(&place);
        }
        memory.store(place, 8, 0)
    }

    /// Destroys all iterators: the program that had them ended with a fault.
    pub fn forget(&mut self) {
        *self = Iterators::default();
    }
}
