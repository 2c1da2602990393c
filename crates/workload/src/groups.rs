// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups with a weight, a CPU limit, CPUs and an owner.
//!
//! 1. A group is a path from the root of the workload's own hierarchy: `/a` contains `/a/x`. Its ancestors exist
//!    implicitly.
//! 2. A weight has the meaning of `cpu.weight` (cgroup v2): the share among sibling groups and tasks.
//! 3. `cpus` and `uid` apply to all descendants unless overridden. They are set on the tasks themselves, as a cpuset
//!    and a login do, so a scheduler finds them where it expects them.
//! 4. Parts of a composition share the hierarchy: groups with the same path are one group.
//! 5. Cgroups in a recording are ignored, because their attributes are unknown.

use crate::{Op, TaskSpec, Workload};
use ids::CpuSet;
use std::collections::VecDeque;

/// `cpu.weight`: its default and its maximum (CGROUP_WEIGHT_*).
pub const DEFAULT_WEIGHT: u32 = 100;
pub(crate) const MOST_WEIGHT: u32 = 10_000;
/// Maximum CPU limit: 100 % of each CPU of the largest machine.
pub(crate) const MOST_CAP_PERCENT: u32 = 100 * ids::MAX_CPUS as u32;
/// Maximum length of a group name (NAME_MAX), and maximum depth of a path.
const NAME_BYTES: usize = 255;
const MAX_DEPTH: usize = 16;
/// Maximum name length of a group that reserves CPUs or has a CPU limit.
const SHORT_NAME_BYTES: usize = 31;
/// Maximum number of groups in a workload.
pub(crate) const MAX_GROUPS: usize = 1000;

/// A cgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskGroup {
    /// Path from the root of the workload's hierarchy, such as `/a/x`.
    pub path: String,
    /// Weight among its siblings, 1 to 10000; the default is 100.
    pub weight: u32,
    /// CPU limit in percent of one CPU; 0: only otherwise idle CPU time.
    pub cap_percent: Option<u32>,
    /// Whether the limit holds even if CPUs would otherwise be idle.
    pub hard: bool,
    /// CPUs its tasks may use.
    pub cpus: Option<CpuSet>,
    /// User ID of its tasks.
    pub uid: Option<u32>,
    /// Whether its tasks form one job that only makes progress if all run together.
    pub job: bool,
    /// CPUs reserved for the group.
    pub reserve: Option<Reserved>,
}

/// A reservation of CPUs. The scheduler chooses which ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// Number of CPUs, at least 1.
    pub cpus: u32,
    /// Start of the reservation in milliseconds after the start of the group's first task.
    pub from_ms: u32,
    /// Duration in milliseconds, at least 1; `None`: unlimited.
    pub ms: Option<u32>,
}

impl TaskGroup {
    /// Creates a group with default attributes.
    pub fn new(path: impl Into<String>) -> TaskGroup {
        TaskGroup {
            path: path.into(),
            weight: DEFAULT_WEIGHT,
            cap_percent: None,
            hard: false,
            cpus: None,
            uid: None,
            job: false,
            reserve: None,
        }
    }

    /// Path of the parent group; `None` for a top-level group.
    pub fn parent(&self) -> Option<&str> {
        self.path.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())
    }

    /// Name within the parent group.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().expect("a split has a last piece")
    }

    /// Returns whether `path` is this group or a descendant.
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Checks the syntax of a group path.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let expected = "expected a path such as /a/x";
    let Some(names) = path.strip_prefix('/') else { return Err(format!("group {path:?}; {expected}")) };
    let fits = |name: &str| {
        let plain = name.len() <= NAME_BYTES && !name.contains(['\0', '\n']);
        plain && !matches!(name, "" | "." | "..")
    };
    match names.split('/').count() {
        depth if depth > MAX_DEPTH => Err(format!("group {path:?} is {depth} deep; expected at most {MAX_DEPTH}")),
        _ if names.split('/').all(fits) => Ok(()),
        _ => Err(format!("group {path:?}; {expected}, with names of at most {NAME_BYTES} bytes other than . and ..")),
    }
}

/// The path and its ancestors, outermost first.
fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

impl Workload {
    /// Path of a task's group; `None` for the root.
    pub fn group_of(&self, spec: u32) -> Option<&str> {
        self.path_of(&self.tasks[spec as usize])
    }

