// SPDX-License-Identifier: GPL-2.0-only
//! Windows: how many of a task's requests may be late (R. West and K. Schwan, 1999).
//!
//! A request is what a task does from when it wakes until it sleeps. It should be done within a period; of so many
//! requests one after the other some may miss that.

use crate::Workload;
use crate::check::Flaw;
use ids::Nanos;

/// The longest window, in requests, and the longest period.
pub(crate) const MOST_REQUESTS: u32 = 255;
pub(crate) const MOST_REQUEST_US: i64 = 1_000_000_000;

/// Bytes of a task's name that a kernel keeps.
const NAME_BYTES: usize = 15;

/// What is bearable for a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// So many requests may be late …
    pub late: u32,
    /// … of each so many; 0 of 0 if every one counts alike.
    pub of: u32,
    /// How long a request may take from when its task wakes: also the time from one deadline to the next.
    pub request: Nanos,
}

/// What a kernel keeps of a task's name: its first 15 bytes.
pub fn kept_of_name(name: &str) -> &str {
    let end = (0..=NAME_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    &name[..end]
}

impl Workload {
    /// The tasks that have a window, each by what a kernel keeps of its name, each name once.
    pub fn windows(&self) -> Vec<(&str, Window)> {
        let all = self.tasks.iter().filter_map(|task| Some((kept_of_name(&task.name), task.window?)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.dedup_by_key(|(name, _)| *name);
        all
    }

    /// Windows are told by names, so tasks of one name have one window.
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
                return flaw(format!("{names} are both {kept:?} to a kernel, but differ in window or request-us"));
            }
        }
        Ok(())
    }
}
