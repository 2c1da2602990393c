// SPDX-License-Identifier: GPL-2.0-only
//! The load average as Linux reckons it: every 5 s the number of tasks that run or wait for a CPU goes into three
//! averages that forget by halves in about 1, 5 and 15 minutes (`kernel/sched/loadavg.c`), in fixed point of 11 bits.
//! Unlike Linux's, this one does not count tasks that wait for a disk.

use ids::Nanos;

/// 1.0.
const ONE: u64 = 1 << 11;
/// What is left of the old value after 5 s: 1 / exp(5 s / 1, 5 and 15 min), in fixed point.
const KEPT: [u64; 3] = [1884, 2014, 2037];
const EVERY: Nanos = Nanos::from_secs(5);

/// What `/proc/loadavg` says, in thousandths and without the number that was given out last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAverage {
    /// Over 1, 5 and 15 minutes, in thousandths.
    pub milli: [u64; 3],
    /// Tasks that run or wait for a CPU at the end.
    pub active: u64,
}

/// Follows it.
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

    /// Time goes on to `now`; to be called before `active` changes.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        while self.next <= now {
            self.sample();
        }
    }

    /// As the kernel's `calc_load`: a rising average is rounded up.
    fn sample(&mut self) {
        let active = self.active * ONE;
        for (average, kept) in self.averages.iter_mut().zip(KEPT) {
            let rounding = if active >= *average { ONE - 1 } else { 0 };
            *average = (*average * kept + active * (ONE - kept) + rounding) / ONE;
        }
        self.next += EVERY;
    }

    /// What it is at `end`.
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
    fn averages_rise_as_those_of_linux() {
        assert_eq!(after(1, 4), [0; 3], "nobody looked yet");
        assert_eq!(after(1, 5), [80, 16, 5]);
        // 1 - exp(-1), 1 - exp(-1/5), 1 - exp(-1/15) after a minute, as far as 11 bits go.
        let [one, five, fifteen] = after(1, 60);
        assert!((625..645).contains(&one) && (175..190).contains(&five) && (60..70).contains(&fifteen));
        assert_eq!(after(3, 3_600)[..2], [3_000, 3_000]);
    }

    #[test]
    fn averages_fall_to_nothing() {
        let mut load = LoadFollower::new();
        load.active = 4;
        load.advance(Nanos::from_secs(600));
        load.active = 0;
        assert_eq!(load.finish(Nanos::from_secs(7_200)), LoadAverage::default());
    }
}
