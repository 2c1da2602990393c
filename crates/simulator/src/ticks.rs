// SPDX-License-Identifier: GPL-2.0-only
//! The periodic timer interrupt in closed form: what it takes from a task over any span of time.
//!
//! 1. All CPUs tick on one grid of the period (a stock kernel does not skew them: `skew_tick` is off). A CPU may come to
//!    it late, by the same time for each of its ticks.
//! 2. A tick takes `cost` from whatever runs; the cost is below the period, so ticks never pile up for long.
//! 3. Work that ends at the very time of a tick ends before it.
//!
//! So the ticks of a span are counted by division and need no event each.

use ids::Nanos;

/// The grid of ticks and their cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    period: u64,
    cost: u64,
    /// Where the first point of the grid is: it may be drawn, and the grid stands still while the machine sleeps.
    phase: u64,
}

/// The ticks of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Passed {
    /// How many began in it.
    pub count: u64,
    /// What they took of it.
    pub stolen: Nanos,
    /// What the last one still takes after its end.
    pub rest: Nanos,
}

impl Ticks {
    /// The tick of a kernel with this HZ, rounded as its `TICK_NSEC` is. `None` if the cost is not below the period.
    pub fn new(hz: u32, cost: Nanos) -> Option<Ticks> {
        let period = (1_000_000_000 + u64::from(hz) / 2).checked_div(u64::from(hz))?;
        (cost.0 < period).then_some(Ticks { period, cost: cost.0, phase: 0 })
    }

    /// A grid of any period.
    #[cfg(test)]
    pub fn with_period(period: u64, cost: u64) -> Ticks {
        Ticks { period, cost, phase: 0 }
    }

    /// Time between two ticks.
    pub fn period(&self) -> Nanos {
        Nanos(self.period)
    }

    /// What one tick takes, without the scheduler's code.
    pub fn cost(&self) -> Nanos {
        Nanos(self.cost)
    }

    /// The grid stood still for so long.
    pub fn postpone(&mut self, by: Nanos) {
        self.phase = (self.phase + by.0) % self.period;
    }

    /// The first tick after `time` of a CPU that is `late`.
    pub fn after(&self, time: Nanos, late: Nanos) -> Nanos {
        let phase = (self.phase + late.0) % self.period;
        let before = time.0 + self.period - phase;
        Nanos((before / self.period) * self.period + phase)
    }

    /// When a task is done that needs the CPU for `need` from `from` on, and is disturbed by each tick from `first` on
    /// (which is after `from`). [`Nanos::MAX`] if that is beyond all time.
    pub fn end(&self, from: Nanos, need: Nanos, first: Nanos) -> Nanos {
        let before = first.0 - from.0;
        let ticks = if need.0 <= before { 0 } else { (need.0 - before).div_ceil(self.period - self.cost) };
        Nanos(from.0.saturating_add(need.0).saturating_add(ticks.saturating_mul(self.cost)))
    }

    /// The ticks from `first` on and before `to`.
    pub fn passed(&self, first: Nanos, to: Nanos) -> Passed {
        if first >= to {
            return Passed::default();
        }
        let count = (to.0 - first.0 - 1) / self.period + 1;
        let last = first.0 + (count - 1) * self.period;
        let of_last = self.cost.min(to.0 - last);
        Passed { count, stolen: Nanos((count - 1) * self.cost + of_last), rest: Nanos(self.cost - of_last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_period_is_the_kernels() {
        let period = |hz| Ticks::new(hz, Nanos(0)).unwrap().period().0;
        assert_eq!([100, 250, 300, 1000].map(period), [10_000_000, 4_000_000, 3_333_333, 1_000_000]);
        assert!(Ticks::new(1000, Nanos(1_000_000)).is_none());
        assert!(Ticks::new(0, Nanos(1)).is_none());
    }

    /// Nanosecond by nanosecond.
    fn naive(ticks: Ticks, from: u64, first: u64, need: u64, to: u64) -> (Option<u64>, Passed) {
        let (mut done, mut handler, mut passed, mut end) = (0, 0, Passed::default(), None);
        for now in from..to {
            if done == need && end.is_none() {
                end = Some(now);
            }
            if now >= first && (now - first).is_multiple_of(ticks.period) {
                handler = ticks.cost;
                passed.count += 1;
            }
            if handler > 0 {
                handler -= 1;
                passed.stolen.0 += 1;
            } else {
                done += 1;
            }
        }
        passed.rest = Nanos(handler);
        (end, passed)
    }

    proptest! {
        #[test]
        fn closed_form_matches_naive(
            period in 5u64..40, cost in 0u64..5, from in 0u64..100, ahead in 1u64..40, need in 0u64..300, span in 0u64..300,
        ) {
            let ticks = Ticks { period, cost, phase: 0 };
            let first = from + ahead;
            let (end, passed) = naive(ticks, from, first, need, from + span);
            prop_assert_eq!(ticks.passed(Nanos(first), Nanos(from + span)), passed);
            let closed = ticks.end(Nanos(from), Nanos(need), Nanos(first));
            match end {
                Some(end) => prop_assert_eq!(closed, Nanos(end)),
                None => prop_assert!(closed.0 >= from + span),
            }
        }

        #[test]
        fn after_is_the_next_on_the_grid(
            hz in 1u32..2000, time in 0u64..1 << 50, slept in 0u64..1 << 40, late in 0u64..1 << 30,
        ) {
            let mut ticks = Ticks::new(hz, Nanos(0)).unwrap();
            ticks.postpone(Nanos(slept));
            let next = ticks.after(Nanos(time), Nanos(late)).0;
            prop_assert!(next > time && next - time <= ticks.period);
            prop_assert_eq!(next % ticks.period, (slept + late) % ticks.period);
        }
    }
}
