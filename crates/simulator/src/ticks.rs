// SPDX-License-Identifier: GPL-2.0-only
//! The periodic timer interrupt: the time that it takes from a task in any time span.
//!
//! 1. The ticks of all CPUs are aligned to one grid (stock kernels do not skew them: `skew_tick` is off). A tick may
//!    be late.
//! 2. A tick takes `cost` from whatever runs; the cost is below the period, so ticks never accumulate.
//! 3. Work that ends exactly at a tick ends before it.
//!
//! So the ticks in a span are counted by division and need no events. With random ticks they are iterated over, a few
//! at a time. Lateness and cost of a random tick depend on its CPU and number only. They are needed several times, to
//! plan and then to account, so those of the most recent ticks are kept.

use crate::noise::Jitter;
use ids::{CpuId, Nanos};
use std::cell::RefCell;

/// Maximum number of random ticks to look ahead; beyond that the caller asks again.
const AHEAD: u32 = 32;

/// Number of recent random ticks that are kept for each CPU: those looked ahead to, and as many before them.
const KEPT: usize = 2 * AHEAD as usize;

/// A random tick. Both times are below the period, which is less than a second.
#[derive(Clone, Copy, Debug)]
struct Sample {
    number: u64,
    late_ns: u32,
    cost_ns: u32,
}

impl Sample {
    /// No tick has this number.
    const NONE: Sample = Sample { number: u64::MAX, late_ns: 0, cost_ns: 0 };
}

/// Grid of ticks and their cost.
#[derive(Clone, Debug)]
pub(crate) struct Ticks {
    period: u64,
    cost: u64,
    /// Time of the first point of the grid: may be random, and is shifted by each suspend.
    phase: u64,
    jitter: Option<Jitter>,
    /// Recent random ticks, [`KEPT`] for each CPU.
    samples: RefCell<Vec<Sample>>,
    /// Ticks whose only effect is accounting are not executed one by one. Off where the scheduler could notice.
    may_skip: bool,
    /// Time at which the idle boot CPU performs its next housekeeping; [`Nanos::MAX`]: not planned.
    housekeeping: Nanos,
}

/// Ticks in a time span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Passed {
    /// Number of ticks that began in the span.
    pub count: u64,
    /// Time within the span that these ticks took.
    pub stolen: Nanos,
    /// Time that the last tick takes after the end of the span.
    pub rest: Nanos,
    /// First tick after the span.
    pub next: Nanos,
}

/// Successive ticks of a CPU.
struct Series<'a> {
    ticks: &'a Ticks,
    cpu: CpuId,
    /// Time of the current tick.
    at: Nanos,
    /// Number of the last grid point by then.
    number: u64,
}

impl Series<'_> {
    /// Goes on to the next tick; returns the cost of the current one.
    fn advance(&mut self) -> Nanos {
        let Series { ticks, cpu, at, number } = *self;
        let cost = ticks
            .jitter
            .as_ref()
            .map_or(ticks.cost(), |jitter| Nanos(ticks.sample(jitter, number, cpu).cost_ns.into()));
        // A tick is late by a quarter of a period at most. That of this grid point is still to come only if the current
        // one was delayed beyond the grid point.
        let own = ticks.at(number, cpu);
        if own > at {
            self.at = own;
        } else {
            (self.at, self.number) = (ticks.at(number + 1, cpu), number + 1);
        }
        cost
    }
}

impl Ticks {
    /// Ticks of a kernel with this HZ, rounded as its `TICK_NSEC`. `None` if the cost is not below the period.
    pub fn new(hz: u32, cost: Nanos) -> Option<Ticks> {
        let period = (1_000_000_000 + u64::from(hz) / 2).checked_div(u64::from(hz))?;
        (cost.0 < period).then_some(Ticks::of(period, cost.0))
    }

    /// A grid of any period.
    #[cfg(test)]
    pub fn with_period(period: u64, cost: u64) -> Ticks {
        Ticks::of(period, cost)
    }

    fn of(period: u64, cost: u64) -> Ticks {
        Ticks {
            period,
            cost,
            phase: 0,
            jitter: None,
            samples: RefCell::default(),
            may_skip: true,
            housekeeping: Nanos::MAX,
        }
    }

    /// Whether ticks whose only effect is accounting need not be executed one by one.
    pub fn may_skip(&self) -> bool {
        self.may_skip
    }

    /// Decides whether such ticks may be skipped.
    pub fn set_may_skip(&mut self, may_skip: bool) {
        self.may_skip = may_skip;
    }

    /// Whether the idle boot CPU has housekeeping to do by now.
    pub fn is_housekeeping_due(&self, now: Nanos) -> bool {
        now >= self.housekeeping
    }

    /// The idle boot CPU performs its next housekeeping at this time; [`Nanos::MAX`]: never.
    pub fn plan_housekeeping(&mut self, due: Nanos) {
        self.housekeeping = due;
    }

    /// Period of the grid.
    pub fn period(&self) -> Nanos {
        Nanos(self.period)
    }

