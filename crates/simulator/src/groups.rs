// SPDX-License-Identifier: GPL-2.0-only
//! The workload's groups as cgroups of the kernel, and whose its tasks are. As in a real kernel, where `weir run` plays it:
//! all of a workload that has groups is in one cgroup, its groups are made before the scheduler comes, and a task is born
//! where its parent is, of its parent's user, and moves before it runs.

use crate::model::Model;
use crate::run::BOOT_CPU;
use event_log::modelled_pid;
use ids::TaskId;
use kernel_model::{CgroupId, CgroupKnobs, Identity};
use std::collections::BTreeMap;
use workload::{TaskGroup, Workload};

/// Name of the cgroup around a workload with groups; `weir run` appends its process number.
const AROUND: &str = "weir";

/// Number of the process that plays the workload, and so of its session: below those of all tasks.
const PLAYER: u32 = 99;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Around the workload, if it has groups.
    around: Option<CgroupId>,
    by_path: BTreeMap<String, CgroupId>,
    /// Leaders of sessions, by part and by the number that the recording has for them.
    sessions: BTreeMap<(usize, u32), u32>,
    /// The tasks of each process that the workload names.
    processes: BTreeMap<String, Vec<TaskId>>,
}

impl Groups {
    /// Makes the cgroups of a workload. The model has no scheduler yet.
    pub fn make(model: &mut impl Model, workload: &Workload) -> Groups {
        let mut groups = Groups::default();
        let all = workload.all_groups();
        if all.is_empty() {
            return groups;
        }
        let mut make = |parent, name: &str| {
            model.make_cgroup(BOOT_CPU, parent, name).expect("nobody refuses, and workloads are not that deep")
        };
        let around = make(CgroupId::ROOT, AROUND);
        for group in &all {
            let parent = group.parent().map_or(around, |path| groups.by_path[path]);
            groups.by_path.insert(group.path.clone(), make(parent, group.name()));
        }
        for group in &all {
            model.set_cgroup(BOOT_CPU, groups.by_path[&group.path], knobs(group));
        }
        groups.around = Some(around);
        groups
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        self.around.is_some()
    }

    /// Whose the task `next` of this spec is when it is born.
    pub fn identity(&mut self, workload: &Workload, spec: u32, parent: Option<TaskId>, next: TaskId) -> Identity {
        let who = &workload.tasks[spec as usize].who;
        let part = workload.parts.partition_point(|part| part.tasks.end <= spec);
        let leader = |session: u32| *self.sessions.entry((part, session)).or_insert(modelled_pid(next));
        let own = who.session.map(leader);
        Identity {
            // It becomes its user's later, as it goes to its group.
            uid: None,
            session: own.or(parent.is_none().then_some(PLAYER)),
            cgroup: self.around.filter(|_| parent.is_none()),
            process: None,
        }
    }

    /// A living task of the process that the workload names for the task `next` of this spec, if it does and there is one.
    pub fn process(
        &mut self,
        workload: &Workload,
        spec: u32,
        next: TaskId,
        lives: impl Fn(TaskId) -> bool,
    ) -> Option<TaskId> {
        let name = workload.tasks[spec as usize].who.process.as_ref()?;
        let tasks = self.processes.entry(name.clone()).or_default();
        tasks.retain(|task| lives(*task));
        tasks.push(next);
        tasks.first().copied().filter(|first| *first != next)
    }

    /// The cgroup of a task of this spec, if it has one of its own.
    pub fn of(&self, workload: &Workload, spec: u32) -> Option<CgroupId> {
        workload.group_of(spec).map(|path| self.by_path[path])
    }
}

/// What a kernel can be told of a group: of its caps those that are hard, as CPU time in each period.
fn knobs(group: &TaskGroup) -> CgroupKnobs {
    let usual = CgroupKnobs::default();
    let quota = |percent: u32| u64::from(percent) * usual.period_us / 100;
    let quota_us = group.cap_percent.filter(|_| group.hard).map_or(usual.quota_us, quota);
    CgroupKnobs { weight: group.weight, quota_us, ..usual }
}
