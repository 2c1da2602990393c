// SPDX-License-Identifier: GPL-2.0-only
//! The tasks of a run, and their numbers by state.

use crate::tasks::{Role, State, Task};
use ids::{CpuId, Nanos, TaskId};
use std::ops::{Index, IndexMut};

/// Numbers of tasks of the workload, by state.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Left {
    /// Number of tasks that have not ended.
    pub alive: usize,
    /// Number of living tasks that are runnable or running.
    pub ready: usize,
    /// Number of living tasks that sleep with a timer.
    pub asleep: usize,
    /// Tasks yet to be started by the external parent.
    pub starts: usize,
    /// Number of ready tasks that spin at a barrier.
    pub spinning: usize,
}

impl Left {
    /// Subtracts the background tasks.
    fn without(self, beside: Left) -> Left {
        Left {
            alive: self.alive - beside.alive,
            ready: self.ready - beside.ready,
            asleep: self.asleep - beside.asleep,
            starts: self.starts - beside.starts,
            spinning: self.spinning - beside.spinning,
        }
    }
}

/// All tasks, by number.
#[derive(Debug)]
pub(crate) struct Population {
    tasks: Vec<Task>,
    left: Left,
    /// Part of `left` that are background tasks, for which the run does not wait.
    beside: Left,
    /// Time at which a task other than a background task ended last.
    last_exit: Option<Nanos>,
}

impl Population {
    /// No task exists yet; of these tasks to be started, `beside` are background tasks.
    pub fn new(starts: usize, beside: usize) -> Population {
        Population {
            tasks: Vec::new(),
            left: Left { starts, ..Left::default() },
            beside: Left { starts: beside, ..Left::default() },
            last_exit: None,
        }
    }

    /// Number of tasks, those that ended included.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Number of the next task.
    pub fn next(&self) -> TaskId {
        TaskId(self.tasks.len() as u32)
    }

    /// Adds a task that was created at `now`; kthreads do not count.
    pub fn add(&mut self, now: Nanos, kernel_thread: bool) {
        self.left.alive += usize::from(!kernel_thread);
        self.tasks.push(Task::new(now));
    }

    /// `task`, which was just added, executes this spec of the workload.
    pub fn set_spec(&mut self, task: TaskId, spec: u32, is_beside: bool) {
        let task = &mut self.tasks[task.index()];
        (task.spec, task.is_beside) = (spec, is_beside);
        self.beside.alive += usize::from(is_beside);
    }

    /// Changes a task's state and the counts of tasks.
    pub fn enter(&mut self, now: Nanos, task: TaskId, state: State) {
        let entry = &mut self.tasks[task.index()];
        let old = entry.state();
        entry.enter(now, state);
        if entry.role != Role::Workload {
            return;
        }
        let is_beside = entry.is_beside;
        let ready = |state| usize::from(matches!(state, State::Runnable | State::Running));
        let ended = usize::from(state == State::Ended);
        self.count(is_beside, |left| {
            left.ready = left.ready + ready(state) - ready(old);
            left.alive -= ended;
        });
        if ended > 0 && !is_beside {
            self.last_exit = Some(now);
        }
    }

    /// Changes the counts of tasks, and those of background tasks if applicable.
    pub fn count(&mut self, is_beside: bool, change: impl Fn(&mut Left)) {
        change(&mut self.left);
        if is_beside {
            change(&mut self.beside);
        }
    }

    /// Changes the counts because of this task.
    pub fn count_task(&mut self, task: TaskId, change: impl Fn(&mut Left)) {
        self.count(self.tasks[task.index()].is_beside, change);
    }

    /// Whether any task of the workload is runnable or running.
    pub fn is_any_ready(&self) -> bool {
        self.left.ready > 0
    }

    /// Whether a task for which the run waits can do something by itself, or `would_wait`: the run continues while
    /// tasks wait for each other.
    pub fn can_move(&self, would_wait: bool) -> bool {
        let Left { alive, ready, asleep, starts, spinning } = self.left.without(self.beside);
        // Spinning tasks wait for others. Frozen tasks are not ready.
        let ready = ready.saturating_sub(spinning);
        ready + asleep + starts > 0 || alive > 0 && would_wait
    }

    /// Whether all tasks for which the run waits have started and ended.
    pub fn are_done(&self) -> bool {
        let left = self.left.without(self.beside);
        left.alive == 0 && left.starts == 0
    }

    /// Time at which a task other than a background task ended last.
    pub fn last_exit(&self) -> Option<Nanos> {
        self.last_exit
    }

    /// Sleep timers armed on the CPU `from` expire on `to` instead.
    pub fn move_sleep_timers(&mut self, from: CpuId, to: CpuId) {
        self.tasks.iter_mut().filter(|task| task.slept_on == from).for_each(|task| task.slept_on = to);
    }

    /// All tasks, by number.
    pub fn into_tasks(self) -> Vec<Task> {
        self.tasks
    }
}

impl Index<TaskId> for Population {
    type Output = Task;

    #[inline(always)]
    fn index(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }
}

impl IndexMut<TaskId> for Population {
    #[inline(always)]
    fn index_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }
}
