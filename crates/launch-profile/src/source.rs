// SPDX-License-Identifier: GPL-2.0-only
//! Values of the machine that a scheduler can be given.

use crate::{Constant, nearness};
use ids::{CpuId, CpuSet, Place};
use machine_model::Machine;

/// A number or table of the machine: `{ machine = "NAME" }`.
///
/// Tables are indexed by the kernel's CPU numbers, some of which may be offline. The *places* list the online CPUs,
/// ordered by node, last-level cache, core and number, so that the CPUs of a cache, and those of a node, are
/// contiguous. An offline CPU has no place of its own; tables of places give it that of the first online CPU of its
/// cache, so that every entry is valid. If no CPU of its cache or node is online, the range of all places stands for
/// that of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Source {
    Cpus,
    OnlineCpus,
    Cores,
    Llcs,
    Nodes,
    Hz,
    LlcKb,
    CoreOfCpu,
    LlcOfCpu,
    NodeOfCpu,
    CpusByPlace,
    PlaceOfCpu,
    LlcBeginOfCpu,
    LlcEndOfCpu,
    NodeBeginOfCpu,
    NodeEndOfCpu,
    Distance,
    CapacityOfCpu,
    Smt,
    Numa,
    CpuNumbers,
    SiblingOfCpu,
    SiblingsByPlace,
    CpuMask,
    OnlineMask,
    CoreMaskOfCpu,
    LlcMaskOfCpu,
    NodeMaskOfCpu,
    LlcMasks,
    NodeMasks,
    NodeOfLlc,
    CpusByThread,
    LlcNumbers,
    LlcMask,
    LlcNeighbours,
    LlcNeighbourCounts,
    NearestCpus,
    NearestCoreEnd,
    NearestLlcEnd,
    NearestNodeEnd,
    NearestLlcs,
    NearestLlcsNodeEnd,
    /// For each node, all nodes ordered by their distance from it.
    NearestNodes,
}

/// Names as spelled in a profile.
const NAMES: [(&str, Source); 43] = [
    ("cpus", Source::Cpus),
    ("online-cpus", Source::OnlineCpus),
    ("cores", Source::Cores),
    ("llcs", Source::Llcs),
    ("nodes", Source::Nodes),
    ("hz", Source::Hz),
    ("llc-kb", Source::LlcKb),
    ("core-of-cpu", Source::CoreOfCpu),
    ("llc-of-cpu", Source::LlcOfCpu),
    ("node-of-cpu", Source::NodeOfCpu),
    ("cpus-by-place", Source::CpusByPlace),
    ("place-of-cpu", Source::PlaceOfCpu),
    ("llc-begin-of-cpu", Source::LlcBeginOfCpu),
    ("llc-end-of-cpu", Source::LlcEndOfCpu),
    ("node-begin-of-cpu", Source::NodeBeginOfCpu),
    ("node-end-of-cpu", Source::NodeEndOfCpu),
    ("distance", Source::Distance),
    ("capacity-of-cpu", Source::CapacityOfCpu),
    ("smt", Source::Smt),
    ("numa", Source::Numa),
    ("cpu-numbers", Source::CpuNumbers),
    ("sibling-of-cpu", Source::SiblingOfCpu),
    ("siblings-by-place", Source::SiblingsByPlace),
    ("cpu-mask", Source::CpuMask),
    ("online-mask", Source::OnlineMask),
    ("core-mask-of-cpu", Source::CoreMaskOfCpu),
    ("llc-mask-of-cpu", Source::LlcMaskOfCpu),
    ("node-mask-of-cpu", Source::NodeMaskOfCpu),
    ("llc-masks", Source::LlcMasks),
    ("node-masks", Source::NodeMasks),
    ("node-of-llc", Source::NodeOfLlc),
    ("cpus-by-thread", Source::CpusByThread),
    ("llc-numbers", Source::LlcNumbers),
    ("llc-mask", Source::LlcMask),
    ("llc-neighbours", Source::LlcNeighbours),
    ("llc-neighbour-counts", Source::LlcNeighbourCounts),
    ("nearest-cpus", Source::NearestCpus),
    ("nearest-core-end", Source::NearestCoreEnd),
    ("nearest-llc-end", Source::NearestLlcEnd),
    ("nearest-node-end", Source::NearestNodeEnd),
    ("nearest-llcs", Source::NearestLlcs),
    ("nearest-llcs-node-end", Source::NearestLlcsNodeEnd),
    ("nearest-nodes", Source::NearestNodes),
];

