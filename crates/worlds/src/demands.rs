// SPDX-License-Identifier: GPL-2.0-only
//! Requirements of a workload that a check of a run must know; identical for simulated and real runs.

use invariants::{Demands, Group, TaskDemand, Window};
use std::collections::BTreeSet;
use workload::{TaskGroup, Workload};

/// Requirements on tasks that are not visible in events.
pub fn demands(workload: &Workload) -> Demands {
    let all = workload.all_groups();
    let group = |group: &TaskGroup| Group {
        weight: group.weight,
        hard_cap_percent: group.cap_percent.filter(|_| group.hard),
        has_soft_cap: group.cap_percent.is_some() && !group.hard,
        within: (0..all.len()).filter(|&other| all[other] != *group && all[other].contains(&group.path)).collect(),
    };
    let processes: BTreeSet<&String> = workload.tasks.iter().filter_map(|task| task.who.process.as_ref()).collect();
    let processes: Vec<&String> = processes.into_iter().collect();
    let of_path = |path: &str| all.iter().position(|group| group.path == path);
    let task = |spec: u32| {
        let group = workload.group_of(spec).and_then(of_path);
        let task = &workload.tasks[spec as usize];
        // 0 of 0 is a deadline without a window.
        let window = task.window.filter(|window| window.of > 0);
        let window = window.map(|window| Window { late: window.late, of: window.of, request: window.request });
        let process = task.who.process.as_ref().and_then(|name| processes.iter().position(|other| *other == name));
        (task.name.clone(), TaskDemand { group, process, window })
    };
    Demands {
        groups: all.iter().map(group).collect(),
        processes: processes.len(),
        tasks: (0..workload.tasks.len() as u32).map(task).collect(),
    }
}
