// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups in the fair class: how the weights of cgroups affect the weights of tasks.
//!
//! 1. The share of a group in its parent is divided among CPUs in proportion to the weights that compete there
//!    (`calc_group_shares`), and on each CPU among the tasks and groups that compete in the group. A task thus has a
//!    fraction of a fraction of its group's weight.
//! 2. The kernel has a queue for each group on each CPU, and picks a group, then an entity within it. Here all tasks
//!    of a CPU are in one queue with these fractions as weights. The shares are the same, but the tasks of a group
//!    have slices of their own, where in the kernel the group has one slice.
//! 3. The fractions of a CPU are recomputed when a task joins it, when it picks, and at its ticks, as in
//!    `update_cfs_group`. Weights count the tasks on the CPU now, where the kernel averages over about 30 ms.
//! 4. A task whose weight changes keeps its lag and the rest of its request, in real time (`reweight_entity`). All
//!    changes are made relative to the average, which therefore stays the same.
//!
//! 5. With autogroups, the tasks of each session in the root cgroup form a group of weight 100 (`sched_autogroup`).
//!
//! Not modelled: the nice value of an autogroup, bandwidth (`cpu.max`), and that tasks of a group with `cpu.idle` are
//! preempted like those of SCHED_IDLE; such a group does have their weight. With the root cgroup alone all of this is skipped.

use super::Core;
use crate::CgroupId;
use crate::core::task::SCALE;
use ids::{CpuId, TaskId};

/// Weight of a group whose `cpu.weight` is 100: that of a nice-0 task (`NICE_0_LOAD`).
const SHARES: u64 = 1024 << SCALE;
/// Default `cpu.weight` (`CGROUP_WEIGHT_DFL`).
const WEIGHT: u64 = 100;
/// Weight of a group with `cpu.idle` (`WEIGHT_IDLEPRIO`).
const SHARES_IDLE: u64 = 3 << SCALE;
/// Minimum weight of a group on a CPU (`MIN_SHARES`).
const SHARES_LEAST: u64 = 2 << SCALE;
/// Minimum effective weight of a task. A choice of the model: the virtual clock of a lighter task would run so fast
/// that lag would be unbounded.
const LEAST: u64 = 1 << SCALE >> 5;

/// Weights on a CPU by cgroup: the sum of the competing weights in the group, and the group's own weight in its
/// parent.
struct Shares {
    within: Vec<u64>,
    own: Vec<u64>,
}

impl Core {
    /// Recomputes the weights of all tasks that compete on `cpu`. `joins` is about to join and is not in the sums
    /// yet. The running task must have been charged.
    #[inline]
    pub fn fair_update_weights(&mut self, cpu: CpuId, joins: Option<TaskId>) {
        if self.cgroups.count() > 1 || self.config.autogroup {
            self.fair_update_group_weights(cpu, joins);
        }
    }

    fn fair_update_group_weights(&mut self, cpu: CpuId, joins: Option<TaskId>) {
        let delayed = self.cpus[cpu.index()].fair.delayed.iter().map(|key| key.3);
        let competing: Vec<TaskId> = self.fair_waiting(cpu).chain(delayed).chain(self.fair_running(cpu)).collect();
        let all: Vec<TaskId> = competing.iter().copied().chain(joins).collect();
        let shares = self.fair_shares(cpu, &all);
        let weights: Vec<u64> = all.iter().map(|&task| self.fair_part(task, &shares)).collect();
        let average = self.fair_average(cpu);
        for (&task, &weight) in competing.iter().zip(&weights) {
            if weight != self.fair_weight(task) {
                self.fair_change_weight(task, weight, average);
            }
        }
        if let (Some(task), Some(&weight)) = (joins, weights.get(competing.len())) {
            let old = self.fair_weight(task);
            self.task_mut(task).fair.weight = weight;
            self.fair_rescale_saved(task, old);
        }
    }

