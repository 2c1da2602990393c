// SPDX-License-Identifier: GPL-2.0-only
//! Which locks the kernel takes for each operation. The model executes an operation at one instant and needs no
//! locks; the machine model uses this record to charge lock waits.
//!
//! 1. `__schedule`, `try_to_wake_up`, the tick, and attribute changes of a task hold one runqueue lock: that of the
//!    CPU that switches or ticks, or of the CPU that the task goes to or is on.
//! 2. User queues, global queues and bypass queues have locks of their own, held for one insert or one removal. A
//!    local queue is protected by the lock of its runqueue.
//! 3. An operation that needs another runqueue releases the one that it holds first, and takes it again afterwards
//!    (`switch_rq_lock` in kernel/sched/ext.c of 7.2).

use super::dsq::QueueRef;
use super::{Core, CpuContext};
use crate::api::{Lock, LockStep, Usage};
use crate::ops::Op;
use ids::CpuId;

/// Locks held by an operation in progress.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks {
    /// CPU whose runqueue is locked.
    pub runqueue: Option<CpuId>,
    /// The queue lock that is held. Used only with `+waiting`.
    pub queue: Option<Lock>,
    /// Name of the kernel operation.
    pub operation: &'static str,
    /// Instructions executed so far by the callback in progress, some of which are not in the usage yet.
    pub in_flight: u64,
}

/// The lock that protects a queue.
pub(crate) fn lock_of(queue: QueueRef) -> Lock {
    match queue {
        QueueRef::Local(cpu) => Lock::Runqueue(cpu),
        QueueRef::Global(node) => Lock::Global(node),
        QueueRef::Bypass(cpu) => Lock::Bypass(cpu),
        QueueRef::User(dsq) => Lock::Dsq(dsq),
    }
}

impl Core {
    /// Begins an operation that holds the runqueue lock of `cpu`.
    pub fn begin_locked(&mut self, cpu: CpuId, operation: &'static str) {
        self.context.locks.operation = operation;
        self.lock_runqueue(cpu);
    }

    /// Takes a runqueue lock, and first releases the one that the operation holds.
    pub fn lock_runqueue(&mut self, cpu: CpuId) {
        if self.recorded.locks && self.context.locks.runqueue != Some(cpu) {
            self.unlock_runqueue();
            self.step(Lock::Runqueue(cpu), true);
            self.context.locks.runqueue = Some(cpu);
        }
    }

    /// Releases the runqueue lock that the operation holds, if any.
    pub fn unlock_runqueue(&mut self) {
        if let Some(cpu) = self.context.locks.runqueue.take() {
            self.step(Lock::Runqueue(cpu), false);
        }
    }

    /// Notes work done under the lock of this runqueue; the lock held before is held again afterwards.
    pub fn visit_runqueue(&mut self, cpu: CpuId) {
        if self.context.locks.runqueue == Some(cpu) {
            return;
        }
        if self.context.waits {
            return self.context.visits.push(cpu);
        }
        if !self.recorded.locks {
            return;
        }
        let before = self.context.locks.runqueue;
        self.lock_runqueue(cpu);
        match before {
            Some(before) => self.lock_runqueue(before),
            None => self.unlock_runqueue(),
        }
    }

    /// Notes an insert into or a removal from `queue`.
    pub fn visit_queue(&mut self, queue: QueueRef) {
        if !self.recorded.locks && !self.context.waits {
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

    /// Notes that the callback in progress takes or releases a `bpf_spin_lock`.
    pub fn bpf_lock(&mut self, addr: u64, taken: bool) {
        if self.recorded.locks && !self.context.waits {
            self.step(Lock::Bpf(addr), taken);
        }
    }

    /// Adds to the usage the instructions that the callback in progress has executed since the last call; `executed`
    /// is its total.
    pub fn count_executed(&mut self, executed: u64) {
        self.output.usage.instructions += executed - self.context.counted;
        self.context.counted = executed;
    }

    fn step(&mut self, lock: Lock, taken: bool) {
        let step = self.lock_step(lock, taken);
        self.output.locks.push(step);
    }

    /// A lock step of the operation in progress, with its usage so far.
    #[inline(always)]
    pub fn lock_step(&self, lock: Lock, taken: bool) -> LockStep {
        let CpuContext { counted, locks, .. } = &self.context;
        let Usage { callbacks, instructions, calls } = self.output.usage;
        let instructions = instructions + locks.in_flight.saturating_sub(*counted);
        let caller = self.context.running.op.map_or(self.context.locks.operation, Op::name);
        LockStep { lock, taken, caller, used: Usage { callbacks, instructions, calls } }
    }
}
