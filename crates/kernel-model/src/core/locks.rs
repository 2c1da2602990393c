// SPDX-License-Identifier: GPL-2.0-only
//! Which locks a kernel takes on its way. The model does everything at one instant and needs none; whoever prices an
//! operation asks which ones a kernel would have waited for.
//!
//! 1. `__schedule`, `try_to_wake_up`, the tick, and changes of a task hold the lock of one runqueue: of the CPU that
//!    switches or ticks, or of the CPU that the task goes to or is on.
//! 2. A queue of the scheduler, the global ones and those of the bypass have a lock of their own, which is held for one
//!    insert or one removal. Local queues go by the lock of their runqueue.
//! 3. Who needs another runqueue gives the one that it holds back first, and takes it again afterwards
//!    (`switch_rq_lock` in kernel/sched/ext.c of 7.2).

use super::dsq::QueueRef;
use super::{Core, CpuContext};
use crate::api::{Lock, LockStep, Usage};
use crate::ops::Op;
use ids::CpuId;

/// The locks that an operation in progress holds.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    /// Whose runqueue it has locked.
    pub runqueue: Option<CpuId>,
    /// The queue that it has locked. Only where operations wait.
    pub queue: Option<Lock>,
    /// The operation of the kernel.
    pub operation: &'static str,
    /// What the callback in progress has executed so far; the usage does not have that yet.
    pub in_flight: u64,
}

/// The lock of a queue.
pub(crate) fn lock_of(queue: QueueRef) -> Lock {
    match queue {
        QueueRef::Local(cpu) => Lock::Runqueue(cpu),
        QueueRef::Global(node) => Lock::Global(node),
        QueueRef::Bypass(cpu) => Lock::Bypass(cpu),
        QueueRef::User(dsq) => Lock::Dsq(dsq),
    }
}

impl Core {
    /// An operation begins with the lock of a runqueue.
    pub fn begin_locked(&mut self, cpu: CpuId, operation: &'static str) {
        self.context.locks.operation = operation;
        self.lock_runqueue(cpu);
    }

    /// Takes the lock of a runqueue, instead of the one that the operation holds.
    pub fn lock_runqueue(&mut self, cpu: CpuId) {
        if self.locks_tracked && self.context.locks.runqueue != Some(cpu) {
            self.unlock_runqueue();
            self.step(Lock::Runqueue(cpu), true);
            self.context.locks.runqueue = Some(cpu);
        }
    }

    /// Gives back the lock of the runqueue that the operation holds, if it does.
    pub fn unlock_runqueue(&mut self) {
        if let Some(cpu) = self.context.locks.runqueue.take() {
            self.step(Lock::Runqueue(cpu), false);
        }
    }

    /// Something is done under the lock of this runqueue, whichever was held before is held again afterwards.
    pub fn visit_runqueue(&mut self, cpu: CpuId) {
        if self.context.locks.runqueue == Some(cpu) {
            return;
        }
        if self.context.waits {
            return self.context.visits.push(cpu);
        }
        if !self.locks_tracked {
            return;
        }
        let before = self.context.locks.runqueue;
        self.lock_runqueue(cpu);
        match before {
            Some(before) => self.lock_runqueue(before),
            None => self.unlock_runqueue(),
        }
    }

    /// A task is put into `queue` or taken out.
    pub fn visit_queue(&mut self, queue: QueueRef) {
        if !self.locks_tracked && !self.context.waits {
            return;
        }
        match lock_of(queue) {
            Lock::Runqueue(cpu) => self.visit_runqueue(cpu),
            lock if self.context.locks.queue == Some(lock) => {}
            lock => {
                self.step(lock, true);
                self.step(lock, false);
            }
        }
    }

    /// The callback in progress takes or gives back a lock of the scheduler.
    pub fn bpf_lock(&mut self, addr: u64, taken: bool) {
        if self.locks_tracked && !self.context.waits {
            self.step(Lock::Bpf(addr), taken);
        }
    }

    /// The callback in progress has executed so many instructions: what of that is new belongs to the usage.
    pub fn count_executed(&mut self, executed: u64) {
        self.output.usage.instructions += executed - self.context.counted;
        self.context.counted = executed;
    }

    fn step(&mut self, lock: Lock, taken: bool) {
        let step = self.lock_step(lock, taken);
        self.output.locks.push(step);
    }

    /// The operation in progress takes a lock now, or gives it back.
    #[inline(always)]
    pub fn lock_step(&self, lock: Lock, taken: bool) -> LockStep {
        let CpuContext { counted, locks, .. } = &self.context;
        let Usage { callbacks, instructions, calls } = self.output.usage;
        let instructions = instructions + locks.in_flight.saturating_sub(*counted);
        let caller = self.context.running.op.map_or(self.context.locks.operation, Op::name);
        LockStep { lock, taken, caller, used: Usage { callbacks, instructions, calls } }
    }
}
