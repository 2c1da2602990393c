// SPDX-License-Identifier: GPL-2.0-only
//! Capacities of the CPUs of a machine with several kinds of cores.

use super::{CPU, Sysfs};
use ids::{CpuId, CpuSet, Topology};

/// Intel's kinds of cores: performance monitoring units of hybrid machines, each with a list of its CPUs.
const INTEL_KINDS: [&str; 3] =
    ["/sys/devices/cpu_core/cpus", "/sys/devices/cpu_atom/cpus", "/sys/devices/cpu_lowpower/cpus"];

/// CPUs whose maximum frequencies differ by less are of one kind: favored cores of ordinary processors are a few
/// percent faster. The same limit as in hwloc (`HWLOC_CPUKINDS_MAXFREQ`).
const SAME_KIND_PERCENT: u64 = 10;

/// Capacity of each CPU.
pub(super) struct Capacities {
    pub of_cpu: Vec<u32>,
    /// What capacities were derived from, if the kernel reports none.
    pub derived_from: Option<&'static str>,
}

impl Sysfs<'_> {
    /// Capacities as reported by the kernel; else proportional to what tells kinds of cores apart: the highest
    /// performance of ACPI CPPC, which Linux itself uses on hybrid processors, or the maximum frequency.
    pub(super) fn capacities(&self, online: &CpuSet, count: usize) -> Capacities {
        let mut capacities = Capacities { of_cpu: vec![Topology::FULL_CAPACITY; count], derived_from: None };
        let reported: Vec<(CpuId, u64)> =
            online.iter().filter_map(|cpu| Some((cpu, self.reported_capacity(cpu)?))).collect();
        if !reported.is_empty() {
            reported.iter().for_each(|&(cpu, capacity)| capacities.of_cpu[cpu.index()] = capacity as u32);
            return capacities;
        }
        let kinds: Vec<CpuSet> = INTEL_KINDS.iter().filter_map(|path| self.set(path)).collect();
        let is_hybrid = kinds.len() > 1;
        let performance = is_hybrid.then(|| self.all(online, "acpi_cppc/highest_perf")).flatten();
        let frequencies = self.all(online, "cpufreq/cpuinfo_max_freq");
        let differ = |values: &&Vec<u64>| {
            let (low, high) = (values.iter().min().copied(), values.iter().max().copied());
            low.zip(high).is_some_and(|(low, high)| high - low > high * SAME_KIND_PERCENT / 100)
        };
        let (values, source) = match (performance.as_ref().filter(differ), frequencies.as_ref().filter(differ)) {
            (Some(performance), _) => (performance, "the highest performance of CPPC"),
            (None, Some(frequencies)) => (frequencies, "maximum frequencies"),
            (None, None) if is_hybrid => {
                let list: Vec<String> = kinds.iter().map(|cpus| format!("CPUs {cpus}")).collect();
                let list = list.join(", ");
                let sentence = format!(
                    "unlike cores are simulated alike: {list}; sysfs gives neither capacities nor maximum frequencies; \
                     a machine file can (`weir machine host`, capacity)"
                );
                self.add_caveat(INTEL_KINDS[0], sentence);
                return capacities;
            }
            (None, None) => return capacities,
        };
        let highest = *values.iter().max().expect("some CPU is online");
        for (cpu, &value) in online.iter().zip(values) {
            let capacity = (value * u64::from(Topology::FULL_CAPACITY) / highest).max(1);
            capacities.of_cpu[cpu.index()] = capacity as u32;
        }
        capacities.derived_from = Some(source);
        capacities
    }

    fn reported_capacity(&self, cpu: CpuId) -> Option<u64> {
        let path = format!("{CPU}/cpu{cpu}/cpu_capacity");
        let capacity = self.number(&path)?;
        let range = 1..=u64::from(Topology::FULL_CAPACITY);
        if !range.contains(&capacity) {
            self.caveat(&path, &format!("{capacity}; expected {} to {}", range.start(), range.end()));
            return None;
        }
        Some(capacity)
    }

    /// A positive number of each online CPU, if all have it.
    fn all(&self, online: &CpuSet, file: &str) -> Option<Vec<u64>> {
        let number = |cpu| self.number(&format!("{CPU}/cpu{cpu}/{file}")).filter(|&number| number > 0);
        online.iter().map(number).collect()
    }
}