impl Source {
    /// Returns the names of all sources, as profiles write them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the source with this name.
    pub fn find(name: &str) -> Option<Source> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
    }

    /// Name of the source.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, source)| *source == self).expect("every source has a name").0
    }

    /// Value on `machine`.
    pub(crate) fn of(self, machine: &Machine) -> Constant {
        let topology = &machine.topology;
        let of_cpu = |group: fn(&Place) -> u32| table(topology.places.iter().map(|place| group(place) as usize));
        match self {
            Source::Cpus => number(topology.len()),
            Source::OnlineCpus => number(topology.len() - machine.offline.len()),
            Source::Cores => number(topology.cores()),
            Source::Llcs => number(topology.llcs()),
            Source::Nodes => number(topology.nodes()),
            Source::Hz => Constant::Integer(machine.hz.into()),
            Source::LlcKb => Constant::Integer(machine.llc_kb.into()),
            Source::CoreOfCpu => of_cpu(|place| place.core),
            Source::LlcOfCpu => of_cpu(|place| place.llc),
            Source::NodeOfCpu => of_cpu(|place| place.node),
            Source::CpusByPlace => table(by_place(machine).into_iter()),
            Source::PlaceOfCpu => table(place_of(machine).into_iter()),
            Source::LlcBeginOfCpu => table(ranges(machine, |place| (place.node, place.llc)).map(|range| range.0)),
            Source::LlcEndOfCpu => table(ranges(machine, |place| (place.node, place.llc)).map(|range| range.1)),
            Source::NodeBeginOfCpu => table(ranges(machine, |place| (place.node, 0)).map(|range| range.0)),
            Source::NodeEndOfCpu => table(ranges(machine, |place| (place.node, 0)).map(|range| range.1)),
            Source::CapacityOfCpu => table(topology.capacities.iter().map(|capacity| *capacity as usize)),
            Source::Distance => Constant::Array(
                topology.distances.iter().map(|row| table(row.iter().map(|distance| *distance as usize))).collect(),
            ),
            Source::Smt => Constant::Bool(topology.cores() < topology.len()),
            Source::Numa => Constant::Bool(topology.present_nodes() > 1),
            Source::CpuNumbers => table(0..topology.len()),
            Source::SiblingOfCpu => table(siblings(machine).into_iter()),
            Source::SiblingsByPlace => {
                let siblings = siblings(machine);
                table(by_place(machine).into_iter().map(|cpu| siblings[cpu]))
            }
            Source::CpuMask => Constant::Mask(machine.all_cpus()),
            Source::OnlineMask => Constant::Mask(machine.online_cpus()),
            Source::CoreMaskOfCpu => masks_of_cpus(machine, |place| place.core),
            Source::LlcMaskOfCpu => masks_of_cpus(machine, |place| place.llc),
            Source::NodeMaskOfCpu => masks_of_cpus(machine, |place| place.node),
            Source::LlcMasks => {
                Constant::Array(masks(machine, |place| place.llc).into_iter().map(Constant::Mask).collect())
            }
            Source::NodeMasks => {
                Constant::Array(masks(machine, |place| place.node).into_iter().map(Constant::Mask).collect())
            }
            Source::NodeOfLlc => {
                let node_of =
                    |llc: u32| topology.places.iter().find(|place| place.llc == llc).map_or(0, |place| place.node);
                table((0..topology.llcs() as u32).map(|llc| node_of(llc) as usize))
            }
            Source::CpusByThread => table(by_thread(machine).into_iter()),
            Source::LlcNumbers => table(0..topology.llcs()),
            Source::LlcMask => Constant::Mask((0..topology.llcs()).map(|llc| CpuId(llc as u32)).collect()),
            Source::LlcNeighbours => nearness::llc_neighbours(topology, |group| Constant::Mask(group.clone())),
            Source::LlcNeighbourCounts => nearness::llc_neighbours(topology, |group| number(group.len())),
            Source::NearestCpus => nearness::cpus(machine),
            Source::NearestCoreEnd => nearness::ends(machine, nearness::Group::Core),
            Source::NearestLlcEnd => nearness::ends(machine, nearness::Group::Llc),
            Source::NearestNodeEnd => nearness::ends(machine, nearness::Group::Node),
            Source::NearestLlcs => nearness::llcs(topology),
            Source::NearestLlcsNodeEnd => nearness::llc_ends(topology),
            Source::NearestNodes => nearness::nodes(topology),
        }
    }
}

