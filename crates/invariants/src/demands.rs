// SPDX-License-Identifier: GPL-2.0-only
//! What a workload says of its tasks that no event shows: which group a task is in, and what it asks for.

use ids::Nanos;
use std::collections::BTreeMap;

/// Of a whole workload. Whoever has none knows of no groups and no requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// Its groups, those around others first.
    pub groups: Vec<Group>,
    /// Of its tasks, by name.
    pub tasks: BTreeMap<String, TaskDemand>,
}

/// A group of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its share among all groups, 1 to 10000.
    pub weight: u32,
    /// Most CPU time that it may have even where nobody else wants the CPU, in percent of one CPU.
    pub hard_cap_percent: Option<u32>,
    /// The groups around it, as places in [`Demands::groups`].
    pub within: Vec<usize>,
}

/// What is said of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDemand {
    /// Its group, as a place in [`Demands::groups`].
    pub group: Option<usize>,
    /// Which of its requests may be late.
    pub window: Option<Window>,
}

/// Of each `of` requests, one after another, `late` may be done after their deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// At most so many.
    pub late: u32,
    /// Of so many, 1 or more.
    pub of: u32,
    /// A request begins when the task wakes, is done when it sleeps again, and is late after this time.
    pub request: Nanos,
}

impl Demands {
    /// Of the task of this name.
    pub(crate) fn of(&self, name: &str) -> TaskDemand {
        self.tasks.get(name).cloned().unwrap_or_default()
    }

    /// The groups whose CPU time a task of `group` uses: that one and those around it.
    pub(crate) fn paying(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        self.groups[group].within.iter().copied().chain([group])
    }
}
