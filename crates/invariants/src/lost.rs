// SPDX-License-Identifier: GPL-2.0-only
//! Tells lost wakeups from tasks that the scheduler holds in a queue of its own.
//!
//! 1. A scheduler may keep a task in a map until it dispatches it later. Until then the task is in no queue of the
//!    kernel, as if the scheduler had forgotten it. Whether it had is known only at the end.
//! 2. A *stretch* is a period in which such a task waited while a CPU was idle that it may use. It may end because that
//!    CPU becomes busy; the task is still in no queue then.
//! 3. A stretch of a task that is put into a queue later was one in which the scheduler held it. The longest of these
//!    bounds how long this scheduler holds tasks.
//! 4. A task that is still in no queue at the end is lost if it has a stretch that is longer than that.

use crate::unserved::Stretch;
use ids::{CpuId, Nanos, TaskId};
use std::collections::BTreeMap;

/// A period in which a task in no queue waited while CPUs were idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub from: Nanos,
    pub to: Nanos,
    /// CPUs that were idle at its end.
    pub cpus: Vec<CpuId>,
}

impl Period {
    fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// Periods of tasks that are in no queue.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// The longest period of each task since it left its last queue.
    longest: BTreeMap<TaskId, Period>,
    /// The longest period of a task that was put into a queue later.
    held: Nanos,
}

impl Lost {
    /// Adds a stretch from `from` to `now`; its tasks are still in no queue.
    pub(crate) fn add(&mut self, stretch: &Stretch, from: Nanos, now: Nanos) {
        let period = Period { from, to: now, cpus: stretch.cpus.clone() };
        for &task in &stretch.tasks {
            let longest = self.longest.entry(task).or_insert_with(|| period.clone());
            if period.length() > longest.length() {
                *longest = period.clone();
            }
        }
    }

    /// Notes that a task no longer waits in no queue: its periods were such that the scheduler held it.
    pub(crate) fn end(&mut self, task: TaskId) {
        if let Some(period) = self.longest.remove(&task) {
            self.held = self.held.max(period.length());
        }
    }

    /// Takes the periods of tasks that are lost: still in no queue, and longer than the scheduler holds tasks. Tasks
    /// with the same period stand together.
    pub(crate) fn take(&mut self) -> Vec<(Period, Vec<TaskId>)> {
        let mut lost: Vec<(Period, Vec<TaskId>)> = Vec::new();
        for (task, period) in std::mem::take(&mut self.longest) {
            if period.length() <= self.held {
                continue;
            }
            match lost.iter_mut().find(|(other, _)| *other == period) {
                Some((_, tasks)) => tasks.push(task),
                None => lost.push((period, vec![task])),
            }
        }
        lost.sort_by_key(|(period, _)| period.to);
        lost
    }
}
