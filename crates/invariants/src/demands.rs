// SPDX-License-Identifier: GPL-2.0-only
//! What a workload says of its tasks that no event shows: which group a task is in, and what it asks for.

use ids::Nanos;
use std::collections::BTreeMap;

/// What Linux keeps of a task's name (`TASK_COMM_LEN` is 16, with the byte that ends it).
const KEPT: usize = 15;

/// Of a whole workload. Whoever has none knows of no groups and no requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// Its groups, those around others first.
    pub groups: Vec<Group>,
    /// How many processes it names.
    pub processes: usize,
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
    /// It has a cap that it may exceed where nobody else wants the CPU.
    pub has_soft_cap: bool,
    /// The groups around it, as places in [`Demands::groups`].
    pub within: Vec<usize>,
}

/// What is said of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskDemand {
    /// Its group, as a place in [`Demands::groups`].
    pub group: Option<usize>,
    /// Its process, as a number below [`Demands::processes`].
    pub process: Option<usize>,
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
    /// Of the task of this name, of which a kernel keeps [`KEPT`] bytes. Nothing if that could be two tasks.
    pub(crate) fn of(&self, name: &str) -> TaskDemand {
        let mut cut = self.tasks.range(name.to_owned()..).take_while(|(whole, _)| whole.starts_with(name));
        let mut only = || cut.next().filter(|_| name.len() == KEPT && cut.next().is_none()).map(|(_, demand)| demand);
        self.tasks.get(name).or_else(&mut only).cloned().unwrap_or_default()
    }

    /// The groups whose CPU time a task of `group` uses: that one and those around it.
    pub(crate) fn paying(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        self.groups[group].within.iter().copied().chain([group])
    }

    /// Whether a cap of any kind holds for the tasks of `group`.
    pub(crate) fn is_capped(&self, group: usize) -> bool {
        let capped = |one: usize| self.groups[one].has_soft_cap || self.groups[one].hard_cap_percent.is_some();
        self.paying(group).any(capped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_cut_is_found_if_it_is_one_tasks() {
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
