// SPDX-License-Identifier: GPL-2.0-only
//! Work and time at a rate that is constant for a while.
//!
//! A rate is a fixed-point number with 16 places: work done in each nanosecond. Work is counted in whole nanoseconds;
//! what is done of the next one is the *part*, which is kept, so that any number of changes of rate loses nothing.

use ids::Nanos;

/// Nanoseconds of work done in a nanosecond, above 0 and at most 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(u32);

/// Done of the next nanosecond of work, in 65,536ths of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part(u16);

impl Rate {
    /// Places after the point.
    const PLACES: u32 = 16;

    /// The reference: a nanosecond of work in each nanosecond.
    pub const ONE: Rate = Rate(1 << Rate::PLACES);

    /// `numerator / denominator`, rounded down, but not to 0.
    ///
    /// # Panics
    /// If that is 0 or above 1.
    pub fn ratio(numerator: u64, denominator: u64) -> Rate {
        assert!(0 < numerator && numerator <= denominator, "{numerator}/{denominator} is no rate");
        let rate = (u128::from(numerator) << Rate::PLACES) / u128::from(denominator);
        Rate((rate as u32).max(1))
    }

    /// The product, rounded down, but not to 0.
    pub fn times(self, other: Rate) -> Rate {
        Rate((((u64::from(self.0) * u64::from(other.0)) >> Rate::PLACES) as u32).max(1))
    }

    /// The number in 65,536ths.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Work that is completed in `time`; `part` goes on from what was begun before.
    #[inline]
    pub fn work(self, time: Nanos, part: &mut Part) -> Nanos {
        if self == Rate::ONE {
            return time;
        }
        let done = u128::from(time.0) * u128::from(self.0) + u128::from(part.0);
        *part = Part(done as u16);
        Nanos((done >> Rate::PLACES) as u64)
    }

    /// The least time in which so much work is completed, `part` of the first nanosecond being done. [`Nanos::MAX`] if
    /// that is beyond all time.
    #[inline]
    pub fn time_for(self, work: Nanos, part: Part) -> Nanos {
        if self == Rate::ONE || work == Nanos::ZERO {
            return work;
        }
        let left = (u128::from(work.0) << Rate::PLACES) - u128::from(part.0);
        // Nearly always: a division of 64 bits takes far less.
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

    /// Nanosecond by nanosecond: how long `work` takes at rates that change at these times, and the part that is left.
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

    /// The same in one step for each change.
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
        assert_eq!(rate.work(need, &mut part).0, left, "work done is work asked");
        (now + need.0, part.0.into())
    }

    proptest! {
        #[test]
        fn changing_rates_match_naive(
            work in 1u64..3_000, mut changes in prop::collection::vec((0u64..5_000, 600u32..=65_536), 0..20)
        ) {
            changes.sort_by_key(|change| change.0);
            changes.dedup_by_key(|change| change.0);
            let changes: Vec<(u64, Rate)> = changes.into_iter().map(|(time, rate)| (time, Rate(rate))).collect();
            prop_assert_eq!(stepped(work, &changes), naive(work, &changes));
        }

        #[test]
        fn the_time_for_work_is_the_least(rate in rate(), work in 1u64..1 << 62, part: u16) {
            let part = if rate == Rate::ONE { Part(0) } else { Part(part) };
            let time = rate.time_for(Nanos(work), part);
            if time < Nanos::MAX {
                let done = |time| rate.work(Nanos(time), &mut part.clone()).0;
                prop_assert!(done(time.0) >= work && done(time.0 - 1) < work);
            }
        }

        #[test]
        fn splitting_a_span_changes_nothing(rate in rate(), first in 0u64..1 << 50, second in 0u64..1 << 50) {
            let (mut one, mut two) = (Part::default(), Part::default());
            let whole = rate.work(Nanos(first + second), &mut one).0;
            let parts = rate.work(Nanos(first), &mut two).0 + rate.work(Nanos(second), &mut two).0;
            prop_assert_eq!((whole, one), (parts, two));
        }
    }

    #[test]
    fn ratios_and_products_are_rounded_down_once() {
        assert_eq!(Rate::ratio(1, 1), Rate::ONE);
        assert_eq!(Rate::ratio(2, 3).bits(), 43_690);
        assert_eq!(Rate::ratio(2, 3).times(Rate::ratio(5, 8)).bits(), 27_306);
        assert_eq!((Rate::ratio(1, 1 << 40).bits(), Rate(1).times(Rate(1)).bits()), (1, 1));
        assert_eq!(Rate::ratio(1, 1 << 40).time_for(Nanos(u64::MAX / 2), Part(0)), Nanos::MAX);
    }
}
