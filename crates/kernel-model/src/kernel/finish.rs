// SPDX-License-Identifier: GPL-2.0-only
//! End of an operation: carries out the actions that callbacks requested and the kernel defers until its locks are
//! released or until it returns to user mode.

use super::{Kernel, Stage};
use crate::core::dsq::QueueRef;
use crate::core::task::ReenqueueReason;
use crate::core::{Reenqueue, enq_flags, ops_flags};
use ids::{CpuId, DsqId, TaskId};
use two_forms::two_forms;

/// Maximum number of re-enqueues of one queue in one operation (contract K2).
const REENQUEUE_LIMIT: u32 = 256;

#[two_forms]
impl Kernel {
    /// Carries out deferred verdicts, re-enqueues and kicks; then disables the scheduler if there was an error.
    pub(super) async fn finish(&mut self) {
        self.core.finished += 1;
        self.core.context.finish = self.core.finished;
        if self.core.context.is_more_to_do() {
            self.do_deferred().await;
        }
        self.report_custody().await;
        if !self.core.context.kicks.is_empty() {
            self.core.send_kicks(&mut self.machine.memory);
        }
        self.core.leave_kernel(self.core.context.cpu);
        while let Some(cpu) = self.core.context.interrupted.pop() {
            self.core.leave_kernel(cpu);
        }
        if self.core.attached.is_exiting() && self.stage == Stage::Enabled && self.is_alone() {
            self.disable();
        }
    }

    /// Carries out deferred verdicts and re-enqueues until none are left. Most operations have none.
    async fn do_deferred(&mut self) {
        let mut users = 0;
        loop {
            if let Some(task) = self.core.context.deferred.pop_front() {
                self.deliver(task).await;
            } else if let Some(cpu) = self.core.context.reenqueue.pop_front() {
                let which = self.core.cpus[cpu.index()].reenqueue.take().expect("it is pending");
                if self.count_reenqueue(cpu) {
                    self.reenqueue(cpu, which).await;
                }
            } else if let Some(dsq) = self.core.context.reenqueue_users.pop_front() {
                users += 1;
                if users > REENQUEUE_LIMIT {
                    self.core.fail(format!("SCX_ENQ_REENQ on DSQ {:#x} repeated {users} times", dsq.0));
                } else {
                    self.reenqueue_user(dsq).await;
                }
            } else {
                break;
            }
        }
    }

    /// Carries out a LOCAL_ON verdict of `select_cpu` or `enqueue` for another CPU (contract D2).
    pub(super) async fn deliver(&mut self, task: TaskId) {
        let Some(verdict) = self.core.task(task).verdict else { return };
        let cpu = self.core.task_cpu(task);
        let outer = self.core.blame(verdict.op, verdict.call);
        match self.core.resolve(cpu, verdict.dsq, task) {
            QueueRef::Local(to) => {
                self.lock_rq(to).await;
                let memory = &mut self.machine.memory;
                self.core.send_to_local(memory, task, to, verdict.ordered, verdict.enq_flags);
                self.unlock_rq().await;
            }
            queue => self.insert(task, queue, verdict.ordered, verdict.enq_flags).await,
        }
        self.core.blame(outer.0, outer.1);
    }

    /// Counts the re-enqueues of a local queue in this operation; returns false and reports an error above the limit.
    fn count_reenqueue(&mut self, cpu: CpuId) -> bool {
        let operation = self.core.context.finish;
        let (last, repeats) = &mut self.core.cpus[cpu.index()].reenqueued;
        if *last != operation {
            (*last, *repeats) = (operation, 0);
            return true;
        }
        *repeats += 1;
        let repeats = *repeats;
        self.core.attached.counters.reenq_local_repeat += 1;
        if repeats > REENQUEUE_LIMIT {
            self.core.fail(format!("SCX_ENQ_REENQ on SCX_DSQ_LOCAL repeated {repeats} times"));
        }
        repeats <= REENQUEUE_LIMIT
    }

    /// `reenq_local`: re-enqueues tasks of a local queue: all of them, or only the IMMED tasks that cannot run at
    /// once, because another task is before them or the CPU is busy (contract K2, D10).
    async fn reenqueue(&mut self, cpu: CpuId, which: Reenqueue) {
        self.lock_rq(cpu).await;
        let open = self.core.is_open(cpu, 0);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend(self.core.cpus[cpu.index()].local.iter().map(|(_, task)| task));
        let mut first = true;
        waiting.retain(|&task| {
            let stays = std::mem::take(&mut first) && open;
            let reason = match which {
                _ if self.core.task(task).immediate && !stays => ReenqueueReason::Immediate,
                Reenqueue::All | Reenqueue::Released(_) => ReenqueueReason::Kfunc,
                Reenqueue::Immediate => return false,
            };
            self.core.attached.counters.reenq_immed += u64::from(reason == ReenqueueReason::Immediate);
            self.core.dequeue_from(task);
            self.core.task_mut(task).reenqueue_reason = reason;
            true
        });
        for task in waiting.drain(..) {
            if which == Reenqueue::Released(task) && self.skips_migration_disabled() {
                self.core.task_mut(task).reenqueue_reason = ReenqueueReason::None;
                self.core.attached.counters.enq_skip_migration_disabled += 1;
                self.enqueue_refilled(task, QueueRef::Local(cpu), enq_flags::REENQ).await;
                continue;
            }
            let reason = self.core.task(task).reenqueue_reason;
            self.enqueue_again(task, reason).await;
        }
        self.waiting = waiting;
        self.unlock_rq().await;
    }

    /// Whether a migration-disabled task goes to its local queue without an `enqueue` call (contract D12). A BPF
    /// program disables migration of the current task while it runs (`rcu_read_lock_dont_migrate`). In `cpu_release`
    /// that is the task just preempted, which the kernel therefore treats as migration-disabled.
    fn skips_migration_disabled(&self) -> bool {
        self.core.config.version >= (6, 14) && !self.flag(ops_flags::ENQ_MIGRATION_DISABLED)
    }

    /// `reenq_user`: re-enqueues the tasks that a user queue holds now (contract K2).
    async fn reenqueue_user(&mut self, dsq: DsqId) {
        let held: Vec<TaskId> =
            self.core.queues.user(dsq).map_or(Vec::new(), |queue| queue.iter().map(|(_, task)| task).collect());
        for task in held {
            self.lock_rq(self.core.task_cpu(task)).await;
            let stays = self.core.task(task).queue == Some(QueueRef::User(dsq));
            if stays && !self.core.bypassing() {
                self.core.dequeue_from(task);
                self.enqueue_again(task, ReenqueueReason::Kfunc).await;
            }
        }
        self.unlock_rq().await;
    }

    /// Calls `enqueue` with REENQ for a task that was taken out of its queue; the task flags show the reason
    /// (contract D9, D10).
    pub(super) async fn enqueue_again(&mut self, task: TaskId, reason: ReenqueueReason) {
        self.core.task_mut(task).reenqueue_reason = reason;
        self.show_flags(task);
        self.do_enqueue(task, enq_flags::REENQ).await;
        self.core.task_mut(task).reenqueue_reason = ReenqueueReason::None;
        self.show_flags(task);
    }
}
