// SPDX-License-Identifier: GPL-2.0-only
//! Sleeps that end on a grid of time, whatever their task does in between.
//!
//! A task that sleeps for so long after its work has another period on a slower machine; one that sleeps until a time, or
//! for the next expiry of an interval timer, has the same. The kernel's events do not say which it is, but the times do: a
//! sleep for so long ends when the clock stood somewhere, plus a length, and the clock stands at any nanosecond. Times that
//! a program or the kernel has counted up by a period differ by its multiples, exactly. Three in a row are believed.

use crate::event::Expiry;
use crate::life::Step;
use ids::Nanos;
use std::collections::BTreeMap;
use workload::{Op, Reference};

/// Chance alone gives three times of a nanosecond's resolution a common divisor of this size once in 10,000 times or less.
const SHORTEST_PERIOD: Nanos = Nanos::from_us(20);

/// The private reference of alarms. Those of timers come after it.
pub(crate) const ALARM: Reference = Reference(Reference::PRIVATE);

/// The most timers of one task that are looked at; a workload may have 65,536 references.
const MOST_TIMERS: usize = 60_000;

/// A sleep that a timer ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Expired {
    /// Which step of its task it is.
    pub step: u32,
    /// The timer.
    pub expiry: Expiry,
    /// How long it slept.
    pub length: Nanos,
}

/// Makes sleeps that end on a grid what they are. Call it before the steps are sorted: they are found by their index.
pub(crate) fn find_grids(steps: &mut Vec<Step>, expiries: &[Expired]) {
    let mut timers: BTreeMap<(bool, u32), Vec<Expired>> = BTreeMap::new();
    for expired in expiries {
        let Expiry { own, timer, .. } = expired.expiry;
        // Timers of its own stand on its stack, wherever that is at the moment; it never waits for two.
        timers.entry((own, if own { 0 } else { timer })).or_default().push(*expired);
    }
    for (number, ((own, _), mut sleeps)) in timers.into_iter().take(MOST_TIMERS).enumerate() {
        sleeps.sort_by_key(|sleep| steps[sleep.step as usize].time);
        let reference = Reference(Reference::PRIVATE | (number as u32 + 1));
        let mut rest = &sleeps[..];
        while !rest.is_empty() {
            let (length, period) = grid(rest);
            if length > 1 {
                mark(steps, &rest[..length], period, reference, own);
            }
            rest = &rest[length..];
        }
    }
}

/// How many of the first sleeps are on one grid, and its period; 1 if they are on none.
fn grid(sleeps: &[Expired]) -> (usize, Nanos) {
    let mut steps = sleeps.windows(2).map(|two| two[1].expiry.due.since(two[0].expiry.due).0);
    let (Some(first), Some(second)) = (steps.next(), steps.next()) else { return (1, Nanos::ZERO) };
    let period = gcd(first, second);
    if first == 0 || second == 0 || period < SHORTEST_PERIOD.0 {
        return (1, Nanos::ZERO);
    }
    let more = steps.take_while(|step| *step > 0 && step % period == 0).count();
    (3 + more, Nanos(period))
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The grid begins with the first sleep. What was slept through at once is one step over several periods.
fn mark(steps: &mut Vec<Step>, sleeps: &[Expired], period: Nanos, reference: Reference, own: bool) {
    let first = &steps[sleeps[0].step as usize];
    let anchor = Step::new(first.time, first.work, Op::Anchor(reference));
    steps.push(anchor);
    let mut before = None;
    for sleep in sleeps {
        let passed = before.map_or(sleep.length, |before| sleep.expiry.due.since(before));
        // Expiries of a timer that goes on by itself are lost if nobody waits for them; a time that its task counts up
        // is not.
        steps[sleep.step as usize].op = match before.is_some() && !own && passed == period {
            true => Op::Interval { reference, period },
            false => Op::Timer { reference, period: passed, absolute: true },
        };
        before = Some(sleep.expiry.due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Sleep;

    /// Sleeps of 700 ns of a task that works for 300 ns in between; timers are due at these times.
    fn grids(own: bool, due: &[u64]) -> Vec<String> {
        let mut steps = Vec::new();
        let mut expiries = Vec::new();
        for (index, &due) in due.iter().enumerate() {
            let start = Nanos(index as u64 * 1_000 + 300);
            let expiry = Expiry { timer: 5, own, due: Nanos(due) };
            expiries.push(Expired { step: index as u32, expiry, length: Nanos(700) });
            steps.push(Step::new(start, Nanos(index as u64 * 300), Op::Sleep(Nanos(700), Sleep::Timer)));
        }
        find_grids(&mut steps, &expiries);
        steps.sort_by_key(Step::rank);
        let short = |step: &Step| match step.op {
            Op::Sleep(time, _) => format!("sleep {}", time.0),
            Op::Anchor(reference) => format!("anchor {}", reference.private().expect("its own")),
            Op::Timer { period, absolute: true, .. } => format!("until {}", period.0),
            Op::Interval { period, .. } => format!("interval {}", period.0),
            ref other => format!("{other:?}"),
        };
        steps.iter().map(short).collect()
    }

    #[test]
    fn times_that_somebody_counts_up_are_a_grid() {
        let exact = [5_000_017, 6_000_017, 7_000_017, 9_000_017, 10_000_017];
        let until = ["anchor 1", "until 700", "until 1000000", "until 1000000", "until 2000000", "until 1000000"];
        assert_eq!(grids(true, &exact), until);
        let interval =
            ["anchor 1", "until 700", "interval 1000000", "interval 1000000", "until 2000000", "interval 1000000"];
        assert_eq!(grids(false, &exact), interval);
    }

    #[test]
    fn times_that_come_from_the_clock_are_none() {
        assert_eq!(grids(true, &[5_000_017, 6_000_018, 7_000_017, 8_000_019]), ["sleep 700"; 4]);
        // Two are no proof, and nor are periods that are no longer than what chance gives.
        assert_eq!(grids(true, &[5_000_000, 6_000_000]), ["sleep 700"; 2]);
        assert_eq!(grids(true, &[5_000_000, 5_001_000, 5_002_000, 5_003_000]), ["sleep 700"; 4]);
        assert_eq!(grids(true, &[7_000_000, 6_000_000, 5_000_000]), ["sleep 700"; 3], "a clock was set back");
    }

    #[test]
    fn a_grid_may_begin_late_end_and_begin_again() {
        let due = [1_234_567, 3_000_000, 4_000_000, 5_000_000, 5_777_777, 7_000_001, 7_500_001, 8_000_001];
        let expected = [
            "sleep 700",
            "anchor 1",
            "until 700",
            "until 1000000",
            "until 1000000",
            "sleep 700",
            "anchor 1",
            "until 700",
            "until 500000",
            "until 500000",
        ];
        assert_eq!(grids(true, &due), expected);
    }
}
