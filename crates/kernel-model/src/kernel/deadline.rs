// SPDX-License-Identifier: GPL-2.0-only
//! Timers of the deadline class and of deadline servers, and pushes (contract P9, Q1-Q5).

use super::{Kernel, Stage};
use crate::core::ops_flags;
use crate::core::task::Class;
use ids::{CpuId, TaskId};
use two_forms::two_forms;

#[two_forms]
impl Kernel {
    /// Whether a scheduler is attached, and whether it has all normal tasks.
    pub(super) fn attached_how(&self) -> (bool, bool) {
        (self.stage == Stage::Enabled, !self.flag(ops_flags::SWITCH_PARTIAL))
    }

    /// `push_dl_tasks`: moves the deadline tasks that wait on `cpu` to CPUs where they can run.
    pub(super) fn push_deadline(&mut self, cpu: CpuId) {
        while let Some(task) = self.core.dl_push_one(cpu) {
            self.preempt_lower(task, false);
            self.core.resched(self.core.task_cpu(task));
        }
    }

    /// `dl_task_timer`: the next period of a throttled task begins. A task that sleeps joins its queue when it wakes
    /// up.
    pub(super) async fn replenish(&mut self, task: TaskId) {
        let entry = self.core.task(task);
        if entry.class != Class::Deadline || !entry.dl.is_throttled() || entry.exiting {
            return;
        }
        let mut cpu = entry.cpu;
        if entry.is_runnable() && !self.core.cpus[cpu.index()].online {
            // dl_task_offline_migration().
            cpu = self.correct_cpu(task, cpu).await;
            self.core.migrate(task, cpu);
        }
        self.begin_locked(cpu, "dl_task_timer").await;
        self.core.dl_replenish(task);
        if self.core.task(task).is_runnable() {
            if self.core.current(cpu) != task {
                self.core.dl_requeue(task);
            }
            self.preempt_lower(task, false);
            self.push_deadline(cpu);
        }
        self.unlock().await;
    }

    /// `dl_server_timer`.
    pub(super) async fn server_timer(&mut self, cpu: CpuId) {
        self.begin_locked(cpu, "dl_server_timer").await;
        self.update_current(cpu);
        if self.core.servers_fired(cpu) {
            self.core.resched(cpu);
        }
        self.unlock().await;
    }
}
