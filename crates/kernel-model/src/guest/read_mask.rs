// SPDX-License-Identifier: GPL-2.0-only
//! Access to any cpumask that a program passes by address.

use super::masks::MASK_SIZE;
use super::objects::Objects;
use bpf_machine::{FaultKind, GuestAddr, Memory};
use ids::{CpuId, CpuSet};

impl Objects {
    /// Bytes of a mask that a program changes: an allocated one, or one in the program's own memory, which the
    /// verifier accepts as a `struct bpf_cpumask *` because that structure has no pointers.
    pub fn mask_bytes_mut<'m>(&self, memory: &'m mut Memory, addr: GuestAddr) -> Result<&'m mut [u8], FaultKind> {
        let of_a_task = [self.tasks, self.idle_tasks].iter().any(|tasks| memory.slot_in(*tasks, addr).is_some());
        if of_a_task || self.cpumasks.holds(memory, addr) || memory.bytes_mut(addr, MASK_SIZE).is_err() {
            return self.cpumasks.bytes_mut(memory, addr);
        }
        memory.bytes_mut(addr, MASK_SIZE)
    }

    /// Bytes of a mask that a program may read: the mask of a task, a mask of the kernel, an allocated one, or 1024
    /// bytes of the program's own memory, which the kernel accepts too.
    pub fn mask_bytes<'m>(&self, memory: &'m Memory, addr: GuestAddr) -> Result<&'m [u8], FaultKind> {
        let bad = |what: &str| FaultKind::BadArgument(format!("{addr:#x} {what}"));
        let Some((region, slot, inside)) = memory.locate(addr) else { return Err(bad("is not a cpumask")) };
        if region == self.tasks || region == self.idle_tasks {
            if inside != self.at.cpus_mask {
                return Err(bad("lies in a task_struct, but is not its cpumask"));
            }
        } else if self.cpumasks.are_in(region) {
            self.cpumasks.live_slot(memory, addr)?;
        } else if region <= self.last && !self.fixed_masks.are_in(region) && !self.idle_masks.are_in(region) {
            return Err(bad("is not a cpumask"));
        }
        let bytes = memory.slot(region, slot).get(inside as usize..(inside + MASK_SIZE) as usize);
        bytes.ok_or_else(|| bad("is not a cpumask"))
    }

    /// The CPUs of this machine that are in a mask.
    pub fn mask(&self, memory: &Memory, addr: GuestAddr) -> Result<CpuSet, FaultKind> {
        let words: Vec<u64> = self.mask_words(memory, addr)?.collect();
        Ok(CpuSet::from_words(&words))
    }

    /// Whether two masks have a CPU of this machine in common.
    pub fn masks_intersect(&self, memory: &Memory, masks: [GuestAddr; 2]) -> Result<bool, FaultKind> {
        let [a, b] = masks;
        let (a, b) = (self.mask_words(memory, a)?, self.mask_words(memory, b)?);
        Ok(a.zip(b).any(|(a, b)| a & b != 0))
    }

    /// The words of a mask, with the bits above the last CPU cleared: they are undefined in the kernel too, which
    /// ignores them.
    fn mask_words<'m>(
        &self,
        memory: &'m Memory,
        addr: GuestAddr,
    ) -> Result<impl Iterator<Item = u64> + use<'m>, FaultKind> {
        let cpus = self.cpus() as usize;
        let bytes = &self.mask_bytes(memory, addr)?[..cpus.div_ceil(64) * 8];
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let last = cpus / 64;
        let within = move |index: usize| if index < last { u64::MAX } else { (1 << (cpus % 64)) - 1 };
        Ok(words.enumerate().map(move |(index, word)| word & within(index)))
    }

    /// Whether the task mask at this address has `cpu`; `None` if it is not the mask of a task, or there is no such
    /// CPU.
    #[inline]
    pub fn task_may_use(&self, memory: &Memory, addr: GuestAddr, cpu: CpuId) -> Option<bool> {
        let (region, slot, inside) = memory.locate(addr)?;
        let is_it = region == self.tasks && inside == self.at.cpus_mask && cpu.0 < self.cpus();
        is_it.then(|| memory.slot(region, slot)[inside as usize + cpu.index() / 8] >> (cpu.0 % 8) & 1 == 1)
    }

    /// Whether a mask has `cpu`; `None` if `addr` is not a mask, or there is no such CPU.
    pub fn any_mask_holds(&self, memory: &Memory, addr: GuestAddr, cpu: CpuId) -> Option<bool> {
        (cpu.0 < self.cpus()).then(|| self.mask_contains(memory, addr, cpu).ok())?
    }

    /// Whether a mask has `cpu`; false if there is no such CPU.
    pub fn mask_contains(&self, memory: &Memory, addr: GuestAddr, cpu: CpuId) -> Result<bool, FaultKind> {
        let bytes = self.mask_bytes(memory, addr)?;
        Ok(cpu.0 < self.cpus() && bytes[cpu.index() / 8] >> (cpu.0 % 8) & 1 == 1)
    }
}
