// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go, and a machine that sleeps (contract H1).
//!
//! A CPU goes in three steps, each of which the driver asks for in its time. In a kernel the thread `cpuhp/N` takes the first
//! two on that CPU, as a task of the scheduler that has to get its turn. A driver may have such a task; without one
//! the scheduler sees an idle CPU stop idling and idle again, as if it had come and gone.
//! 1. [`Kernel::deactivate_cpu`]: tasks no longer come here. Whoever runs, and whoever is picked from now on, is taken
//!    to another CPU by the migration helper (`balance_push`). The scheduler still dispatches: those of its queues'
//!    tasks that are here must leave too. A kernel waits for RCU after this.
//! 2. [`Kernel::offline_cpu`]: what still waits goes to the local queue, and the scheduler is told, or sent away.
//! 3. [`Kernel::kill_cpu`]: when nobody is left here the CPU stops.

use super::attach::RESTART_FOR_HOTPLUG;
use super::{Kernel, Stage};
use crate::core::dsq::QueueRef;
use crate::core::{deq_flags, exit_kind};
use crate::ops::Op;
use event_log::EventKind;
use ids::{CpuId, TaskId};

impl Kernel {
    /// First step of going offline (`set_cpu_active(false)`, `balance_push_set`), done on `cpu` itself.
    ///
    /// # Panics
    /// If no other CPU is left for its tasks, or it is going already.
    pub fn deactivate_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(rq.active, "CPU {cpu} is up");
        rq.active = false;
        self.core.fair_let_all_go(cpu, TaskId::NONE);
        assert!(!self.core.active_cpus().is_empty(), "one CPU stays");
        if self.core.current(cpu).some().is_some_and(|current| !self.may_run_on(current, cpu)) {
            self.core.resched(cpu);
        }
        self.finish();
    }

    /// Second step (`rq_offline_scx`, `handle_hotplug`), done on `cpu` itself.
    ///
    /// # Panics
    /// Unless the first was done.
    pub fn offline_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(!rq.active && rq.scx_online, "CPU {cpu} is going");
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
        self.tell_hotplug(cpu, false);
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

    /// Last step: `cpu` stops. The built-in tracking goes on to call it idle: its idle task was the last to come
    /// (`take_cpu_down`, then `do_idle`), and nobody clears that bit until somebody claims it.
    ///
    /// # Panics
    /// Unless the second step was done and nobody is left there.
    pub fn kill_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        assert!(!self.core.cpus[cpu.index()].scx_online && self.is_vacant(cpu), "CPU {cpu} is vacant");
        self.core.note_idle(cpu, false);
        self.update_current(cpu);
        let rq = &mut self.core.cpus[cpu.index()];
        (rq.online, rq.need_resched) = (false, false);
        self.show_online();
        self.core.idle.masks.cpus.insert(cpu);
        self.core.log(TaskId::NONE, EventKind::Hotplug { online: false });
        self.finish();
    }

    /// `cpu` comes: it idles, and its own threads may run there. [`Kernel::activate_cpu`] follows.
    ///
    /// # Panics
    /// If it is there.
    pub fn start_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let now = self.core.rq_clock(cpu);
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(!rq.online, "CPU {cpu} is offline");
        (rq.online, rq.exec_start) = (true, now);
        self.show_online();
        self.core.log(TaskId::NONE, EventKind::Hotplug { online: true });
        self.finish();
    }

    /// Tasks may come to a CPU that was started, and the scheduler is told, or sent away (`sched_cpu_activate`).
    ///
    /// # Panics
    /// If it was not started, or they may already.
    pub fn activate_cpu(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        let rq = &mut self.core.cpus[cpu.index()];
        assert!(rq.online && !rq.active, "CPU {cpu} was started");
        (rq.active, rq.scx_online) = (true, true);
        let members = self.core.active_cpus();
        self.core.idle.spans.set_members(&members);
        let idles = self.core.current(cpu) == TaskId::NONE;
        if idles {
            self.core.cpus[cpu.index()].occupied = true;
            self.update_idle(cpu, false);
        }
        self.tell_hotplug(cpu, true);
        if idles {
            // Its thread is done: the CPU looks for whom it serves next, in the global queue among others.
            self.core.resched(cpu);
        }
        self.finish();
    }

    /// CPUs that came or went since the boot: what a loader puts into `ops.hotplug_seq`.
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

    /// `handle_hotplug`: the op, or the end of a scheduler that has none.
    fn tell_hotplug(&mut self, cpu: CpuId, online: bool) {
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

    /// The machine is about to sleep (PM_SUSPEND_PREPARE), said on `cpu`: the scheduler is bypassed until
    /// [`Kernel::end_suspend`], since what of it is in user space will be frozen.
    pub fn begin_suspend(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if self.stage != Stage::Disabled && !std::mem::replace(&mut self.suspending, true) {
            self.enter_bypass();
        }
        self.finish();
    }

    /// The machine is awake and its tasks are thawed (PM_POST_SUSPEND).
    pub fn end_suspend(&mut self, cpu: CpuId) {
        self.core.context.cpu = cpu;
        if std::mem::take(&mut self.suspending) {
            self.leave_bypass();
        }
        self.finish();
    }
}