    fn path_of<'w>(&self, task: &'w TaskSpec) -> Option<&'w str> {
        task.who.group.as_deref().filter(|_| self.is_grouped)
    }

    /// All groups: those described, those used by tasks, and their ancestors. Parents precede children; siblings are
    /// ordered by name.
    pub fn all_groups(&self) -> Vec<TaskGroup> {
        let used = self.tasks.iter().filter_map(|task| self.path_of(task));
        let mut paths: Vec<&str> = used.chain(self.groups.iter().map(|group| group.path.as_str())).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut paths: Vec<&str> = paths.into_iter().flat_map(with_ancestors).collect();
        paths.sort_unstable_by(|a, b| a.split('/').cmp(b.split('/')));
        paths.dedup();
        let known = |path: &str| self.groups.iter().find(|group| group.path == path).cloned();
        paths.into_iter().map(|path| known(path).unwrap_or_else(|| TaskGroup::new(path))).collect()
    }

    /// Described groups that contain the path, itself included, outermost first.
    fn described_around(&self, path: &str) -> Vec<&TaskGroup> {
        let mut around: Vec<&TaskGroup> = self.groups.iter().filter(|group| group.contains(path)).collect();
        around.sort_by_key(|group| group.path.len());
        around
    }

    /// A forked task without its own group inherits that of the first task that forks it.
    pub(crate) fn inherit_groups(&mut self) {
        let mut todo: VecDeque<usize> = (0..self.tasks.len()).collect();
        while let Some(parent) = todo.pop_front() {
            let Some(group) = self.tasks[parent].who.group.clone() else { continue };
            let forks = |op: &Op| if let Op::Fork(child) = op { Some(*child as usize) } else { None };
            let children: Vec<usize> = self.tasks[parent].script.iter().filter_map(forks).collect();
            for child in children {
                let own = &mut self.tasks[child].who.group;
                if own.is_none() {
                    *own = Some(group.clone());
                    todo.push_back(child);
                }
            }
        }
    }

    /// Sets the CPUs and users of groups on their tasks (rule 3).
    pub(crate) fn apply_groups(&mut self) {
        let cpus_of = |task: &TaskSpec| {
            let around = self.path_of(task).map(|path| self.described_around(path)).unwrap_or_default();
            around.into_iter().filter_map(|group| group.cpus.as_ref()).fold(None, |all: Option<CpuSet>, own| {
                Some(all.map_or_else(|| own.clone(), |all| all.intersection(own)))
            })
        };
        let uid_of = |task: &TaskSpec| {
            let around = self.path_of(task).map(|path| self.described_around(path)).unwrap_or_default();
            around.into_iter().rev().find_map(|group| group.uid)
        };
        let cpus: Vec<Option<CpuSet>> = self.tasks.iter().map(cpus_of).collect();
        let uids: Vec<Option<u32>> = self.tasks.iter().map(uid_of).collect();
        for ((task, own), uid) in self.tasks.iter_mut().zip(&cpus).zip(uids) {
            task.who.uid = task.who.uid.or(uid);
            task.cpus = within(task.cpus.take(), own.as_ref());
            for op in &mut task.script {
                match op {
                    Op::Change { cpus: Some(wanted), .. } => {
                        **wanted = within(Some(std::mem::take(wanted)), own.as_ref()).expect("some are wanted");
                    }
                    Op::ChangeOf { spec, cpus: Some(wanted), .. } => {
                        let of_other = cpus[*spec as usize].as_ref();
                        **wanted = within(Some(std::mem::take(wanted)), of_other).expect("some are wanted");
                    }
                    _ => {}
                }
            }
        }
    }

    /// Checks that groups are consistent with each other.
    pub(crate) fn check_groups(&self) -> Result<(), String> {
        let used = self.tasks.iter().filter_map(|task| self.path_of(task));
        used.chain(self.groups.iter().map(|group| group.path.as_str())).try_for_each(check_path)?;
        for group in &self.groups {
            if self.groups.iter().filter(|other| other.path == group.path).count() > 1 {
                return Err(format!("group {:?} is described twice", group.path));
            }
            check_cpus(group, &self.described_around(&group.path))?;
            self.check_reservation(group)?;
            self.check_cap(group)?;
        }
        match self.all_groups().len() {
            many if many > MAX_GROUPS => Err(format!("{many} groups; expected at most {MAX_GROUPS}")),
            _ => Ok(()),
        }
    }
}