    /// Nominal cost of a tick, without the scheduler's code.
    pub fn cost(&self) -> Nanos {
        Nanos(self.cost)
    }

    /// Shifts the grid, which stood still for this time.
    pub fn postpone(&mut self, by: Nanos) {
        self.phase = (self.phase + by.0) % self.period;
    }

    /// Makes ticks random from now on.
    pub fn draw(&mut self, jitter: Option<Jitter>) {
        self.jitter = jitter;
        self.samples.take();
    }

    /// First tick of `cpu` after `time`.
    #[inline]
    pub fn after(&self, time: Nanos, cpu: CpuId) -> Nanos {
        let number = (time.0 + self.period - self.phase) / self.period;
        let point = Nanos(number * self.period + self.phase);
        let Some(jitter) = &self.jitter else { return point };
        if number > 0 {
            // The tick of the preceding grid point may be so late that it is still to come.
            let before = point - self.period() + self.late(jitter, number - 1, cpu);
            if before > time {
                return before;
            }
        }
        point + self.late(jitter, number, cpu)
    }

    fn late(&self, jitter: &Jitter, number: u64, cpu: CpuId) -> Nanos {
        Nanos(self.sample(jitter, number, cpu).late_ns.into())
    }

    /// A random tick. Lateness and cost are limited so that the cost of a tick never reaches the next one.
    #[inline]
    fn sample(&self, jitter: &Jitter, number: u64, cpu: CpuId) -> Sample {
        let place = cpu.index() * KEPT + number as usize % KEPT;
        let mut samples = self.samples.borrow_mut();
        if let Some(kept) = samples.get(place).filter(|kept| kept.number == number) {
            return *kept;
        }
        if samples.len() <= place {
            samples.resize((cpu.index() + 1) * KEPT, Sample::NONE);
        }
        let more = (self.period - self.cost) / 4;
        let late = jitter.late(cpu, number).0.min(more);
        let cost = jitter.cost(cpu, number, self.cost()).0.min(self.cost + more);
        samples[place] = Sample { number, late_ns: late as u32, cost_ns: cost as u32 };
        samples[place]
    }

    /// Cost of the tick of `cpu` at `time`, without the scheduler's code.
    pub fn cost_at(&self, time: Nanos, cpu: CpuId) -> Nanos {
        let Some(jitter) = &self.jitter else { return self.cost() };
        let number = time.0.saturating_sub(self.phase) / self.period;
        Nanos(self.sample(jitter, number, cpu).cost_ns.into())
    }

    /// The tick of `cpu` that is `count` ticks after that at `first`.
    pub fn nth_after(&self, first: Nanos, count: u64, cpu: CpuId) -> Nanos {
        match self.jitter {
            None => Nanos(first.0 + count * self.period),
            Some(_) => {
                let mut ticks = self.from(first, cpu);
                for _ in 0..count {
                    ticks.advance();
                }
                ticks.at
            }
        }
    }

    /// Time at which a task is done that needs `cpu` for `need` from `from` on, and is interrupted by each tick from
    /// `first` on (which is after `from`); or an earlier time at which to ask again. [`Nanos::MAX`] if out of range.
    #[inline]
    pub fn end(&self, from: Nanos, need: Nanos, first: Nanos, cpu: CpuId) -> Nanos {
        let before = first.0 - from.0;
        if self.jitter.is_none() || need.0 <= before {
            let ticks = if need.0 <= before { 0 } else { (need.0 - before).div_ceil(self.period - self.cost) };
            return Nanos(from.0.saturating_add(need.0).saturating_add(ticks.saturating_mul(self.cost)));
        }
        let (mut end, mut ticks) = (from.0.saturating_add(need.0), self.from(first, cpu));
        for _ in 0..AHEAD {
            if ticks.at.0 >= end {
                return Nanos(end);
            }
            end = end.saturating_add(ticks.advance().0);
        }
        Nanos(end).min(ticks.at)
    }

    /// Ticks of `cpu` from `first` on and before `to`.
    pub fn passed(&self, first: Nanos, to: Nanos, cpu: CpuId) -> Passed {
        if first >= to {
            return Passed { next: first, ..Passed::default() };
        }
        if self.jitter.is_some() {
            return self.passed_one_by_one(first, to, cpu);
        }
        let count = (to.0 - first.0 - 1) / self.period + 1;
        let last = first.0 + (count - 1) * self.period;
        let of_last = self.cost.min(to.0 - last);
        let stolen = Nanos((count - 1) * self.cost + of_last);
        Passed { count, stolen, rest: Nanos(self.cost - of_last), next: Nanos(last + self.period) }
    }

    fn passed_one_by_one(&self, first: Nanos, to: Nanos, cpu: CpuId) -> Passed {
        let (mut passed, mut ticks) = (Passed::default(), self.from(first, cpu));
        while ticks.at < to {
            let at = ticks.at;
            let cost = ticks.advance();
            let within = cost.min(to - at);
            passed.count += 1;
            passed.stolen += within;
            passed.rest = cost - within;
        }
        passed.next = ticks.at;
        passed
    }

