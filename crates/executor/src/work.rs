// SPDX-License-Identifier: GPL-2.0-only
//! Work: a loop that takes a fixed number of cycles per round, and the calibration of rounds per nanosecond.

use host::sys;
use ids::Nanos;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Executes rounds of work. Each round depends on the result of the previous one (xorshift), so that neither compiler
/// nor processor can skip or parallelize rounds. No memory is accessed.
#[inline(never)]
pub fn spin(rounds: u64) {
    let mut state = black_box(0x2545_F491_4F6C_DD1D_u64);
    for _ in 0..rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

/// Works until `clock` has advanced by `time`. `work` gets the remaining time, does that much work or less, possibly
/// overshooting slightly, and returns whether to continue.
pub fn spend(time: Nanos, clock: impl Fn() -> Nanos, mut work: impl FnMut(Nanos) -> bool) {
    let until = clock() + time;
    loop {
        let left = until.since(clock());
        if left == Nanos::ZERO || !work(left) {
            return;
        }
    }
}

/// Speed of this machine, measured with [`spin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// Number of rounds per measurement.
    pub rounds: u64,
    /// Shortest time of these rounds: the unit of work. It corresponds to the fastest CPU, undisturbed and at its
    /// highest frequency.
    pub fastest: Nanos,
    /// Median time over all measurements on all CPUs. Far above [`Calibration::fastest`], it shows that CPUs were
    /// busy, changed frequency, or are unequal.
    pub median: Nanos,
    /// Number of measurements.
    pub tries: u32,
}

/// Target length of a measurement. Shorter than the slices of all schedulers, so that some measurements are
/// undisturbed even on a busy machine.
const TRY: Nanos = Nanos::from_us(250);

/// Number of measurements per visit to a CPU, after the same number of warm-up rounds that raise its frequency: 16 ms
/// in total.
const TRIES: u32 = 32;

/// Maximum number of CPUs measured, spread over the machine so that all core types are included.
const MOST_CPUS: usize = 16;

/// CPUs are visited repeatedly for this time. Neighbors of a virtual machine can slow it for some tenths of a second
/// (see `hardware/handoff.rs`); measured only during that time, the unit of work would be too small.
const SPAN: Duration = Duration::from_millis(400);

/// Minimum time between the starts of two rounds of visits.
const APART: Duration = Duration::from_millis(100);

impl Calibration {
    /// Measures the CPUs that the calling thread may use. Leaves its affinity changed.
    pub(super) fn measure() -> std::io::Result<Calibration> {
        let cpus: Vec<_> = sys::allowed_cpus()?.iter().collect();
        let mut rounds = 1_000;
        while time(rounds) < TRY {
            rounds *= 2;
        }
        let count = cpus.len().min(MOST_CPUS);
        let last = cpus.len() - 1;
        let spread = |index| cpus[if count > 1 { index * last / (count - 1) } else { last }];
        let mut times = Vec::new();
        let begun = Instant::now();
        for round in 1.. {
            let visit = Instant::now();
            for cpu in (0..count).map(spread) {
                // This CPU may have gone offline; the others suffice.
                if sys::set_allowed_cpus(0, &std::iter::once(cpu).collect()).is_err() {
                    continue;
                }
                (0..TRIES).for_each(|_| spin(rounds));
                times.extend((0..TRIES).map(|_| time(rounds)));
            }
            // A single round could fall into one slow period of the machine.
            if round > 1 && begun.elapsed() >= SPAN {
                break;
            }
            thread::sleep(APART.saturating_sub(visit.elapsed()));
        }
        if times.is_empty() {
            times.push(time(rounds));
        }
        times.sort_unstable();
        Ok(Calibration {
            rounds,
            fastest: times[0].max(Nanos(1)),
            median: times[times.len() / 2],
            tries: times.len() as u32,
        })
    }

