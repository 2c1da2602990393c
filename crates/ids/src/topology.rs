// SPDX-License-Identifier: GPL-2.0-only
//! The topology of a machine: the CPUs that share a core, a cache or a node, their capacities, and the distances
//! between nodes. All crates take distances from here.

use crate::{CpuId, CpuSet, MAX_CPUS};
use std::collections::{BTreeMap, BTreeSet};

/// Position of a CPU: CPUs with equal numbers share the core, the last-level cache or the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Physical core; its CPUs are SMT siblings.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// Distance between two CPUs, or of a migration, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Locality {
    /// The same CPU.
    Same,
    /// Another hardware thread of the same core.
    Smt,
    /// Another core with the same last-level cache.
    Llc,
    /// Another last-level cache in the same node.
    Node,
    /// Another node.
    Far,
}

/// The CPUs of a machine, their capacities, and the distances between its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Position of each CPU, indexed by [`CpuId`].
    pub places: Vec<Place>,
    /// Relative performance of each CPU in the kernel's scale, indexed by [`CpuId`]: [`Topology::FULL_CAPACITY`] for
    /// the fastest, less for the small cores of a hybrid machine.
    pub capacities: Vec<u32>,
    /// SLIT distances between nodes, a symmetric square matrix with [`Topology::LOCAL_DISTANCE`] on the diagonal. A
    /// node without CPUs has memory only.
    pub distances: Vec<Vec<u32>>,
    /// Node numbers below [`Topology::nodes`] that no node has: firmware may number nodes with gaps. Their rows and
    /// columns of `distances` have no meaning.
    pub absent_nodes: BTreeSet<u32>,
}

/// Reason that a topology is invalid: what was found and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TopologyError(pub String);

impl Topology {
    /// SLIT distance of a node to itself (`LOCAL_DISTANCE` in Linux's `include/linux/topology.h`).
    pub const LOCAL_DISTANCE: u32 = 10;
    /// Distance between different nodes that Linux assumes if the firmware provides no SLIT (`REMOTE_DISTANCE`, same
    /// file).
    pub const REMOTE_DISTANCE: u32 = 20;
    /// Largest SLIT distance. An entry is a byte, and 255 means unreachable (ACPI 6.5, 5.2.17).
    pub const MAX_DISTANCE: u32 = 254;
    /// Capacity of the fastest CPUs of a machine (`SCHED_CAPACITY_SCALE` in Linux).
    pub const FULL_CAPACITY: u32 = 1024;
    /// Largest number of nodes: the maximum that Linux can be configured for (`CONFIG_NODES_SHIFT` 10).
    pub const MAX_NODES: usize = 1024;

    /// Creates a topology of CPUs with equal capacity at these positions, with the distances that Linux assumes
    /// without a SLIT.
    pub fn new(places: Vec<Place>) -> Topology {
        let nodes = count(&places, |place| place.node);
        let capacities = vec![Topology::FULL_CAPACITY; places.len()];
        let distances = Topology::default_distances(nodes);
        Topology { places, capacities, distances, absent_nodes: BTreeSet::new() }
    }

    /// Creates a topology of identical CPUs: single-threaded cores with one last-level cache in one node.
    pub fn flat(cpus: u32) -> Topology {
        Topology::new((0..cpus).map(|core| Place { core, llc: 0, node: 0 }).collect())
    }

    /// Creates a topology from each CPU's core, cache and node number, given as three lists of equal length.
    ///
    /// # Panics
    ///
    /// If the lists have different lengths.
    pub fn of_groups(core: &[u32], llc: &[u32], node: &[u32]) -> Topology {
        assert!(core.len() == llc.len() && llc.len() == node.len(), "a core, a cache and a node for each CPU");
        let places = core.iter().zip(llc).zip(node);
        Topology::new(places.map(|((&core, &llc), &node)| Place { core, llc, node }).collect())
    }

