// SPDX-License-Identifier: GPL-2.0-only
//! Whether enough requests are done in time: of each y in a row, counted from a task's first one, at most x are late.
//!
//! Sliding windows are no promise: who is late with the last x of one window and the first x of the next has kept it.

use crate::demands::Window;
use ids::{Nanos, TaskId};

/// A window with too many late requests: since when its first one was there, and how many were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missed {
    pub from: Nanos,
    pub late: u32,
    pub limit: u32,
}

#[derive(Clone, Copy, Debug)]
struct Requests {
    window: Window,
    /// When the one that is not done began.
    begun: Option<Nanos>,
    /// Of this window: when it began, how many were done or given up, how many of them late.
    since: Nanos,
    seen: u32,
    late: u32,
}

impl Requests {
    fn new(window: Window) -> Requests {
        Requests { window, begun: None, since: Nanos::ZERO, seen: 0, late: 0 }
    }
}

/// All tasks that have requests.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    tasks: Vec<Option<Requests>>,
    has_judged: bool,
}

impl Windows {
    /// A task exists.
    pub(crate) fn announce(&mut self, window: Option<Window>) {
        self.tasks.push(window.map(Requests::new));
    }

    /// A task has another name, and so asks for something else.
    pub(crate) fn rename(&mut self, task: TaskId, window: Option<Window>) {
        let known = &mut self.tasks[task.index()];
        if known.map(|requests| requests.window) != window {
            *known = window.map(Requests::new);
        }
    }

    /// Whether there was a request.
    pub(crate) fn has_judged(&self) -> bool {
        self.has_judged
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, now: Nanos, task: TaskId) {
        if let Some(requests) = &mut self.tasks[task.index()] {
            requests.begun.get_or_insert(now);
            if requests.seen == 0 {
                requests.since = now;
            }
        }
    }

    /// A request is done. What is wrong with its window, if that is over and was not kept.
    pub(crate) fn end(&mut self, now: Nanos, task: TaskId) -> Option<Missed> {
        let requests = self.tasks[task.index()].as_mut()?;
        let begun = requests.begun.take()?;
        self.has_judged = true;
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

    /// What is wrong with windows that are not over: they have too many late requests already, one that is not done among
    /// them if it is late by now.
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

    /// A CPU went, a mask changed or the scheduler did: what is not done has no deadline, and windows begin anew.
    pub(crate) fn disturb(&mut self) {
        for requests in self.tasks.iter_mut().flatten() {
            (requests.begun, requests.seen, requests.late) = (None, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests;
