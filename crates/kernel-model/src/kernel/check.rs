// SPDX-License-Identifier: GPL-2.0-only
//! Invariants that hold between any two operations, whatever the scheduler does. Tests check them after every step.

use super::Kernel;
use crate::core::dsq::QueueRef;
use crate::core::task::{Class, Owner, RunState};
use ids::{CpuId, CpuSet, TaskId};

impl Kernel {
    /// Panics unless each task is in exactly one place, the recorded one, and all counters match. Takes time linear
    /// in tasks and CPUs, so it is meant for tests and debugging.
    pub fn check(&self) {
        let core = &self.core;
        assert!(
            core.context.deferred.is_empty()
                && core.context.reenqueue.is_empty()
                && core.context.reenqueue_users.is_empty()
                && core.context.kicks.is_empty(),
            "no deferred work is left"
        );
        assert!(core.context.left_custody.is_empty(), "no dequeue call is left");
        let mut in_queues = 0;
        for task in (0..core.tasks.len() as u32).map(TaskId) {
            self.check_task(task);
            in_queues += usize::from(core.task(task).queue.is_some());
        }
        let local = core.cpus.iter().flat_map(|rq| [&rq.local, &rq.bypass]);
        let queued: usize = local.chain(core.queues.all()).map(|dsq| dsq.len()).sum();
        assert_eq!(in_queues, queued, "number of tasks in queues");
        for cpu in (0..core.cpus()).map(CpuId) {
            self.check_cpu(cpu);
        }
    }

    /// CPUs that built-in idle tracking marks idle and unclaimed. A CPU that was busy at attach and has been since is
    /// among them.
    pub fn idle_cpus(&self) -> &CpuSet {
        &self.core.idle.masks.cpus
    }

    fn check_task(&self, task: TaskId) {
        let (core, entry) = (&self.core, self.core.task(task));
        let name = core.name_of(task);
        let running = core.current(entry.cpu) == task;
        let runnable = entry.run_state == RunState::Runnable;
        assert_eq!(entry.queued, runnable && entry.class == Class::Ext, "{name}: on an ext runqueue");
        assert_eq!(
            entry.custody,
            matches!((entry.owner, entry.queue), (Owner::Bpf(_), _) | (_, Some(QueueRef::User(_)))),
            "{name}: custody"
        );
        let places = [running, entry.queue.is_some(), entry.owner != Owner::Core].map(usize::from);
        let expected = usize::from(entry.queued || running);
        assert_eq!(
            places.iter().sum::<usize>(),
            expected,
            "{name} must be in one place; running, queue, BPF: {places:?}"
        );
        assert!(!running || runnable, "{name} runs and is not runnable");
        assert_eq!(entry.runnable_seq != 0, entry.queued && !running, "{name}: on the runnable list");
        assert!(entry.verdict.is_none(), "{name} has a verdict left");
        if let Some(QueueRef::Local(cpu)) = entry.queue {
            assert_eq!(cpu, entry.cpu, "{name} is in the local queue of its CPU");
        }
        if runnable && entry.class < Class::Ext {
            let waits = core.cpus[entry.cpu.index()].higher.iter().any(|&(.., other)| other == task);
            let throttled = entry.class == Class::Deadline && entry.dl.is_throttled();
            assert!(running != waits || throttled && !waits, "{name} must either wait or run in its class");
        }
        let competes = core.cpus[entry.cpu.index()].fair.delayed.iter().any(|&(.., other)| other == task);
        assert_eq!(entry.fair.is_delayed(), competes, "{name}: delayed dequeue");
        assert!(
            !competes || entry.class == Class::Fair && entry.run_state == RunState::Sleeping,
            "{name} is delayed but not a sleeping fair task"
        );
    }

    fn check_cpu(&self, cpu: CpuId) {
        let (core, rq) = (&self.core, &self.core.cpus[cpu.index()]);
        let here = || core.tasks.iter().filter(|task| task.cpu == cpu);
        assert_eq!(rq.ext_tasks as usize, here().filter(|task| task.queued).count(), "CPU {cpu}: ext tasks");
        let immediate = |task: &&crate::core::task::Task| task.immediate && task.queue == Some(QueueRef::Local(cpu));
        assert_eq!(rq.immed_tasks as usize, here().filter(immediate).count(), "CPU {cpu}: IMMED tasks");
        core.check_fair(cpu);
        assert!(!rq.in_balance && rq.reenqueue.is_none(), "CPU {cpu} is in an operation");
        assert!(rq.next_class <= core.current_class(cpu), "CPU {cpu}: next_class is below the current class");
        if !rq.online {
            assert!(
                self.is_vacant(cpu) && !rq.active && !rq.scx_online,
                "CPU {cpu} is offline but active or not vacant"
            );
        }
        if let Some(current) = core.current(cpu).some() {
            assert_eq!(core.task_cpu(current), cpu, "the current task of CPU {cpu} is on another CPU");
        }
    }
}
