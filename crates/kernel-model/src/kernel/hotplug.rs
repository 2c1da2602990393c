// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug and system suspend (contract H1).
//!
//! A CPU goes offline in three steps, each requested by the driver. In a kernel, the thread `cpuhp/N` executes the
//! first two on that CPU and is scheduled like any other task. A driver may model that thread; without it the
//! scheduler sees an idle CPU become busy and idle again, as if the thread had run.
//! 1. [`Kernel::deactivate_cpu`]: no task may be placed here any more. The running task, and every task picked from
//!    now on, is moved to another CPU by the stopper thread (`balance_push`). The scheduler still dispatches, so that
//!    the tasks in its queues that belong to this CPU leave too. A kernel waits for an RCU grace period after this
//!    step.
//! 2. [`Kernel::offline_cpu`]: the remaining waiting tasks go to the local queue, and the scheduler gets
//!    `cpu_offline` or is disabled if it lacks the op.
//! 3. [`Kernel::kill_cpu`]: the CPU stops once no task is left on it.

use super::attach::RESTART_FOR_HOTPLUG;
use super::{Kernel, Stage};
use crate::core::dsq::QueueRef;
use crate::core::{deq_flags, exit_kind};
use crate::ops::Op;
use event_log::EventKind;
use ids::{CpuId, TaskId};

impl Kernel {
    /// First step of going offline (`set_cpu_active(false)`, `balance_push_set`), executed by `cpu` itself.
    ///
    /// # Panics
    /// If no other active CPU remains, or `cpu` is going offline already.
    pub fn deactivate_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(rq.active, "CPU {cpu} is not active");
        rq.active = false;
        self.core.fair_dequeue_all_delayed(cpu, TaskId::NONE);
        assert!(!self.core.active_cpus().is_empty(), "no active CPU remains");
        if self.core.current(cpu).some().is_some_and(|current| !self.may_run_on(current, cpu)) {
            self.core.resched(cpu);
        }
        self.finish();
    }

    /// Second step (`rq_offline_scx`, `handle_hotplug`), executed by `cpu` itself.
    ///
    /// # Panics
    /// Unless the first step was done.
    pub fn offline_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(!rq.active && rq.scx_online, "CPU {cpu} has not been deactivated");
        rq.scx_online = false;
        for task in self.core.runnable_on(cpu).into_iter().rev() {
            if self.core.task(task).queue != Some(QueueRef::Local(cpu)) {
                self.change(task, deq_flags::MOVE, |_| {});
            }
        }
        let idles = self.core.current(cpu) == TaskId::NONE;
        if idles {
            self.update_idle(cpu, false);
        }
        self.handle_hotplug(cpu, false);
        if idles {
            self.update_idle(cpu, true);
        }
        let members = self.core.active_cpus();
        self.core.idle.spans.set_members(&members);
        self.finish();
        if !self.is_vacant(cpu) {
            self.core.resched(cpu);
        }
    }

    /// Whether no task runs or waits on `cpu`.
    pub fn is_vacant(&self, cpu: CpuId) -> bool {
        let rq = &self.core.cpus[cpu.index()];
        rq.current == TaskId::NONE && rq.ext_tasks == 0 && rq.higher.is_empty()
    }

    /// Last step: `cpu` stops. Built-in idle tracking still marks it idle, as its idle task was the last to run
    /// (`take_cpu_down`, then `do_idle`), until a search claims the CPU.
    ///
    /// # Panics
    /// Unless the second step was done and no task is left on `cpu`.
    pub fn kill_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        assert!(
            !self.core.cpus[cpu.index()].scx_online && self.is_vacant(cpu),
            "CPU {cpu} has tasks or is not offline for the scheduler"
        );
        self.core.note_idle(cpu, false);
        self.update_current(cpu);
        let rq = &mut self.core.cpus[cpu.index()];
        (rq.online, rq.need_resched) = (false, false);
        self.show_online();
        self.core.idle.masks.cpus.insert(cpu);
        self.core.log(TaskId::NONE, EventKind::Hotplug { online: false });
        self.finish();
    }

    /// Brings `cpu` online: it idles, and its per-CPU kthreads may run there. [`Kernel::activate_cpu`] follows.
    ///
    /// # Panics
    /// If it is online.
    pub fn start_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let now = self.core.rq_clock(cpu);
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(!rq.online, "CPU {cpu} is online already");
        (rq.online, rq.exec_start) = (true, now);
        self.show_online();
        self.core.log(TaskId::NONE, EventKind::Hotplug { online: true });
        self.finish();
    }

    /// Allows tasks on a CPU that was started; the scheduler gets `cpu_online` or is disabled if it lacks the op
    /// (`sched_cpu_activate`).
    ///
    /// # Panics
    /// If `cpu` was not started, or is active already.
    pub fn activate_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(rq.online && !rq.active, "CPU {cpu} is not online or already active");
        (rq.active, rq.scx_online) = (true, true);
        let members = self.core.active_cpus();
        self.core.idle.spans.set_members(&members);
        let idles = self.core.current(cpu) == TaskId::NONE;
        if idles {
            self.core.cpus[cpu.index()].occupied = true;
            self.update_idle(cpu, false);
        }
        self.handle_hotplug(cpu, true);
        if idles {
            // The CPU's hotplug kthread blocks: the CPU picks its next task, also from the global queue.
            self.core.resched(cpu);
        }
        self.finish();
    }

    /// Number of CPU hotplug events since boot, which a loader writes to `ops.hotplug_seq`.
    pub fn hotplug_seq(&self) -> u64 {
        self.core.hotplug_seq
    }

    fn show_online(&mut self) {
        let online = self.core.online_cpus();
        self.core.idle.spans.set_online(&online);
        let memory = &mut self.machine.memory;
        self.core.objects.fixed_masks.set_online(memory, &online);
        self.core.objects.per_cpu.show_caches(memory, &self.core.config.topology, &online);
    }

    /// `handle_hotplug`: calls `cpu_online` or `cpu_offline`, or disables a scheduler that lacks the op.
    fn handle_hotplug(&mut self, cpu: CpuId, online: bool) {
        self.core.hotplug_seq += 1;
        if self.stage == Stage::Disabled {
            return;
        }
        self.core.idle.spans.tune();
        let op = if online { Op::CpuOnline } else { Op::CpuOffline };
        if self.has(op) {
            self.call(op, &[u64::from(cpu.0)]);
        } else {
            let message = format!("cpu {cpu} going {}, exiting scheduler", if online { "online" } else { "offline" });
            self.core.error(exit_kind::UNREGISTERED_KERNEL, RESTART_FOR_HOTPLUG, message);
        }
    }

    /// The machine is about to suspend (PM_SUSPEND_PREPARE); executed by `cpu`. Enters bypass until
    /// [`Kernel::end_suspend`], because the scheduler's user-space part will be frozen.
    pub fn begin_suspend(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if self.stage != Stage::Disabled && !std::mem::replace(&mut self.suspending, true) {
            self.enter_bypass();
        }
        self.finish();
    }

    /// The machine has resumed and its tasks are thawed (PM_POST_SUSPEND).
    pub fn end_suspend(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if std::mem::take(&mut self.suspending) {
            self.leave_bypass();
        }
        self.finish();
    }
}
