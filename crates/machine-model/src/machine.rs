// SPDX-License-Identifier: GPL-2.0-only
//! A machine: its CPUs, their distances, and costs.

use crate::{Costs, Effects, Noise};
use ids::{CpuId, CpuSet, Place, Topology, TopologyError};
use std::collections::BTreeSet;

/// A machine description.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Name of the preset or file.
    pub name: String,
    /// One-line description.
    pub description: String,
    /// CPUs and their distances. Every number up to the last CPU's has an entry, even if the CPU does not exist, so
    /// that tables by CPU have no holes.
    pub topology: Topology,
    /// Offline CPUs, including [`Machine::absent`] ones. Unless the source says what an offline CPU shares with
    /// others, it is modelled as its own core, below the cache of the first CPU of its node.
    pub offline: CpuSet,
    /// Numbers of nonexistent CPUs below the highest CPU number.
    pub absent: CpuSet,
    /// Tick frequency of a busy CPU (CONFIG_HZ).
    pub hz: u32,
    /// Whether idle CPUs stop their tick (CONFIG_NO_HZ_IDLE).
    pub no_hz_idle: bool,
    /// Initial probability, in 1/1024, that a CPU entering idle runs newidle balancing, in kernels that adapt it to
    /// its success (Linux since 7.0, 6.18.5 and 6.12.65). `None`: always.
    pub newidle_ratio: Option<u32>,
    /// Whether the fair class groups tasks outside cgroups by session (`sched_autogroup_enabled`).
    pub autogroup: bool,
    /// Size of the cache private to a core in KiB; 0 if unknown.
    pub private_kb: u64,
    /// Size of a CPU's last-level cache in KiB; 0 if unknown.
    pub llc_kb: u64,
    /// Costs of kernel operations.
    pub costs: Costs,
    /// Random variation between runs.
    pub noise: Noise,
    /// Effects that change CPU speed.
    pub effects: Effects,
    /// What the source of the description says that could not be used, and what was assumed instead: one sentence
    /// each, for every result of this machine.
    pub caveats: Vec<String>,
}

/// Error of a machine description: where, what, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct MachineError {
    /// File and line, or the string itself.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

/// Linux offers 100 to 1000 (down to 24 on some architectures); the BFS patches offered up to 10000.
pub(crate) const HZ: std::ops::RangeInclusive<u64> = 24..=10_000;

/// The ratio's denominator is 1024.
pub(crate) const NEWIDLE_RATIO: std::ops::RangeInclusive<u64> = 0..=1024;

impl Machine {
    /// All CPU numbers: online, offline and nonexistent ones.
    pub fn all_cpus(&self) -> CpuSet {
        self.topology.cpus()
    }

    /// Existing CPUs, online or offline.
    pub fn present_cpus(&self) -> CpuSet {
        self.all_cpus().iter().filter(|cpu| !self.absent.contains(*cpu)).collect()
    }

    /// Maximum exit latency from idle or halt, in nanoseconds; `noisy`: including the noise of a seeded run.
    pub fn longest_idle_exit_ns(&self, noisy: bool) -> u64 {
        let states = self.effects.idle_states.iter().map(|state| state.exit_ns.typical);
        let nominal =
            states.chain([self.costs.idle_exit_ns]).chain(self.costs.halt.map(|halt| halt.exit_ns)).max().unwrap_or(0);
        let most_ppm = if noisy { self.noise.idle_exit_ppm.quantiles()[10].max(0) } else { 0 };
        nominal + (u128::from(nominal) * most_ppm as u128 / 1_000_000) as u64
    }

    /// Online CPUs.
    pub fn online_cpus(&self) -> CpuSet {
        self.all_cpus().iter().filter(|cpu| !self.offline.contains(*cpu)).collect()
    }

    /// Returns the machine with [`Effects::capacity`] if capacities are unequal.
    pub(crate) fn with_capacities_in_effect(mut self) -> Machine {
        self.effects.capacity = self.topology.is_hybrid();
        self
    }

    /// Returns the machine without effects: each CPU works at the reference speed.
    pub fn without_effects(self) -> Machine {
        Machine { effects: Effects::default(), ..self }
    }

    /// Returns the machine as its kernel presents it with these CPUs offline: what they share with others is unknown.
    pub fn without(&self, offline: &CpuSet) -> Machine {
        let known = |(cpu, &place)| (!offline.contains(CpuId(cpu as u32))).then_some(place);
        let places = self.topology.places.iter().enumerate().map(known).collect();
        let places = with_offline(places, |cpu| self.topology.place(cpu).node);
        let topology = Topology { places, ..self.topology.clone() }.renumbered(offline);
        Machine { topology, offline: offline.clone(), ..self.clone() }
    }

