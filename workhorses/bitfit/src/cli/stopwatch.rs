// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of several things, taken in turns so that what else the machine does hits all of them alike.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

use super::maps::Random;

/// Shortest sample: the clock's own time does not count in it.
const SAMPLE_NS: f64 = 20_000.0;

/// Something to measure.
pub struct Contestant<'a> {
    /// What the table calls it.
    pub name: String,
    /// Does the thing once.
    pub work: Box<dyn FnMut() -> usize + 'a>,
}

impl<'a> Contestant<'a> {
    /// Names something to measure.
    pub fn new(name: impl Into<String>, work: impl FnMut() -> usize + 'a) -> Contestant<'a> {
        Contestant { name: name.into(), work: Box::new(work) }
    }

    /// The time of one call, over that many of them, in nanoseconds.
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
    /// The shortest: what the work takes when nothing disturbs it.
    pub best_ns: f64,
    /// The median over the rounds.
    pub median_ns: f64,
}

/// Times each contestant over `rounds` rounds.
///
/// Each round has an order of its own: whoever comes after another finds what that one left in the caches. After its first
/// call has taken longer than `patience_ns`, a contestant is left out of later rounds.
pub fn race(contestants: &mut [Contestant<'_>], rounds: usize, patience_ns: f64) -> Vec<Times> {
    let mut random = Random(1);
    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            order.swap(last, (random.next() % (last as u64 + 1)) as usize);
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

/// How many times faster one is than the other.
#[derive(Clone, Copy, Serialize)]
pub struct Ratio {
    /// The median of the rounds.
    pub median: f64,
    /// The median of all possible rounds lies between these two with a probability of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Rounds measured.
    pub rounds: usize,
}

/// Compares two contestants that do the same work.
///
/// The speed of caches and memory that several users share wanders by half within a second, so times of different moments
/// say little. A round is four samples in a row, each of one call or some 20 us: contender, rival, rival, contender, and in
/// the next round the other way round. What wanders slowly hits both alike, and neither follows the other more often. Each
/// round gives one ratio. There are `effort * 2` rounds at least, `effort * 20` at most, and in between as many as fit in
/// `effort` tenths of a second.
pub fn duel(contender: &mut Contestant<'_>, rival: &mut Contestant<'_>, effort: usize) -> Ratio {
    contender.sample(1);
    let calls = (SAMPLE_NS / contender.sample(1).min(rival.sample(1))).max(1.0) as usize;
    let start = Instant::now();
    let goes_on = |rounds: usize| {
        rounds < 2 * effort || rounds < 20 * effort && start.elapsed().as_millis() < 100 * effort as u128
    };
    compare(&mut || contender.sample(calls), &mut || rival.sample(calls), goes_on)
}

/// The rounds of a duel, as long as `goes_on` says so after that many. Each call of one of the two takes a sample.
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

/// Times both: the one first and last, the other twice in between.
fn outer_and_inner(outer: &mut dyn FnMut() -> f64, inner: &mut dyn FnMut() -> f64) -> (f64, f64) {
    let first = outer();
    let middle = inner() + inner();
    (first + outer(), middle)
}

/// The places, in `n` sorted samples, between which their median lies with a probability of 95 %: how many samples lie below
/// the true median is a binomial number, with a standard deviation of half the root of `n`.
fn interval(n: usize) -> (usize, usize) {
    let low = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()).max(0.0) as usize;
    (low, n - 1 - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_interval_has_the_textbook_places() {
        // Counted from 0; tables give the 2nd and 9th of 10, the 10th and 21st of 30, the 41st and 60th of 100, or one
        // place beside.
        assert_eq!(interval(2), (0, 1));
        assert_eq!(interval(10), (1, 8));
        assert_eq!(interval(30), (9, 20));
        assert_eq!(interval(100), (40, 59));
    }

    /// Samples of two contestants on a machine that only the test knows: it becomes four times slower during 100 rounds,
    /// and every seventh sample is disturbed. The rival has three times the work.
    fn duel_on_a_machine_that_slows_down(rounds: usize) -> Ratio {
        let samples = Cell::new(0);
        let sample = |work_ns: f64| {
            samples.set(samples.get() + 1);
            let disturbance = if samples.get() % 7 == 0 { 20.0 } else { 1.0 };
            work_ns * (1.0 + 3.0 * f64::from(samples.get()) / 400.0) * disturbance
        };
        compare(&mut || sample(100.0), &mut || sample(300.0), |done| done < rounds)
    }

    #[test]
    fn a_duel_tells_who_is_faster_and_how_much() {
        let Ratio { median, low, high, rounds } = duel_on_a_machine_that_slows_down(100);
        assert_eq!(rounds, 100);
        assert!([low, median, high].iter().all(|ratio| (2.99..3.01).contains(ratio)), "{low} {median} {high}");
    }

    #[test]
    fn a_duel_ends_within_its_rounds() {
        let ratio = duel(&mut Contestant::new("one", || 1), &mut Contestant::new("other", || 2), 3);
        assert!((6..=60).contains(&ratio.rounds), "{}", ratio.rounds);
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
    }
}
