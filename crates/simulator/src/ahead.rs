// SPDX-License-Identifier: GPL-2.0-only
//! Operations executed ahead of time, so that an uncontended lock needs no event.
//!
//! 1. An operation whose only lock is free now, and which affects no other CPU, is executed completely when it
//!    begins, although other CPUs may act before its end. The lock keeps its state; its future holder and the times
//!    are recorded beside it.
//! 2. If another CPU asks for that lock before the time at which it would have been taken, it gets the lock, and the
//!    operation executed ahead is rolled back to its lock and continues in its time. A CPU that asks later finds the
//!    lock taken.
//! 3. A saved event counts where the simulator relies on nothing happening up to some time.
//!
//! The results are identical to the bit. Where the seed orders simultaneous events each event consumes a random
//! number, so there no event is saved.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::locks::LockNumber;
use crate::model::Model;
use crate::run::Run;
use crate::script::Acquisition;
use ids::{CpuId, Nanos};
use kernel_model::Effect;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operation that was executed ahead of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    acquisition: Acquisition,
    /// Cost of the operation from the acquisition of the lock on.
    cost: Nanos,
}

/// Lock acquisitions of operations that were executed ahead (optimistically) and need no event of their own unless
/// they are rolled back.
#[derive(Debug, Default)]
pub(crate) struct SavedEvents {
    /// Times at which CPUs take the locks of operations executed ahead; these count as events. May contain events
    /// that are already past.
    events: BinaryHeap<Reverse<(Nanos, CpuId)>>,
    /// Disabled in tests that compare both modes.
    pub off: bool,
    /// Number of operations executed ahead, and how many of these were rolled back.
    #[cfg(test)]
    pub counts: [u64; 2],
}

impl SavedEvents {
    /// Whether any such acquisition is recorded.
    pub fn is_any(&self) -> bool {
        !self.events.is_empty()
    }

    /// Time of the next acquisition; those for which `is_past` is true are dropped.
    fn next(&mut self, is_past: impl Fn(Nanos, CpuId) -> bool) -> Option<Nanos> {
        while let Some(&Reverse((at, cpu))) = self.events.peek() {
            if !is_past(at, cpu) {
                return Some(at);
            }
            self.events.pop();
        }
        None
    }

    /// Counts for the tests.
    #[inline]
    fn count(&mut self, _which: usize) {
        #[cfg(test)]
        {
            self.counts[_which] += 1;
        }
    }

    /// Drops the event of `cpu`.
    fn forget(&mut self, cpu: CpuId) {
        self.events.retain(|Reverse((_, hidden))| *hidden != cpu);
    }
}

