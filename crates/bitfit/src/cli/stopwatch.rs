// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of several things, taken in turns so that what else the machine does hits all of them alike.

use std::hint::black_box;
use std::time::Instant;

/// Something to measure.
pub struct Contestant<'a> {
    /// What the table calls it.
    pub name: String,
    /// Does the thing once.
    pub work: Box<dyn FnMut() -> usize + 'a>,
}

/// The shortest time of one call of each contestant, in nanoseconds, over `rounds` rounds.
///
/// A contestant is called often enough in a round that the clock's own time does not count; after its first call has
/// taken longer than `patience_ns`, it is left out of later rounds.
pub fn race(contestants: &mut [Contestant<'_>], rounds: usize, patience_ns: f64) -> Vec<f64> {
    const ROUND_NS: f64 = 20_000.0;
    let mut best = vec![f64::INFINITY; contestants.len()];
    for _ in 0..rounds {
        for (contestant, best) in contestants.iter_mut().zip(&mut best) {
            if best.is_finite() && *best > patience_ns {
                continue;
            }
            let calls = if best.is_finite() { (ROUND_NS / *best).max(1.0) as usize } else { 1 };
            let start = Instant::now();
            for _ in 0..calls {
                black_box((contestant.work)());
            }
            let each = start.elapsed().as_nanos() as f64 / calls as f64;
            *best = best.min(each.max(0.1));
        }
    }
    best
}
