// SPDX-License-Identifier: GPL-2.0-only
//! Conversion between work and time at a constant rate.
//!
//! A rate is the work done per nanosecond, as a fixed-point number with 16 fractional bits. Work is counted in whole
//! nanoseconds; the completed fraction of the next one (the *part*) is kept, so that no work is lost however often
//! the rate changes.

use ids::Nanos;

/// Nanoseconds of work done per nanosecond, above 0 and at most 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(u32);

/// Completed fraction of the next nanosecond of work, in units of 2^-16.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part(u16);

impl Part {
    /// Nothing of the next nanosecond is done.
    pub const ZERO: Part = Part(0);
}

impl Rate {
    /// Number of fractional bits.
    const PLACES: u32 = 16;

    /// Reference rate: a nanosecond of work per nanosecond.
    pub const ONE: Rate = Rate(1 << Rate::PLACES);

    /// `numerator / denominator`, rounded down, but not to 0.
    ///
    /// # Panics
    /// If the ratio is 0 or above 1.
    pub fn ratio(numerator: u64, denominator: u64) -> Rate {
        assert!(0 < numerator && numerator <= denominator, "{numerator}/{denominator} is not a rate in (0, 1]");
        let rate = (u128::from(numerator) << Rate::PLACES) / u128::from(denominator);
        Rate((rate as u32).max(1))
    }

    /// Product of two rates, rounded down, but not to 0.
    pub fn times(self, other: Rate) -> Rate {
        Rate((((u64::from(self.0) * u64::from(other.0)) >> Rate::PLACES) as u32).max(1))
    }

    /// The rate in units of 2^-16.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Work completed in `time`; `part` is the fraction left by the preceding interval and is updated.
    #[inline]
    pub fn work(self, time: Nanos, part: &mut Part) -> Nanos {
        if self == Rate::ONE {
            return time;
        }
        let done = u128::from(time.0) * u128::from(self.0) + u128::from(part.0);
        *part = Part(done as u16);
        Nanos((done >> Rate::PLACES) as u64)
    }

    /// Minimum time in which `work` is completed, given the fraction `part` of its first nanosecond. [`Nanos::MAX`]
    /// if it exceeds the range.
    #[inline]
    pub fn time_for(self, work: Nanos, part: Part) -> Nanos {
        if self == Rate::ONE || work == Nanos::ZERO {
            return work;
        }
        let left = (u128::from(work.0) << Rate::PLACES) - u128::from(part.0);
        // The common case: a 64-bit division is much faster than a 128-bit one.
        if let Ok(left) = u64::try_from(left) {
            return Nanos(left.div_ceil(u64::from(self.0)));
        }
        let time = left.div_ceil(u128::from(self.0));
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate() -> impl Strategy<Value = Rate> {
        prop_oneof![(1u32..=65_536).prop_map(Rate), Just(Rate::ONE), (30_000u32..=65_536).prop_map(Rate)]
    }

    /// Reference computation nanosecond by nanosecond: time that `work` takes with rate changes at the given times,
    /// and the part that is left.
    fn naive(work: u64, changes: &[(u64, Rate)]) -> (u64, u64) {
        let (mut now, mut done, mut rate) = (0u64, 0u64, Rate::ONE);
        while done >> 16 < work {
            if let Some(change) = changes.iter().rev().find(|change| change.0 <= now) {
                rate = change.1;
            }
            done += u64::from(rate.0);
            now += 1;
        }
        (now, done & 0xffff)
    }

    /// Like `naive`, with one computation per interval between rate changes.
    fn stepped(work: u64, changes: &[(u64, Rate)]) -> (u64, u64) {
        let (mut now, mut left, mut part, mut rate) = (0, work, Part::default(), Rate::ONE);
        for &(time, next) in changes {
            let end = now + rate.time_for(Nanos(left), part).0;
            if end <= time {
                break;
            }
            left -= rate.work(Nanos(time - now), &mut part).0;
            (now, rate) = (time, next);
        }
        let need = rate.time_for(Nanos(left), part);
        assert_eq!(rate.work(need, &mut part).0, left, "work done in the time required for it");
        (now + need.0, part.0.into())
    }

    proptest! {
        #[test]
        fn work_at_changing_rates_matches_naive(
            work in 1u64..3_000, mut changes in prop::collection::vec((0u64..5_000, 600u32..=65_536), 0..20)
        ) {
            changes.sort_by_key(|change| change.0);
            changes.dedup_by_key(|change| change.0);
            let changes: Vec<(u64, Rate)> = changes.into_iter().map(|(time, rate)| (time, Rate(rate))).collect();
            prop_assert_eq!(stepped(work, &changes), naive(work, &changes));
        }

        #[test]
        fn time_for_work_is_minimal(rate in rate(), work in 1u64..1 << 62, part: u16) {
            let part = if rate == Rate::ONE { Part(0) } else { Part(part) };
            let time = rate.time_for(Nanos(work), part);
            if time < Nanos::MAX {
                let done = |time| rate.work(Nanos(time), &mut part.clone()).0;
                prop_assert!(done(time.0) >= work && done(time.0 - 1) < work);
            }
        }

        #[test]
        fn work_of_an_interval_equals_the_sum_over_its_parts(rate in rate(), first in 0u64..1 << 50, second in 0u64..1 << 50) {
            let (mut one, mut two) = (Part::default(), Part::default());
            let whole = rate.work(Nanos(first + second), &mut one).0;
            let parts = rate.work(Nanos(first), &mut two).0 + rate.work(Nanos(second), &mut two).0;
            prop_assert_eq!((whole, one), (parts, two));
        }
    }

    #[test]
    fn ratios_and_products_are_rounded_down() {
        assert_eq!(Rate::ratio(1, 1), Rate::ONE);
        assert_eq!(Rate::ratio(2, 3).bits(), 43_690);
        assert_eq!(Rate::ratio(2, 3).times(Rate::ratio(5, 8)).bits(), 27_306);
        assert_eq!((Rate::ratio(1, 1 << 40).bits(), Rate(1).times(Rate(1)).bits()), (1, 1));
        assert_eq!(Rate::ratio(1, 1 << 40).time_for(Nanos(u64::MAX / 2), Part(0)), Nanos::MAX);
    }
}
