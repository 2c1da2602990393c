// SPDX-License-Identifier: GPL-2.0-only
//! Random lateness and cost of each tick.
//!
//! The values of a tick depend only on the seed, its CPU and its number, so a query about a future tick, such as for
//! the end of a task's work, returns the values that the tick will have.

use super::draw::{derive_seed, more};
use ids::{CpuId, Nanos};
use machine_model::Spread;

/// Distributions for all ticks of a run.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    seed: u64,
    late_ns: Option<Spread>,
    cost_ppm: Option<Spread>,
}

impl Jitter {
    /// Returns `None` if neither the lateness nor the cost of ticks varies.
    pub fn new(seed: u64, late_ns: Option<Spread>, cost_ppm: Option<Spread>) -> Option<Jitter> {
        (late_ns.is_some() || cost_ppm.is_some()).then(|| Jitter { seed: derive_seed(seed, "tick"), late_ns, cost_ppm })
    }

    /// Lateness of tick `number` of `cpu`.
    pub fn late(&self, cpu: CpuId, number: u64) -> Nanos {
        let late = self.late_ns.as_ref().map_or(0, |spread| spread.at(self.word(cpu, number, 0)));
        Nanos(late.max(0) as u64)
    }

    /// Cost of tick `number` of `cpu`, given its nominal cost.
    pub fn cost(&self, cpu: CpuId, number: u64, nominal: Nanos) -> Nanos {
        self.cost_ppm.as_ref().map_or(nominal, |spread| more(nominal, spread.at(self.word(cpu, number, 1))))
    }

    /// 32 random bits for one of the two quantities of a tick: the finalizer of SplitMix64, applied twice.
    fn word(&self, cpu: CpuId, number: u64, question: u64) -> u32 {
        let mut bits = self.seed ^ number;
        for add in [u64::from(cpu.0) * 2 + question, 0x9e37_79b9_7f4a_7c15] {
            bits = bits.wrapping_add(add.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
        }
        (bits >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn jitter_is_independent_between_cpus_and_ticks() {
        let uniform =
            Spread::new([0, 10_000, 50_000, 100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 990_000, 1_000_000]);
        let jitter = Jitter::new(3, uniform, uniform).unwrap();
        let draws = |cpu: u32| (0..1_000).map(move |number| (CpuId(cpu), number));
        let late: BTreeSet<u64> = (0..4).flat_map(draws).map(|(cpu, number)| jitter.late(cpu, number).0).collect();
        assert!(late.len() > 3_950, "{}", late.len());
        let mean = late.iter().sum::<u64>() / late.len() as u64;
        assert!((480_000..520_000).contains(&mean), "{mean}");
        let cost = |number| jitter.cost(CpuId(0), number, Nanos(1_000_000)).0;
        let equal = (0..1_000).filter(|&number| cost(number) == 1_000_000 + jitter.late(CpuId(0), number).0).count();
        assert!(equal < 3, "lateness and cost are independent");
        assert!(Jitter::new(3, None, None).is_none());
    }
}
