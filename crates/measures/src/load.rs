// SPDX-License-Identifier: GPL-2.0-only
//! Load average as defined by Linux: every 5 s the number of running and waiting tasks is folded into three
//! exponential averages with time constants of 1, 5 and 15 minutes (`kernel/sched/loadavg.c`), in fixed point with 11
//! fractional bits. Unlike in Linux, tasks that wait for a disk are not counted.

use ids::Nanos;

/// 1.0 in fixed point.
const ONE: u64 = 1 << 11;
/// Factor of the old value after 5 s: exp(-5 s / 1, 5 and 15 min), in fixed point.
const KEPT: [u64; 3] = [1884, 2014, 2037];
const EVERY: Nanos = Nanos::from_secs(5);

/// Load averages as in `/proc/loadavg`, in thousandths; without the last PID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAverage {
    /// Load averages over 1, 5 and 15 minutes, in thousandths.
    pub milli: [u64; 3],
    /// Number of running and waiting tasks at the end.
    pub active: u64,
}

/// Computes the load average during a run.
#[derive(Clone, Debug)]
pub(crate) struct LoadFollower {
    averages: [u64; 3],
    pub active: u64,
    next: Nanos,
}

impl LoadFollower {
    pub fn new() -> LoadFollower {
        LoadFollower { averages: [0; 3], active: 0, next: EVERY }
    }

    /// Advances the time to `now`; must be called before `active` changes.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        while self.next <= now {
            self.sample();
        }
    }

    /// One update, as the kernel's `calc_load`: a rising average is rounded up.
    fn sample(&mut self) {
        let active = self.active * ONE;
        for (average, kept) in self.averages.iter_mut().zip(KEPT) {
            let rounding = if active >= *average { ONE - 1 } else { 0 };
            *average = (*average * kept + active * (ONE - kept) + rounding) / ONE;
        }
        self.next += EVERY;
    }

    /// Load average at time `end`.
    pub fn finish(mut self, end: Nanos) -> LoadAverage {
        self.advance(end);
        LoadAverage { milli: self.averages.map(|average| average * 1000 / ONE), active: self.active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(active: u64, seconds: u64) -> [u64; 3] {
        let mut load = LoadFollower::new();
        load.active = active;
        load.finish(Nanos::from_secs(seconds)).milli
    }

    #[test]
    fn load_average_rises_as_in_linux() {
        assert_eq!(after(1, 4), [0; 3], "before the first update");
        assert_eq!(after(1, 5), [80, 16, 5]);
        // 1 - exp(-1), 1 - exp(-1/5), 1 - exp(-1/15) after a minute, to the accuracy of 11 bits.
        let [one, five, fifteen] = after(1, 60);
        assert!((625..645).contains(&one) && (175..190).contains(&five) && (60..70).contains(&fifteen));
        assert_eq!(after(3, 3_600)[..2], [3_000, 3_000]);
    }

    #[test]
    fn load_average_falls_to_zero() {
        let mut load = LoadFollower::new();
        load.active = 4;
        load.advance(Nanos::from_secs(600));
        load.active = 0;
        assert_eq!(load.finish(Nanos::from_secs(7_200)), LoadAverage::default());
    }
}