    /// One-line summary, such as `64 CPUs: 32 cores of 2 threads, 2 last-level caches, 2 nodes`.
    pub fn summary(&self) -> String {
        let online = self.online_cpus();
        let count = |group: fn(Place) -> u32| {
            online.iter().map(|cpu| group(self.topology.place(cpu))).collect::<BTreeSet<u32>>().len()
        };
        let some = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let cores = count(|place| place.core);
        let threads = match online.len() / cores {
            threads if threads * cores != online.len() => " of 1 or more threads".to_owned(),
            1 => String::new(),
            threads => format!(" of {threads} threads"),
        };
        let (caches, nodes) = (count(|place| place.llc), count(|place| place.node));
        let memory = match self.topology.present_nodes() - nodes {
            0 => String::new(),
            memory => format!(" and {} of memory only", some(memory, "node")),
        };
        let (cpus, cores) = (some(online.len(), "CPU"), some(cores, "core"));
        let (caches, nodes) = (some(caches, "last-level cache"), some(nodes, "node"));
        let mut text = format!("{cpus}: {cores}{threads}, {caches}, {nodes}{memory}");
        let capacities: BTreeSet<u32> = self.topology.capacities.iter().copied().collect();
        if capacities.len() > 1 {
            let list: Vec<String> = capacities.iter().map(u32::to_string).collect();
            text += &format!("; capacities {}", list.join(", "));
        }
        let waiting: CpuSet = self.present_cpus().iter().filter(|cpu| self.offline.contains(*cpu)).collect();
        if !waiting.is_empty() {
            text += &format!("; offline: {waiting}");
        }
        text
    }

    /// Checks the properties that every constructor guarantees: a consistent topology ([`Topology::check`]), at least
    /// one online CPU, and a plausible HZ. For machines built by hand.
    ///
    /// # Errors
    /// What is wrong and what was expected.
    pub fn validate(&self) -> Result<(), MachineError> {
        let error = |problem| MachineError { place: self.name.clone(), problem };
        self.topology.check().map_err(|TopologyError(problem)| error(problem))?;
        let all = self.all_cpus();
        if !self.offline.is_subset(&all) || self.offline.len() == all.len() {
            return Err(error(format!("CPUs {} of {all} are offline; expected a proper subset", self.offline)));
        }
        if !self.absent.is_subset(&self.offline) {
            return Err(error(format!("CPUs {} do not exist but are not listed as offline", self.absent)));
        }
        if !HZ.contains(&u64::from(self.hz)) {
            return Err(error(format!("hz is {}; expected {} to {}", self.hz, HZ.start(), HZ.end())));
        }
        Ok(())
    }
}

/// Completes the places of all CPUs from those of online ones; numbers of cores and caches are arbitrary. Because it
/// is unknown what offline CPUs share, each is its own core, below the cache of the first CPU of its node. In a node
/// without online CPUs they share a cache.
pub(crate) fn with_offline(places: Vec<Option<Place>>, node_of: impl Fn(CpuId) -> u32) -> Vec<Place> {
    let unused = |group: fn(&Place) -> u32| places.iter().flatten().map(group).max().map_or(0, |last| last + 1);
    let (core, llc) = (unused(|place| place.core), unused(|place| place.llc));
    let guess = |number: usize| {
        let (own, node) = (number as u32, node_of(CpuId(number as u32)));
        let near = places.iter().flatten().find(|place| place.node == node);
        Place { core: core + own, llc: near.map_or(llc + node, |near| near.llc), node }
    };
    places.iter().enumerate().map(|(number, place)| place.unwrap_or_else(|| guess(number))).collect()
}

