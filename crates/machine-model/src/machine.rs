// SPDX-License-Identifier: GPL-2.0-only
//! A machine: its CPUs and how far they are from each other.

use crate::Costs;
use ids::{CpuId, CpuSet, MAX_CPUS};
use std::collections::{BTreeMap, BTreeSet};

/// One logical CPU and the groups that it belongs to. Group numbers are dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Physical core: its CPUs are SMT siblings.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// How far a task moved, or two CPUs are apart. Ordered from near to far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Locality {
    /// The same CPU.
    Same,
    /// Another thread of the same core.
    Smt,
    /// Another core below the same last-level cache.
    Llc,
    /// Another cache in the same node.
    Node,
    /// Another node.
    Far,
}

/// A machine description.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Name of the preset or file.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The CPUs; index = [`CpuId`].
    pub cpus: Vec<Cpu>,
    /// Those of them that are not online. A kernel does not tell what an offline CPU shares with others: such a CPU is
    /// a core of its own, below the cache of the first CPU of its node.
    pub offline: CpuSet,
    /// SLIT distances between nodes, 10 = local; square, symmetric.
    pub distances: Vec<Vec<u32>>,
    /// Timer interrupts per second of a busy CPU.
    pub hz: u32,
    /// Idle CPUs stop their tick (CONFIG_NO_HZ_IDLE).
    pub no_hz_idle: bool,
    /// What things cost.
    pub costs: Costs,
}

/// Why a machine description was refused: where, what, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct MachineError {
    /// File and line, or the string itself.
    pub place: String,
    /// What was found and expected.
    pub problem: String,
}

/// SLIT distance of a node to itself, and the one that Linux takes for any other node without a table
/// (`LOCAL_DISTANCE` and `REMOTE_DISTANCE` in `include/linux/topology.h`).
pub(crate) const LOCAL_DISTANCE: u32 = 10;
pub(crate) const REMOTE_DISTANCE: u32 = 20;

/// A SLIT entry is a byte and 255 means unreachable (ACPI 6.5, 5.2.17).
const MAX_DISTANCE: u32 = 254;

/// Linux offers 100 to 1000 (down to 24 on some architectures); the BFS patches offered up to 10000.
pub(crate) const HZ: std::ops::RangeInclusive<u64> = 24..=10_000;

impl Machine {
    /// All CPUs, whether online or not.
    pub fn all_cpus(&self) -> CpuSet {
        CpuSet::first_n(self.cpus.len())
    }

    /// Those that are online.
    pub fn online_cpus(&self) -> CpuSet {
        self.all_cpus().iter().filter(|cpu| !self.offline.contains(*cpu)).collect()
    }

    /// The same machine as its kernel shows it while these CPUs are offline: what they share with others is not known,
    /// a node where no CPU is left is none, and group numbers are dense again.
    ///
    /// # Panics
    /// If no CPU is left.
    pub fn without(&self, offline: &CpuSet) -> Machine {
        let online: Vec<CpuId> = self.all_cpus().iter().filter(|cpu| !offline.contains(*cpu)).collect();
        let cpu_of = |cpu: CpuId| self.cpus[cpu.index()];
        let nodes: Vec<u32> =
            online.iter().map(|&cpu| cpu_of(cpu).node).collect::<BTreeSet<u32>>().into_iter().collect();
        let node_of = |cpu: CpuId| nodes.binary_search(&cpu_of(cpu).node).ok();
        let (mut cores, mut llcs) = (BTreeMap::new(), BTreeMap::new());
        let number = |map: &mut BTreeMap<u32, u32>, old: u32| {
            let next = map.len() as u32;
            *map.entry(old).or_insert(next)
        };
        let mut cpus = vec![None; self.cpus.len()];
        for &cpu in &online {
            let Cpu { core, llc, .. } = cpu_of(cpu);
            let node = node_of(cpu).expect("it is one of its CPUs") as u32;
            cpus[cpu.index()] = Some(Cpu { core: number(&mut cores, core), llc: number(&mut llcs, llc), node });
        }
        let row = |from: &u32| nodes.iter().map(|to| self.distances[*from as usize][*to as usize]).collect();
        Machine {
            cpus: with_offline(cpus, |cpu| node_of(cpu).unwrap_or(0) as u32),
            offline: offline.clone(),
            distances: nodes.iter().map(row).collect(),
            ..self.clone()
        }
    }

    /// How far apart two CPUs are. Both must exist.
    pub fn locality(&self, a: CpuId, b: CpuId) -> Locality {
        let (x, y) = (self.cpus[a.index()], self.cpus[b.index()]);
        if a == b {
            Locality::Same
        } else if x.core == y.core {
            Locality::Smt
        } else if x.llc == y.llc {
            Locality::Llc
        } else if x.node == y.node {
            Locality::Node
        } else {
            Locality::Far
        }
    }

