// SPDX-License-Identifier: GPL-2.0-only
//! The idle masks as programs hold them.
//!
//! In the kernel a program gets a pointer to the live mask. In the model it gets a copy, which is updated after every
//! kfunc that claims a CPU while the program holds it.

use super::masks::MASK_SIZE;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// An idle mask: of a node, or of the machine for `None`; of idle CPUs, or with `smt` of fully idle cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleMask {
    pub node: Option<i32>,
    pub smt: bool,
}

#[derive(Debug)]
pub(crate) struct IdleMasks {
    region: RegionId,
    /// Slots in the order of first use: the mask, and how many references a program holds.
    slots: Vec<(IdleMask, u32)>,
    /// Number of bytes that can have bits of this machine's CPUs; the other bytes stay 0.
    used: usize,
}

impl IdleMasks {
    pub fn new(memory: &mut Memory, cpus: u32) -> IdleMasks {
        let region = memory.add_region("idle cpumask", MASK_SIZE, 0, Access::ReadOnly);
        IdleMasks { region, slots: Vec::new(), used: cpus.div_ceil(64) as usize * 8 }
    }

    /// Returns a copy of the mask and counts a reference.
    pub fn get(&mut self, memory: &mut Memory, mask: IdleMask, words: impl Iterator<Item = u64>) -> GuestAddr {
        let slot = self.slots.iter().position(|(other, _)| *other == mask).unwrap_or_else(|| {
            self.slots.push((mask, 0));
            memory.grow(self.region, self.slots.len() as u32);
            self.slots.len() - 1
        });
        self.slots[slot].1 += 1;
        self.update(memory, slot, words);
        memory.addr(self.region, slot as u32)
    }

    /// Whether this is the region of the copies.
    pub fn are_in(&self, region: RegionId) -> bool {
        region == self.region
    }

    /// Drops a reference; returns false if the program holds none at `addr`.
    pub fn put(&mut self, memory: &Memory, addr: GuestAddr) -> bool {
        let Some(slot) = memory.slot_at(self.region, addr) else { return false };
        let Some((_, holders)) = self.slots.get_mut(slot as usize) else { return false };
        if *holders == 0 {
            return false;
        }
        *holders -= 1;
        true
    }

    /// Slot and kind of the next mask, from slot `from` on, that a program holds.
    pub fn next_held(&self, from: usize) -> Option<(usize, IdleMask)> {
        let held = self.slots.iter().enumerate().skip(from).find(|(_, (_, holders))| *holders > 0);
        held.map(|(slot, (mask, _))| (slot, *mask))
    }

    /// Overwrites a copy with these words, zero-padded.
    pub fn update(&self, memory: &mut Memory, slot: usize, words: impl Iterator<Item = u64>) {
        let mask = &mut memory.slot_mut(self.region, slot as u32)[..self.used];
        for (place, word) in mask.chunks_exact_mut(8).zip(words.chain(std::iter::repeat(0))) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}
