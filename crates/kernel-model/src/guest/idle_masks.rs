// SPDX-License-Identifier: GPL-2.0-only
//! The idle masks as programs hold them.
//!
//! In the kernel a program gets a pointer to the live mask. Here the core keeps its masks to itself, so a program gets
//! a copy, which is made again after every kfunc that claims a CPU while the program still holds it.

use super::masks::MASK_SIZE;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};

/// One of the idle masks: of a node, or of the machine for `None`; of CPUs, or of fully idle cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleMask {
    pub node: Option<i32>,
    pub smt: bool,
}

#[derive(Debug)]
pub(crate) struct IdleMasks {
    region: RegionId,
    /// Slots by first use: which mask, and how often a program holds it.
    slots: Vec<(IdleMask, u32)>,
    /// Bytes of a mask in which a CPU of this machine can be. All others stay 0.
    used: usize,
}

impl IdleMasks {
    pub fn new(memory: &mut Memory, cpus: u32) -> IdleMasks {
        let region = memory.add_region("idle cpumask", MASK_SIZE, 0, Access::ReadOnly);
        IdleMasks { region, slots: Vec::new(), used: cpus.div_ceil(64) as usize * 8 }
    }

    /// Hands out a copy.
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

    /// Takes one back; false if `addr` is none that a program holds.
    pub fn put(&mut self, memory: &Memory, addr: GuestAddr) -> bool {
        let Some(slot) = memory.slot_at(self.region, addr) else { return false };
        let Some((_, holders)) = self.slots.get_mut(slot as usize) else { return false };
        if *holders == 0 {
            return false;
        }
        *holders -= 1;
        true
    }

    /// Position and kind of the next mask from `from` on that a program holds.
    pub fn next_held(&self, from: usize) -> Option<(usize, IdleMask)> {
        let held = self.slots.iter().enumerate().skip(from).find(|(_, (_, holders))| *holders > 0);
        held.map(|(slot, (mask, _))| (slot, *mask))
    }

    /// Makes a copy anew, of these words and zeroes after them.
    pub fn update(&self, memory: &mut Memory, slot: usize, words: impl Iterator<Item = u64>) {
        let mask = &mut memory.slot_mut(self.region, slot as u32)[..self.used];
        for (place, word) in mask.chunks_exact_mut(8).zip(words.chain(std::iter::repeat(0))) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}
