// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interleaved timing of several contestants, so that other load on the machine affects all alike.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

use bitfit::maps::Random;

/// Minimum length of a sample in nanoseconds, large compared with the clock's overhead.
const SAMPLE_NS: f64 = 20_000.0;

/// Something to measure.
pub struct Contestant<'a> {
    /// Name in the tables.
    pub name: String,
    /// Performs the work once.
    pub work: Box<dyn FnMut() -> usize + 'a>,
}

impl<'a> Contestant<'a> {
    /// Creates a named contestant.
    pub fn new(name: impl Into<String>, work: impl FnMut() -> usize + 'a) -> Contestant<'a> {
        Contestant { name: name.into(), work: Box::new(work) }
    }

    /// Time of one call in nanoseconds, averaged over `calls` calls.
    fn sample(&mut self, calls: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..calls {
            black_box((self.work)());
        }
        (start.elapsed().as_nanos() as f64 / calls as f64).max(0.1)
    }
}

/// Times of one call, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Times {
    /// Minimum: the time without disturbance.
    pub best_ns: f64,
    /// Median over the rounds.
    pub median_ns: f64,
}

/// Times each contestant over `rounds` rounds.
///
/// Each round has its own random order, because a contestant's time depends on the cache contents left by the one
/// before it. A contestant whose call takes longer than `patience_ns` is left out of later rounds.
pub fn race(contestants: &mut [Contestant<'_>], rounds: usize, patience_ns: f64) -> Vec<Times> {
    let mut random = Random(1);
    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            order.swap(last, (random.bits() % (last as u64 + 1)) as usize);
        }
        for &contestant in &order {
            let times = &mut times[contestant];
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            if best.is_finite() && best > patience_ns {
                continue;
            }
            let calls = if best.is_finite() { (SAMPLE_NS / best).max(1.0) as usize } else { 1 };
            times.push(contestants[contestant].sample(calls));
        }
    }
    times
        .into_iter()
        .map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            Times { best_ns: times[0], median_ns: times[times.len() / 2] }
        })
        .collect()
}

/// Speedup of one contestant over another.
#[derive(Clone, Copy, Serialize)]
pub struct Ratio {
    /// Median over the rounds.
    pub median: f64,
    /// Lower end of the 95 % confidence interval of the median.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of rounds.
    pub rounds: usize,
}

/// Compares two contestants that do the same work.
///
/// Throughput of shared caches and memory varies by half within a second, so times taken at different moments are not
/// comparable. A round is four consecutive samples, each of one call or about 20 us: contender, rival, rival,
/// contender, and the reverse in the next round. Slow variation affects both alike, and neither always runs after the
/// other. Each round gives one ratio. There are at least `effort * 2` and at most `effort * 20` rounds, in between as
/// many as fit in `effort` tenths of a second.
pub fn paired_timing(contender: &mut Contestant<'_>, rival: &mut Contestant<'_>, effort: usize) -> Ratio {
    contender.sample(1);
    let calls = (SAMPLE_NS / contender.sample(1).min(rival.sample(1))).max(1.0) as usize;
    let start = Instant::now();
    let goes_on = |rounds: usize| {
        rounds < 2 * effort || rounds < 20 * effort && start.elapsed().as_millis() < 100 * effort as u128
    };
    compare(&mut || contender.sample(calls), &mut || rival.sample(calls), goes_on)
}

/// Runs rounds while `goes_on` returns true for their number. Each call of `contender` or `rival` takes a sample.
fn compare(
    contender: &mut dyn FnMut() -> f64,
    rival: &mut dyn FnMut() -> f64,
    goes_on: impl Fn(usize) -> bool,
) -> Ratio {
    let mut ratios = Vec::new();
    while goes_on(ratios.len()) {
        let (contender_ns, rival_ns) = if ratios.len() % 2 == 0 {
            outer_and_inner(contender, rival)
        } else {
            let (rival_ns, contender_ns) = outer_and_inner(rival, contender);
            (contender_ns, rival_ns)
        };
        ratios.push(rival_ns / contender_ns);
    }
    ratios.sort_by(f64::total_cmp);
    let (low, high) = interval(ratios.len());
    Ratio { median: ratios[ratios.len() / 2], low: ratios[low], high: ratios[high], rounds: ratios.len() }
}

/// Times `outer` in the first and last sample and `inner` in the two between.
fn outer_and_inner(outer: &mut dyn FnMut() -> f64, inner: &mut dyn FnMut() -> f64) -> (f64, f64) {
    let first = outer();
    let middle = inner() + inner();
    (first + outer(), middle)
}

/// Indices, in `n` sorted samples, of the ends of the 95 % confidence interval of the median. The number of samples
/// below the true median is binomial with standard deviation sqrt(n) / 2.
fn interval(n: usize) -> (usize, usize) {
    let low = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()).max(0.0) as usize;
    (low, n - 1 - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn confidence_interval_matches_published_tables() {
        // Indices count from 0. Published tables give the 2nd and 9th of 10, the 10th and 21st of 30 and the 41st and
        // 60th of 100, or one position beside.
        assert_eq!(interval(2), (0, 1));
        assert_eq!(interval(10), (1, 8));
        assert_eq!(interval(30), (9, 20));
        assert_eq!(interval(100), (40, 59));
    }

    /// Times two functions in turn on a simulated machine that slows down by a factor of four over 100 rounds and
    /// disturbs every seventh sample. The second function has three times the work.
    fn paired_timing_on_a_machine_that_slows_down(rounds: usize) -> Ratio {
        let samples = Cell::new(0);
        let sample = |work_ns: f64| {
            samples.set(samples.get() + 1);
            let disturbance = if samples.get() % 7 == 0 { 20.0 } else { 1.0 };
            work_ns * (1.0 + 3.0 * f64::from(samples.get()) / 400.0) * disturbance
        };
        compare(&mut || sample(100.0), &mut || sample(300.0), |done| done < rounds)
    }

    #[test]
    fn paired_timing_measures_the_speedup_on_a_machine_that_slows_down() {
        let Ratio { median, low, high, rounds } = paired_timing_on_a_machine_that_slows_down(100);
        assert_eq!(rounds, 100);
        assert!([low, median, high].iter().all(|ratio| (2.99..3.01).contains(ratio)), "{low} {median} {high}");
    }

    #[test]
    fn paired_timing_stays_within_its_number_of_rounds() {
        let ratio = paired_timing(&mut Contestant::new("one", || 1), &mut Contestant::new("other", || 2), 3);
        assert!((6..=60).contains(&ratio.rounds), "{}", ratio.rounds);
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
    }
}
