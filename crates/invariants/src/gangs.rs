// SPDX-License-Identifier: GPL-2.0-only
//! Whether the tasks of a job run at the same time.
//!
//! 1. A job is a group or a process of two tasks or more that may use every CPU, with a CPU for each.
//! 2. A *window* is a time in which the same tasks of a job wanted to run. It begins a while after the last of them came: rows
//!    are given anew then. It is judged when it is over, if it was long enough.
//! 3. A task may run while others of its job do not, where nobody else has a use for its CPU: an alternate. Some CPU has a
//!    use for others, and the task there runs only when it is the job's turn. So the time in which all run is compared with
//!    the time for which that one ran that ran least. Skew is seen in that: what is between the first start of a turn and the
//!    last one is not time of all.
//! 4. A CPU whose task has gone to sleep is free until that wakes up: an alternate there fills a gap. Gaps are of different
//!    length on different CPUs, and what a task ran in one is not counted for it.
//! 5. Time in which a thread of the kernel or a task of a higher class has some CPU does not count: no scheduler can help it.

use ids::{CpuId, CpuSet, Nanos, TaskId};
use std::collections::BTreeMap;

/// A job needs so long to find its place where nothing else is promised, and is looked at for so long at least: ten turns of
/// the 10 ms of the fastest tick.
const SETTLES: Nanos = Nanos::from_ms(500);
const SHORTEST: Nanos = Nanos::from_ms(500);

/// A job that ran in pieces: how long all ran, and how long they should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub value: Nanos,
    pub limit: Nanos,
}

#[derive(Debug)]
struct Task {
    job: Option<usize>,
    /// It may use every CPU, and belongs to the scheduler.
    free: bool,
    /// It is no thread of the kernel, and of no higher class.
    ours: bool,
    runnable: bool,
    running: bool,
    /// It runs where somebody went to sleep.
    fills_gap: bool,
}

#[derive(Debug, Default)]
struct Job {
    /// Who wants to run, and how long each has run in this window.
    members: BTreeMap<TaskId, Nanos>,
    running: usize,
    misfits: usize,
    together: Nanos,
    since: Nanos,
}

/// All jobs.
#[derive(Debug)]
pub(crate) struct Gangs {
    percent: u32,
    settles: Nanos,
    /// The CPUs that were there first.
    all: CpuSet,
    online: usize,
    tasks: Vec<Task>,
    jobs: Vec<Job>,
    /// CPUs that a thread of the kernel or a higher class has.
    taken: usize,
    /// CPUs whose last task went to sleep, and belonged to the scheduler.
    gaps: CpuSet,
    reckoned: Nanos,
    has_judged: bool,
}

impl Gangs {
    /// On these CPUs.
    pub(crate) fn new(online: &CpuSet, percent: u32, settles: Option<Nanos>, jobs: usize) -> Gangs {
        let jobs = (0..jobs).map(|_| Job::default()).collect();
        let (all, online, reckoned) = (online.clone(), online.len(), Nanos::ZERO);
        let (tasks, gaps, settles) = (Vec::new(), CpuSet::new(), settles.unwrap_or(SETTLES));
        Gangs { percent, settles, all, online, tasks, jobs, taken: 0, gaps, reckoned, has_judged: false }
    }

    /// A task exists, and sleeps. `ours`: it belongs to the scheduler, and is no thread of the kernel.
    pub(crate) fn announce(&mut self, job: Option<usize>, allowed: &CpuSet, ours: bool) {
        let free = ours && self.all.is_subset(allowed);
        self.tasks.push(Task { job, free, ours, runnable: false, running: false, fills_gap: false });
    }

    /// Whether a window was long enough.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// The time since the last change is given to who ran.
    fn reckon(&mut self, now: Nanos) {
        let begun = self.reckoned;
        self.reckoned = now;
        if self.taken > 0 {
            return;
        }
        for job in &mut self.jobs {
            let time = now.0.saturating_sub(begun.max(job.since).0);
            if job.members.len() < 2 || job.running == 0 || time == 0 {
                continue;
            }
            if job.running == job.members.len() {
                job.together += Nanos(time);
            }
            let runs = |task: &TaskId| {
                let task = &self.tasks[task.index()];
                task.running && !task.fills_gap
            };
            job.members.iter_mut().filter(|(task, _)| runs(task)).for_each(|(_, ran)| *ran += Nanos(time));
        }
    }