/// Creates a topology without gaps in the CPU numbers, and the set of CPUs that do not exist (`None` in `places`). In
/// the topology these share the node of the first existing CPU.
///
/// # Panics
/// If there is no CPU.
pub(crate) fn with_absent(places: Vec<Option<Place>>, distances: Vec<Vec<u32>>) -> (Topology, CpuSet) {
    let missing = |(number, place): (usize, &Option<Place>)| place.is_none().then_some(CpuId(number as u32));
    let absent: CpuSet = places.iter().enumerate().filter_map(missing).collect();
    let node = places.iter().flatten().next().expect("there is a CPU").node;
    let topology = Topology::new(with_offline(places, |_| node)).with_distances(distances);
    (topology.renumbered(&absent), absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: &[(u32, u32, u32)], distances: &[&[u32]]) -> Machine {
        Machine {
            name: "m".into(),
            description: String::new(),
            topology: Topology::new(cpus.iter().map(|&(core, llc, node)| Place { core, llc, node }).collect())
                .with_distances(distances.iter().map(|row| row.to_vec()).collect()),
            offline: CpuSet::new(),
            absent: CpuSet::new(),
            hz: 250,
            no_hz_idle: true,
            newidle_ratio: None,
            autogroup: false,
            private_kb: 0,
            llc_kb: 0,
            costs: Costs::zero(),
            noise: Noise::default(),
            effects: Effects::default(),
            caveats: Vec::new(),
        }
    }

    #[test]
    fn offline_cpu_counts_as_a_core_of_its_own_below_the_first_cache_of_its_node() {
        let groups = |machine: &Machine| -> Vec<(u32, u32, u32)> {
            machine.validate().unwrap();
            machine.topology.places.iter().map(|place| (place.core, place.llc, place.node)).collect()
        };
        let cpus = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1), (3, 2, 1)];
        let whole = machine(&cpus, &[&[10, 20], &[20, 10]]);
        assert_eq!(whole.without(&CpuSet::new()), whole);
        let one = whole.without(&[CpuId(3)].into_iter().collect());
        assert_eq!(groups(&one), [(0, 0, 0), (0, 0, 0), (1, 0, 0), (3, 0, 0), (2, 1, 1), (2, 1, 1)]);
        // A node without online CPUs remains.
        let node = whole.without(&"0,4-5".parse().unwrap());
        assert_eq!(groups(&node), [(3, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (4, 2, 1), (5, 2, 1)]);
        assert_eq!(node.topology.distances, whole.topology.distances);
        assert_eq!(node.online_cpus().to_string(), "1-3");
    }

    #[test]
    fn summary_counts_cores_caches_and_nodes() {
        let cpus = [(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1), (4, 2, 1)];
        let mut machine = machine(&cpus, &[&[10, 20, 20], &[20, 10, 20], &[20, 20, 10]]);
        let nodes = "2 nodes and 1 node of memory only";
        assert_eq!(machine.summary(), format!("6 CPUs: 5 cores of 1 or more threads, 3 last-level caches, {nodes}"));
        (machine.offline, machine.absent) = ("1,4-5".parse().unwrap(), "4".parse().unwrap());
        machine.topology.capacities[3] = 512;
        assert_eq!(
            machine.summary(),
            "3 CPUs: 3 cores, 2 last-level caches, 1 node and 2 nodes of memory only; capacities 512, 1024; offline: 1,5"
        );
        assert_eq!(
            Machine::preset("server-64").unwrap().summary(),
            "64 CPUs: 32 cores of 2 threads, 2 last-level caches, 2 nodes"
        );
        assert_eq!(Machine::from_synthetic("pu:1").unwrap().summary(), "1 CPU: 1 core, 1 last-level cache, 1 node");
    }

    #[test]
    fn invalid_machines_are_refused_with_the_reason() {
        let broken = machine(&[(0, 0, 0), (2, 0, 0)], &[&[10]]);
        assert_eq!(
            broken.validate().unwrap_err().to_string(),
            "m: core number 2; expected less than 2, the number of CPUs"
        );
        let slow = Machine { hz: 10, ..machine(&[(0, 0, 0)], &[&[10]]) };
        assert_eq!(slow.validate().unwrap_err().to_string(), "m: hz is 10; expected 24 to 10000");
        for (offline, fine) in [("1", true), ("0-1", false), ("2", false)] {
            let machine = Machine { offline: offline.parse().unwrap(), ..machine(&[(0, 0, 0), (1, 0, 0)], &[&[10]]) };
            let expected = format!("CPUs {offline} of 0-1 are offline; expected a proper subset");
            assert_eq!(machine.validate().map_err(|error| error.problem), if fine { Ok(()) } else { Err(expected) });
        }
        let absent = Machine { absent: "1".parse().unwrap(), ..machine(&[(0, 0, 0), (1, 0, 0)], &[&[10]]) };
        let problem = absent.validate().unwrap_err().problem;
        assert_eq!(problem, "CPUs 1 do not exist but are not listed as offline");
    }
}