    /// Number of rounds of an amount of work, rounded up.
    pub fn rounds_of(&self, work: Nanos) -> u64 {
        (u128::from(work.0) * u128::from(self.rounds)).div_ceil(self.fastest.0.into()) as u64
    }

    /// Amount of work of a number of rounds, rounded down.
    pub fn work_of(&self, rounds: u64) -> Nanos {
        Nanos((u128::from(rounds) * u128::from(self.fastest.0) / u128::from(self.rounds)) as u64)
    }

    /// How much longer the median measurement took than the fastest, in percent.
    pub fn spread_percent(&self) -> f64 {
        100.0 * (self.median.0 as f64 / self.fastest.0 as f64 - 1.0)
    }
}

fn time(rounds: u64) -> Nanos {
    let begin = sys::now();
    spin(rounds);
    sys::now().since(begin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn rounds_of_and_work_of_are_inverse() {
        let calibration = Calibration { rounds: 100_003, fastest: Nanos(250_007), median: Nanos(300_000), tries: 1 };
        for work in [0, 1, 2, 999, 1_000_000, 1_000_000_000_000_000] {
            let back = calibration.work_of(calibration.rounds_of(Nanos(work)));
            assert!((work..work + 3).contains(&back.0), "{work} ns became {back:?}");
        }
        assert_eq!(calibration.rounds_of(Nanos(250_007)), 100_003);
        assert_eq!(calibration.spread_percent().round(), 20.0);
    }

    #[test]
    fn spend_overshoots_by_at_most_one_step() {
        // Each step of at most 50 us takes 1.3 times as long as requested; every 20th is interrupted for the length
        // of two steps.
        let (clock, steps) = (Cell::new(Nanos(777)), Cell::new(0));
        let step = |left: Nanos| {
            steps.set(steps.get() + 1);
            let interrupts = if steps.get() % 20 == 0 { 2 * 65_000 } else { 0 };
            clock.set(clock.get() + Nanos(left.0.min(50_000) * 13 / 10 + interrupts));
        };
        for time in [0, 1, 49_999, 2_500_000] {
            let before = clock.get();
            spend(
                Nanos(time),
                || clock.get(),
                |left| {
                    assert!(left.0 > 0 && left.0 <= time - (clock.get() - before).0, "{left:?} of {time}");
                    step(left);
                    true
                },
            );
            let spent = (clock.get() - before).0;
            assert!((time..=time + 15_000 + 130_000).contains(&spent), "{spent} for {time}");
        }
        assert_eq!(steps.get(), 1 + 1 + 37, "39 steps of 65 us, less two because of one interruption");
        steps.set(0);
        spend(
            Nanos::from_secs(1),
            || clock.get(),
            |left| {
                step(left);
                steps.get() < 3
            },
        );
        assert_eq!(steps.get(), 3, "it stops when work returns false");
    }

    #[test]
    fn calibration_visits_cpus_again_after_some_tenths_of_a_second() {
        let begun = Instant::now();
        let (visits, cpus) = thread::spawn(|| {
            let cpus = sys::allowed_cpus().unwrap().len().min(MOST_CPUS) as u32;
            (Calibration::measure().unwrap().tries / TRIES, cpus)
        })
        .join()
        .unwrap();
        assert!(
            visits >= 2 * cpus && begun.elapsed() >= SPAN,
            "{visits} visits of {cpus} CPUs in {:?}",
            begun.elapsed()
        );
    }

    /// Pairs follow each other within a third of a millisecond, so that most of them see one speed of the machine, even
    /// where its neighbors change that speed for some tenths of a second. The median pair tells.
    #[test]
    fn work_time_is_proportional_to_rounds() {
        let mut ratios: Vec<_> = (0..999).map(|_| 1_000 * time(40_000).0 / time(20_000).0).collect();
        ratios.sort_unstable();
        let [first, median, last] = [1, 2, 3].map(|quarter| ratios[ratios.len() * quarter / 4]);
        assert!((1_900..2_100).contains(&median), "quartiles {first}, {median}, {last}, in thousandths");
    }
}
