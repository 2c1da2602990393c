// SPDX-License-Identifier: GPL-2.0-only
//! Periodic sleeps: sleeps that end at multiples of a period, however long the task works in between.
//!
//! A task that sleeps for a fixed time after its work has a longer period on a slower machine; one that sleeps until
//! an absolute time, or for the next expiry of an interval timer, keeps its period. Kernel events do not distinguish
//! these, but expiry times do: a relative sleep ends at the current time plus a length, and the current time is an
//! arbitrary number of nanoseconds. Absolute times counted up by a period differ by exact multiples of it. Three such
//! times in a row are taken as periodic.

use crate::event::Expiry;
use crate::life::Step;
use ids::Nanos;
use std::collections::BTreeMap;
use workload::{Op, Reference};

/// Three random times with nanosecond resolution have a common divisor of at least this size with probability at most
/// 1 in 10,000.
const SHORTEST_PERIOD: Nanos = Nanos::from_us(20);

/// Private reference of alarms. References of timers follow it.
pub(crate) const ALARM: Reference = Reference(Reference::PRIVATE);

/// Maximum number of timers of a task that are examined; a workload may have 65,536 references.
const MOST_TIMERS: usize = 60_000;

/// A sleep that was ended by a timer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Expired {
    /// Index of the step of its task.
    pub step: u32,
    /// Expiry of the timer.
    pub expiry: Expiry,
    /// Length of the sleep.
    pub length: Nanos,
}

/// Timers of a task that ended its sleeps, by whether the task started them itself, and by number.
pub(crate) type Timers = BTreeMap<(bool, u32), Timer>;

/// State of a timer between calls.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Timer {
    reference: Reference,
    /// Last expiry times of the timer, two at most.
    due: Vec<Nanos>,
    /// Whether the last sleep was periodic.
    is_on_grid: bool,
}

/// Converts periodic sleeps to timer operations. Must be called before the steps are sorted, since sleeps are found
/// by index. May be called again with later steps.
pub(crate) fn find_grids(steps: &mut Vec<Step>, expiries: &[Expired], timers: &mut Timers) {
    let mut by_timer: BTreeMap<(bool, u32), Vec<Expired>> = BTreeMap::new();
    for expired in expiries {
        let Expiry { own, timer, .. } = expired.expiry;
        // A task's own sleep timers are on its stack at varying addresses; it never waits for two at a time.
        by_timer.entry((own, if own { 0 } else { timer })).or_default().push(*expired);
    }
    for (name, mut sleeps) in by_timer {
        let number = timers.len() as u32;
        if number as usize >= MOST_TIMERS && !timers.contains_key(&name) {
            continue;
        }
        let reference = Reference(Reference::PRIVATE | (number + 1));
        let new = Timer { reference, due: Vec::new(), is_on_grid: false };
        sleeps.sort_by_key(|sleep| steps[sleep.step as usize].time);
        go_on(steps, &sleeps, timers.entry(name).or_insert(new), name.0);
    }
}

/// Processes the next sleeps that this timer ended.
fn go_on(steps: &mut Vec<Step>, sleeps: &[Expired], timer: &mut Timer, own: bool) {
    let earlier = timer.due.len();
    let due: Vec<Nanos> = timer.due.iter().copied().chain(sleeps.iter().map(|sleep| sleep.expiry.due)).collect();
    let mut begin = 0;
    while begin < due.len() {
        let (length, period) = grid(&due[begin..]);
        let end = begin + length;
        if end > earlier {
            let new = &sleeps[begin.max(earlier) - earlier..end - earlier];
            let before = due[..earlier].last().copied().filter(|_| timer.is_on_grid && begin < earlier);
            if length > 1 {
                mark(steps, new, period, timer.reference, own, before);
            }
            timer.is_on_grid = length > 1;
        }
        begin = end;
    }
    timer.due = due[due.len().saturating_sub(2)..].to_vec();
}

/// Number of leading times that share a period, and the period; 1 if there is none.
fn grid(due: &[Nanos]) -> (usize, Nanos) {
    let mut steps = due.windows(2).map(|two| two[1].since(two[0]).0);
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

/// The sequence begins with the first sleep, unless there was an expiry `before`. Periods that were skipped at once
/// become one operation over several periods.
fn mark(
    steps: &mut Vec<Step>,
    sleeps: &[Expired],
    period: Nanos,
    reference: Reference,
    own: bool,
    mut before: Option<Nanos>,
) {
    if before.is_none() {
        let first = &steps[sleeps[0].step as usize];
        let anchor = Step::new(first.time, first.work, Op::Anchor(reference));
        steps.push(anchor);
    }
    for sleep in sleeps {
        let passed = before.map_or(sleep.length, |before| sleep.expiry.due.since(before));
        // Expiries of an interval timer are lost while the task does not wait; absolute times that the task itself
        // counts up are not.
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

    /// Sleeps of 700 ns by a task that works for 300 ns in between; timers expire at these times.
    fn grids(own: bool, due: &[u64]) -> Vec<String> {
        let mut steps = Vec::new();
        let mut expiries = Vec::new();
        for (index, &due) in due.iter().enumerate() {
            let start = Nanos(index as u64 * 1_000 + 300);
            let expiry = Expiry { timer: 5, own, due: Nanos(due) };
            expiries.push(Expired { step: index as u32, expiry, length: Nanos(700) });
            steps.push(Step::new(start, Nanos(index as u64 * 300), Op::Sleep(Nanos(700), Sleep::Timer)));
        }
        find_grids(&mut steps, &expiries, &mut Timers::new());
        steps.sort_by_key(Step::rank);
        let short = |step: &Step| match step.op {
            Op::Sleep(time, _) => format!("sleep {}", time.0),
            Op::Anchor(reference) => format!("anchor {}", reference.private().expect("a private reference")),
            Op::Timer { period, absolute: true, .. } => format!("until {}", period.0),
            Op::Interval { period, .. } => format!("interval {}", period.0),
            ref other => format!("{other:?}"),
        };
        steps.iter().map(short).collect()
    }

    #[test]
    fn absolute_times_at_a_fixed_interval_are_periodic() {
        let exact = [5_000_017, 6_000_017, 7_000_017, 9_000_017, 10_000_017];
        let until = ["anchor 1", "until 700", "until 1000000", "until 1000000", "until 2000000", "until 1000000"];
        assert_eq!(grids(true, &exact), until);
        let interval =
            ["anchor 1", "until 700", "interval 1000000", "interval 1000000", "until 2000000", "interval 1000000"];
        assert_eq!(grids(false, &exact), interval);
    }

    #[test]
    fn relative_sleeps_are_not_periodic() {
        assert_eq!(grids(true, &[5_000_017, 6_000_018, 7_000_017, 8_000_019]), ["sleep 700"; 4]);
        // Two expiries are not sufficient, nor are periods so short that they may be random.
        assert_eq!(grids(true, &[5_000_000, 6_000_000]), ["sleep 700"; 2]);
        assert_eq!(grids(true, &[5_000_000, 5_001_000, 5_002_000, 5_003_000]), ["sleep 700"; 4]);
        assert_eq!(grids(true, &[7_000_000, 6_000_000, 5_000_000]), ["sleep 700"; 3], "the clock was set back");
    }

    #[test]
    fn periodic_sleeps_may_start_late_stop_and_resume() {
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
