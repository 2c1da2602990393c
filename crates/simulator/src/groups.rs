// SPDX-License-Identifier: GPL-2.0-only
//! The workload's groups as cgroups, and the users and sessions of its tasks. As in a real kernel with `weir run`: a
//! workload with groups is contained in one cgroup, its groups are created before the scheduler is attached, and a
//! task is created in its parent's cgroup with its parent's user, and moved before it runs.

use crate::run::BOOT_CPU;
use event_log::modelled_pid;
use ids::TaskId;
use kernel_model::{CgroupId, CgroupKnobs, Identity, Kernel};
use std::collections::BTreeMap;
use workload::{TaskGroup, Workload};

/// Name of the cgroup that contains a workload with groups; `weir run` appends its PID.
const AROUND: &str = "weir";

/// PID, and thus session, of the process that executes the workload: below those of all tasks.
const EXECUTOR_PID: u32 = 99;

/// Cgroups, sessions and processes of the workload; see the module.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Cgroup that contains the workload, if it has groups.
    around: Option<CgroupId>,
    by_path: BTreeMap<String, CgroupId>,
    /// Session leaders, by part and by the session number in the recording.
    sessions: BTreeMap<(usize, u32), u32>,
    /// Tasks of each process that the workload names.
    processes: BTreeMap<String, Vec<TaskId>>,
}

impl Groups {
    /// Creates the cgroups of a workload, before a scheduler is attached.
    pub fn make(kernel: &mut Kernel, workload: &Workload) -> Groups {
        let mut groups = Groups::default();
        let all = workload.all_groups();
        if all.is_empty() {
            return groups;
        }
        let mut make = |parent, name: &str| {
            kernel
                .make_cgroup(BOOT_CPU, parent, name)
                .expect("no scheduler is attached, and workloads are not nested that deeply")
        };
        let around = make(CgroupId::ROOT, AROUND);
        for group in &all {
            let parent = group.parent().map_or(around, |path| groups.by_path[path]);
            groups.by_path.insert(group.path.clone(), make(parent, group.name()));
        }
        for group in &all {
            kernel.set_cgroup(BOOT_CPU, groups.by_path[&group.path], knobs(group));
        }
        groups.around = Some(around);
        groups
    }

    /// Whether the workload has groups.
    pub fn exist(&self) -> bool {
        self.around.is_some()
    }

    /// User and session of the task `next` of this spec at its creation.
    pub fn identity(&mut self, workload: &Workload, spec: u32, parent: Option<TaskId>, next: TaskId) -> Identity {
        let who = &workload.tasks[spec as usize].who;
        let part = workload.parts.partition_point(|part| part.tasks.end <= spec);
        let leader = |session: u32| *self.sessions.entry((part, session)).or_insert(modelled_pid(next));
        let own = who.session.map(leader);
        Identity {
            // The user is set later, when the task moves to its group.
            uid: None,
            session: own.or(parent.is_none().then_some(EXECUTOR_PID)),
            cgroup: self.around.filter(|_| parent.is_none()),
            process: None,
        }
    }

    /// A living task of the process that the workload names for the task `next` of this spec, if any.
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

    /// Cgroup of a task of this spec, if it has one of its own.
    pub fn of(&self, workload: &Workload, spec: u32) -> Option<CgroupId> {
        workload.group_of(spec).map(|path| self.by_path[path])
    }
}

/// Settings of a group that a kernel accepts: of its caps only the hard ones, as CPU time per period.
fn knobs(group: &TaskGroup) -> CgroupKnobs {
    let usual = CgroupKnobs::default();
    let quota = |percent: u32| u64::from(percent) * usual.period_us / 100;
    let quota_us = group.cap_percent.filter(|_| group.hard).map_or(usual.quota_us, quota);
    CgroupKnobs { weight: group.weight, quota_us, ..usual }
}
