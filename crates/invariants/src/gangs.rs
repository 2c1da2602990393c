// SPDX-License-Identifier: GPL-2.0-only
//! Checks that the tasks of a job run at the same time (gang scheduling).
//!
//! 1. A *job* is a group or process of at least two tasks that may each use every CPU. There are at least as many
//!    CPUs as tasks.
//! 2. A *window* is a period in which the same tasks of a job were runnable. It begins a settling time after the last
//!    task joined or left the job, since the scheduler then assigns its time slots again. It is checked at its end if
//!    it was long enough.
//! 3. A task may also run outside its job's time slots if its CPU would otherwise be idle (as an *alternate*). At
//!    least one CPU is wanted by other jobs, and the task on it runs only in the slots. The time in which all tasks
//!    ran is therefore compared with the CPU time of the task that ran least. Skew between the CPUs at the start of a
//!    slot shortens the common time.
//! 4. When a task goes to sleep in its slot, its CPU is free for the rest of the slot, and an alternate may fill the
//!    gap. Gaps differ between CPUs, so CPU time in a gap does not count.
//! 5. Time in which a kthread or a task of a higher class occupies a CPU does not count, since no scheduler can avoid
//!    it.

use ids::{CpuId, CpuSet, Nanos, TaskId};
use std::collections::BTreeMap;

/// Default settling time of a job, and shortest window that is checked: more than ten time slots at a tick of 10 ms,
/// the longest one.
const SETTLES: Nanos = Nanos::from_ms(500);
const SHORTEST: Nanos = Nanos::from_ms(500);

/// A job whose tasks ran at different times: for how long all tasks ran together, and how long they should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GangMiss {
    pub from: Nanos,
    pub tasks: Vec<TaskId>,
    pub value: Nanos,
    pub limit: Nanos,
}

#[derive(Debug)]
struct Task {
    job: Option<usize>,
    /// Whether the task may use every CPU and belongs to the scheduler.
    free: bool,
    /// Whether the task belongs to the scheduler and is not a kthread.
    ours: bool,
    runnable: bool,
    running: bool,
    /// Whether the task runs on a CPU that was freed by a sleeping task.
    fills_gap: bool,
}

#[derive(Debug, Default)]
struct Job {
    /// Runnable tasks, with the CPU time that each used in this window.
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
    /// The CPUs that were online at the start.
    all: CpuSet,
    online: usize,
    tasks: Vec<Task>,
    jobs: Vec<Job>,
    /// Number of CPUs occupied by kthreads and tasks of higher classes.
    taken: usize,
    /// CPUs whose last task belonged to the scheduler and went to sleep.
    gaps: CpuSet,
    accounted_until: Nanos,
    has_checked: bool,
}

impl Gangs {
    /// Creates the check for a machine with these CPUs.
    pub(crate) fn new(online: &CpuSet, percent: u32, settles: Option<Nanos>, jobs: usize) -> Gangs {
        let jobs = (0..jobs).map(|_| Job::default()).collect();
        let (all, online, accounted_until) = (online.clone(), online.len(), Nanos::ZERO);
        let (tasks, gaps, settles) = (Vec::new(), CpuSet::new(), settles.unwrap_or(SETTLES));
        Gangs { percent, settles, all, online, tasks, jobs, taken: 0, gaps, accounted_until, has_checked: false }
    }

    /// Registers a new task, which sleeps. `ours` means that it belongs to the scheduler and is not a kthread.
    pub(crate) fn announce(&mut self, job: Option<usize>, allowed: &CpuSet, ours: bool) {
        let free = ours && self.all.is_subset(allowed);
        self.tasks.push(Task { job, free, ours, runnable: false, running: false, fills_gap: false });
    }

    /// Whether any window was long enough to be checked.
    pub(crate) fn has_checked(&self) -> bool {
        self.has_checked
    }

    /// Adds the time since the last call to the running tasks.
    fn account(&mut self, now: Nanos) {
        let begun = self.accounted_until;
        self.accounted_until = now;
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

    /// Notes that a task becomes runnable or blocks, and checks the window of its job that ends thereby.
    pub(crate) fn set_runnable(&mut self, now: Nanos, id: TaskId, runnable: bool) -> Option<GangMiss> {
        self.account(now);
        let task = &mut self.tasks[id.index()];
        let job = task.job.filter(|_| task.ours)?;
        if std::mem::replace(&mut task.runnable, runnable) == runnable {
            return None;
        }
        let (free, running) = (task.free, task.running);
        let found = self.check_window(now, job);
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

    /// Notes that a task leaves a CPU; if it does not stay runnable, it sleeps.
    pub(crate) fn leave(&mut self, cpu: CpuId, id: TaskId, stays_runnable: bool) {
        if !stays_runnable && self.tasks[id.index()].ours {
            self.gaps.insert(cpu);
        } else {
            self.gaps.remove(cpu);
        }
    }

    /// Notes that a task starts on a CPU.
    pub(crate) fn take(&mut self, cpu: CpuId, id: TaskId) {
        self.tasks[id.index()].fills_gap = self.gaps.contains(cpu);
    }

    /// Notes that a task starts or stops running.
    pub(crate) fn set_running(&mut self, now: Nanos, id: TaskId, runs: bool) {
        self.account(now);
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

    /// Restarts all windows after a change of CPUs, masks or scheduler.
    pub(crate) fn reset_windows(&mut self, now: Nanos, online: usize) {
        self.account(now);
        self.online = online;
        (0..self.jobs.len()).for_each(|job| self.begin(now, job));
    }

    /// Changes the mask of a task.
    pub(crate) fn set_allowed(&mut self, id: TaskId, allowed: &CpuSet) {
        let free = self.tasks[id.index()].ours && self.all.is_subset(allowed);
        let task = &mut self.tasks[id.index()];
        if let Some(job) = task.job.filter(|_| task.runnable && task.free != free) {
            let misfits = &mut self.jobs[job].misfits;
            *misfits = if free { *misfits - 1 } else { *misfits + 1 };
        }
        task.free = free;
    }

    /// Checks the unfinished windows of all jobs.
    pub(crate) fn close(&mut self, now: Nanos) -> Vec<GangMiss> {
        self.account(now);
        (0..self.jobs.len()).filter_map(|job| self.check_window(now, job)).collect()
    }

    fn begin(&mut self, now: Nanos, job: usize) {
        let job = &mut self.jobs[job];
        (job.since, job.together) = (now + self.settles, Nanos::ZERO);
        job.members.values_mut().for_each(|ran| *ran = Nanos::ZERO);
    }

    /// Checks the window of a job and starts a new one.
    fn check_window(&mut self, now: Nanos, index: usize) -> Option<GangMiss> {
        let (percent, online) = (u64::from(self.percent), self.online);
        let job = &self.jobs[index];
        let size = job.members.len();
        let long = now.0 >= job.since.0 + SHORTEST.0;
        let fits = (2..=online).contains(&size) && job.misfits == 0;
        let least = job.members.values().min().copied().filter(|least| long && fits && least.0 > 0);
        let found = least.and_then(|least| {
            let (value, limit) = (job.together, Nanos(least.0 * percent / 100));
            let tasks = job.members.keys().copied().collect();
            (value < limit).then_some(GangMiss { from: job.since, tasks, value, limit })
        });
        self.has_checked |= least.is_some();
        self.begin(now, index);
        found
    }
}

#[cfg(test)]
mod tests;
