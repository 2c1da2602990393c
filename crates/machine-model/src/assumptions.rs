// SPDX-License-Identifier: GPL-2.0-only
//! Effects of a machine of which only the topology is known.
//!
//! A topology from an hwloc file, a synthetic string or sysfs says nothing of SMT throughput, frequencies, idle states,
//! latencies of memory and locks. Without them a machine would be better than any hardware: a single queue shared by
//! 512 CPUs would never be contended. So such a machine gets the numbers that are typical of its class, with limits as
//! wide as the class. Results name these effects as assumed, and `--draws` samples them.

use crate::{Caches, Effect, Effects, Machine};
use ids::Topology;

/// A machine with more cores belongs to the large class.
const MOST_CORES_OF_A_SMALL_MACHINE: usize = 16;

const SMALL: &str = include_str!("../../../machines/assumed/small.toml");
const LARGE: &str = include_str!("../../../machines/assumed/large.toml");

impl Machine {
    /// Returns the machine with the effects that are typical of its class in place of those that are not described.
    /// SMT is added only if cores have several threads.
    #[must_use]
    pub fn with_assumptions(mut self) -> Machine {
        let class = class(&self.topology);
        let missing: Vec<Effect> =
            class.modelled().filter(|effect| self.effects.modelled().all(|known| known != *effect)).collect();
        for effect in missing {
            match effect {
                Effect::Smt => self.effects.smt = class.smt.clone(),
                Effect::Capacity => continue,
                Effect::Frequency => {
                    self.effects.frequency.clone_from(&class.frequency);
                    self.effects.power.clone_from(&class.power);
                }
                Effect::IdleStates => self.effects.idle_states.clone_from(&class.idle_states),
                Effect::Caches => {
                    self.effects.caches = class.caches.clone().map(|caches| self.with_known_sizes(caches))
                }
                Effect::Numa => self.effects.numa.clone_from(&class.numa),
                Effect::Bandwidth => self.effects.bandwidth.clone_from(&class.bandwidth),
                Effect::Locks => self.effects.locks.clone_from(&class.locks),
                Effect::Tlb => self.effects.tlb.clone_from(&class.tlb),
                // No class has devices.
                Effect::Disks | Effect::Network | Effect::PageCache | Effect::Interrupts => continue,
            }
            self.effects.assumed.insert(effect);
        }
        self
    }
}

impl Machine {
    /// Caches with the sizes that the machine's description has, where it has them.
    fn with_known_sizes(&self, caches: Caches) -> Caches {
        Caches {
            private_kb: if self.private_kb > 0 { self.private_kb } else { caches.private_kb },
            llc_kb: if self.llc_kb > 0 { vec![self.llc_kb] } else { caches.llc_kb },
            ..caches
        }
    }
}

/// Effects of the class of machines with this topology.
fn class(topology: &Topology) -> Effects {
    let is_small = topology.nodes() == 1 && topology.cores() <= MOST_CORES_OF_A_SMALL_MACHINE;
    let (name, text) = if is_small { ("small.toml", SMALL) } else { ("large.toml", LARGE) };
    let mut effects = Machine::from_toml(name, text).expect("a test reads both classes").effects;
    let threads = topology.threads();
    match &mut effects.smt {
        Some(smt) if (2..=smt.throughput_percent.len() + 1).contains(&threads) => {
            smt.throughput_percent.truncate(threads - 1);
        }
        smt => *smt = None,
    }
    // Memory has distances only on a machine of several nodes.
    if topology.nodes() == 1 {
        effects.numa = None;
    }
    // A capacity is the speed of its kind of core at its highest frequency, which processors of Arm can keep on all
    // cores: turbo would make the kinds differ by more or less than their capacities.
    if let Some(frequency) = effects.frequency.as_mut().filter(|_| topology.is_hybrid()) {
        frequency.turbo_mhz.clear();
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assumed(shape: &str) -> Machine {
        let machine = Machine::from_synthetic(shape).unwrap().with_assumptions();
        machine.validate().unwrap();
        let back = Machine::from_toml("m", &machine.to_toml()).unwrap();
        assert_eq!(back.effects, machine.effects, "{shape}");
        machine
    }

    #[test]
    fn machine_given_by_topology_alone_gets_assumed_effects_by_size() {
        let small = assumed("core:4 pu:2");
        let all = [
            Effect::Smt,
            Effect::Frequency,
            Effect::IdleStates,
            Effect::Caches,
            Effect::Bandwidth,
            Effect::Locks,
            Effect::Tlb,
        ];
        assert_eq!(small.effects.modelled().collect::<Vec<_>>(), all);
        assert_eq!(small.effects.assumed.iter().copied().collect::<Vec<_>>(), all);
        assert!(small.is_uncertain());
        let large = assumed("node:8 core:64 pu:1");
        let without_numa = large.effects.modelled().filter(|effect| *effect != Effect::Numa);
        assert_eq!(without_numa.collect::<Vec<_>>(), all[1..], "cores of one thread have no SMT");
        assert!(large.effects.numa.is_some(), "it has several nodes");
        assert!(large.effects.locks.as_ref().unwrap().line_transfer_ns[3].typical > 120);
        assert_eq!(assumed("core:1 pu:8").effects.smt.unwrap().throughput_percent.len(), 7);
    }

    #[test]
    fn hybrid_machines_are_assumed_without_turbo() {
        let mut hybrid = Machine::from_synthetic("core:4 pu:1").unwrap();
        hybrid.topology.capacities[3] = 453;
        assert!(hybrid.with_assumptions().effects.frequency.unwrap().turbo_mhz.is_empty());
    }

    #[test]
    fn described_effects_are_kept_and_not_marked_as_assumed() {
        let preset = Machine::preset("server-512").unwrap();
        let mut completed = preset.clone().with_assumptions();
        assert!(completed.effects.tlb.take().is_some() && completed.effects.assumed.remove(&Effect::Tlb));
        assert_eq!(completed, preset);
        let text = "description = \"d\"\nhz = 250\nno_hz_idle = true\ntopology = { shape = \"core:2 pu:2\" }\n\
            [smt]\nthroughput_percent = 130\n";
        let machine = Machine::from_toml("m", text).unwrap();
        let completed = machine.clone().with_assumptions();
        assert_eq!(completed.effects.smt, machine.effects.smt);
        assert!(!completed.effects.assumed.contains(&Effect::Smt) && completed.effects.assumed.len() == 6);
    }

    #[test]
    fn disabled_effect_is_no_longer_assumed() {
        let mut machine = assumed("core:4 pu:2");
        machine.effects.switch_off(Effect::Locks);
        assert!(machine.effects.locks.is_none() && !machine.effects.assumed.contains(&Effect::Locks));
    }
}
