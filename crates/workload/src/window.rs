// SPDX-License-Identifier: GPL-2.0-only
//! Windows: how many of a task's requests may be late (R. West and K. Schwan, 1999).
//!
//! A request is a task's activity from a wakeup to the next sleep. It should complete within a given time; of a
//! window of consecutive requests, a given number may be late.

use crate::Workload;
use crate::check::Flaw;
use ids::Nanos;

/// Maximum window length in requests, and maximum request time in microseconds.
pub(crate) const MOST_REQUESTS: u32 = 255;
pub(crate) const MOST_REQUEST_US: i64 = 1_000_000_000;

/// Bytes of a task name that the kernel keeps.
const NAME_BYTES: usize = 15;

/// Window of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Number of requests that may be late...
    pub late: u32,
    /// ...in each window of this number; 0 of 0 if all requests matter equally.
    pub of: u32,
    /// Time limit of a request from the wakeup; also the distance between deadlines.
    pub request: Nanos,
}

/// Task name as truncated by the kernel to 15 bytes.
pub fn kept_of_name(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    &name[..end]
}

impl Workload {
    /// Tasks with a window, by kernel-truncated name, each name once.
    pub fn windows(&self) -> Vec<(&str, Window)> {
        let all = self.tasks.iter().filter_map(|task| Some((kept_of_name(&task.name), task.window?)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.dedup_by_key(|(name, _)| *name);
        all
    }

    /// Schedulers identify tasks with windows by name, so tasks of the same name must have the same window.
    pub(crate) fn check_windows(&self) -> Result<(), Flaw> {
        for (task, spec) in self.tasks.iter().enumerate() {
            let Some(window) = spec.window else { continue };
            let flaw = |problem| Err(Flaw { task, op: None, problem });
            if window.late > window.of || window.of > MOST_REQUESTS || window.request == Nanos::ZERO {
                let Window { late, of, request } = window;
                return flaw(format!(
                    "{late} of {of} requests of {request} may be late; expected at most {MOST_REQUESTS}"
                ));
            }
            let kept = kept_of_name(&spec.name);
            let other = |other: &&crate::TaskSpec| other.window != spec.window && kept_of_name(&other.name) == kept;
            if let Some(other) = self.tasks.iter().find(other) {
                let names = format!("{:?} and {:?}", spec.name, other.name);
                return flaw(format!(
                    "{names} have the same name {kept:?} in the kernel, but differ in window or request-us"
                ));
            }
        }
        Ok(())
    }
}
