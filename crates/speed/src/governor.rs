// SPDX-License-Identifier: GPL-2.0-only
//! Which frequency a governor asks for, as functions of what it sees. Frequencies are numbers of a ladder: the states
//! without turbo in ascending order, then, if there is one, the turbo.

/// Frequencies that can be asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// Ascending; the last is the highest turbo if there is one.
    mhz: Vec<u32>,
}

impl Ladder {
    /// From states in ascending order and the highest turbo.
    pub fn new(states: &[u32], turbo: Option<u32>) -> Ladder {
        let mut mhz = states.to_vec();
        mhz.extend(turbo.filter(|&turbo| states.last().is_none_or(|&last| turbo > last)));
        Ladder { mhz }
    }

    /// The highest step.
    pub fn top(&self) -> usize {
        self.mhz.len() - 1
    }

    /// Frequency of a step.
    pub fn mhz(&self, step: usize) -> u32 {
        self.mhz[step]
    }

    /// The highest frequency of all.
    pub fn highest(&self) -> u32 {
        self.mhz[self.top()]
    }

    /// The lowest step that has at least this frequency, or the top.
    fn at_least(&self, mhz: u64) -> usize {
        self.mhz.partition_point(|&state| u64::from(state) < mhz).min(self.top())
    }

    /// The highest step that has at most this frequency, or the bottom.
    fn at_most(&self, mhz: u64) -> usize {
        self.mhz.partition_point(|&state| u64::from(state) <= mhz).saturating_sub(1)
    }
}

/// Above this load in percent `ondemand` asks for all: 95 where idle time is known to the microsecond, as it is with
/// NO_HZ (`MICRO_FREQUENCY_UP_THRESHOLD` in drivers/cpufreq/cpufreq_ondemand.c of 2010).
const ONDEMAND_UP: u64 = 95;
/// The load that a lower frequency may have is so much below (`MICRO_FREQUENCY_DOWN_DIFFERENTIAL`).
const ONDEMAND_DIFFERENTIAL: u64 = 3;

/// `ondemand` after a sample in which the busiest CPU was busy for `load` percent at step `now`: the top if that is too
/// much; else the lowest step that would have carried it.
pub fn ondemand(ladder: &Ladder, now: usize, load: u64) -> usize {
    if load > ONDEMAND_UP {
        return ladder.top();
    }
    let wanted = (load * u64::from(ladder.mhz(now))).div_ceil(ONDEMAND_UP - ONDEMAND_DIFFERENTIAL);
    ladder.at_least(wanted).min(now)
}

/// Thresholds and step of `conservative`, in percent (drivers/cpufreq/cpufreq_conservative.c).
const CONSERVATIVE_UP: u64 = 80;
const CONSERVATIVE_DOWN: u64 = 20;
const CONSERVATIVE_STEP: u64 = 5;

/// `conservative` after a sample, from the frequency that it asked for before, in MHz: 5 % of the highest more or less.
pub fn conservative(ladder: &Ladder, asked: u32, load: u64) -> u32 {
    let step = (u64::from(ladder.highest()) * CONSERVATIVE_STEP / 100) as u32;
    if load > CONSERVATIVE_UP {
        (asked + step).min(ladder.highest())
    } else if load < CONSERVATIVE_DOWN {
        asked.saturating_sub(step).max(ladder.mhz(0))
    } else {
        asked
    }
}

/// The step that the driver takes for what `conservative` asks for: the highest that is no faster
/// (`CPUFREQ_RELATION_H`).
pub fn step_below(ladder: &Ladder, mhz: u32) -> usize {
    ladder.at_most(mhz.into())
}

/// `schedutil` for a utilization of 1024: the lowest step of at least 1.25 times its share of the highest frequency
/// (`get_next_freq` in kernel/sched/cpufreq_schedutil.c).
pub fn schedutil(ladder: &Ladder, utilization: u32) -> usize {
    let highest = u64::from(ladder.highest());
    ladder.at_least((highest + highest / 4) * u64::from(utilization) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder::new(&[1000, 1500, 2000], Some(3000))
    }

    #[test]
    fn ondemand_goes_to_the_top_in_one_step_and_down_as_far_as_the_load_allows() {
        let ladder = ladder();
        assert_eq!([0, 1, 2, 3].map(|now| ondemand(&ladder, now, 96)), [3; 4]);
        assert_eq!(ondemand(&ladder, 0, 95), 0, "not above the threshold");
        // 46 % of 3000 MHz is 1380; at most 92 % busy: 1500 MHz.
        assert_eq!(ondemand(&ladder, 3, 46), 1);
        assert_eq!(ondemand(&ladder, 3, 47), 2);
        assert_eq!(ondemand(&ladder, 3, 0), 0);
    }

    #[test]
    fn conservative_takes_small_steps() {
        let ladder = ladder();
        assert_eq!(conservative(&ladder, 1000, 81), 1150);
        assert_eq!(conservative(&ladder, 2950, 100), 3000);
        assert_eq!(conservative(&ladder, 1000, 80), 1000);
        assert_eq!(conservative(&ladder, 1300, 19), 1150);
        assert_eq!(conservative(&ladder, 1100, 0), 1000);
        assert_eq!([1000, 1499, 1500, 2999, 3000].map(|mhz| step_below(&ladder, mhz)), [0, 0, 1, 2, 3]);
    }

    #[test]
    fn schedutil_asks_for_a_quarter_more_than_is_used() {
        let ladder = ladder();
        // 3750 MHz times the share.
        assert_eq!(
            [0, 273, 274, 409, 410, 546, 547, 819, 1024].map(|used| schedutil(&ladder, used)),
            [0, 0, 1, 1, 2, 2, 3, 3, 3]
        );
    }

    #[test]
    fn a_turbo_below_the_last_state_is_none() {
        assert_eq!(Ladder::new(&[600, 900], None).highest(), 900);
        assert_eq!(Ladder::new(&[600, 900], Some(900)).top(), 1);
    }
}
