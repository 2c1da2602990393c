// SPDX-License-Identifier: GPL-2.0-only
//! `struct cpumask` in guest memory: masks of the kernel, and masks that programs allocate.

use bpf_machine::{Access, FaultKind, GuestAddr, Memory, RegionId};
use ids::CpuSet;

/// Size in bytes of the masks outside of tasks: that of a kernel built with NR_CPUS = 8192. Objects contain the size
/// of their own kernel's masks, which is not relocated (contract 2.4).
pub(crate) const MASK_SIZE: u32 = 1024;

/// Maximum number of allocated masks; a program that has more is leaking them. The largest third-party scheduler
/// examined keeps a few per task.
const LIVE_LIMIT: u32 = 1 << 16;

/// Writes a set to the mask at the start of `bytes`.
pub(crate) fn write(bytes: &mut [u8], set: &CpuSet) {
    let len = bytes.len().min(MASK_SIZE as usize);
    let mask = &mut bytes[..len];
    mask.fill(0);
    for (place, word) in mask.chunks_exact_mut(8).zip(set.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Masks of the kernel, which programs only read.
#[derive(Debug)]
pub(crate) struct FixedMasks {
    region: RegionId,
}

impl FixedMasks {
    const POSSIBLE: u32 = 0;
    const ONLINE: u32 = 1;
    const EMPTY: u32 = 2;
    const SCRATCH: u32 = 3;

    pub fn new(memory: &mut Memory, cpus: u32) -> FixedMasks {
        let region = memory.add_region("cpumask", MASK_SIZE, 4, Access::ReadOnly);
        let all = CpuSet::first_n(cpus as usize);
        write(memory.slot_mut(region, FixedMasks::POSSIBLE), &all);
        write(memory.slot_mut(region, FixedMasks::ONLINE), &all);
        FixedMasks { region }
    }

    /// `cpu_possible_mask`.
    pub fn possible(&self, memory: &Memory) -> GuestAddr {
        memory.addr(self.region, FixedMasks::POSSIBLE)
    }

    /// `cpu_online_mask`.
    pub fn online(&self, memory: &Memory) -> GuestAddr {
        memory.addr(self.region, FixedMasks::ONLINE)
    }

    /// Changes `cpu_online_mask`.
    pub fn set_online(&self, memory: &mut Memory, online: &CpuSet) {
        write(memory.slot_mut(self.region, FixedMasks::ONLINE), online);
    }

    /// `cpu_none_mask`.
    pub fn empty(&self, memory: &Memory) -> GuestAddr {
        memory.addr(self.region, FixedMasks::EMPTY)
    }

    /// A mask that is valid until the next call.
    pub fn scratch(&self, memory: &mut Memory, set: &CpuSet) -> GuestAddr {
        write(memory.slot_mut(self.region, FixedMasks::SCRATCH), set);
        memory.addr(self.region, FixedMasks::SCRATCH)
    }

    /// Whether this is the region of these masks.
    pub fn are_in(&self, region: RegionId) -> bool {
        region == self.region
    }

    /// Whether one of these masks starts at `addr`.
    pub fn is_mask(&self, memory: &Memory, addr: GuestAddr) -> bool {
        memory.slot_at(self.region, addr).is_some()
    }
}

/// Pool of `struct bpf_cpumask` objects: reference-counted; freed slots are reused, last freed first.
#[derive(Debug)]
pub(crate) struct CpumaskPool {
    region: RegionId,
    /// Reference count by slot; 0 is free.
    usage: Vec<u32>,
    free: Vec<u32>,
    cpus: u32,
}

impl CpumaskPool {
    pub fn new(memory: &mut Memory, cpus: u32) -> CpumaskPool {
        // Read-only: programs change a mask through kfuncs.
        let region = memory.add_region("bpf_cpumask", MASK_SIZE, 0, Access::ReadOnly);
        CpumaskPool { region, usage: Vec::new(), free: Vec::new(), cpus }
    }

    /// Allocates an empty mask with one reference.
    pub fn create(&mut self, memory: &mut Memory) -> Result<GuestAddr, FaultKind> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.usage.len() as u32 == LIVE_LIMIT => {
                let text = format!("{LIVE_LIMIT} bpf_cpumask objects are allocated: the program does not release them");
                return Err(FaultKind::BadArgument(text));
            }
            None => {
                self.usage.push(0);
                memory.grow(self.region, (self.usage.len() as u32).next_power_of_two());
                self.usage.len() as u32 - 1
            }
        };
        memory.slot_mut(self.region, slot).fill(0);
        self.usage[slot as usize] = 1;
        Ok(memory.addr(self.region, slot))
    }

    /// Acquires a reference.
    pub fn acquire(&mut self, memory: &Memory, addr: GuestAddr) -> Result<(), FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        self.usage[slot as usize] += 1;
        Ok(())
    }

    /// Releases a reference; the last one frees the mask.
    pub fn release(&mut self, memory: &Memory, addr: GuestAddr) -> Result<(), FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        self.usage[slot as usize] -= 1;
        if self.usage[slot as usize] == 0 {
            self.free.push(slot);
        }
        Ok(())
    }

    /// Number of live masks.
    #[cfg(test)]
    pub fn live(&self) -> usize {
        self.usage.len() - self.free.len()
    }

    /// Whether this is the region of the pool.
    pub fn are_in(&self, region: RegionId) -> bool {
        region == self.region
    }

    /// Whether `addr` lies in the pool.
    pub fn holds(&self, memory: &Memory, addr: GuestAddr) -> bool {
        memory.slot_in(self.region, addr).is_some()
    }

    /// Slot of the live mask that starts exactly at `addr`.
    pub fn live_slot(&self, memory: &Memory, addr: GuestAddr) -> Result<u32, FaultKind> {
        let bad = |what: &str| Err(FaultKind::BadArgument(format!("{addr:#x} is {what}")));
        match memory.slot_in(self.region, addr) {
            Some(slot) if memory.addr(self.region, slot) == addr => {
                if self.usage.get(slot as usize).is_some_and(|usage| *usage > 0) {
                    Ok(slot)
                } else {
                    bad("a bpf_cpumask that was released already")
                }
            }
            _ => bad("not a bpf_cpumask"),
        }
    }

    /// Bytes of a live mask, to be changed.
    pub fn bytes_mut<'m>(&self, memory: &'m mut Memory, addr: GuestAddr) -> Result<&'m mut [u8], FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        Ok(memory.slot_mut(self.region, slot))
    }

    /// Whether CPU number `cpu` exists: the kernel's cpumask kfuncs ignore other numbers.
    pub fn has_cpu(&self, cpu: u32) -> bool {
        cpu < self.cpus
    }
}