    /// Returns the same CPUs with this matrix of distances.
    pub fn with_distances(self, distances: Vec<Vec<u32>>) -> Topology {
        Topology { distances, ..self }
    }

    /// The distance matrix that Linux assumes if the firmware provides no SLIT.
    pub fn default_distances(nodes: usize) -> Vec<Vec<u32>> {
        let distance = |from, to| if from == to { Topology::LOCAL_DISTANCE } else { Topology::REMOTE_DISTANCE };
        (0..nodes).map(|from| (0..nodes).map(|to| distance(from, to)).collect()).collect()
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no CPUs.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The set of all CPUs.
    pub fn cpus(&self) -> CpuSet {
        CpuSet::first_n(self.len())
    }

    /// Position of a CPU, which must exist.
    pub fn place(&self, cpu: CpuId) -> Place {
        self.places[cpu.index()]
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        count(&self.places, |place| place.core)
    }

    /// Largest number of SMT threads of a core.
    pub fn threads(&self) -> usize {
        let mut threads = BTreeMap::new();
        self.places.iter().for_each(|place| *threads.entry(place.core).or_insert(0) += 1);
        threads.into_values().max().unwrap_or(1)
    }

    /// Whether CPUs have unequal capacities.
    pub fn is_hybrid(&self) -> bool {
        self.capacities.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Number of last-level caches.
    pub fn llcs(&self) -> usize {
        count(&self.places, |place| place.llc)
    }

    /// Number of node numbers, which is the kernel's `nr_node_ids`: nodes that have memory only and absent numbers
    /// are included.
    pub fn nodes(&self) -> usize {
        self.distances.len()
    }

    /// Number of nodes, including those that have memory only.
    pub fn present_nodes(&self) -> usize {
        self.nodes() - self.absent_nodes.len()
    }

    /// Whether a node has this number.
    pub fn has_node(&self, node: u32) -> bool {
        (node as usize) < self.nodes() && !self.absent_nodes.contains(&node)
    }

    /// Distance between two CPUs, which must exist.
    pub fn locality(&self, a: CpuId, b: CpuId) -> Locality {
        if a == b {
            return Locality::Same;
        }
        let (x, y) = (self.place(a), self.place(b));
        if x.core == y.core {
            Locality::Smt
        } else if x.llc == y.llc {
            Locality::Llc
        } else if x.node == y.node {
            Locality::Node
        } else {
            Locality::Far
        }
    }

    /// SLIT distance between two nodes, which must exist.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        self.distances[from as usize][to as usize]
    }

    /// Renumbers cores and caches in the order of their nodes, then of their lowest CPUs. Cores and caches whose CPUs
    /// are all in `unknown` come last, so that a CPU that goes offline does not change other numbers.
    pub fn renumbered(self, unknown: &CpuSet) -> Topology {
        let known = |cpu: usize| !unknown.contains(CpuId(cpu as u32));
        let llcs = ranks(&self.places, |place| place.llc, |cpu, place| (!known(cpu), place.node, 0));
        let llc_of = |place: &Place| llcs[&place.llc];
        let cores = ranks(&self.places, |place| place.core, |cpu, place| (!known(cpu), place.node, llc_of(place)));
        let renumber = |place: &Place| Place { core: cores[&place.core], llc: llc_of(place), node: place.node };
        Topology { places: self.places.iter().map(renumber).collect(), ..self }
    }

    /// Checks the CPUs (1 to [`MAX_CPUS`], dense numbers of cores and caches, each core within one cache and each
    /// cache within one node, capacities from 1 to [`Topology::FULL_CAPACITY`]) and the distances
    /// ([`Topology::check_distances`]).
    ///
    /// # Errors
    ///
    /// States what is wrong and what was expected.
    pub fn check(&self) -> Result<(), TopologyError> {
        let (places, nodes) = (&self.places, self.nodes());
        if !(1..=MAX_CPUS).contains(&places.len()) {
            return Err(TopologyError(format!("{} CPUs; expected 1 to {MAX_CPUS}", places.len())));
        }
        check_dense(places, "core", |place| place.core)?;
        check_dense(places, "last-level cache", |place| place.llc)?;
        if let Some((cpu, place)) = places.iter().enumerate().find(|(_, place)| place.node as usize >= nodes) {
            return Err(TopologyError(format!("CPU {cpu} is in node {}; expected a node below {nodes}", place.node)));
        }
        if let Some(node) = self.absent_nodes.iter().find(|&&node| node as usize >= nodes) {
            return Err(TopologyError(format!("absent node {node}; expected a node below {nodes}")));
        }
        if let Some((cpu, place)) = places.iter().enumerate().find(|(_, place)| !self.has_node(place.node)) {
            return Err(TopologyError(format!("CPU {cpu} is in node {}, which is listed as absent", place.node)));
        }
        check_nested(places, ("core", |place| place.core), ("last-level cache", |place| place.llc))?;
        check_nested(places, ("last-level cache", |place| place.llc), ("node", |place| place.node))?;
        self.check_capacities()?;
        Topology::check_distances(&self.distances, nodes)
    }

    fn check_capacities(&self) -> Result<(), TopologyError> {
        let (cpus, full) = (self.len(), Topology::FULL_CAPACITY);
        if self.capacities.len() != cpus {
            return Err(TopologyError(format!(
                "{} capacities; expected {cpus}, one for each CPU",
                self.capacities.len()
            )));
        }
        match self.capacities.iter().position(|capacity| !(1..=full).contains(capacity)) {
            Some(cpu) => {
                let capacity = self.capacities[cpu];
                Err(TopologyError(format!("CPU {cpu} has capacity {capacity}; expected 1 to {full}")))
            }
            None => Ok(()),
        }
    }

    /// Checks the shape and values of a distance matrix: square, symmetric, [`Topology::LOCAL_DISTANCE`] on the
    /// diagonal and larger values elsewhere.
    ///
    /// # Errors
    ///
    /// States what is wrong and what was expected.
    pub fn check_distances(distances: &[Vec<u32>], nodes: usize) -> Result<(), TopologyError> {
        let (local, most) = (Topology::LOCAL_DISTANCE, Topology::MAX_DISTANCE);
        if !(1..=Topology::MAX_NODES).contains(&nodes) {
            return Err(TopologyError(format!("{nodes} nodes; expected 1 to {}", Topology::MAX_NODES)));
        }
        if distances.len() != nodes || distances.iter().any(|row| row.len() != nodes) {
            let shape: Vec<usize> = distances.iter().map(Vec::len).collect();
            let problem =
                format!("distances have rows of {shape:?}; expected {nodes} rows of {nodes}, one for each node");
            return Err(TopologyError(problem));
        }
        for (from, row) in distances.iter().enumerate() {
            for (to, &distance) in row.iter().enumerate() {
                let back = distances[to][from];
                let problem = if from == to && distance != local {
                    format!("distance of node {from} to itself is {distance}; expected {local}")
                } else if from != to && !(local + 1..=most).contains(&distance) {
                    format!("distance from node {from} to {to} is {distance}; expected {} to {most}", local + 1)
                } else if distance != back {
                    format!("distance from node {from} to {to} is {distance}, but back it is {back}")
                } else {
                    continue;
                };
                return Err(TopologyError(problem));
            }
        }
        Ok(())
    }
}

/// Number of groups of a kind, whose numbers are dense from 0.
fn count(places: &[Place], group: fn(&Place) -> u32) -> usize {
    places.iter().map(group).max().map_or(0, |last| last as usize + 1)
}

/// New numbers of the groups, in the order of the smallest key among a group's CPUs, then of its lowest CPU.
fn ranks<K: Ord>(places: &[Place], group: fn(&Place) -> u32, key: impl Fn(usize, &Place) -> K) -> BTreeMap<u32, u32> {
    let mut order: Vec<(K, usize, u32)> =
        places.iter().enumerate().map(|(cpu, place)| (key(cpu, place), cpu, group(place))).collect();
    order.sort();
    let mut ranks = BTreeMap::new();
    for (_, _, group) in order {
        let next = ranks.len() as u32;
        ranks.entry(group).or_insert(next);
    }
    ranks
}

fn check_dense(places: &[Place], what: &str, group: fn(&Place) -> u32) -> Result<(), TopologyError> {
    let mut used = vec![false; places.len()];
    for place in places {
        let number = group(place) as usize;
        let problem = || {
            TopologyError(format!("{what} number {number}; expected less than {}, the number of CPUs", places.len()))
        };
        *used.get_mut(number).ok_or_else(problem)? = true;
    }
    let count = used.iter().rposition(|&used| used).map_or(0, |last| last + 1);
    match used[..count].iter().position(|&used| !used) {
        Some(hole) => Err(TopologyError(format!("no CPU belongs to {what} {hole}; expected numbers without gaps"))),
        None => Ok(()),
    }
}

type Group<'a> = (&'a str, fn(&Place) -> u32);

