// SPDX-License-Identifier: GPL-2.0-only
//! Erroneous CPU clocks: ahead, behind, or drifting.
//!
//! 1. `bpf_ktime_get_ns` and `scx_bpf_now` read the clock of the calling CPU, as on a machine with unsynchronized
//!    TSCs whose kernel trusts them (`tsc=reliable`).
//! 2. The CPU time charged to a task is the difference of two readings of its CPU's clock (`rq_clock_task` in
//!    `update_curr`): a clock that steps ahead ends a slice early, one that steps back prolongs it.
//! 3. Timers, jiffies and the watchdog follow the correct time.

use ids::{CpuId, Nanos};

/// Clocks by CPU; a clock that was never disturbed is correct.
#[derive(Debug, Default)]
pub struct Clocks {
    wrong: Vec<Clock>,
}

/// Error of one clock.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Error at `since`, in nanoseconds; positive is ahead.
    ahead: i64,
    since: Nanos,
    drift_ppm: i32,
}

impl Clock {
    fn ahead_at(&self, now: Nanos) -> i64 {
        let drifted = i128::from(now.since(self.since).0) * i128::from(self.drift_ppm) / 1_000_000;
        self.ahead.saturating_add(drifted as i64)
    }
}

impl Clocks {
    /// Reading of the clock of `cpu` at `now`; not below 0.
    pub fn read(&self, cpu: CpuId, now: Nanos) -> Nanos {
        match self.wrong.get(cpu.index()) {
            None => now,
            Some(clock) => Nanos(now.0.saturating_add_signed(clock.ahead_at(now))),
        }
    }

    /// Steps the clock of `cpu` by `step` nanoseconds, and changes its drift if `drift_ppm` is given.
    pub fn disturb(&mut self, cpu: CpuId, now: Nanos, step: i64, drift_ppm: Option<i32>) {
        if cpu.index() >= self.wrong.len() {
            self.wrong.resize(cpu.index() + 1, Clock::default());
        }
        let clock = &mut self.wrong[cpu.index()];
        let ahead = clock.ahead_at(now).saturating_add(step);
        *clock = Clock { ahead, since: now, drift_ppm: drift_ppm.unwrap_or(clock.drift_ppm) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_clock_steps_and_drifts() {
        let (one, two) = (CpuId(1), CpuId(2));
        let mut clocks = Clocks::default();
        let read = |clocks: &Clocks, cpu, now| clocks.read(cpu, Nanos(now)).0;
        assert_eq!(read(&clocks, one, 7), 7);
        clocks.disturb(one, Nanos(1_000), 500, None);
        assert_eq!([0, 1, 2].map(|cpu| read(&clocks, CpuId(cpu), 2_000)), [2_000, 2_500, 2_000]);
        clocks.disturb(one, Nanos(2_000), 0, Some(200_000));
        assert_eq!(read(&clocks, one, 3_000), 3_700);
        // A step of the clock changes neither its accumulated drift nor its drift rate.
        clocks.disturb(one, Nanos(3_000), -1_000, None);
        assert_eq!(read(&clocks, one, 4_000), 3_900);
        clocks.disturb(two, Nanos(4_000), -5_000, Some(-100));
        assert_eq!((read(&clocks, two, 4_500), read(&clocks, two, 1_005_000)), (0, 999_900));
    }
}
