// SPDX-License-Identifier: GPL-2.0-only
//! Frequency choices of the governors, as pure functions of load or utilization. A frequency is given as a step of a
//! ladder: the non-turbo states in ascending order, then the turbo state if there is one.

/// Frequencies that a governor can request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// Ascending; the last is the highest turbo frequency if there is one.
    mhz: Vec<u32>,
}

impl Ladder {
    /// Builds the ladder from the states in ascending order and the highest turbo frequency.
    pub fn new(states: &[u32], turbo: Option<u32>) -> Ladder {
        let mut mhz = states.to_vec();
        mhz.extend(turbo.filter(|&turbo| states.last().is_none_or(|&last| turbo > last)));
        Ladder { mhz }
    }

    /// Highest step.
    pub fn top(&self) -> usize {
        self.mhz.len() - 1
    }

    /// Frequency of a step in MHz.
    pub fn mhz(&self, step: usize) -> u32 {
        self.mhz[step]
    }

    /// Highest frequency of the ladder in MHz.
    pub fn highest(&self) -> u32 {
        self.mhz[self.top()]
    }

    /// Lowest step with at least this frequency, or the highest step.
    fn at_least(&self, mhz: u64) -> usize {
        self.mhz.partition_point(|&state| u64::from(state) < mhz).min(self.top())
    }

    /// Highest step with at most this frequency, or the lowest step.
    fn at_most(&self, mhz: u64) -> usize {
        self.mhz.partition_point(|&state| u64::from(state) <= mhz).saturating_sub(1)
    }
}

/// Load in percent above which `ondemand` requests the highest frequency: 95 where idle time is accounted in
/// microseconds, as with NO_HZ (`MICRO_FREQUENCY_UP_THRESHOLD` in drivers/cpufreq/cpufreq_ondemand.c of 2010).
const ONDEMAND_UP: u64 = 95;
/// Percentage points below [`ONDEMAND_UP`] that the load at a lower frequency may reach at most
/// (`MICRO_FREQUENCY_DOWN_DIFFERENTIAL`).
const ONDEMAND_DIFFERENTIAL: u64 = 3;

/// Choice of `ondemand` after a sample in which the busiest CPU had a load of `load` percent at step `now`: the
/// highest step if the load exceeds the threshold; else the lowest step at which the same work would stay below it.
pub fn ondemand(ladder: &Ladder, now: usize, load: u64) -> usize {
    if load > ONDEMAND_UP {
        return ladder.top();
    }
    let wanted = (load * u64::from(ladder.mhz(now))).div_ceil(ONDEMAND_UP - ONDEMAND_DIFFERENTIAL);
    ladder.at_least(wanted).min(now)
}

/// Thresholds and step of `conservative`, in percent (drivers/cpufreq/cpufreq_conservative.c of 2010, as for `ondemand`). That
/// governor lowers the frequency if the load is below `down_threshold - 10`; the default of `down_threshold` is 20.
const CONSERVATIVE_UP: u64 = 80;
const CONSERVATIVE_DOWN: u64 = 10;
const CONSERVATIVE_STEP: u64 = 5;

/// Choice of `conservative` in MHz after a sample: the previously requested frequency, raised or lowered by 5 % of
/// the highest one.
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

/// Step that the driver selects for a frequency requested by `conservative`: the highest one not above it
/// (`CPUFREQ_RELATION_H`).
pub fn step_below(ladder: &Ladder, mhz: u32) -> usize {
    ladder.at_most(mhz.into())
}

/// Choice of `schedutil` for a utilization from 0 to 1024: the lowest step whose frequency is at least 1.25 *
/// utilization / 1024 of the highest one (`get_next_freq` in kernel/sched/cpufreq_schedutil.c).
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
    fn ondemand_rises_to_the_highest_step_at_once_and_falls_as_far_as_the_load_allows() {
        let ladder = ladder();
        assert_eq!([0, 1, 2, 3].map(|now| ondemand(&ladder, now, 96)), [3; 4]);
        assert_eq!(ondemand(&ladder, 0, 95), 0, "not above the threshold");
        // 46 % of 3000 MHz is 1380 MHz, which is a load of 92 % at 1500 MHz.
        assert_eq!(ondemand(&ladder, 3, 46), 1);
        assert_eq!(ondemand(&ladder, 3, 47), 2);
        assert_eq!(ondemand(&ladder, 3, 0), 0);
    }

    #[test]
    fn conservative_changes_by_5_percent_of_the_highest_frequency() {
        let ladder = ladder();
        assert_eq!(conservative(&ladder, 1000, 81), 1150);
        assert_eq!(conservative(&ladder, 2950, 100), 3000);
        assert_eq!(conservative(&ladder, 1000, 80), 1000);
        assert_eq!(conservative(&ladder, 1300, 10), 1300);
        assert_eq!(conservative(&ladder, 1300, 9), 1150);
        assert_eq!(conservative(&ladder, 1100, 0), 1000);
        assert_eq!([1000, 1499, 1500, 2999, 3000].map(|mhz| step_below(&ladder, mhz)), [0, 0, 1, 2, 3]);
    }

    #[test]
    fn schedutil_requests_utilization_plus_a_quarter() {
        let ladder = ladder();
        // The requested frequency is 3750 MHz * utilization / 1024.
        assert_eq!(
            [0, 273, 274, 409, 410, 546, 547, 819, 1024].map(|used| schedutil(&ladder, used)),
            [0, 0, 1, 1, 2, 2, 3, 3, 3]
        );
    }

    #[test]
    fn turbo_below_the_highest_state_is_ignored() {
        assert_eq!(Ladder::new(&[600, 900], None).highest(), 900);
        assert_eq!(Ladder::new(&[600, 900], Some(900)).top(), 1);
    }
}
