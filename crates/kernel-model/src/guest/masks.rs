// SPDX-License-Identifier: GPL-2.0-only
//! `struct cpumask` in guest memory: the kernel's own ones, and those that programs allocate.

use super::structs::CPUMASK;
use bpf_machine::{Access, FaultKind, GuestAddr, Memory, RegionId};
use ids::CpuSet;

/// Bytes of `struct cpumask`.
pub(crate) const MASK_SIZE: u32 = CPUMASK.size();

/// More masks than this alive at once: the program loses them. The largest census object keeps a few per task.
const LIVE_LIMIT: u32 = 1 << 16;

/// Writes a set over the mask that `bytes` begins with.
pub(crate) fn write(bytes: &mut [u8], set: &CpuSet) {
    let mask = &mut bytes[..MASK_SIZE as usize];
    mask.fill(0);
    for (place, word) in mask.chunks_exact_mut(8).zip(set.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// The kernel's own masks, which programs only read.
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

    /// A mask for one call.
    pub fn scratch(&self, memory: &mut Memory, set: &CpuSet) -> GuestAddr {
        write(memory.slot_mut(self.region, FixedMasks::SCRATCH), set);
        memory.addr(self.region, FixedMasks::SCRATCH)
    }

    /// Whether a mask of these starts at `addr`.
    pub fn is_mask(&self, memory: &Memory, addr: GuestAddr) -> bool {
        memory.slot_at(self.region, addr).is_some()
    }
}

/// `struct bpf_cpumask` objects: counted references, freed slots are used again, last freed first.
#[derive(Debug)]
pub(crate) struct CpumaskPool {
    region: RegionId,
    /// References by slot; 0: free.
    usage: Vec<u32>,
    free: Vec<u32>,
    cpus: u32,
}

impl CpumaskPool {
    pub fn new(memory: &mut Memory, cpus: u32) -> CpumaskPool {
        // Programs may not store into a mask; kfuncs do that for them.
        let region = memory.add_region("bpf_cpumask", MASK_SIZE, 0, Access::ReadOnly);
        CpumaskPool { region, usage: Vec::new(), free: Vec::new(), cpus }
    }

    /// An empty mask with one reference.
    pub fn create(&mut self, memory: &mut Memory) -> Result<GuestAddr, FaultKind> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.usage.len() as u32 == LIVE_LIMIT => {
                let text = format!("{LIVE_LIMIT} bpf_cpumask objects are alive: the program does not release them");
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

    /// Takes another reference.
    pub fn acquire(&mut self, memory: &Memory, addr: GuestAddr) -> Result<(), FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        self.usage[slot as usize] += 1;
        Ok(())
    }

    /// Drops a reference; the last one frees the mask.
    pub fn release(&mut self, memory: &Memory, addr: GuestAddr) -> Result<(), FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        self.usage[slot as usize] -= 1;
        if self.usage[slot as usize] == 0 {
            self.free.push(slot);
        }
        Ok(())
    }

    /// Masks that are alive.
    #[cfg(test)]
    pub fn live(&self) -> usize {
        self.usage.len() - self.free.len()
    }

    /// Whether these masks are in this region.
    pub fn are_in(&self, region: RegionId) -> bool {
        region == self.region
    }

    /// Whether `addr` lies among these masks.
    pub fn holds(&self, memory: &Memory, addr: GuestAddr) -> bool {
        memory.slot_in(self.region, addr).is_some()
    }

    /// Slot of the live mask that starts at `addr`.
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

    /// The bytes of a live mask, to be changed.
    pub fn bytes_mut<'m>(&self, memory: &'m mut Memory, addr: GuestAddr) -> Result<&'m mut [u8], FaultKind> {
        let slot = self.live_slot(memory, addr)?;
        Ok(memory.slot_mut(self.region, slot))
    }

    /// Whether CPU number `cpu` exists: the kernel's mask kfuncs ignore the others.
    pub fn has_cpu(&self, cpu: u32) -> bool {
        cpu < self.cpus
    }
}
