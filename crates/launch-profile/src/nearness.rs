// SPDX-License-Identifier: GPL-2.0-only
//! Tables of CPUs, caches and nodes ordered by distance, nearest first.

use crate::Constant;
use crate::source::{number, table};
use ids::{CpuId, CpuSet, Place, Topology};
use machine_model::Machine;

/// Smallest topology level that two CPUs share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Core,
    Llc,
    Node,
    Machine,
}

fn common(one: Place, other: Place) -> Group {
    match () {
        () if one.core == other.core => Group::Core,
        () if one.llc == other.llc => Group::Llc,
        () if one.node == other.node => Group::Node,
        () => Group::Machine,
    }
}

/// For each CPU, all online CPUs: itself, its core, its last-level cache, its node, the others. Within each of these,
/// CPUs are ordered by core number starting from the CPU's own core, so that two CPUs do not scan the others in the
/// same order.
pub(crate) fn cpus(machine: &Machine) -> Constant {
    let places = &machine.topology.places;
    let online: Vec<usize> = machine.online_cpus().iter().map(CpuId::index).collect();
    let row = |cpu: usize| {
        let mut row = online.clone();
        let own = places[cpu];
        row.sort_by_key(|other| {
            let place = places[*other];
            (common(own, place), own.core.abs_diff(place.core), cpu.abs_diff(*other), *other)
        });
        table(row.into_iter())
    };
    Constant::Array((0..places.len()).map(row).collect())
}

/// For each CPU, the number of entries of its row of [`cpus`] that are at most at this level.
pub(crate) fn ends(machine: &Machine, group: Group) -> Constant {
    let places = &machine.topology.places;
    let online = machine.online_cpus();
    let near = |own: &Place| online.iter().filter(|cpu| common(*own, places[cpu.index()]) <= group).count();
    table(places.iter().map(near))
}

fn node_of(topology: &Topology, llc: usize) -> u32 {
    topology.places.iter().find(|place| place.llc as usize == llc).map_or(0, |place| place.node)
}

/// For each last-level cache, groups of the other caches: those of its node, then those of other nodes. Empty groups
/// are omitted.
pub(crate) fn llc_neighbours(topology: &Topology, show: impl Fn(&CpuSet) -> Constant) -> Constant {
    let groups = |llc: usize| {
        let others = |same: bool| -> CpuSet {
            let others = (0..topology.llcs()).filter(|other| *other != llc);
            let wanted = others.filter(|other| (node_of(topology, *other) == node_of(topology, llc)) == same);
            wanted.map(|llc| CpuId(llc as u32)).collect()
        };
        let groups = [others(true), others(false)];
        Constant::Array(groups.iter().filter(|group| !group.is_empty()).map(&show).collect())
    };
    Constant::Array((0..topology.llcs()).map(groups).collect())
}

/// For each last-level cache, all of them: itself, those of its node, the others; each by number starting from its
/// own.
pub(crate) fn llcs(topology: &Topology) -> Constant {
    let count = topology.llcs();
    let row = |llc: usize| {
        let mut row: Vec<usize> = (0..count).map(|step| (llc + step) % count).collect();
        row.sort_by_key(|other| node_of(topology, *other) != node_of(topology, llc));
        table(row.into_iter())
    };
    Constant::Array((0..count).map(row).collect())
}

/// For each last-level cache, the number of entries of its row of [`llcs`] that belong to its node.
pub(crate) fn llc_ends(topology: &Topology) -> Constant {
    let nodes: Vec<u32> = (0..topology.llcs()).map(|llc| node_of(topology, llc)).collect();
    Constant::Array(nodes.iter().map(|node| number(nodes.iter().filter(|other| *other == node).count())).collect())
}

/// For each node, all nodes ordered by distance, its own first; of equal distances the lower number first.
pub(crate) fn nodes(topology: &Topology) -> Constant {
    let nodes = topology.nodes() as u32;
    let row = |node: u32| {
        let mut row: Vec<u32> = (0..nodes).collect();
        row.sort_by_key(|other| (*other != node, topology.distance(node, *other)));
        table(row.into_iter().map(|other| other as usize))
    };
    Constant::Array((0..nodes).map(row).collect())
}
