// SPDX-License-Identifier: GPL-2.0-only
//! Choice of a CPU's idle state: the deepest one whose target residency does not exceed the predicted idle time.
//!
//! 1. The prediction is half of the mean of the last 8 idle times, limited by the time to the CPU's own next timer.
//!    The `menu` governor does more; this is its core.
//! 2. A CPU that is still idle one tick later chooses again, and takes the deepest state.
//! 3. A core is in the lightest state of its threads.

use ids::Nanos;
use machine_model::IdleState;

/// Last idle times of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    times: [u32; 8],
    next: u8,
    filled: u8,
}

impl History {
    /// Empty history: predicts a long idle time.
    pub const EMPTY: History = History { times: [0; 8], next: 0, filled: 0 };

    /// Records an idle time.
    pub fn record(&mut self, time: Nanos) {
        self.times[self.next as usize] = u32::try_from(time.0).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % 8;
        self.filled = (self.filled + 1).min(8);
    }

    /// Predicted idle time.
    pub fn expect(&self) -> Nanos {
        if self.filled == 0 {
            return Nanos::MAX;
        }
        let sum: u64 = self.times[..self.filled as usize].iter().map(|&time| u64::from(time)).sum();
        Nanos(sum / u64::from(self.filled) / 2)
    }
}

/// Index of the deepest state whose target residency is at most `time`; the lightest if there is none.
pub(crate) fn choose(states: &[IdleState], time: Nanos) -> usize {
    states.iter().rposition(|state| state.residency_ns <= time.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine_model::Estimate;

    #[test]
    fn deepest_state_within_its_residency_is_chosen() {
        let state = |residency_ns| IdleState {
            name: String::new(),
            exit_ns: Estimate::exactly(1),
            residency_ns,
            deep: false,
            power_percent: Estimate::exactly(0),
        };
        let states = [state(6_000), state(20_000), state(80_000), state(800_000)];
        let chosen = [0, 5_999, 6_000, 19_999, 20_000, 799_999, 800_000].map(|time| choose(&states, Nanos(time)));
        assert_eq!(chosen, [0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn predicted_idle_time_is_half_the_mean_of_the_last_eight() {
        let mut history = History::EMPTY;
        assert_eq!(history.expect(), Nanos::MAX);
        history.record(Nanos(1_000));
        assert_eq!(history.expect(), Nanos(500));
        (0..8).for_each(|_| history.record(Nanos(300)));
        assert_eq!(history.expect(), Nanos(150));
        (0..8).for_each(|_| history.record(Nanos(1 << 40)));
        assert_eq!(history.expect(), Nanos(u64::from(u32::MAX) / 2));
    }
}
