// SPDX-License-Identifier: GPL-2.0-only
//! What the workload asks for: the scripts of its tasks, its groups, and the tasks that its external parent starts.

use crate::groups::Groups;
use crate::noise::Noise;
use crate::setup::existing;
use ids::{CpuSet, Nanos, Policy, TaskId};
use kernel_model::{CgroupId, Identity, Kernel, TaskAttributes};
use measures::{PeriodsOfTasks, RequestMeasures};
use std::collections::VecDeque;
use workload::{Demand, Executor, Source, SourceId, Start, TaskSpec, Workload};

/// The workload in progress.
#[derive(Debug)]
pub(crate) struct Demands<'a> {
    workload: &'a Workload,
    executor: Executor<'a>,
    /// Cgroups, users and sessions.
    groups: Groups,
    /// Tasks yet to be started by the external parent, by time.
    starts: VecDeque<(Nanos, u32)>,
    /// Tasks that must be woken before the last demand is carried out.
    woken: Vec<TaskId>,
    /// Response times of periodic jobs.
    periods: PeriodsOfTasks,
    /// Requests of each source.
    requests: Vec<RequestMeasures>,
    /// Seed of the requests.
    seed: u64,
    /// Work that scripts did in system calls.
    system_work: Nanos,
}

impl<'a> Demands<'a> {
    /// Creates the demands of a workload of which no task was started; start times vary randomly.
    pub fn new(workload: &'a Workload, noise: &mut Noise<'_>, seed: u64) -> Demands<'a> {
        Demands {
            workload,
            executor: Executor::seeded(workload, seed),
            seed,
            groups: Groups::default(),
            starts: starts(workload, noise),
            woken: Vec::new(),
            periods: PeriodsOfTasks::default(),
            requests: workload.sources.iter().map(requests_of).collect(),
            system_work: Nanos::ZERO,
        }
    }

    /// The workload.
    pub fn workload(&self) -> &'a Workload {
        self.workload
    }

    /// Creates the cgroups of the workload, before a scheduler is attached.
    pub fn make_groups(&mut self, kernel: &mut Kernel) {
        self.groups = Groups::make(kernel, self.workload);
    }

    /// Whether the workload has groups.
    pub fn has_groups(&self) -> bool {
        self.groups.exist()
    }

    /// Numbers of tasks that the external parent has yet to start: all, and those that are background tasks.
    pub fn starts(&self) -> [usize; 2] {
        [self.starts.len(), self.starts.iter().filter(|(_, spec)| self.workload.is_beside(*spec)).count()]
    }

    /// Start time of the next task that was not yet passed to CPU 0.
    pub fn next_start(&self) -> Option<Nanos> {
        self.starts.front().map(|&(time, _)| time)
    }

    /// Takes the spec of the next task that the external parent starts by now.
    pub fn take_start(&mut self, now: Nanos) -> Option<u32> {
        self.next_start().filter(|time| *time <= now)?;
        self.starts.pop_front().map(|(_, spec)| spec)
    }

    /// Postpones the starts of tasks.
    pub fn postpone_starts(&mut self, by: Nanos) {
        self.starts.iter_mut().for_each(|(time, _)| *time += by);
    }

    /// Asks the script of `task` for its next demand, at this time of the kernel's clock. Also returns whether tasks
    /// must be woken first ([`Demands::take_woken`]).
    pub fn next(&mut self, task: TaskId, kernel_now: Nanos) -> (Demand, bool) {
        let demand = self.executor.next(task, kernel_now, &mut self.woken).demand;
        self.executor.take_periods().for_each(|period| self.periods.end(period.task, period.length, period.response));
        for done in self.executor.take_completed() {
            let index = done.source.0 as usize;
            let is_measured = kernel_now >= self.workload.sources[index].measured_from;
            self.requests[index].complete(done.latency, is_measured);
        }
        (demand, !self.woken.is_empty())
    }

    /// Whether tasks run with other policies from now on, because of priority inheritance.
    pub fn has_changed_inheritance(&self) -> bool {
        self.executor.has_changed_inheritance()
    }

    /// Takes these tasks with their policies and nice values.
    pub fn take_inherited(&mut self) -> Vec<(TaskId, (Policy, i8))> {
        self.executor.take_inherited()
    }

    /// Takes the tasks that must be woken before the last demand is carried out.
    pub fn take_woken(&mut self) -> VecDeque<TaskId> {
        self.woken.drain(..).collect()
    }

    /// A script does this work in system calls.
    pub fn count_system_work(&mut self, work: Nanos) {
        self.system_work += work;
    }

    /// The spec with this index.
    pub fn spec(&self, spec: u32) -> &'a TaskSpec {
        self.executor.spec(spec)
    }

    /// Whether tasks of this spec are background tasks.
    pub fn is_beside(&self, spec: u32) -> bool {
        self.executor.is_beside(spec)
    }

    /// Attributes of the task `next`, which `parent` or the external parent is about to create from this spec on a
    /// machine with these CPUs; `lives` tells whether a task has not ended.
    pub fn attributes(
        &mut self,
        spec: u32,
        parent: Option<TaskId>,
        next: TaskId,
        cpus: &CpuSet,
        lives: impl Fn(TaskId) -> bool,
    ) -> TaskAttributes {
        let what = self.executor.spec(spec);
        let process = self.groups.process(self.workload, spec, next, lives);
        TaskAttributes {
            name: what.name.clone(),
            policy: what.policy,
            nice: what.nice,
            allowed: existing(what.cpus.as_ref(), cpus),
            kernel_thread: false,
            own_cpu: None,
            thread: parent.is_some_and(|parent| self.executor.is_thread(spec, parent)),
            parent,
            identity: Identity { process, ..self.groups.identity(self.workload, spec, parent, next) },
        }
    }

    /// Cgroup of tasks of this spec, if they have one of their own.
    pub fn group_of(&self, spec: u32) -> Option<CgroupId> {
        self.groups.of(self.workload, spec)
    }

    /// `task` begins to execute this spec, at this time of the kernel's clock.
    pub fn begin(&mut self, task: TaskId, spec: u32, parent: Option<TaskId>, kernel_now: Nanos) {
        match parent {
            Some(parent) => self.executor.forked(task, spec, parent, kernel_now),
            None => self.executor.started(task, spec, kernel_now),
        }
    }

    /// What `task` waits for.
    pub fn waits_for(&self, task: TaskId) -> Option<workload::WaitsFor> {
        self.executor.waits_for(task)
    }

    /// Response times of periodic jobs, work done in system calls, and requests until the end of the run.
    pub fn finish(mut self, end: Nanos) -> (PeriodsOfTasks, Nanos, Vec<RequestMeasures>) {
        for (number, (source, requests)) in (0..).zip(self.workload.sources.iter().zip(&mut self.requests)) {
            let from = source.measured_from.min(end);
            requests.measured = end - from;
            requests.arrivals = source.arrivals_within(SourceId(number), self.seed, from, end);
        }
        (self.periods, self.system_work, self.requests)
    }
}

fn requests_of(source: &Source) -> RequestMeasures {
    RequestMeasures { source: source.name.clone(), ..RequestMeasures::default() }
}

/// Tasks that start by themselves, by time and then by number.
fn starts(workload: &Workload, noise: &mut Noise<'_>) -> VecDeque<(Nanos, u32)> {
    let specs = workload.tasks.iter().zip(0..);
    let mut starts: Vec<(Nanos, u32)> = specs
        .filter_map(|(spec, index)| match spec.start {
            Start::At(time) => Some((time + noise.start(), index)),
            Start::Forked => None,
        })
        .collect();
    starts.sort();
    starts.into()
}