pub(crate) fn number(value: usize) -> Constant {
    Constant::Integer(value as i128)
}

pub(crate) fn table(values: impl Iterator<Item = usize>) -> Constant {
    Constant::Array(values.map(number).collect())
}

/// For each CPU, the next online CPU of its core in circular order; itself if it is the only one.
fn siblings(machine: &Machine) -> Vec<usize> {
    let cores = masks(machine, |place| place.core);
    let sibling = |(cpu, place): (usize, &Place)| {
        let threads: Vec<usize> = cores[place.core as usize].iter().map(CpuId::index).collect();
        threads.iter().find(|other| **other > cpu).or(threads.first()).copied().unwrap_or(cpu)
    };
    machine.topology.places.iter().enumerate().map(sibling).collect()
}

/// For each group, its online CPUs.
fn masks(machine: &Machine, group: fn(&Place) -> u32) -> Vec<CpuSet> {
    let places = &machine.topology.places;
    let groups = places.iter().map(group).max().map_or(0, |last| last as usize + 1);
    let mut masks = vec![CpuSet::new(); groups];
    for cpu in machine.online_cpus().iter() {
        masks[group(&places[cpu.index()]) as usize].insert(cpu);
    }
    masks
}

/// For each CPU, the online CPUs of its group.
fn masks_of_cpus(machine: &Machine, group: fn(&Place) -> u32) -> Constant {
    let masks = masks(machine, group);
    let places = machine.topology.places.iter();
    Constant::Array(places.map(|place| Constant::Mask(masks[group(place) as usize].clone())).collect())
}

/// Numbers of the online CPUs, ordered by place.
fn by_place(machine: &Machine) -> Vec<usize> {
    let mut order: Vec<usize> = machine.online_cpus().iter().map(CpuId::index).collect();
    order.sort_by_key(|cpu| {
        let place = machine.topology.places[*cpu];
        (place.node, place.llc, place.core, *cpu)
    });
    order
}

/// Numbers of the online CPUs, the first SMT threads of all cores before the second ones.
fn by_thread(machine: &Machine) -> Vec<usize> {
    let mut order = by_place(machine);
    let cores = masks(machine, |place| place.core);
    let thread = |cpu: usize| {
        let core = &cores[machine.topology.places[cpu].core as usize];
        core.iter().take_while(|other| other.index() < cpu).count()
    };
    order.sort_by_key(|cpu| thread(*cpu));
    order
}

/// Place of each CPU; for an offline CPU, the first place of its cache.
fn place_of(machine: &Machine) -> Vec<usize> {
    let mut places: Vec<usize> = ranges(machine, |place| (place.node, place.llc)).map(|range| range.0).collect();
    for (place, cpu) in by_place(machine).into_iter().enumerate() {
        places[cpu] = place;
    }
    places
}

/// For each CPU, the first place of its group and the place after its last.
fn ranges(machine: &Machine, group: fn(&Place) -> (u32, u32)) -> impl Iterator<Item = (usize, usize)> + '_ {
    let places = &machine.topology.places;
    let order: Vec<(u32, u32)> = by_place(machine).into_iter().map(|cpu| group(&places[cpu])).collect();
    places.iter().map(move |place| {
        let wanted = group(place);
        match (order.partition_point(|at| *at < wanted), order.partition_point(|at| *at <= wanted)) {
            (begin, end) if begin == end => (0, order.len()),
            range => range,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_names_map_to_sources_and_back() {
        for (name, source) in NAMES {
            assert_eq!(Source::find(name), Some(source));
            assert_eq!(source.name(), name);
        }
        assert_eq!(Source::find("cpu"), None);
    }

    #[test]
    fn documentation_describes_every_source() {
        let document = include_str!("../../../docs/reference/launch-profile.md");
        for name in Source::names() {
            assert!(
                document.contains(&format!("| `{name}` |")),
                "docs/reference/launch-profile.md does not describe {name}"
            );
        }
    }
}
