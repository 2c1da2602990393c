// SPDX-License-Identifier: GPL-2.0-only
//! Disks and networks of a machine, by name, and as sources of interrupts.

use ids::{CpuId, CpuSet, Nanos};
use machine_model::{Disk, Estimate, Machine, Network, Routing};
use workload::Workload;

/// A disk or network as a source of interrupts. Those of disks come first.
#[derive(Debug)]
pub(crate) struct Source {
    pub name: String,
    pub is_device: bool,
    pub routing: Routing,
    pub top: Nanos,
    pub bottom: Nanos,
    /// CPUs that may handle its interrupts, in ascending order.
    pub allowed: Vec<CpuId>,
    /// Place in `allowed` of the CPU whose turn it is.
    pub turn: usize,
    /// Number of requests in progress.
    pub requests: u32,
}

/// Disks and networks of a machine as sources of interrupts.
pub(crate) fn sources(machine: &Machine) -> Vec<Source> {
    let source = |name: String, is_device, routing, cpus: &Option<CpuSet>, [top, bottom]: [&Estimate; 2]| {
        let all = machine.present_cpus();
        let allowed = cpus.as_ref().map_or(all.clone(), |cpus| cpus.intersection(&all)).iter().collect();
        let (top, bottom) = (Nanos(top.typical), Nanos(bottom.typical));
        Source { name, is_device, routing, top, bottom, allowed, turn: 0, requests: 0 }
    };
    let of_disk = |disk: &Disk| {
        let name = format!("disk:{}", disk.name);
        source(name, disk.is_device(), disk.routing, &disk.interrupt_cpus, [&disk.top_ns, &disk.bottom_ns])
    };
    let of_network = |network: &Network| {
        let halves = [&network.top_ns, &network.bottom_ns];
        let name = format!("network:{}", network.name);
        source(name, network.is_device(), network.routing, &network.interrupt_cpus, halves)
    };
    let (disks, networks) = (&machine.effects.disks.disks, &machine.effects.networks.networks);
    disks.iter().map(of_disk).chain(networks.iter().map(of_network)).collect()
}

/// Number on the machine of the disk with this name; the empty name is that of the first disk.
pub(crate) fn find(machine: &Machine, name: &str) -> Option<usize> {
    let disks = &machine.effects.disks.disks;
    if name.is_empty() {
        return (!disks.is_empty()).then_some(0);
    }
    disks.iter().position(|disk| disk.name == name)
}

/// Number on the machine of the network with this name; the empty name is that of the first network.
pub(crate) fn find_network(machine: &Machine, name: &str) -> Option<usize> {
    let networks = &machine.effects.networks.networks;
    if name.is_empty() {
        return (!networks.is_empty()).then_some(0);
    }
    networks.iter().position(|network| network.name == name)
}

/// Parts of a machine that a workload uses. Their effects act on no other workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    /// The workload describes its use of memory.
    pub memory: bool,
    /// It has requests to disks of the machine, or recorded requests to a device whose name a disk of the machine has.
    pub disks: bool,
    /// It calls servers over networks.
    pub networks: bool,
    /// It has requests to disks that go through the page cache.
    pub page_cache: bool,
    /// It shrinks address spaces.
    pub unmaps: bool,
}

impl Uses {
    /// Returns what the workload uses on this machine.
    pub fn of(workload: &Workload, machine: &Machine) -> Uses {
        Uses {
            memory: workload.uses_memory(),
            disks: !workload.disks.is_empty() || workload.devices.iter().any(|name| find(machine, name).is_some()),
            networks: !workload.networks.is_empty(),
            page_cache: workload.uses_page_cache(),
            unmaps: workload.unmaps(),
        }
    }
}
