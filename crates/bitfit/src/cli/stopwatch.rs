// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of several things, taken in turns so that what else the machine does hits all of them alike.

use std::hint::black_box;
use std::time::Instant;

use super::maps::Random;

/// Something to measure.
pub struct Contestant<'a> {
    /// What the table calls it.
    pub name: String,
    /// Does the thing once.
    pub work: Box<dyn FnMut() -> usize + 'a>,
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
/// Each round has an order of its own: whoever comes after another finds what that one left in the caches. A contestant is
/// called often enough in a round that the clock's own time does not count; after its first call has taken longer than
/// `patience_ns`, it is left out of later rounds.
pub fn race(contestants: &mut [Contestant<'_>], rounds: usize, patience_ns: f64) -> Vec<Times> {
    const ROUND_NS: f64 = 20_000.0;
    let mut random = Random(1);
    let mut times = vec![Vec::with_capacity(rounds); contestants.len()];
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            order.swap(last, (random.next() % (last as u64 + 1)) as usize);
        }
        for &contestant in &order {
            let (work, times) = (&mut contestants[contestant].work, &mut times[contestant]);
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            if best.is_finite() && best > patience_ns {
                continue;
            }
            let calls = if best.is_finite() { (ROUND_NS / best).max(1.0) as usize } else { 1 };
            let start = Instant::now();
            for _ in 0..calls {
                black_box(work());
            }
            times.push((start.elapsed().as_nanos() as f64 / calls as f64).max(0.1));
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
