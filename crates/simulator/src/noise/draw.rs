// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers of a run: one generator, split by label, integers only.
//!
//! Each user of random numbers has a stream of its own, so that the number of samples taken by one does not change
//! the others. The random numbers of a task depend on the seed, the task, and how many it has taken before, and not
//! on the scheduler: with the same seed, two schedulers get the same work.

use ids::Nanos;
use machine_model::Spread;

/// Derives the seed of one user of random numbers.
pub(crate) fn derive_seed(seed: u64, label: &str) -> u64 {
    event_log::hash_bytes(format!("{label} {seed}").as_bytes()) as u64
}

/// A stream of random numbers: SplitMix64 (Steele, Lea and Flood, 2014), which accepts any initial state.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// The stream with this seed and label.
    pub fn new(seed: u64, label: &str) -> Draw {
        Draw(derive_seed(seed, label))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// A uniformly distributed time from 0 on and before `end`; 0 if `end` is 0.
    pub fn before(&mut self, end: Nanos) -> Nanos {
        Nanos(((u128::from(self.bits()) * u128::from(end.0)) >> 64) as u64)
    }

    /// A sample of this distribution.
    pub fn of(&mut self, spread: &Spread) -> i64 {
        if spread.is_none() { 0 } else { spread.at(self.word()) }
    }

    /// A sample of this distribution as a time; negative values become 0.
    pub fn time(&mut self, spread: &Spread) -> Nanos {
        Nanos(self.of(spread).max(0) as u64)
    }
}

/// Changes a time by parts per million; rounded to the nearest nanosecond, and at least 1 if it was positive.
pub(crate) fn more(time: Nanos, ppm: i64) -> Nanos {
    if ppm == 0 || time == Nanos::ZERO {
        return time;
    }
    let factor = (1_000_000 + ppm).max(0) as u64;
    // Nearly all products have 64 bits, whose division by a constant is a multiplication.
    let scaled = match time.0.checked_mul(factor).and_then(|product| product.checked_add(500_000)) {
        Some(product) => product / 1_000_000,
        None => {
            let scaled = (u128::from(time.0) * u128::from(factor) + 500_000) / 1_000_000;
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
    };
    Nanos(scaled.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first numbers of SplitMix64 from state 1234567, as its authors' C program prints them.
    #[test]
    fn generator_is_splitmix64() {
        let mut draw = Draw(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423u64];
        assert_eq!(expected.map(|_| draw.bits()), expected);
    }

    #[test]
    fn random_streams_differ_by_seed_and_label() {
        let first = |seed, label| Draw::new(seed, label).bits();
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_eq!(first(1, "a"), first(1, "a"));
    }

    #[test]
    fn samples_follow_their_distribution() {
        let spread = Spread::new([-100, -80, -50, -40, -20, 0, 30, 60, 90, 200, 1_000]).unwrap();
        let mut draw = Draw::new(7, "test");
        let mut values: Vec<i64> = (0..100_000).map(|_| draw.of(&spread)).collect();
        values.sort_unstable();
        let quantiles = [10_000, 25_000, 50_000, 75_000, 90_000].map(|index| values[index]);
        for (found, expected) in quantiles.into_iter().zip([-40i64, -20, 0, 30, 60]) {
            assert!((found - expected).abs() <= 1, "{quantiles:?}");
        }
        assert_eq!(draw.time(&Spread::new([-5; 11]).unwrap()), Nanos::ZERO);
    }

    proptest! {
        #[test]
        fn random_time_before_an_end_is_below_it(seed: u64, end: u64) {
            let time = Draw(seed).before(Nanos(end));
            prop_assert!(time.0 < end || end == 0 && time == Nanos::ZERO);
        }

        #[test]
        fn parts_per_million_are_exact(ns in 1u64..1 << 50, ppm in -900_000i64..=1_000_000_000) {
            let scaled = more(Nanos(ns), ppm).0;
            let exact = i128::from(ns) * i128::from(1_000_000 + ppm);
            prop_assert!((i128::from(scaled) * 1_000_000 - exact).abs() <= 500_000 || scaled == 1);
            prop_assert_eq!(more(Nanos::ZERO, ppm), Nanos::ZERO);
        }
    }
}