    /// Checks what every constructor promises: 1 to 4096 CPUs, dense group numbers, cores inside caches inside nodes,
    /// distances square, symmetric and 10 at home, a plausible HZ, and some CPU online. For machines that are built by
    /// hand.
    pub fn validate(&self) -> Result<(), MachineError> {
        let error = |problem| MachineError { place: self.name.clone(), problem };
        check_cpus(&self.cpus).map_err(error)?;
        let nodes = self.cpus.iter().map(|cpu| cpu.node).max().map_or(0, |last| last as usize + 1);
        check_distances(&self.distances, nodes).map_err(error)?;
        let all = self.all_cpus();
        if !self.offline.is_subset(&all) || self.offline.len() == all.len() {
            return Err(error(format!("CPUs {} of {all} are offline; expected some of them, not all", self.offline)));
        }
        if !HZ.contains(&u64::from(self.hz)) {
            return Err(error(format!("hz is {}; expected {} to {}", self.hz, HZ.start(), HZ.end())));
        }
        Ok(())
    }
}

/// All CPUs, given those that are online. What the others share is unknown: each is a core of its own beside the first
/// CPU of its node, so that tables by CPU have nothing that is not there.
///
/// # Panics
/// If no CPU of that node is online.
pub(crate) fn with_offline(cpus: Vec<Option<Cpu>>, node_of: impl Fn(CpuId) -> u32) -> Vec<Cpu> {
    let mut cores = cpus.iter().flatten().map(|cpu| cpu.core + 1).max().unwrap_or(0);
    let mut guess = |number: usize| {
        let node = node_of(CpuId(number as u32));
        let near = cpus.iter().flatten().find(|cpu| cpu.node == node).expect("a node has CPUs that are online");
        cores += 1;
        Cpu { core: cores - 1, ..*near }
    };
    let all = cpus.iter().enumerate();
    all.map(|(number, cpu)| cpu.unwrap_or_else(|| guess(number))).collect()
}

/// Number and nesting of the groups.
pub(crate) fn check_cpus(cpus: &[Cpu]) -> Result<(), String> {
    if !(1..=MAX_CPUS).contains(&cpus.len()) {
        return Err(format!("{} CPUs; expected 1 to {MAX_CPUS}", cpus.len()));
    }
    check_dense(cpus, "core", |cpu| cpu.core)?;
    check_dense(cpus, "last-level cache", |cpu| cpu.llc)?;
    check_dense(cpus, "node", |cpu| cpu.node)?;
    check_nested(cpus, ("core", |cpu| cpu.core), ("last-level cache", |cpu| cpu.llc))?;
    check_nested(cpus, ("last-level cache", |cpu| cpu.llc), ("node", |cpu| cpu.node))
}

fn check_dense(cpus: &[Cpu], what: &str, group: fn(&Cpu) -> u32) -> Result<(), String> {
    let mut used = vec![false; cpus.len()];
    for cpu in cpus {
        let number = group(cpu) as usize;
        *used.get_mut(number).ok_or(format!("{what} {number} on a machine of {} CPUs", cpus.len()))? = true;
    }
    let count = used.iter().rposition(|&used| used).map_or(0, |last| last + 1);
    match used[..count].iter().position(|&used| !used) {
        Some(hole) => Err(format!("no CPU belongs to {what} {hole}; expected numbers without gaps")),
        None => Ok(()),
    }
}

type Group<'a> = (&'a str, fn(&Cpu) -> u32);

fn check_nested(cpus: &[Cpu], inner: Group<'_>, outer: Group<'_>) -> Result<(), String> {
    let mut first_of = BTreeMap::new();
    for (index, cpu) in cpus.iter().enumerate() {
        let &mut (first, expected) = first_of.entry(inner.1(cpu)).or_insert((index, outer.1(cpu)));
        if outer.1(cpu) != expected {
            return Err(format!(
                "{} {} spans two {}s: CPU {first} is in {} {expected}, CPU {index} in {}",
                inner.0,
                inner.1(cpu),
                outer.0,
                outer.0,
                outer.1(cpu)
            ));
        }
    }
    Ok(())
}

/// Shape and values of a distance table.
pub(crate) fn check_distances(distances: &[Vec<u32>], nodes: usize) -> Result<(), String> {
    if distances.len() != nodes || distances.iter().any(|row| row.len() != nodes) {
        let shape: Vec<usize> = distances.iter().map(Vec::len).collect();
        return Err(format!("distances have rows of {shape:?}; expected {nodes} rows of {nodes}, one for each node"));
    }
    for (from, row) in distances.iter().enumerate() {
        for (to, &distance) in row.iter().enumerate() {
            if from == to && distance != LOCAL_DISTANCE {
                return Err(format!("distance of node {from} to itself is {distance}; expected {LOCAL_DISTANCE}"));
            }
            if from != to && !(LOCAL_DISTANCE + 1..=MAX_DISTANCE).contains(&distance) {
                return Err(format!("distance from node {from} to {to} is {distance}; expected 11 to {MAX_DISTANCE}"));
            }
            if distance != distances[to][from] {
                let back = distances[to][from];
                return Err(format!("distance from node {from} to {to} is {distance}, but back it is {back}"));
            }
        }
    }
    Ok(())
}

