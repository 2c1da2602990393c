// SPDX-License-Identifier: GPL-2.0-only
//! What must hold between any two operations, whatever the scheduler does. Tests ask after every step.

use super::Kernel;
use crate::core::dsq::QueueRef;
use crate::core::task::{Class, Owner, RunState};
use ids::{CpuId, CpuSet, TaskId};

impl Kernel {
    /// Panics unless every task is where it says it is, exactly once, and all counts are right. Takes time in proportion
    /// to tasks and CPUs: for tests and for looking into a suspicion.
    pub fn check(&self) {
        let core = &self.core;
        assert!(
            core.context.deferred.is_empty()
                && core.context.reenqueue.is_empty()
                && core.context.reenqueue_users.is_empty()
                && core.context.kicks.is_empty(),
            "all work is done"
        );
        assert!(core.context.left_custody.is_empty(), "every dequeue was told");
        let mut in_queues = 0;
        for task in (0..core.tasks.len() as u32).map(TaskId) {
            self.check_task(task);
            in_queues += usize::from(core.task(task).queue.is_some());
        }
        let local = core.cpus.iter().flat_map(|rq| [&rq.local, &rq.bypass]);
        let queued: usize = local.chain(&core.global).chain(core.dsqs.values()).map(|dsq| dsq.len()).sum();
        assert_eq!(in_queues, queued, "queues hold the tasks that say so and no others");
        for cpu in (0..core.cpus()).map(CpuId) {
            self.check_cpu(cpu);
        }
    }

    /// The CPUs that the built-in tracking calls idle: not claimed, and idle unless they were busy at attach and have
    /// been since.
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
        assert_eq!(places.iter().sum::<usize>(), expected, "{name} is in one place: running, queue, BPF: {places:?}");
        assert!(!running || runnable, "{name} runs");
        assert_eq!(entry.runnable_seq != 0, entry.queued && !running, "{name}: waits");
        assert!(entry.verdict.is_none(), "{name}: no verdict is left");
        if let Some(QueueRef::Local(cpu)) = entry.queue {
            assert_eq!(cpu, entry.cpu, "{name} waits where it belongs");
        }
        if runnable && entry.class < Class::Ext {
            let waits = core.cpus[entry.cpu.index()].higher.iter().any(|&(.., other)| other == task);
            assert!(running != waits, "{name} waits or runs in its class");
        }
        let competes = core.cpus[entry.cpu.index()].fair.delayed.iter().any(|&(.., other)| other == task);
        assert_eq!(entry.fair.is_delayed(), competes, "{name}: competes while it sleeps");
        assert!(!competes || entry.class == Class::Fair && entry.run_state == RunState::Sleeping, "{name} sleeps");
    }

    fn check_cpu(&self, cpu: CpuId) {
        let (core, rq) = (&self.core, &self.core.cpus[cpu.index()]);
        let here = || core.tasks.iter().filter(|task| task.cpu == cpu);
        assert_eq!(rq.ext_tasks as usize, here().filter(|task| task.queued).count(), "CPU {cpu}: ext tasks");
        let immediate = |task: &&crate::core::task::Task| task.immediate && task.queue == Some(QueueRef::Local(cpu));
        assert_eq!(rq.immed_tasks as usize, here().filter(immediate).count(), "CPU {cpu}: tasks that cannot wait");
        core.check_fair(cpu);
        assert!(!rq.in_balance && rq.reenqueue.is_none(), "CPU {cpu} is between operations");
        assert!(rq.next_class <= core.current_class(cpu), "CPU {cpu}: nothing lower than what runs comes next");
        if !rq.online {
            assert!(self.is_vacant(cpu) && !rq.active && !rq.scx_online, "CPU {cpu} is offline, and nobody is there");
        }
        if let Some(current) = core.current(cpu).some() {
            assert_eq!(core.task_cpu(current), cpu, "who runs on CPU {cpu} is there");
        }
    }
}
