// SPDX-License-Identifier: GPL-2.0-only
//! User and system parts of CPU time.
//!
//! A task's CPU time is accounted to the nanosecond, but most kernels (`TICK_CPU_ACCOUNTING`) account user and system
//! time by ticks: one sample every 4 ms or so. For long-running tasks the ratio of samples is accurate; a compiler
//! driver that runs for 3 ms has one sample or none. So the exact time is divided by the ratio of samples: the task's
//! own, if it has enough, else that of all tasks that ran the same program. Everything after the call to exit, when
//! memory is freed, is system time.

use crate::event::Ticks;
use ids::Nanos;
use std::collections::BTreeMap;

/// Minimum sampled time for which a task's own samples are used: 25 ticks at 250 Hz, a standard error of at most 10
/// percentage points.
const ENOUGH: Nanos = Nanos::from_ms(100);

/// Program that a task runs for some time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Program {
    /// A copy of the parent before it executes another program: mostly page faults and the exec itself.
    Fork(String),
    /// A program by name.
    Image(String),
    /// No program: the task is exiting.
    Exiting,
}

#[derive(Clone, PartialEq, Debug)]
struct Part {
    /// CPU time of the task at its start.
    from: Nanos,
    program: Program,
    ticks: Ticks,
}

/// A task's lifetime, divided by program.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    parts: Vec<Part>,
    /// Tick counts at the start of the last part.
    before: Ticks,
}

impl Parts {
    /// A task newly forked by a task of this name.
    pub fn new(comm: &str) -> Parts {
        let first = Part { from: Nanos::ZERO, program: Program::Fork(comm.to_owned()), ticks: Ticks::default() };
        Parts { parts: vec![first], before: Ticks::default() }
    }

    /// Tick counts before the recording began.
    pub fn begins_with(&mut self, ticks: Ticks) {
        self.before = ticks;
    }

    /// Tick counts at the end of the recording.
    pub fn ends_with(&mut self, ticks: Ticks) {
        let last = self.parts.last_mut().expect("a task has at least one part");
        last.ticks = Ticks { user: ticks.user.since(self.before.user), system: ticks.system.since(self.before.system) };
    }

    /// The task executes a program of this name at CPU time `work`, with these tick counts.
    pub fn exec(&mut self, work: Nanos, ticks: Ticks, comm: &str) {
        self.begin(work, ticks, Program::Image(comm.to_owned()));
    }

    /// The task calls exit at CPU time `work`, with these tick counts.
    pub fn exit(&mut self, work: Nanos, ticks: Ticks) {
        self.begin(work, ticks, Program::Exiting);
    }

    fn begin(&mut self, work: Nanos, ticks: Ticks, program: Program) {
        self.ends_with(ticks);
        self.before = ticks;
        // CPU times between switches are inaccurate by some nanoseconds; parts must not overlap.
        let from = work.max(self.parts.last().map_or(work, |last| last.from));
        self.parts.push(Part { from, program, ticks: Ticks::default() });
    }
}

/// Tick samples of all tasks by program.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    by_program: BTreeMap<Program, Ticks>,
    all: Ticks,
}

impl Pool {
    /// Adds a task's samples.
    pub fn add(&mut self, parts: &Parts) {
        for part in &parts.parts {
            let entry = self.by_program.entry(part.program.clone()).or_default();
            for sum in [entry, &mut self.all] {
                sum.user += part.ticks.user;
                sum.system += part.ticks.system;
            }
        }
    }

    /// User and system part of a task's CPU time between `from` and `to`. Their sum is exact.
    pub fn divide(&self, parts: &Parts, from: Nanos, to: Nanos) -> (Nanos, Nanos) {
        let mut system = Nanos::ZERO;
        for (index, part) in parts.parts.iter().enumerate() {
            let end = parts.parts.get(index + 1).map_or(Nanos::MAX, |next| next.from);
            let inside = to.min(end).since(from.max(part.from));
            system += self.system_part(part, inside);
        }
        let whole = to.since(from);
        (whole - system, system)
    }

    fn system_part(&self, part: &Part, time: Nanos) -> Nanos {
        if part.program == Program::Exiting {
            return time;
        }
        let pooled = self.by_program.get(&part.program).copied().unwrap_or_default();
        let sum = |ticks: Ticks| ticks.user.0 + ticks.system.0;
        let ratio = if sum(part.ticks) >= ENOUGH.0 {
            part.ticks
        } else if sum(pooled) > 0 {
            pooled
        } else {
            self.all
        };
        match sum(ratio) {
            0 => Nanos::ZERO,
            total => Nanos((u128::from(time.0) * u128::from(ratio.system.0) / u128::from(total)) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(user_ms: u64, system_ms: u64) -> Ticks {
        Ticks { user: Nanos::from_ms(user_ms), system: Nanos::from_ms(system_ms) }
    }

    #[test]
    fn own_tick_samples_are_used_if_sufficient_else_those_of_the_program() {
        // A task forked from make that runs cc for 200 ms, three quarters of it in user mode, and exits.
        let mut long = Parts::new("make");
        long.exec(Nanos::from_ms(10), ticks(0, 8), "cc");
        long.exit(Nanos::from_ms(210), ticks(150, 58));
        // A second task like the first, with a single sample.
        let mut short = Parts::new("make");
        short.exec(Nanos::from_ms(2), ticks(0, 0), "cc");
        short.exit(Nanos::from_ms(6), ticks(0, 4));
        let mut pool = Pool::default();
        pool.add(&long);
        pool.add(&short);

        let ms = Nanos::from_ms;
        assert_eq!(pool.divide(&long, ms(10), ms(210)), (ms(150), ms(50)));
        assert_eq!(pool.divide(&long, ms(0), ms(10)), (ms(0), ms(10)), "before the exec");
        assert_eq!(pool.divide(&long, ms(110), ms(230)), (ms(75), ms(45)), "the last 20 ms are after exit");
        // 150 of 204 ms of samples in cc are user time.
        let (user, system) = pool.divide(&short, ms(2), ms(6));
        assert_eq!((user + system, user.0), (ms(4), 4_000_000 - 4_000_000 * 54 / 204));
    }

    #[test]
    fn parts_do_not_overlap_if_cpu_time_goes_back() {
        let mut parts = Parts::new("sh");
        parts.exec(Nanos(1_000), ticks(0, 10), "true");
        parts.exit(Nanos(990), ticks(0, 20));
        let mut pool = Pool::default();
        pool.add(&parts);
        assert_eq!(pool.divide(&parts, Nanos::ZERO, Nanos(1_100)), (Nanos::ZERO, Nanos(1_100)));
    }

    #[test]
    fn task_older_and_longer_than_the_recording_counts_only_recorded_time() {
        let mut parts = Parts::new("server");
        parts.begins_with(ticks(5_000, 0));
        parts.ends_with(ticks(5_100, 300));
        let mut pool = Pool::default();
        pool.add(&parts);
        let ms = Nanos::from_ms;
        assert_eq!(pool.divide(&parts, ms(5_000), ms(5_400)), (ms(100), ms(300)));
    }

    #[test]
    fn without_samples_all_time_is_user_time() {
        let pool = Pool::default();
        assert_eq!(pool.divide(&Parts::new("sh"), Nanos(5), Nanos(12)), (Nanos(7), Nanos::ZERO));
    }
}