    /// Step 1 above: computes the share of each cgroup on this CPU, from the innermost cgroups to the root. A cgroup
    /// has a higher number than its parent.
    fn fair_shares(&mut self, cpu: CpuId, tasks: &[TaskId]) -> Shares {
        let groups: Vec<usize> = tasks.iter().map(|&task| self.fair_group_of(task)).collect();
        let count = self.cgroups.fair_count();
        let mut shares = Shares { within: vec![0; count], own: vec![0; count] };
        for (&task, group) in tasks.iter().zip(groups) {
            shares.within[group] += self.fair_full_weight(task);
        }
        for index in (1..count).rev() {
            let within = shares.within[index];
            let everywhere = self.cgroups.note_load(index, cpu, within);
            if within == 0 {
                continue;
            }
            let knobs = self.cgroups.fair_group(index).knobs;
            let full = if knobs.idle { SHARES_IDLE } else { (u64::from(knobs.weight) * SHARES + WEIGHT / 2) / WEIGHT };
            let here = (u128::from(full) * u128::from(within) / u128::from(everywhere)) as u64;
            shares.own[index] = here.clamp(SHARES_LEAST.min(full), full);
            let parent = self.cgroups.fair_group(index).parent.expect("only the root has none");
            shares.within[parent.0 as usize] += shares.own[index];
        }
        shares
    }

    /// The effective weight of a task: its own weight, reduced by the share of each cgroup up to the root.
    fn fair_part(&mut self, task: TaskId, shares: &Shares) -> u64 {
        let (mut part, mut group) = (u128::from(self.fair_full_weight(task)), self.fair_group_of(task));
        while let Some(parent) = self.cgroups.fair_group(group).parent {
            part = part * u128::from(shares.own[group]) / u128::from(shares.within[group]);
            group = parent.0 as usize;
        }
        (part as u64).max(LEAST)
    }

    /// Group of a task among those of the fair class: its cgroup or, in the root cgroup, the autogroup of its session
    /// (`task_wants_autogroup`). Kthreads have no session.
    fn fair_group_of(&mut self, task: TaskId) -> usize {
        let entry = self.task(task);
        let (cgroup, session) = (entry.cgroup, entry.session);
        let wants = self.config.autogroup && cgroup == CgroupId::ROOT && session != 0;
        if wants { self.cgroups.autogroup(session) } else { cgroup.0 as usize }
    }

    /// Step 4 above, for a task that competes on its CPU: changes its weight and keeps its position relative to the
    /// average.
    fn fair_change_weight(&mut self, task: TaskId, weight: u64, average: u64) {
        let (cpu, key, old) = (self.task_cpu(task), self.higher_key(task), self.fair_weight(task));
        let queue = &mut self.cpus[cpu.index()];
        let (waits, delayed) = (queue.higher.remove(&key), queue.fair.delayed.remove(&key));
        if waits || delayed {
            self.fair_count(cpu, task, false);
        }
        let scaled = |from: u64, to: u64| {
            let distance = i128::from(to) - i128::from(from);
            (distance * i128::from(old) / i128::from(weight)) as i64
        };
        let entry = self.task_mut(task);
        let fair = &mut entry.fair;
        let vruntime = average.saturating_add_signed(scaled(average, fair.vruntime));
        fair.deadline = vruntime.saturating_add_signed(scaled(fair.vruntime, fair.deadline));
        fair.protected_until = vruntime.saturating_add_signed(scaled(fair.vruntime, fair.protected_until));
        (fair.vruntime, fair.weight) = (vruntime, weight);
        if waits || delayed {
            entry.class_key = entry.fair.deadline;
        }
        self.fair_rescale_saved(task, old);
        let key = self.higher_key(task);
        let queue = &mut self.cpus[cpu.index()];
        if waits {
            queue.higher.insert(key);
        }
        if delayed {
            queue.fair.delayed.insert(key);
        }
        if waits || delayed {
            self.fair_count(cpu, task, true);
        }
    }
}
