// SPDX-License-Identifier: GPL-2.0-only
//! Warnings: behavior that violates no promise but is rarely intended. Their bounds are wide, so that a scheduler that only
//! favours some tasks stays below them.
//!
//! - `idle-beside-waiting`: a task waited for more than [`IDLE`] while a CPU idled that it may use.
//! - `starved`: a task waited for more than [`STARVED`], times the ratio of the largest weight to its own.
//! - `unequal-time`: of two tasks that differ in nothing and never slept for [`WINDOW`], one got twice as much CPU time and
//!   [`SLACK`] more.
//! - `inverted-weights`: of two tasks that never slept for [`WINDOW`], the one of at least three times the weight got less
//!   than half as much CPU time, and [`SLACK`] less.
//! - `stalled-virtual-time`: a task ran for [`KEY_TIME`], and all of its at least [`KEYS`] inserts meanwhile had the same
//!   nonzero key.

use crate::ideal;
use crate::promises::{Promises, Weights, WorkConserving};
use crate::unserved::{Population, Stretch, Unserved};
use event_log::TaskInfo;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

/// Wait beside an idle CPU: the default slice of 20 ms and a tick at 100 Hz, by which a scheduler may notice the CPU.
const IDLE: Nanos = Nanos::from_ms(30);
/// Wait of a task: longer than a round of 100 tasks with slices of 20 ms, shorter than most watchdog timeouts.
const STARVED: Nanos = Nanos::from_secs(3);
/// Length of a window in which CPU times are compared.
const WINDOW: Nanos = Nanos::from_secs(2);
/// Difference of CPU times that is ignored: a few rounds of tasks with slices of 20 ms.
const SLACK: Nanos = Nanos::from_ms(300);
/// Number of inserts with the same key, and CPU time meanwhile, from which a virtual time is stalled.
const KEYS: u32 = 20;
const KEY_TIME: Nanos = Nanos::from_ms(400);

/// Two tasks whose CPU times in a window do not fit, and these CPU times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// Whether the task that got less has the larger weight.
    pub inverted: bool,
    pub from: Nanos,
    pub less: (TaskId, Nanos),
    pub more: (TaskId, Nanos),
}

/// Inserts with the same key.
#[derive(Clone, Copy, Debug)]
struct Key {
    dsq: DsqId,
    key: u64,
    inserts: u32,
    since: Nanos,
    /// CPU time of the task at the first of these inserts.
    ran: Nanos,
}

#[derive(Debug)]
struct Task {
    allowed: CpuSet,
    policy: Policy,
    nice: i8,
    group: Option<usize>,
    /// Whether it belongs to the scheduler, not to a higher class, and to the workload.
    counts: bool,
    runnable: bool,
    /// Runnable since the window began.
    steady: bool,
    ran: Nanos,
    running_since: Option<Nanos>,
    /// CPU time at the start of the window.
    before: Nanos,
    key: Option<Key>,
}

impl Task {
    fn weight(&self) -> u64 {
        ideal::weight(Weights::Nice, self.policy, self.nice)
    }

    fn ran(&self, now: Nanos) -> Nanos {
        self.ran + self.running_since.map_or(Nanos::ZERO, |since| now.since(since))
    }
}

/// Finds what deserves a warning.
#[derive(Debug)]
pub(crate) struct Warnings {
    unserved: Unserved,
    tasks: Vec<Task>,
    window_from: Nanos,
    /// Largest weight of any task of the scheduler so far.
    heaviest: u64,
    declared: Promises,
}

impl Warnings {
    pub(crate) fn new(cpus: usize, declared: Promises) -> Warnings {
        let (unserved, tasks) = (Unserved::new(cpus, IDLE), Vec::new());
        Warnings { unserved, tasks, window_from: Nanos::ZERO, heaviest: 1, declared }
    }

    /// Wait beside an idle CPU that is too long, unless the scheduler says that CPUs may idle for long.
    pub(crate) fn idle_bound(&self) -> Option<Nanos> {
        (self.declared.work_conserving != WorkConserving::Eventually).then_some(IDLE)
    }

    /// Wait of this task that is too long.
    pub(crate) fn starvation_bound(&self, task: TaskId) -> Nanos {
        if let Some(bound) = self.declared.starvation {
            return bound;
        }
        Nanos(STARVED.0 * (self.heaviest / self.tasks[task.index()].weight().max(1)).max(1))
    }

    pub(crate) fn announce(&mut self, now: Nanos, info: &TaskInfo, scheduled: bool, group: Option<usize>) {
        self.unserved.announce(now, info.id, &info.allowed);
        let counts = scheduled && !info.kernel_thread;
        self.tasks.push(Task {
            allowed: info.allowed.clone(),
            policy: info.policy,
            nice: info.nice,
            group,
            counts,
            runnable: false,
            steady: false,
            ran: Nanos::ZERO,
            running_since: None,
            before: Nanos::ZERO,
            key: None,
        });
        if counts {
            self.heaviest = self.heaviest.max(self.tasks[info.id.index()].weight());
        }
    }

