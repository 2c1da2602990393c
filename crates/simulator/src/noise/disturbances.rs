// SPDX-License-Identifier: GPL-2.0-only
//! Disturbances of a working task other than ticks: interrupts of the machine and of its host, and stalls. Each has
//! an absolute duration, so the relative deviation is smaller for long work than for short work.
//!
//! They depend on the task's own work, not on the CPU's time, so they are the same under each scheduler.

use super::draw::Draw;
use ids::Nanos;
use machine_model::Noise;

/// Maximum number of disturbances sampled individually for one piece of work; the rest of it is disturbed at the same
/// rate.
const ONE_BY_ONE: u32 = 10_000;

/// Disturbances of a task.
#[derive(Debug)]
pub(super) struct Disturbances {
    draw: Draw,
    /// Work until the next disturbance.
    until: Nanos,
}

impl Disturbances {
    /// The first one comes after a random part of a sampled distance.
    pub fn new(mut draw: Draw, sizes: &Noise) -> Disturbances {
        let first = draw.time(&sizes.disturbance_every_ns);
        let until = draw.before(first);
        Disturbances { draw, until }
    }

    /// Additional time that this work takes.
    pub fn during(&mut self, work: Nanos, sizes: &Noise) -> Nanos {
        let (mut left, mut more) = (work, Nanos::ZERO);
        for _ in 0..ONE_BY_ONE {
            if self.until > left {
                self.until -= left;
                return more;
            }
            left -= self.until;
            more += self.draw.time(&sizes.disturbance_ns);
            self.until = self.draw.time(&sizes.disturbance_every_ns).max(Nanos(1));
        }
        let done = (work - left).0.max(1);
        let rest = u128::from(more.0) * u128::from(left.0) / u128::from(done);
        Nanos(more.0.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::Spread;

    fn sizes(every: [i64; 11], length: i64) -> Noise {
        let spread = |quantiles| Spread::new(quantiles).unwrap();
        Noise { disturbance_every_ns: spread(every), disturbance_ns: spread([length; 11]), ..Noise::default() }
    }

    /// One disturbance of 7 ns per 1,000 ns, for any amount of work and however it is divided.
    #[test]
    fn disturbance_rate_is_independent_of_the_division_of_work() {
        let sizes = sizes([1_000; 11], 7);
        for piece in [1, 10, 999, 1_000, 3_333, 1_000_000, 100_000_000] {
            let mut disturbances = Disturbances::new(Draw::new(1, "test"), &sizes);
            let more: u64 = (0..100_000_000 / piece).map(|_| disturbances.during(Nanos(piece), &sizes).0).sum();
            assert!((699_900..=700_100).contains(&more), "{more} of pieces of {piece}");
        }
        let mut disturbances = Disturbances::new(Draw::new(1, "test"), &sizes);
        assert!(disturbances.during(Nanos(u64::MAX), &sizes).0 > u64::MAX / 200, "endless work is handled");
    }

    #[test]
    fn relative_deviation_is_smaller_for_longer_work() {
        let sizes = sizes([0, 1, 100, 200, 500, 1_000, 1_500, 3_000, 5_000, 9_000, 20_000], 300);
        let most = |piece: u64| {
            let mut disturbances = Disturbances::new(Draw::new(2, "test"), &sizes);
            (0..1_000).map(|_| disturbances.during(Nanos(piece), &sizes).0 * 1_000 / piece).max().unwrap()
        };
        assert!(most(1_000) > 2 * most(100_000), "{} and {} of 1000", most(1_000), most(100_000));
    }
}
