// SPDX-License-Identifier: GPL-2.0-only
//! Checks that enough requests meet their deadline: of each group of `of` consecutive requests, counted from a task's
//! first one, at most `late` may be late.
//!
//! The groups do not overlap. A task may be late with the last requests of one group and the first ones of the next.

use crate::demands::Window;
use ids::{Nanos, TaskId};

/// A window with too many late requests: its start, and the number of late requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    pub from: Nanos,
    pub late: u32,
    pub limit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Requests {
    window: Window,
    /// Start of the unfinished request.
    begun: Option<Nanos>,
    /// The current window: its start, and the number of finished and of late requests.
    since: Nanos,
    seen: u32,
    late: u32,
}

impl Requests {
    fn new(window: Window) -> Requests {
        Requests { window, begun: None, since: Nanos::ZERO, seen: 0, late: 0 }
    }
}

/// Windows of all tasks that have requests.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    tasks: Vec<Option<Requests>>,
    has_checked: bool,
}

impl Windows {
    /// Registers a new task.
    pub(crate) fn announce(&mut self, window: Option<Window>) {
        self.tasks.push(window.map(Requests::new));
    }

    /// Changes the requests of a renamed task to those of its new name.
    pub(crate) fn rename(&mut self, task: TaskId, window: Option<Window>) {
        let known = &mut self.tasks[task.index()];
        if known.map(|requests| requests.window) != window {
            *known = window.map(Requests::new);
        }
    }

    /// Whether any request finished.
    pub(crate) fn has_checked(&self) -> bool {
        self.has_checked
    }

    /// Starts a request.
    pub(crate) fn begin(&mut self, now: Nanos, task: TaskId) {
        if let Some(requests) = &mut self.tasks[task.index()] {
            requests.begun.get_or_insert(now);
            if requests.seen == 0 {
                requests.since = now;
            }
        }
    }

    /// Finishes a request. Returns its window if that has ended with too many late requests.
    pub(crate) fn end(&mut self, now: Nanos, task: TaskId) -> Option<Missed> {
        let requests = self.tasks[task.index()].as_mut()?;
        let begun = requests.begun.take()?;
        self.has_checked = true;
        let Window { late: limit, of, request } = requests.window;
        requests.seen += 1;
        requests.late += u32::from(now.since(begun) > request);
        if requests.seen < of {
            return None;
        }
        let (from, late) = (requests.since, requests.late);
        (requests.seen, requests.late) = (0, 0);
        (late > limit).then_some(Missed { from, late, limit })
    }

    /// Returns the unfinished windows that have too many late requests already, including a request that is
    /// unfinished and late.
    pub(crate) fn open(&self, now: Nanos) -> Vec<(TaskId, Missed)> {
        let missed = |requests: &Requests| {
            let is_late = |begun: Nanos| now.since(begun) > requests.window.request;
            let late = requests.late + u32::from(requests.begun.is_some_and(is_late));
            let limit = requests.window.late;
            (late > limit).then_some(Missed { from: requests.since, late, limit })
        };
        let tasks = (0..).zip(&self.tasks);
        tasks.filter_map(|(id, requests)| Some((TaskId(id), missed(requests.as_ref()?)?))).collect()
    }

    /// Drops unfinished requests and restarts all windows, after a change of CPUs, masks or scheduler.
    pub(crate) fn reset_windows(&mut self) {
        for requests in self.tasks.iter_mut().flatten() {
            (requests.begun, requests.seen, requests.late) = (None, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests;