    /// The ticks of `cpu` from the one at `first` on, which may have been delayed to that time.
    fn from(&self, first: Nanos, cpu: CpuId) -> Series<'_> {
        Series { ticks: self, cpu, at: first, number: first.0.saturating_sub(self.phase) / self.period }
    }

    /// Time of a tick.
    fn at(&self, number: u64, cpu: CpuId) -> Nanos {
        let late = self.jitter.as_ref().map_or(Nanos::ZERO, |jitter| self.late(jitter, number, cpu));
        Nanos(self.phase + number * self.period) + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::Spread;
    use proptest::prelude::*;

    #[test]
    fn tick_period_is_that_of_the_kernel() {
        let period = |hz| Ticks::new(hz, Nanos(0)).unwrap().period().0;
        assert_eq!([100, 250, 300, 1000].map(period), [10_000_000, 4_000_000, 3_333_333, 1_000_000]);
        assert!(Ticks::new(1000, Nanos(1_000_000)).is_none());
        assert!(Ticks::new(0, Nanos(1)).is_none());
    }

    const CPU: CpuId = CpuId(1);

    /// Reference computation nanosecond by nanosecond.
    fn naive(ticks: &Ticks, from: u64, first: u64, need: u64, to: u64) -> (Option<u64>, Passed) {
        let (mut done, mut handler, mut passed, mut end) = (0, 0, Passed::default(), None);
        let mut next = first;
        for now in from..to {
            if done == need && end.is_none() {
                end = Some(now);
            }
            if now == next {
                handler = ticks.cost_at(Nanos(now), CPU).0;
                passed.count += 1;
                next = if ticks.jitter.is_some() { ticks.after(Nanos(now), CPU).0 } else { now + ticks.period };
            }
            if handler > 0 {
                handler -= 1;
                passed.stolen.0 += 1;
            } else {
                done += 1;
            }
        }
        (passed.rest, passed.next) = (Nanos(handler), Nanos(next));
        (end, passed)
    }

    proptest! {
        #[test]
        fn ticks_in_closed_form_match_naive(
            period in 5u64..40, cost in 0u64..5, from in 0u64..100, ahead in 1u64..40, need in 0u64..300, span in 0u64..300,
        ) {
            let ticks = Ticks::with_period(period, cost);
            let first = from + ahead;
            let (end, passed) = naive(&ticks, from, first, need, from + span);
            prop_assert_eq!(ticks.passed(Nanos(first), Nanos(from + span), CPU), passed);
            let closed = ticks.end(Nanos(from), Nanos(need), Nanos(first), CPU);
            match end {
                Some(end) => prop_assert_eq!(closed, Nanos(end)),
                None => prop_assert!(closed.0 >= from + span),
            }
        }

        /// With random lateness and costs; the end is queried repeatedly, as in a run.
        #[test]
        fn random_ticks_match_naive(
            seed: u64, period in 20u64..60, cost in 0u64..9, phase in 0u64..20, from in 0u64..100, need in 1u64..3_000,
        ) {
            let spread = |least: i64, step: i64| {
                Spread::new(std::array::from_fn(|index| least + step * index as i64))
            };
            let mut ticks = Ticks::with_period(period, cost);
            ticks.postpone(Nanos(phase));
            ticks.draw(Jitter::new(seed, spread(0, 2), spread(-300_000, 100_000)));
            let first = ticks.after(Nanos(from), CPU);
            let (end, passed) = naive(&ticks, from, first.0, need, from + need * 3 + 50);
            prop_assert_eq!(ticks.passed(first, Nanos(from + need * 3 + 50), CPU), passed);
            let (mut now, mut next, mut owed, mut left) = (Nanos(from), first, Nanos::ZERO, Nanos(need));
            while left > Nanos::ZERO {
                let until = ticks.end(now + owed, left, next.max(now + owed), CPU);
                let passed = ticks.passed(next, until, CPU);
                left -= until - now - owed - passed.stolen;
                (now, next, owed) = (until, passed.next, passed.rest);
            }
            prop_assert_eq!(end, Some(now.0));
            for tick in [first, next] {
                let number = (tick.0 - ticks.phase) / period;
                let late = tick.0 - ticks.phase - number * period;
                prop_assert!(late <= (period - cost) / 4, "{late}");
            }
        }

        #[test]
        fn next_tick_is_the_next_grid_point(
            hz in 1u32..2000, time in 0u64..1 << 50, slept in 0u64..1 << 40,
        ) {
            let mut ticks = Ticks::new(hz, Nanos(0)).unwrap();
            ticks.postpone(Nanos(slept));
            let next = ticks.after(Nanos(time), CPU).0;
            prop_assert!(next > time && next - time <= ticks.period);
            prop_assert_eq!(next % ticks.period, slept % ticks.period);
        }
    }
}