    /// A task can run from now on, or can no longer. What was wrong with its job until now.
    pub(crate) fn set_runnable(&mut self, now: Nanos, id: TaskId, runnable: bool) -> Option<Apart> {
        self.reckon(now);
        let task = &mut self.tasks[id.index()];
        let job = task.job.filter(|_| task.ours)?;
        if std::mem::replace(&mut task.runnable, runnable) == runnable {
            return None;
        }
        let (free, running) = (task.free, task.running);
        let found = self.judge(now, job);
        let job = &mut self.jobs[job];
        if runnable {
            job.members.insert(id, Nanos::ZERO);
        } else {
            job.members.remove(&id);
        }
        (job.running, job.misfits) = match runnable {
            true => (job.running + usize::from(running), job.misfits + usize::from(!free)),
            false => (job.running - usize::from(running), job.misfits - usize::from(!free)),
        };
        found
    }

    /// A task leaves a CPU, and sleeps from now on if it does not stay runnable.
    pub(crate) fn leave(&mut self, cpu: CpuId, id: TaskId, stays_runnable: bool) {
        if !stays_runnable && self.tasks[id.index()].ours {
            self.gaps.insert(cpu);
        } else {
            self.gaps.remove(cpu);
        }
    }

    /// A task comes to a CPU.
    pub(crate) fn take(&mut self, cpu: CpuId, id: TaskId) {
        self.tasks[id.index()].fills_gap = self.gaps.contains(cpu);
    }

    /// A task runs from now on, or no longer.
    pub(crate) fn set_running(&mut self, now: Nanos, id: TaskId, runs: bool) {
        self.reckon(now);
        let task = &mut self.tasks[id.index()];
        if std::mem::replace(&mut task.running, runs) == runs {
            return;
        }
        let count = match (task.ours, task.job.filter(|_| task.runnable)) {
            (false, _) => &mut self.taken,
            (true, Some(job)) => &mut self.jobs[job].running,
            (true, None) => return,
        };
        *count = if runs { *count + 1 } else { *count - 1 };
    }

    /// CPUs, masks or the scheduler are others: all windows begin anew.
    pub(crate) fn disturb(&mut self, now: Nanos, online: usize) {
        self.reckon(now);
        self.online = online;
        (0..self.jobs.len()).for_each(|job| self.begin(now, job));
    }

    /// A task has another mask.
    pub(crate) fn set_allowed(&mut self, id: TaskId, allowed: &CpuSet) {
        let free = self.tasks[id.index()].ours && self.all.is_subset(allowed);
        let task = &mut self.tasks[id.index()];
        if let Some(job) = task.job.filter(|_| task.runnable && task.free != free) {
            let misfits = &mut self.jobs[job].misfits;
            *misfits = if free { *misfits - 1 } else { *misfits + 1 };
        }
        task.free = free;
    }

    /// What is wrong with all jobs until now.
    pub(crate) fn close(&mut self, now: Nanos) -> Vec<Apart> {
        self.reckon(now);
        (0..self.jobs.len()).filter_map(|job| self.judge(now, job)).collect()
    }

    fn begin(&mut self, now: Nanos, job: usize) {
        let job = &mut self.jobs[job];
        (job.since, job.together) = (now + self.settles, Nanos::ZERO);
        job.members.values_mut().for_each(|ran| *ran = Nanos::ZERO);
    }

    /// The window of a job is over.
    fn judge(&mut self, now: Nanos, index: usize) -> Option<Apart> {
        let (percent, online) = (u64::from(self.percent), self.online);
        let job = &self.jobs[index];
        let size = job.members.len();
        let long = now.0 >= job.since.0 + SHORTEST.0;
        let fits = (2..=online).contains(&size) && job.misfits == 0;
        let least = job.members.values().min().copied().filter(|least| long && fits && least.0 > 0);
        let found = least.and_then(|least| {
            let (value, limit) = (job.together, Nanos(least.0 * percent / 100));
            let tasks = job.members.keys().copied().collect();
            (value < limit).then_some(Apart { from: job.since, tasks, value, limit })
        });
        self.has_judged |= least.is_some();
        self.begin(now, index);
        found
    }
}

#[cfg(test)]
mod tests;
