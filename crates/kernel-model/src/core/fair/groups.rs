// SPDX-License-Identifier: GPL-2.0-only
//! Groups of tasks: what the weights of cgroups make of the weights of tasks.
//!
//! 1. What a group has of its parent is divided among CPUs as the weights that compete there are (`calc_group_shares`), and
//!    on each CPU among what competes in the group. So a task has a part of a part of its group's weight.
//! 2. The kernel has a queue for each group on each CPU, and picks a group, then one within it. Here all tasks of a CPU are
//!    in one queue, each with that part as its weight: the same shares, but the tasks of a group take their turns one by
//!    one, where in the kernel the group has a turn.
//! 3. The parts of a CPU are reckoned anew when somebody joins it, when it picks, and at its ticks, as `update_cfs_group` does.
//!    Weights are those of who is there now, where the kernel has an average over some 30 ms.
//! 4. Whose weight changes keeps its lag and what is left of its request, in time (`reweight_entity`). All change around the
//!    average, so that stays where it is.
//!
//! Not modelled: bandwidth (`cpu.max`), and that tasks of a group with `cpu.idle` make way as those of SCHED_IDLE do; its
//! weight is theirs. While there are no cgroups but the root nothing of this is done.

use super::{Core, SCALE};
use crate::CgroupId;
use ids::{CpuId, TaskId};

/// Weight of a group whose `cpu.weight` is 100, as that of a task of nice 0 (`NICE_0_LOAD`).
const SHARES: u64 = 1024 << SCALE;
/// `CGROUP_WEIGHT_DFL`.
const WEIGHT: u64 = 100;
/// `WEIGHT_IDLEPRIO`: of a group with `cpu.idle`.
const SHARES_IDLE: u64 = 3 << SCALE;
/// `MIN_SHARES`: what a group has on a CPU at least.
const SHARES_LEAST: u64 = 2 << SCALE;
/// What a task has at least, a choice: the virtual clock of a lighter one would run so fast that no lag had a limit.
const LEAST: u64 = 1 << SCALE >> 5;

/// What competes on a CPU, by cgroup: the weights within it, and its own.
struct Shares {
    within: Vec<u64>,
    own: Vec<u64>,
}

impl Core {
    /// Reckons the weights of all that competes on `cpu` anew. `joins` is about to, and is not counted there yet. Who runs
    /// there has been charged.
    #[inline]
    pub fn fair_regroup(&mut self, cpu: CpuId, joins: Option<TaskId>) {
        if self.cgroups.count() > 1 {
            self.fair_reckon(cpu, joins);
        }
    }

    fn fair_reckon(&mut self, cpu: CpuId, joins: Option<TaskId>) {
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

    /// Step 1, from the innermost groups to the root: a cgroup has a higher number than what it is in.
    fn fair_shares(&mut self, cpu: CpuId, tasks: &[TaskId]) -> Shares {
        let count = self.cgroups.count();
        let mut shares = Shares { within: vec![0; count], own: vec![0; count] };
        for &task in tasks {
            shares.within[self.task(task).cgroup.0 as usize] += self.fair_full_weight(task);
        }
        for index in (1..count).rev() {
            let (cgroup, within) = (CgroupId(index as u32), shares.within[index]);
            let everywhere = self.cgroups.note_load(cgroup, cpu, within);
            if within == 0 {
                continue;
            }
            let knobs = self.cgroups.get(cgroup).knobs;
            let full = if knobs.idle { SHARES_IDLE } else { (u64::from(knobs.weight) * SHARES + WEIGHT / 2) / WEIGHT };
            let here = (u128::from(full) * u128::from(within) / u128::from(everywhere)) as u64;
            shares.own[index] = here.clamp(SHARES_LEAST.min(full), full);
            let parent = self.cgroups.get(cgroup).parent.expect("only the root has none");
            shares.within[parent.0 as usize] += shares.own[index];
        }
        shares
    }

    /// What is left of a task's weight on the way from its group to the root.
    fn fair_part(&self, task: TaskId, shares: &Shares) -> u64 {
        let (mut part, mut cgroup) = (u128::from(self.fair_full_weight(task)), self.task(task).cgroup);
        while let Some(parent) = self.cgroups.get(cgroup).parent {
            let index = cgroup.0 as usize;
            part = part * u128::from(shares.own[index]) / u128::from(shares.within[index]);
            cgroup = parent;
        }
        (part as u64).max(LEAST)
    }

    /// Step 4, of a task that competes.
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
        fair.safe_until = vruntime.saturating_add_signed(scaled(fair.vruntime, fair.safe_until));
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
