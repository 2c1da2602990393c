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

/// The timers of one task that ended sleeps of it, by whether they are its own, and their number.
pub(crate) type Timers = BTreeMap<(bool, u32), Timer>;

/// What is known of a timer from before.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Timer {
    reference: Reference,
    /// When it was due at last, twice at most.
    due: Vec<Nanos>,
    /// The last sleep is on a grid.
    is_on_grid: bool,
}

/// Makes sleeps that end on a grid what they are. Call it before the steps are sorted: they are found by their index. It may
/// be called again with what the task did next.
pub(crate) fn find_grids(steps: &mut Vec<Step>, expiries: &[Expired], timers: &mut Timers) {
    let mut by_timer: BTreeMap<(bool, u32), Vec<Expired>> = BTreeMap::new();
    for expired in expiries {
        let Expiry { own, timer, .. } = expired.expiry;
        // Timers of its own stand on its stack, wherever that is at the moment; it never waits for two.
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

/// The next sleeps that this timer ended.
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

/// How many of the first times are on one grid, and its period; 1 if they are on none.
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

/// The grid begins with the first sleep, unless it was due `before`. What was slept through at once is one step over several
/// periods.
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
        find_grids(&mut steps, &expiries, &mut Timers::new());
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
