// SPDX-License-Identifier: GPL-2.0-only
//! A machine: its CPUs, how far they are from each other, and what things cost.

use crate::{Costs, Noise};
use ids::{CpuId, CpuSet, Place, Topology, TopologyError};
use std::collections::{BTreeMap, BTreeSet};

/// A machine description.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Name of the preset or file.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The CPUs and how far they are from each other.
    pub topology: Topology,
    /// Those of them that are not online. A kernel does not tell what an offline CPU shares with others: such a CPU is
    /// a core of its own, below the cache of the first CPU of its node.
    pub offline: CpuSet,
    /// Timer interrupts per second of a busy CPU.
    pub hz: u32,
    /// Idle CPUs stop their tick (CONFIG_NO_HZ_IDLE).
    pub no_hz_idle: bool,
    /// What things cost.
    pub costs: Costs,
    /// What differs from run to run.
    pub noise: Noise,
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

/// Linux offers 100 to 1000 (down to 24 on some architectures); the BFS patches offered up to 10000.
pub(crate) const HZ: std::ops::RangeInclusive<u64> = 24..=10_000;

impl Machine {
    /// All CPUs, whether online or not.
    pub fn all_cpus(&self) -> CpuSet {
        self.topology.cpus()
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
        let place_of = |cpu: CpuId| self.topology.place(cpu);
        let nodes: Vec<u32> =
            online.iter().map(|&cpu| place_of(cpu).node).collect::<BTreeSet<u32>>().into_iter().collect();
        let node_of = |cpu: CpuId| nodes.binary_search(&place_of(cpu).node).ok();
        let (mut cores, mut llcs) = (BTreeMap::new(), BTreeMap::new());
        let number = |map: &mut BTreeMap<u32, u32>, old: u32| {
            let next = map.len() as u32;
            *map.entry(old).or_insert(next)
        };
        let mut places = vec![None; self.topology.len()];
        for &cpu in &online {
            let Place { core, llc, .. } = place_of(cpu);
            let node = node_of(cpu).expect("it is one of its CPUs") as u32;
            places[cpu.index()] = Some(Place { core: number(&mut cores, core), llc: number(&mut llcs, llc), node });
        }
        let row = |from: &u32| nodes.iter().map(|to| self.topology.distance(*from, *to)).collect();
        let distances = nodes.iter().map(row).collect();
        Machine {
            topology: Topology { places: with_offline(places, |cpu| node_of(cpu).unwrap_or(0) as u32), distances },
            offline: offline.clone(),
            ..self.clone()
        }
    }

    /// Checks what every constructor promises: 1 to 4096 CPUs, dense group numbers, cores inside caches inside nodes,
    /// distances square, symmetric and 10 at home, a plausible HZ, and some CPU online. For machines that are built by
    /// hand.
    pub fn validate(&self) -> Result<(), MachineError> {
        let error = |problem| MachineError { place: self.name.clone(), problem };
        self.topology.check().map_err(|TopologyError(problem)| error(problem))?;
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
pub(crate) fn with_offline(places: Vec<Option<Place>>, node_of: impl Fn(CpuId) -> u32) -> Vec<Place> {
    let mut cores = places.iter().flatten().map(|place| place.core + 1).max().unwrap_or(0);
    let mut guess = |number: usize| {
        let node = node_of(CpuId(number as u32));
        let near = places.iter().flatten().find(|place| place.node == node).expect("a node has CPUs that are online");
        cores += 1;
        Place { core: cores - 1, ..*near }
    };
    let all = places.iter().enumerate();
    all.map(|(number, place)| place.unwrap_or_else(|| guess(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: &[(u32, u32, u32)], distances: &[&[u32]]) -> Machine {
        Machine {
            name: "m".into(),
            description: String::new(),
            topology: Topology {
                places: cpus.iter().map(|&(core, llc, node)| Place { core, llc, node }).collect(),
                distances: distances.iter().map(|row| row.to_vec()).collect(),
            },
            offline: CpuSet::new(),
            hz: 250,
            no_hz_idle: true,
            costs: Costs::zero(),
            noise: Noise::default(),
        }
    }

    #[test]
    fn a_machine_without_some_of_its_cpus_forgets_what_they_share() {
        let groups = |machine: &Machine| -> Vec<(u32, u32, u32)> {
            machine.validate().unwrap();
            machine.topology.places.iter().map(|place| (place.core, place.llc, place.node)).collect()
        };
        let cpus = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1), (3, 2, 1)];
        let whole = machine(&cpus, &[&[10, 20], &[20, 10]]);
        assert_eq!(whole.without(&CpuSet::new()), whole);
        let one = whole.without(&[CpuId(3)].into_iter().collect());
        assert_eq!(groups(&one), [(0, 0, 0), (0, 0, 0), (1, 0, 0), (3, 0, 0), (2, 1, 1), (2, 1, 1)]);
        let node = whole.without(&"0,4-5".parse().unwrap());
        assert_eq!(groups(&node), [(3, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (4, 0, 0), (5, 0, 0)]);
        assert_eq!(node.topology.distances, [[10]]);
        assert_eq!(node.online_cpus().to_string(), "1-3");
    }

    #[test]
    fn broken_machines_are_refused_with_the_reason() {
        let broken = machine(&[(0, 0, 0), (2, 0, 0)], &[&[10]]);
        assert_eq!(broken.validate().unwrap_err().to_string(), "m: core 2 on a machine of 2 CPUs");
        let slow = Machine { hz: 10, ..machine(&[(0, 0, 0)], &[&[10]]) };
        assert_eq!(slow.validate().unwrap_err().to_string(), "m: hz is 10; expected 24 to 10000");
        for (offline, fine) in [("1", true), ("0-1", false), ("2", false)] {
            let machine = Machine { offline: offline.parse().unwrap(), ..machine(&[(0, 0, 0), (1, 0, 0)], &[&[10]]) };
            let expected = format!("CPUs {offline} of 0-1 are offline; expected some of them, not all");
            assert_eq!(machine.validate().map_err(|error| error.problem), if fine { Ok(()) } else { Err(expected) });
        }
    }
}
