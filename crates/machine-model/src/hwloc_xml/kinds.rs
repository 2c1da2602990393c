// SPDX-License-Identifier: GPL-2.0-only
//! Kinds of cores (`<cpukind>`) and the capacities of their CPUs.

use super::Element;
use crate::MachineError;
use ids::{CpuSet, Topology};

/// Capacity of each CPU.
pub(super) struct Capacities {
    pub of_cpu: Vec<u32>,
    /// Whether capacities were derived from frequencies, because hwloc reports none.
    pub by_frequency: bool,
}

/// A kind of core.
struct Kind<'a> {
    cpus: CpuSet,
    /// Capacity reported by Linux (`cpu_capacity` in sysfs).
    capacity: Option<u64>,
    /// Maximum frequency in MHz.
    frequency: Option<u64>,
    /// Vendor's name, such as `IntelAtom`.
    name: Option<&'a str>,
}

/// Capacities by kind of core: as reported by Linux; else, if the file has the maximum frequency of every kind,
/// proportional to it; else equal, with a caveat. Invalid values are named in `caveats`.
pub(super) fn capacities(root: Element<'_, '_>, cpus: usize, caveats: &mut Vec<String>) -> Capacities {
    let full = Topology::FULL_CAPACITY;
    let mut kinds = Vec::new();
    for element in root.children("cpukind") {
        match kind(element) {
            Ok(kind) => kinds.push(kind),
            Err(error) => caveats.push(format!("{error}; this kind of core is ignored")),
        }
    }
    let highest = kinds.iter().filter_map(|kind| kind.frequency).max().unwrap_or(1);
    let reported = kinds.iter().all(|kind| kind.capacity.is_some());
    let by_frequency = !reported && kinds.iter().all(|kind| kind.frequency.is_some());
    let mut of_cpu = vec![full; cpus];
    if !reported && !by_frequency && kinds.len() > 1 {
        caveats.push(alike(&kinds));
        return Capacities { of_cpu, by_frequency };
    }
    for kind in kinds {
        let capacity = match (kind.capacity, kind.frequency) {
            (Some(capacity), _) if reported => capacity,
            (_, Some(frequency)) => (frequency * u64::from(full) / highest).max(1),
            _ => continue,
        };
        for cpu in kind.cpus.iter().filter(|cpu| cpu.index() < cpus) {
            of_cpu[cpu.index()] = capacity as u32;
        }
    }
    let by_frequency = by_frequency && of_cpu.iter().any(|&capacity| capacity != full);
    Capacities { of_cpu, by_frequency }
}

fn kind<'a>(element: Element<'a, '_>) -> Result<Kind<'a>, MachineError> {
    let number = |key: &str, range| element.info(key).map(|text| element.in_range(key, text, range)).transpose();
    Ok(Kind {
        cpus: element.cpus("cpuset")?.unwrap_or_default(),
        capacity: number("LinuxCapacity", 1..=u64::from(Topology::FULL_CAPACITY))?,
        frequency: number("FrequencyMaxMHz", 1..=1_000_000)?,
        name: element.info("CoreType"),
    })
}

/// Caveat of a file that distinguishes kinds of cores, but does not tell how fast each is.
fn alike(kinds: &[Kind<'_>]) -> String {
    let one = |kind: &Kind<'_>| format!("CPUs {} ({})", kind.cpus, kind.name.unwrap_or("no name"));
    let list: Vec<String> = kinds.iter().map(one).collect();
    format!(
        "unlike cores are simulated alike: {}; the description gives neither a capacity nor a maximum frequency for \
         each kind; a machine file can (`weir machine`, capacity)",
        list.join(", ")
    )
}