impl<M: Model> Run<'_, M> {
    /// Whether the operation whose output was taken affects no other CPU. False where the order of simultaneous
    /// events is random.
    pub fn may_execute_ahead(&self, cpu: CpuId) -> bool {
        let concerns_others = |effect: &Effect| matches!(effect, Effect::Resched { cpu: target } if *target != cpu);
        let each_event_counts = self.alarms.are_drawn()
            || self.operations.wait()
            || self.locks.as_ref().is_none_or(|locks| locks.saved.off);
        !each_event_counts && !self.kernel.output.effects.iter().any(concerns_others)
    }

    /// Executes an operation whose lock is free, and which reaches the lock at time `at`.
    pub fn execute_ahead(&mut self, cpu: CpuId, acquisition: Acquisition, at: Nanos) {
        let Acquisition { lock, caller, before, under, after } = acquisition;
        let locks = self.locks.as_mut().expect("taking a lock implies locks");
        locks.saved.events.push(Reverse((at, cpu)));
        let free = locks.plan_hold(lock, cpu, caller, at, under);
        let entry = &mut self.cpus[cpu];
        let cost = free + after - at;
        entry.ahead = Some(Ahead { acquisition, cost });
        entry.charge(Charge::scheduler(before + cost));
        locks.saved.count(0);
    }

    /// `cpu` is about to do something else, or the run ends: its operation executed ahead is completed or rolled
    /// back.
    #[inline]
    pub fn end_ahead(&mut self, cpu: CpuId) {
        if let Some(Ahead { acquisition: Acquisition { lock, .. }, .. }) = self.cpus[cpu].ahead {
            let locks = self.locks.as_mut().expect("taking a lock implies locks");
            if locks
                .planned_hold(lock)
                .is_some_and(|planned_hold| planned_hold.cpu == cpu && planned_hold.at >= self.clock.now())
            {
                locks.saved.forget(cpu);
                self.roll_back(cpu);
            } else {
                if locks.planned_hold(lock).is_some_and(|planned_hold| planned_hold.cpu == cpu) {
                    locks.commit_hold(lock);
                }
                self.cpus[cpu].ahead = None;
            }
        }
    }

    /// `cpu` asks for a lock at time `at`. If another CPU took the lock ahead of time, that is made final or rolled
    /// back.
    pub fn request_lock(&mut self, cpu: CpuId, lock: LockNumber, at: Nanos) {
        let locks = self.locks.as_mut().expect("a script implies locks");
        let Some(planned_hold) = locks.planned_hold(lock) else { return };
        // At equal times, the order of the CPUs' alarms decides.
        let was_first = match at > self.clock.now() {
            true => planned_hold.cpu < cpu,
            false => self.alarms.comes_before_this(planned_hold.cpu),
        };
        if planned_hold.at < at || planned_hold.at == at && was_first {
            locks.commit_hold(lock);
        } else {
            self.roll_back(planned_hold.cpu);
            self.alarms.set(Alarm::Cpu(planned_hold.cpu), planned_hold.at);
        }
    }

    /// Rolls back the operation that `cpu` executed ahead to its lock.
    fn roll_back(&mut self, cpu: CpuId) {
        let entry = &mut self.cpus[cpu];
        let Ahead { acquisition, cost } = entry.ahead.take().expect("an operation was executed ahead");
        let locks = self.locks.as_mut().expect("executing ahead implies locks");
        locks.forget(acquisition.lock);
        locks.saved.count(1);
        entry.refund(cost);
        acquisition.write_from_lock(&mut entry.script);
    }

    /// The run ends at `end`, or at the current time if that is earlier: operations executed ahead take effect up to
    /// that time.
    pub fn end_all_ahead(&mut self, end: Nanos) {
        let cut = end > self.clock.now();
        let Some(locks) = &mut self.locks else { return };
        for cpu in self.cpus.iter_mut() {
            let Some(Ahead { acquisition: Acquisition { lock, .. }, .. }) = cpu.ahead.take() else { continue };
            let Some(planned_hold) = locks.planned_hold(lock).filter(|planned_hold| planned_hold.cpu == cpu.number())
            else {
                continue;
            };
            let at_the_end = planned_hold.at == end && !cut && self.alarms.comes_before_this(planned_hold.cpu);
            if planned_hold.at < end || at_the_end { locks.commit_hold(lock) } else { locks.forget(lock) }
        }
    }

    /// Rolls back everything executed ahead: the clock is about to jump, or no other event is left.
    pub fn roll_back_all(&mut self) {
        for cpu in (0..self.cpus.len() as u32).map(CpuId) {
            let was_ahead = self.cpus[cpu].ahead.is_some();
            self.end_ahead(cpu);
            let entry = &self.cpus[cpu];
            if was_ahead && !entry.script.is_empty() {
                self.alarms.set(Alarm::Cpu(cpu), entry.free_at());
            }
        }
        if let Some(locks) = &mut self.locks {
            locks.saved.events.clear();
        }
    }

    /// Whether no other event happens up to `time`; then no other CPU asks for a lock before.
    pub fn is_first(&mut self, time: Nanos) -> bool {
        self.next_event() > time
    }

    /// Time of the next event, saved events included.
    pub fn next_event(&mut self) -> Nanos {
        let due = self.alarms.next_due().unwrap_or(Nanos::MAX);
        let (now, alarms) = (self.clock.now(), &self.alarms);
        let is_past = |at: Nanos, cpu| at < now || at == now && alarms.comes_before_this(cpu);
        let saved = self.locks.as_mut().and_then(|locks| locks.saved.next(is_past));
        saved.map_or(due, |saved| saved.min(due))
    }
}