impl Workload {
    /// Checks reservations: a scheduler identifies a group with reserved CPUs by its name, of which it keeps 31
    /// bytes.
    fn check_reservation(&self, group: &TaskGroup) -> Result<(), String> {
        let (path, name) = (&group.path, group.name());
        let Some(Reserved { cpus, ms, .. }) = group.reserve else { return Ok(()) };
        if cpus == 0 || ms == Some(0) {
            return Err(format!("group {path:?} reserves no CPU or no time; expected at least 1 of both"));
        }
        if name.len() > SHORT_NAME_BYTES {
            return Err(format!("group {path:?} reserves CPUs; expected a name of at most {SHORT_NAME_BYTES} bytes"));
        }
        let others = self.groups.iter().filter(|other| other.path != *path && other.reserve.is_some());
        match others.into_iter().find(|other| other.name() == name) {
            Some(other) => {
                Err(format!("groups {:?} and {path:?} both reserve CPUs; expected different names", other.path))
            }
            None => Ok(()),
        }
    }

    /// Checks CPU limits: groups with the same name must have the same limit.
    fn check_cap(&self, group: &TaskGroup) -> Result<(), String> {
        let (path, name) = (&group.path, group.name());
        if group.cap_percent.is_none() {
            return Ok(());
        }
        if name.len() > SHORT_NAME_BYTES {
            return Err(format!("group {path:?} has a cap; expected a name of at most {SHORT_NAME_BYTES} bytes"));
        }
        let cap = |group: &TaskGroup| (group.cap_percent, group.hard);
        let differs = |other: &&TaskGroup| other.cap_percent.is_some() && cap(other) != cap(group);
        match self.groups.iter().filter(differs).find(|other| other.name() == name) {
            Some(other) => Err(format!(
                "groups {:?} and {path:?} have different caps; expected different names or equal caps",
                other.path
            )),
            None => Ok(()),
        }
    }
}

/// Checks that a group has CPUs in common with its ancestors.
fn check_cpus(group: &TaskGroup, around: &[&TaskGroup]) -> Result<(), String> {
    let mut left: Option<CpuSet> = None;
    for outer in around.iter().filter(|outer| outer.cpus.is_some()) {
        let own = outer.cpus.as_ref().expect("the outer group has CPUs");
        let both = left.as_ref().map_or_else(|| own.clone(), |left| left.intersection(own));
        if both.is_empty() {
            let left = left.unwrap_or_default();
            return Err(format!("group {:?} has CPUs {own}, but the enclosing groups have {left}", group.path));
        }
        left = Some(both);
    }
    Ok(())
}

/// As in a cpuset: the wanted CPUs that are available, or all available ones if there are none.
pub(crate) fn within(wanted: Option<CpuSet>, all: Option<&CpuSet>) -> Option<CpuSet> {
    let Some(all) = all else { return wanted };
    let both = wanted.map(|wanted| wanted.intersection(all)).filter(|both| !both.is_empty());
    Some(both.unwrap_or_else(|| all.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_group_paths_are_refused() {
        assert!(["/a", "/a/x", "/a b/.x"].iter().all(|path| check_path(path).is_ok()));
        let deep = "/a".repeat(17);
        let long = format!("/{}", "n".repeat(256));
        let refused = ["", "/", "a", "/a/", "//a", "/a/../b", "/./a", "/a\nb", &deep, &long];
        for path in refused {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn group_contains_itself_and_descendants() {
        let group = TaskGroup::new("/a/x");
        assert_eq!((group.parent(), group.name()), (Some("/a"), "x"));
        assert_eq!(TaskGroup::new("/a").parent(), None);
        assert_eq!(["/a/x", "/a/x/y", "/a", "/a/xy"].map(|path| group.contains(path)), [true, true, false, false]);
    }

    #[test]
    fn groups_are_ordered_by_ancestry_then_name() {
        let groups = ["/b", "/a-b", "/a/x/y"].map(TaskGroup::new).to_vec();
        let workload = Workload { groups, ..Workload::default() };
        let all: Vec<String> = workload.all_groups().into_iter().map(|group| group.path).collect();
        assert_eq!(all, ["/a", "/a/x", "/a/x/y", "/a-b", "/b"]);
    }
}
