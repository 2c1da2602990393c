// SPDX-License-Identifier: GPL-2.0-only
//! Bottom halves of interrupts, and when a CPU leaves them to its ksoftirqd.
//!
//! A kernel executes the softirqs that an interrupt has raised right after it, so that they take the time of the current
//! task. If new ones keep coming for 2 ms (`MAX_SOFTIRQ_TIME` in `kernel/softirq.c`), it wakes ksoftirqd, a task of nice 0,
//! and leaves them to it until it has done all of them. The other limit, ten restarts, is not modelled.

use ids::{CpuId, Nanos, TaskId};
use std::collections::VecDeque;

/// Time for which a CPU executes bottom halves without a break before it leaves them to ksoftirqd.
const LIMIT: Nanos = Nanos::from_ms(2);

/// A bottom half that ksoftirqd is to execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deferred {
    /// Disk and task of the request.
    pub disk: usize,
    pub task: TaskId,
    /// Its length.
    pub time: Nanos,
}

#[derive(Clone, Debug, Default)]
struct OfCpu {
    thread: Option<TaskId>,
    /// Begin and end of the current sequence of interrupts without a break.
    since: Nanos,
    until: Nanos,
    deferred: VecDeque<Deferred>,
}

/// Bottom halves of each CPU.
#[derive(Debug, Default)]
pub(crate) struct Softirqs(Vec<OfCpu>);

impl Softirqs {
    fn of(&mut self, cpu: CpuId) -> &mut OfCpu {
        if self.0.len() <= cpu.index() {
            self.0.resize(cpu.index() + 1, OfCpu::default());
        }
        &mut self.0[cpu.index()]
    }

    /// The ksoftirqd of a CPU.
    pub fn add_thread(&mut self, cpu: CpuId, thread: TaskId) {
        self.of(cpu).thread = Some(thread);
    }

    /// The ksoftirqd that is to execute the bottom half of an interrupt that is handled now; `None`: it is executed at
    /// once.
    pub fn defers(&mut self, now: Nanos, cpu: CpuId) -> Option<TaskId> {
        let state = self.of(cpu);
        let lasts = now <= state.until && now - state.since > LIMIT;
        state.thread.filter(|_| lasts || !state.deferred.is_empty())
    }

    /// An interrupt of `cpu` that was handled at `now` occupies it until this time.
    pub fn handled(&mut self, now: Nanos, until: Nanos, cpu: CpuId) {
        let state = self.of(cpu);
        if now > state.until {
            state.since = now;
        }
        state.until = until;
    }

    /// Leaves a bottom half to ksoftirqd.
    pub fn defer(&mut self, cpu: CpuId, deferred: Deferred) {
        let state = self.of(cpu);
        state.deferred.push_back(deferred);
        state.since = state.until;
    }

    /// The first bottom half that is left to the ksoftirqd of `cpu`.
    pub fn first(&mut self, cpu: CpuId) -> Option<Deferred> {
        self.of(cpu).deferred.front().copied()
    }

    /// Takes it.
    pub fn take(&mut self, cpu: CpuId) -> Option<Deferred> {
        self.of(cpu).deferred.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bottom_halves_are_deferred_after_two_milliseconds_without_a_break() {
        let (cpu, mut softirqs) = (CpuId(1), Softirqs::default());
        softirqs.add_thread(cpu, TaskId(7));
        let us = Nanos::from_us;
        for (now, until) in [(0, 1_000), (1_000, 2_000), (2_000, 3_000)] {
            assert_eq!(softirqs.defers(us(now), cpu), None);
            softirqs.handled(us(now), us(until), cpu);
        }
        assert_eq!(softirqs.defers(us(3_001), cpu), None, "there was a break");
        assert_eq!(softirqs.defers(us(3_000), cpu), Some(TaskId(7)));
        softirqs.defer(cpu, Deferred { disk: 0, task: TaskId(3), time: us(1) });
        assert_eq!(softirqs.defers(us(9_000), cpu), Some(TaskId(7)), "ksoftirqd is not done");
        assert_eq!(softirqs.take(cpu), Some(Deferred { disk: 0, task: TaskId(3), time: us(1) }));
        assert_eq!((softirqs.first(cpu), softirqs.defers(us(9_000), cpu)), (None, None));
        assert_eq!(softirqs.defers(us(0), CpuId(0)), None, "a CPU without a thread");
    }
}