    pub(crate) fn wait(&mut self, now: Nanos, task: TaskId) {
        self.unserved.wait(now, task, Population::Waiting);
    }

    pub(crate) fn stop_waiting(&mut self, now: Nanos, task: TaskId) -> Option<Stretch> {
        self.unserved.stop_waiting(now, task, Population::Waiting)
    }

    pub(crate) fn set_idle(&mut self, now: Nanos, cpu: CpuId, idle: bool) -> Vec<Stretch> {
        self.unserved.set_idle(now, cpu, idle)
    }

    pub(crate) fn open(&self, now: Nanos) -> Vec<Stretch> {
        self.unserved.open(now)
    }

    pub(crate) fn set_allowed(&mut self, now: Nanos, task: TaskId, allowed: &CpuSet) -> Vec<Stretch> {
        self.tasks[task.index()].allowed.clone_from(allowed);
        self.unserved.set_allowed(now, task, allowed)
    }

    pub(crate) fn set_nice(&mut self, task: TaskId, nice: i8) {
        self.tasks[task.index()].nice = nice;
        if self.tasks[task.index()].counts {
            self.heaviest = self.heaviest.max(self.tasks[task.index()].weight());
        }
    }

    pub(crate) fn set_runnable(&mut self, task: TaskId, runnable: bool) {
        let task = &mut self.tasks[task.index()];
        (task.runnable, task.steady) = (runnable, task.steady && runnable);
    }

    pub(crate) fn set_running(&mut self, now: Nanos, task: TaskId, runs: bool) {
        let task = &mut self.tasks[task.index()];
        task.ran = task.ran(now);
        task.running_since = runs.then_some(now);
    }

    /// Begins a new window: the tasks, their masks or the CPUs have changed.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.reset_window(now);
        self.tasks.iter_mut().for_each(|task| task.key = None);
    }

    /// Notes an insert into a queue. Returns the time since which the key has stalled, and the CPU time meanwhile.
    pub(crate) fn insert(&mut self, now: Nanos, id: TaskId, dsq: DsqId, key: u64) -> Option<(Nanos, Nanos)> {
        // The local queues have no keys; each task passes through one.
        if dsq.is_builtin() {
            return None;
        }
        let task = &mut self.tasks[id.index()];
        let ran = task.ran(now);
        let fresh = Key { dsq, key, inserts: 1, since: now, ran };
        let Some(old) = task.key.as_mut().filter(|old| old.dsq == dsq && old.key == key) else {
            task.key = (key != 0 && task.counts).then_some(fresh);
            return None;
        };
        old.inserts += 1;
        let (since, meanwhile) = (old.since, ran.since(old.ran));
        if old.inserts < KEYS || meanwhile < KEY_TIME {
            return None;
        }
        task.key = Some(fresh);
        Some((since, meanwhile))
    }

    /// Compares the CPU times if a window has ended.
    pub(crate) fn check(&mut self, now: Nanos) -> Vec<Unfit> {
        // A promise of shares says more than these comparisons.
        if now.since(self.window_from) < WINDOW || self.declared.weighted_share.is_some() {
            return Vec::new();
        }
        let from = self.window_from;
        let steady: Vec<(TaskId, &Task, Nanos)> = (0..)
            .zip(&self.tasks)
            .filter(|(_, task)| task.steady && task.counts)
            .map(|(id, task)| (TaskId(id), task, task.ran(now).since(task.before)))
            .collect();
        let mut found = Vec::new();
        for (index, one) in steady.iter().enumerate() {
            for other in &steady[index + 1..] {
                found.extend(unfit(from, one, other));
            }
        }
        // One pair of each kind says what is wrong.
        found.sort_by_key(|it: &Unfit| (it.inverted, std::cmp::Reverse(it.more.1.since(it.less.1))));
        found.dedup_by_key(|it| it.inverted);
        self.reset_window(now);
        found
    }

    fn reset_window(&mut self, now: Nanos) {
        self.window_from = now;
        for task in &mut self.tasks {
            (task.steady, task.before) = (task.runnable, task.ran(now));
        }
    }
}

/// Compares two steady tasks, each with its CPU time in the window.
fn unfit(from: Nanos, one: &(TaskId, &Task, Nanos), other: &(TaskId, &Task, Nanos)) -> Option<Unfit> {
    let (less, more) = if one.2 <= other.2 { (one, other) } else { (other, one) };
    let ((less_id, less_task, little), (more_id, more_task, much)) = (less, more);
    if less_task.allowed != more_task.allowed
        || less_task.policy != more_task.policy
        || less_task.group != more_task.group
    {
        return None;
    }
    let beyond = |factor: u64| much.0 > factor * little.0 + SLACK.0;
    let inverted = match (less_task.weight(), more_task.weight()) {
        (weight, other) if weight == other => beyond(2).then_some(false),
        (weight, other) if weight >= 3 * other => beyond(2).then_some(true),
        _ => None,
    }?;
    Some(Unfit { inverted, from, less: (*less_id, *little), more: (*more_id, *much) })
}