fn check_nested(places: &[Place], inner: Group<'_>, outer: Group<'_>) -> Result<(), TopologyError> {
    let mut first_of = BTreeMap::new();
    for (index, place) in places.iter().enumerate() {
        let &mut (first, expected) = first_of.entry(inner.1(place)).or_insert((index, outer.1(place)));
        if outer.1(place) != expected {
            return Err(TopologyError(format!(
                "{} {} spans two {}s: CPU {first} is in {} {expected}, CPU {index} in {}",
                inner.0,
                inner.1(place),
                outer.0,
                outer.0,
                outer.1(place)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(groups: &[(u32, u32, u32)]) -> Vec<Place> {
        groups.iter().map(|&(core, llc, node)| Place { core, llc, node }).collect()
    }

    #[test]
    fn locality_grows_from_the_same_cpu_to_another_node() {
        let topology = Topology::new(places(&[(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1)]));
        topology.check().unwrap();
        let expected = [Locality::Same, Locality::Smt, Locality::Llc, Locality::Node, Locality::Far];
        for (cpu, expected) in expected.into_iter().enumerate() {
            assert_eq!(topology.locality(CpuId(0), CpuId(cpu as u32)), expected);
            assert_eq!(topology.locality(CpuId(cpu as u32), CpuId(0)), expected);
        }
        assert!(expected.is_sorted());
        assert_eq!((topology.cores(), topology.llcs(), topology.nodes()), (4, 3, 2));
        assert_eq!((topology.distance(0, 0), topology.distance(0, 1)), (10, 20));
    }

    #[test]
    fn topology_from_lists_equals_a_flat_topology() {
        assert_eq!(Topology::of_groups(&[0, 1, 2], &[0; 3], &[0; 3]), Topology::flat(3));
        assert_eq!(Topology::flat(3).cpus().to_string(), "0-2");
    }

    #[test]
    fn renumbering_orders_groups_by_node_and_lowest_cpu_with_unknown_ones_last() {
        // Two nodes with alternating CPUs, SMT siblings 4 apart, and CPU 2 unknown.
        let llc = [9, 7, 5, 8, 9, 7, 6, 8];
        let topology = Topology::of_groups(&[3, 2, 7, 0, 3, 2, 1, 0], &llc, &[0, 1, 0, 1, 0, 1, 0, 1]);
        let unknown = [CpuId(2)].into_iter().collect();
        let expected = [(0, 0, 0), (2, 2, 1), (4, 4, 0), (3, 3, 1), (0, 0, 0), (2, 2, 1), (1, 1, 0), (3, 3, 1)];
        let once = topology.renumbered(&unknown);
        assert_eq!(once.places, places(&expected));
        assert_eq!(once.clone().renumbered(&unknown), once);
        once.check().unwrap();
    }

    #[test]
    fn node_without_cpus_is_valid() {
        let topology = Topology::flat(2).with_distances(Topology::default_distances(2));
        topology.check().unwrap();
        assert_eq!(topology.nodes(), 2);
    }

    #[test]
    fn node_numbers_may_have_gaps() {
        let sparse = |absent: &[u32]| {
            let topology = Topology::of_groups(&[0, 1], &[0, 1], &[0, 2]);
            Topology { absent_nodes: absent.iter().copied().collect(), ..topology }
        };
        sparse(&[1]).check().unwrap();
        assert_eq!((sparse(&[1]).nodes(), sparse(&[1]).present_nodes()), (3, 2));
        assert_eq!([0, 1, 2, 3].map(|node| sparse(&[1]).has_node(node)), [true, false, true, false]);
        assert_eq!(sparse(&[2]).check().unwrap_err().0, "CPU 1 is in node 2, which is listed as absent");
        assert_eq!(sparse(&[3]).check().unwrap_err().0, "absent node 3; expected a node below 3");
    }

    #[test]
    fn invalid_topologies_are_rejected_with_the_reason() {
        let two: &[&[u32]] = &[&[10, 20], &[20, 10]];
        type Case<'a> = (&'a [(u32, u32, u32)], &'a [&'a [u32]], &'a str);
        let cases: &[Case<'_>] = &[
            (&[], &[], "0 CPUs; expected 1 to 4096"),
            (&[(0, 0, 0), (2, 0, 0)], &[&[10]], "core number 2; expected less than 2, the number of CPUs"),
            (&[(1, 0, 0), (1, 0, 0)], &[&[10]], "no CPU belongs to core 0; expected numbers without gaps"),
            (
                &[(0, 0, 0), (0, 1, 0)],
                &[&[10]],
                "core 0 spans two last-level caches: CPU 0 is in last-level cache 0, CPU 1 in 1",
            ),
            (&[(0, 0, 0), (1, 0, 1)], two, "last-level cache 0 spans two nodes: CPU 0 is in node 0, CPU 1 in 1"),
            (&[(0, 0, 1)], &[&[10]], "CPU 0 is in node 1; expected a node below 1"),
            (
                &[(0, 0, 0)],
                &[&[10, 20], &[20]],
                "distances have rows of [2, 1]; expected 2 rows of 2, one for each node",
            ),
            (&[(0, 0, 0)], &[&[10, 20], &[20, 0]], "distance of node 1 to itself is 0; expected 10"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[10, 20], &[21, 10]], "distance from node 0 to 1 is 20, but back it is 21"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[11, 20], &[20, 10]], "distance of node 0 to itself is 11; expected 10"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[10, 10], &[10, 10]], "distance from node 0 to 1 is 10; expected 11 to 254"),
        ];
        for (groups, distances, expected) in cases {
            let distances: Vec<Vec<u32>> = distances.iter().map(|row| row.to_vec()).collect();
            let topology = Topology::new(places(groups)).with_distances(distances);
            assert_eq!(topology.check().unwrap_err().to_string(), *expected);
        }
        let capacities = |capacities: &[u32]| Topology { capacities: capacities.to_vec(), ..Topology::flat(2) }.check();
        assert_eq!(capacities(&[1, 1024]), Ok(()));
        assert_eq!(capacities(&[1]).unwrap_err().0, "1 capacities; expected 2, one for each CPU");
        assert_eq!(capacities(&[1024, 0]).unwrap_err().0, "CPU 1 has capacity 0; expected 1 to 1024");
        assert_eq!(capacities(&[1025, 9]).unwrap_err().0, "CPU 0 has capacity 1025; expected 1 to 1024");
        let nodes = Topology::flat(1).with_distances(Topology::default_distances(1025)).check();
        assert_eq!(nodes.unwrap_err().0, "1025 nodes; expected 1 to 1024");
    }
}
