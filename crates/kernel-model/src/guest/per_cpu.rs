// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's per-CPU variables that programs may name. Each is a region with one slot a CPU; a program gets the
//! address of the first CPU's and asks for another's (`bpf_per_cpu_ptr`, `bpf_this_cpu_ptr`).

use super::structs::{KERNEL_CPUSTAT, RQ};
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::{CpuId, CpuSet, Topology};
use std::collections::BTreeMap;

/// A variable that every CPU has.
struct Variable {
    name: &'static str,
    /// Bytes for one CPU.
    size: u32,
}

/// All of them. What the model has no cause to change stays 0: `sched_core_priority` (no core is favoured, as without
/// ITMT), `hw_pressure` (nothing throttles) and `cpufreq_cpu_data` (NULL, as without a frequency driver).
const VARIABLES: [Variable; 7] = [
    Variable { name: "cpufreq_cpu_data", size: 8 },
    Variable { name: "hw_pressure", size: 8 },
    Variable { name: "kernel_cpustat", size: KERNEL_CPUSTAT.size() },
    Variable { name: "runqueues", size: RQ.size() },
    Variable { name: "sched_core_priority", size: 4 },
    Variable { name: "sd_llc_id", size: 4 },
    Variable { name: "sd_llc_size", size: 4 },
];

/// Whether the kernel has this variable.
pub(super) fn exists(name: &str) -> bool {
    position(name).is_some()
}

fn position(name: &str) -> Option<usize> {
    VARIABLES.binary_search_by_key(&name, |variable| variable.name).ok()
}

/// CPU time by owner, in nanoseconds, as `kernel_cpustat` shows it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// Tasks of nice 0 and below, and of real-time policies.
    pub user: u64,
    /// Tasks of a nice value above 0.
    pub nice: u64,
    /// Threads of the kernel.
    pub system: u64,
    pub idle: u64,
}

#[derive(Debug)]
pub(crate) struct PerCpu {
    /// By position in the table.
    regions: [RegionId; VARIABLES.len()],
    cpus: u32,
}

impl PerCpu {
    pub fn new(memory: &mut Memory, cpus: u32) -> PerCpu {
        let regions = VARIABLES.each_ref().map(|one| memory.add_region(one.name, one.size, cpus, Access::ReadOnly));
        PerCpu { regions, cpus }
    }

    fn region(&self, name: &str) -> RegionId {
        self.regions[position(name).expect("in the table")]
    }

    /// `struct rq`.
    pub fn runqueues(&self) -> RegionId {
        self.region("runqueues")
    }

    /// Address of the first CPU's.
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<GuestAddr> {
        position(name).map(|position| memory.addr(self.regions[position], 0))
    }

    /// The name and the address on `cpu` of the variable that [`PerCpu::variable`] gave as `addr`. `None`: not a
    /// per-CPU variable, or no such CPU.
    pub fn find(&self, memory: &Memory, addr: GuestAddr, cpu: u32) -> Option<(&'static str, GuestAddr)> {
        let found = (0..VARIABLES.len()).find(|&position| memory.addr(self.regions[position], 0) == addr)?;
        (cpu < self.cpus).then(|| (VARIABLES[found].name, memory.addr(self.regions[found], cpu)))
    }

    /// The caches by CPU, of which `online` are there: the id is dense in the order of the first CPUs (since 7.1; before
    /// it was the number of the first CPU), the size counts CPUs. One that is offline has -1 and 1.
    pub fn show_caches(&self, memory: &mut Memory, topology: &Topology, online: &CpuSet) {
        let mut ids = BTreeMap::new();
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        for place in &topology.places {
            let next = ids.len() as u32;
            ids.entry(place.llc).or_insert(next);
        }
        online.iter().for_each(|cpu| *sizes.entry(topology.places[cpu.index()].llc).or_default() += 1);
        for (cpu, cache) in (0..).map(CpuId).zip(topology.places.iter().map(|place| place.llc)) {
            let (id, size) = if online.contains(cpu) { (ids[&cache], sizes[&cache]) } else { (u32::MAX, 1) };
            memory.set_u32(self.region("sd_llc_id"), cpu.0, 0, id);
            memory.set_u32(self.region("sd_llc_size"), cpu.0, 0, size);
        }
    }

    /// `kernel_cpustat` of one CPU.
    pub fn show_time(&self, memory: &mut Memory, cpu: u32, time: CpuTime) {
        let at = |index: u32| KERNEL_CPUSTAT.offset("cpustat") + 8 * index;
        // enum cpu_usage_stat: CPUTIME_USER 0, _NICE 1, _SYSTEM 2, _IDLE 5.
        for (index, value) in [(0, time.user), (1, time.nice), (2, time.system), (5, time.idle)] {
            memory.set_u64(self.region("kernel_cpustat"), cpu, at(index), value);
        }
    }
}
