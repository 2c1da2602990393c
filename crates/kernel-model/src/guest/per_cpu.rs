// SPDX-License-Identifier: GPL-2.0-only
//! Per-CPU variables of the kernel that programs may name. Each is a region with one slot per CPU; a program has the
//! address of CPU 0's instance and asks for that of another CPU (`bpf_per_cpu_ptr`, `bpf_this_cpu_ptr`).

use super::types::KernelTypes;
use bpf_machine::{Access, GuestAddr, Memory, RegionId};
use ids::{CpuId, CpuSet, Topology};
use std::collections::BTreeMap;

/// All per-CPU variables, by name. Those that the model never sets stay 0: `sched_core_priority` (no preferred cores,
/// as without ITMT), `hw_pressure` (no throttling) and `cpufreq_cpu_data` (NULL, as without a cpufreq driver).
const VARIABLES: [&str; 7] = [
    "cpufreq_cpu_data",
    "hw_pressure",
    "kernel_cpustat",
    "runqueues",
    "sched_core_priority",
    "sd_llc_id",
    "sd_llc_size",
];

/// Size in bytes of an instance of a variable.
fn size_of(variable: &str, types: &KernelTypes) -> u32 {
    match variable {
        "kernel_cpustat" => types.layout("kernel_cpustat").size,
        "runqueues" => types.layout("rq").size,
        "sched_core_priority" | "sd_llc_id" | "sd_llc_size" => 4,
        _ => 8,
    }
}

/// Whether the kernel has a per-CPU variable of this name.
pub(super) fn exists(name: &str) -> bool {
    position(name).is_some()
}

fn position(name: &str) -> Option<usize> {
    VARIABLES.binary_search(&name).ok()
}

/// CPU time by kind, in nanoseconds, as in `kernel_cpustat`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// CPU time of tasks with nice values up to 0, and of real-time tasks.
    pub user: u64,
    /// CPU time of tasks with nice values above 0.
    pub nice: u64,
    /// CPU time of kthreads.
    pub system: u64,
    pub idle: u64,
}

#[derive(Debug)]
pub(crate) struct PerCpu {
    /// Regions of the variables, in the order of `VARIABLES`.
    regions: [RegionId; VARIABLES.len()],
    cpus: u32,
    /// Offset of `cpustat` in `struct kernel_cpustat`.
    cpustat: u32,
}

impl PerCpu {
    pub fn new(memory: &mut Memory, cpus: u32, types: &KernelTypes) -> PerCpu {
        let region = |name: &&str| memory.add_region(name, size_of(name, types), cpus, Access::ReadOnly);
        let regions = VARIABLES.each_ref().map(region);
        PerCpu { regions, cpus, cpustat: types.layout("kernel_cpustat").offset("cpustat") }
    }

    fn region(&self, name: &str) -> RegionId {
        self.regions[position(name).expect("in the table")]
    }

    /// Region of `struct rq`.
    pub fn runqueues(&self) -> RegionId {
        self.region("runqueues")
    }

    /// Guest address of CPU 0's instance.
    pub fn variable(&self, memory: &Memory, name: &str) -> Option<GuestAddr> {
        position(name).map(|position| memory.addr(self.regions[position], 0))
    }

    /// Name of the variable whose address (from [`PerCpu::variable`]) is `addr`, and the address of its instance on
    /// `cpu`. `None` if `addr` is not a per-CPU variable or the CPU does not exist.
    pub fn find(&self, memory: &Memory, addr: GuestAddr, cpu: u32) -> Option<(&'static str, GuestAddr)> {
        let found = (0..VARIABLES.len()).find(|&position| memory.addr(self.regions[position], 0) == addr)?;
        (cpu < self.cpus).then(|| (VARIABLES[found], memory.addr(self.regions[found], cpu)))
    }

    /// Sets `sd_llc_id` and `sd_llc_size` of each CPU, of which `online` are online. Ids are dense, in the order of
    /// the LLCs' first CPUs (since 7.1; earlier the number of the first CPU); the size counts online CPUs. An offline
    /// CPU has id -1 and size 1.
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

    /// Sets `kernel_cpustat` of a CPU.
    pub fn show_time(&self, memory: &mut Memory, cpu: u32, time: CpuTime) {
        let at = |index: u32| self.cpustat + 8 * index;
        // enum cpu_usage_stat: CPUTIME_USER 0, _NICE 1, _SYSTEM 2, _IDLE 5.
        for (index, value) in [(0, time.user), (1, time.nice), (2, time.system), (5, time.idle)] {
            memory.set_u64(self.region("kernel_cpustat"), cpu, at(index), value);
        }
    }
}
