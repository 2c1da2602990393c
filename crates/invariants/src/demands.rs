// SPDX-License-Identifier: GPL-2.0-only
//! What a workload requests for its tasks and no event shows: their groups, processes and deadlines.

use ids::Nanos;
use std::collections::BTreeMap;

/// Number of bytes of a task name that Linux keeps (`TASK_COMM_LEN` is 16, including the terminating zero).
const KEPT: usize = 15;

/// Requests of a whole workload. The default has no groups and no requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// Groups; an enclosing group comes before the groups nested in it.
    pub groups: Vec<Group>,
    /// Number of processes that the workload names.
    pub processes: usize,
    /// Requests of the tasks, by task name.
    pub tasks: BTreeMap<String, TaskDemand>,
}

/// A group of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Weight relative to the other groups, 1 to 10000.
    pub weight: u32,
    /// Most CPU time that the group may use even if CPUs are idle, in percent of one CPU.
    pub hard_cap_percent: Option<u32>,
    /// Whether the group has a cap that it may exceed while CPUs are idle.
    pub has_soft_cap: bool,
    /// Enclosing groups, as indices into [`Demands::groups`].
    pub within: Vec<usize>,
}

/// Requests of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDemand {
    /// Index of its group in [`Demands::groups`].
    pub group: Option<usize>,
    /// Number of its process, below [`Demands::processes`].
    pub process: Option<usize>,
    /// Number of its requests that may be late.
    pub window: Option<Window>,
}

/// A window of consecutive requests: of every `of` requests, at most `late` may finish after their deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Largest number of late requests in a window.
    pub late: u32,
    /// Number of requests in a window, 1 or more.
    pub of: u32,
    /// Deadline of a request. A request starts when the task wakes up and ends when it sleeps again.
    pub request: Nanos,
}

impl Demands {
    /// Requests of the task with this name, which the kernel truncates to [`KEPT`] bytes. Returns the default if a
    /// truncated name fits two tasks.
    pub(crate) fn of(&self, name: &str) -> TaskDemand {
        let mut cut = self.tasks.range(name.to_owned()..).take_while(|(whole, _)| whole.starts_with(name));
        let mut only = || cut.next().filter(|_| name.len() == KEPT && cut.next().is_none()).map(|(_, demand)| demand);
        self.tasks.get(name).or_else(&mut only).cloned().unwrap_or_default()
    }

    /// Groups that are charged for the CPU time of a task of `group`: that group and the enclosing ones.
    pub(crate) fn charged_groups(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        self.groups[group].within.iter().copied().chain([group])
    }

    /// Whether a hard or soft cap applies to the tasks of `group`.
    pub(crate) fn is_capped(&self, group: usize) -> bool {
        let capped = |one: usize| self.groups[one].has_soft_cap || self.groups[one].hard_cap_percent.is_some();
        self.charged_groups(group).any(capped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_task_name_is_found_if_it_is_unambiguous() {
        let task = |group| TaskDemand { group: Some(group), ..TaskDemand::default() };
        let names = ["film", "a-name-of-seventeen", "fifteen-letters", "twice-the-same-1", "twice-the-same-2"];
        let tasks = names.iter().map(|name| name.to_string()).zip((0..).map(task)).collect();
        let demands = Demands { tasks, ..Demands::default() };
        let found = |name| demands.of(name).group;
        assert_eq!([found("film"), found("a-name-of-seventeen")], [Some(0), Some(1)]);
        assert_eq!([found("a-name-of-seven"), found("fifteen-letters")], [Some(1), Some(2)]);
        assert_eq!([found("twice-the-same-"), found("fil"), found("a-name")], [None; 3]);
    }
}