/// The table that Linux assumes where firmware gives none.
pub(crate) fn flat_distances(nodes: usize) -> Vec<Vec<u32>> {
    let row = |from| (0..nodes).map(|to| if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect();
    (0..nodes).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: &[(u32, u32, u32)], distances: &[&[u32]]) -> Machine {
        Machine {
            name: "m".into(),
            description: String::new(),
            cpus: cpus.iter().map(|&(core, llc, node)| Cpu { core, llc, node }).collect(),
            offline: CpuSet::new(),
            distances: distances.iter().map(|row| row.to_vec()).collect(),
            hz: 250,
            no_hz_idle: true,
            costs: Costs::zero(),
        }
    }

    #[test]
    fn locality_grows_from_the_same_cpu_to_another_node() {
        let cpus = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1)];
        let machine = machine(&cpus, &[&[10, 20], &[20, 10]]);
        machine.validate().unwrap();
        let expected = [Locality::Same, Locality::Smt, Locality::Llc, Locality::Node, Locality::Far];
        for (cpu, expected) in expected.into_iter().enumerate() {
            assert_eq!(machine.locality(CpuId(0), CpuId(cpu as u32)), expected);
            assert_eq!(machine.locality(CpuId(cpu as u32), CpuId(0)), expected);
        }
        assert!(expected.is_sorted());
    }

    #[test]
    fn a_machine_without_some_of_its_cpus_forgets_what_they_share() {
        let groups = |machine: &Machine| -> Vec<(u32, u32, u32)> {
            machine.validate().unwrap();
            machine.cpus.iter().map(|cpu| (cpu.core, cpu.llc, cpu.node)).collect()
        };
        let cpus = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1), (3, 2, 1)];
        let whole = machine(&cpus, &[&[10, 20], &[20, 10]]);
        assert_eq!(whole.without(&CpuSet::new()), whole);
        let one = whole.without(&[CpuId(3)].into_iter().collect());
        assert_eq!(groups(&one), [(0, 0, 0), (0, 0, 0), (1, 0, 0), (3, 0, 0), (2, 1, 1), (2, 1, 1)]);
        let node = whole.without(&"0,4-5".parse().unwrap());
        assert_eq!(groups(&node), [(3, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (4, 0, 0), (5, 0, 0)]);
        assert_eq!(node.distances, [[10]]);
        assert_eq!(node.online_cpus().to_string(), "1-3");
    }

    #[test]
    fn broken_machines_are_refused_with_the_reason() {
        let two: &[&[u32]] = &[&[10, 20], &[20, 10]];
        type Case<'a> = (&'a [(u32, u32, u32)], &'a [&'a [u32]], &'a str);
        let cases: &[Case<'_>] = &[
            (&[], &[], "0 CPUs; expected 1 to 4096"),
            (&[(0, 0, 0), (2, 0, 0)], &[&[10]], "core 2 on a machine of 2 CPUs"),
            (&[(1, 0, 0), (1, 0, 0)], &[&[10]], "no CPU belongs to core 0; expected numbers without gaps"),
            (
                &[(0, 0, 0), (0, 1, 0)],
                &[&[10]],
                "core 0 spans two last-level caches: CPU 0 is in last-level cache 0, CPU 1 in 1",
            ),
            (&[(0, 0, 0), (1, 0, 1)], two, "last-level cache 0 spans two nodes: CPU 0 is in node 0, CPU 1 in 1"),
            (&[(0, 0, 0)], two, "distances have rows of [2, 2]; expected 1 rows of 1, one for each node"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[10, 20], &[21, 10]], "distance from node 0 to 1 is 20, but back it is 21"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[11, 20], &[20, 10]], "distance of node 0 to itself is 11; expected 10"),
            (&[(0, 0, 0), (1, 1, 1)], &[&[10, 10], &[10, 10]], "distance from node 0 to 1 is 10; expected 11 to 254"),
        ];
        for (cpus, distances, expected) in cases {
            assert_eq!(machine(cpus, distances).validate().unwrap_err().problem, *expected);
        }
        let slow = Machine { hz: 10, ..machine(&[(0, 0, 0)], &[&[10]]) };
        assert_eq!(slow.validate().unwrap_err().to_string(), "m: hz is 10; expected 24 to 10000");
        for (offline, fine) in [("1", true), ("0-1", false), ("2", false)] {
            let machine = Machine { offline: offline.parse().unwrap(), ..machine(&[(0, 0, 0), (1, 0, 0)], &[&[10]]) };
            let expected = format!("CPUs {offline} of 0-1 are offline; expected some of them, not all");
            assert_eq!(machine.validate().map_err(|error| error.problem), if fine { Ok(()) } else { Err(expected) });
        }
    }
}
