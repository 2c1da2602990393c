// SPDX-License-Identifier: GPL-2.0-only
//! Time of a run: the current time, the kernel's clock, and the end of the run.

use ids::{Nanos, TaskId};

/// Maximum number of consecutive steps without any time passing, per CPU and task. Otherwise, a script that consumes
/// no time, on a machine where nothing costs time, would never end.
const STEPS_AT_ONE_INSTANT: u64 = 10_000;

/// Reason why a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The kernel ejected the scheduler.
    Ejected,
    /// The loader detached the scheduler.
    Unloaded,
    /// This task acts endlessly without time passing.
    Stuck(TaskId),
    /// The kernel refused the deadline policy of a new task.
    Refused,
}

/// Current time and end of a run.
#[derive(Debug)]
pub(crate) struct Clock {
    now: Nanos,
    /// Total suspended time, in which the kernel's clock stood still.
    suspended: Nanos,
    /// Time at which the run ends at the latest.
    deadline: Option<Nanos>,
    /// Number of steps of tasks at the current time.
    steps: u64,
    end: Option<End>,
}

impl Clock {
    /// Creates a clock at time 0.
    pub fn new(deadline: Option<Nanos>) -> Clock {
        Clock { now: Nanos::ZERO, suspended: Nanos::ZERO, deadline, steps: 0, end: None }
    }

    /// Current time of the run.
    #[inline(always)]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Time of the kernel's clock, which stands still while the machine is suspended.
    pub fn kernel_now(&self) -> Nanos {
        self.now - self.suspended
    }

    /// Total time for which the machine was suspended so far.
    pub fn suspended(&self) -> Nanos {
        self.suspended
    }

    /// The machine was suspended for this time.
    pub fn suspend(&mut self, length: Nanos) {
        self.suspended += length;
    }

    /// Advances to the time of the next alarm.
    pub fn advance_to(&mut self, time: Nanos) {
        if time > self.now {
            self.steps = 0;
        }
        self.now = time;
    }

    /// The deadline, if there is one that is still to come, otherwise the current time.
    pub fn latest_end(&self) -> Nanos {
        self.deadline.unwrap_or(self.now).max(self.now)
    }

    /// Replaces the deadline.
    pub fn stop_at(&mut self, deadline: Nanos) {
        self.deadline = Some(deadline);
    }

    /// Advances to the deadline, if that is still to come, and continues without one.
    pub fn pass_deadline(&mut self) {
        self.now = self.latest_end();
        self.deadline = None;
        self.steps = 0;
    }

    /// Time at which the run ends at the latest.
    pub fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    /// Counts a step of `task` that takes no time by itself; too many in succession, given the number of CPUs and
    /// tasks, end the run.
    pub fn count_step(&mut self, task: TaskId, cpus_and_tasks: usize) {
        self.steps += 1;
        if self.steps > STEPS_AT_ONE_INSTANT * cpus_and_tasks as u64 {
            self.end = Some(End::Stuck(task));
        }
    }

    /// Ends the run now.
    pub fn end_with(&mut self, end: End) {
        self.end = Some(end);
    }

    /// Reason why the run is over; `None`: it continues.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the run is over.
    #[inline(always)]
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }
}
