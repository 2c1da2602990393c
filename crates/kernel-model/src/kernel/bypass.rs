// SPDX-License-Identifier: GPL-2.0-only
//! Bypass: the core schedules by itself while the scheduler comes or goes (contract B1, B2).

use super::{Kernel, Stage};
use crate::TimerKey;
use crate::core::dsq::QueueRef;
use crate::core::queues::Remote;
use crate::core::{SLICE_BYPASS_NS, deq_flags};
use ids::{CpuId, CpuSet, TaskId};

/// Period of the balancer of the bypass queues.
const BALANCE_PERIOD_MS: u64 = 500;
/// A queue gives tasks away when it holds more than this share of the average.
const DONOR_PERCENT: usize = 125;
/// And when its surplus lasts for longer than this part of the period.
const LEAST_SURPLUS_DIVISOR: u64 = 4;

impl Kernel {
    /// Enters bypass; calls nest.
    pub(super) fn enter_bypass(&mut self) {
        self.core.bypass_depth += 1;
        if self.core.bypass_depth == 1 {
            self.core.counters.bypass_activate += 1;
            self.core.bypass_since = self.core.now;
            if !self.core.armed.contains(&TimerKey::BypassBalance) {
                self.arm_balancer(self.core.this_cpu);
            }
            self.cycle_all();
        }
    }

    /// Leaves bypass.
    pub(super) fn leave_bypass(&mut self) {
        self.core.bypass_depth -= 1;
        if self.core.bypass_depth == 0 {
            self.core.counters.bypass_duration_ns += self.core.now.since(self.core.bypass_since).0;
            self.cycle_all();
        }
    }

    /// Every waiting ext task goes through dequeue and enqueue, newest first; every CPU reschedules. Before the first
    /// task is on ext and after the last one there is nothing to do.
    fn cycle_all(&mut self) {
        if self.stage != Stage::Enabled {
            return;
        }
        for cpu in (0..self.core.cpus()).map(CpuId) {
            for task in self.core.runnable_on(cpu).into_iter().rev() {
                if self.core.task(task).queued {
                    self.change(task, deq_flags::MOVE, |_| {});
                }
            }
            self.core.resched(cpu);
        }
    }

    fn arm_balancer(&mut self, cpu: CpuId) {
        let period = BALANCE_PERIOD_MS * u64::from(self.core.config.hz) / 1_000;
        self.arm_in_jiffies(TimerKey::BypassBalance, cpu, period);
    }

    /// The balancer of the bypass queues: within each node, queues that are much longer than the average give tasks to
    /// those that are shorter. CPUs that get some reschedule (contract B1).
    pub(super) fn balance_bypass(&mut self, cpu: CpuId) {
        if !self.core.bypassing() {
            return;
        }
        for node in 0..self.core.nodes() {
            self.balance_node(node);
        }
        self.arm_balancer(cpu);
    }

    fn balance_node(&mut self, node: u32) {
        let of_node = |&cpu: &CpuId| self.core.node_of(cpu) == node && self.core.cpus[cpu.index()].online;
        let cpus: Vec<CpuId> = (0..self.core.cpus()).map(CpuId).filter(of_node).collect();
        let length = |kernel: &Kernel, cpu: CpuId| kernel.core.cpus[cpu.index()].bypass.len();
        let total: usize = cpus.iter().map(|&cpu| length(self, cpu)).sum();
        if cpus.is_empty() {
            return;
        }
        let target = total.div_ceil(cpus.len());
        let donor_target = (target * DONOR_PERCENT).div_ceil(100);
        let mut donees: CpuSet = cpus.iter().copied().filter(|&cpu| length(self, cpu) < target).collect();
        let donors: Vec<CpuId> = cpus.iter().copied().filter(|&cpu| !donees.contains(cpu)).collect();
        let mut receivers = CpuSet::new();
        for donor in donors {
            let surplus = length(self, donor).saturating_sub(donor_target) as u64;
            let least = (BALANCE_PERIOD_MS * 1_000_000 / LEAST_SURPLUS_DIVISOR).div_ceil(SLICE_BYPASS_NS);
            if surplus >= least {
                self.give_away(donor, donor_target, target, &mut donees, &mut receivers);
            }
        }
        for cpu in receivers.iter() {
            self.core.resched(cpu);
        }
    }

    /// Moves tasks out of the bypass queue of `donor`, first come first, each to some donee where it may run. They stay
    /// on their runqueue until the donee takes them.
    fn give_away(
        &mut self,
        donor: CpuId,
        donor_target: usize,
        target: usize,
        donees: &mut CpuSet,
        receivers: &mut CpuSet,
    ) {
        let waiting: Vec<TaskId> = self.core.cpus[donor.index()].bypass.iter().map(|(_, task)| task).collect();
        for task in waiting {
            if self.core.cpus[donor.index()].bypass.len() <= donor_target || donees.is_empty() {
                break;
            }
            let fits = donees.intersection(&self.core.task(task).allowed);
            if self.core.task_cpu(task) != donor || fits.is_empty() {
                continue;
            }
            let donee = CpuId(self.core.any_distribute(&fits));
            if !self.core.may_move_to(task, donee, Remote::Skip) {
                continue;
            }
            self.core.dequeue_from(task);
            self.core.enqueue_to(&mut self.machine.memory, task, QueueRef::Bypass(donee), false, 0, 0);
            receivers.insert(donee);
            if self.core.cpus[donee.index()].bypass.len() >= target {
                donees.remove(donee);
            }
        }
    }
}
