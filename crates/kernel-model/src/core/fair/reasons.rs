// SPDX-License-Identifier: GPL-2.0-only
//! Details on the decisions of the fair class, for explanations of a run: why a waiting task was passed over.

use super::super::Core;
use super::NICE_0;
use event_log::{DetailKind, FairDecision, FairRule};
use ids::{CpuId, TaskId};

impl Core {
    /// Records that a fair task was put on the runqueue of `cpu`.
    #[inline]
    pub(in crate::core) fn fair_tell_queued(&mut self, cpu: CpuId, task: TaskId) {
        self.detail(task, |core| {
            let waiting = core.fair_waiting(cpu).count() as u32;
            DetailKind::Fair(FairDecision::Queued { on: cpu, waiting })
        });
    }

    /// Records for each fair task that waits on `cpu` why `chosen`, which ran until now if `runs`, came before it.
    #[inline]
    pub(super) fn fair_tell_chosen(&mut self, cpu: CpuId, chosen: TaskId, runs: bool) {
        if self.recorded.details {
            let waiting: Vec<TaskId> = self.fair_waiting(cpu).filter(|&task| task != chosen).collect();
            waiting.into_iter().for_each(|task| self.fair_tell_passed_over(cpu, task, chosen, runs));
        }
    }

    /// Records why `chosen` came before `task`, which waits on `cpu`.
    pub(super) fn fair_tell_passed_over(&mut self, cpu: CpuId, task: TaskId, chosen: TaskId, runs: bool) {
        self.detail(task, |core| {
            let rule = core.fair_rule(cpu, task, chosen, runs);
            DetailKind::Fair(FairDecision::PassedOver { on: cpu, chosen, rule })
        });
    }

    fn fair_rule(&self, cpu: CpuId, task: TaskId, chosen: TaskId, runs: bool) -> FairRule {
        let (passed, first) = (&self.task(task).fair, &self.task(chosen).fair);
        if !self.fair_eligible(cpu, task) {
            let virtual_ns = passed.vruntime.saturating_sub(self.fair_average(cpu));
            let ahead = u128::from(virtual_ns) * u128::from(self.fair_weight(task)) / u128::from(NICE_0);
            return FairRule::Ineligible { ahead_ns: ahead as u64 };
        }
        if runs && first.vruntime < first.protected_until {
            return FairRule::Protected;
        }
        FairRule::Deadline { earlier_ns: passed.deadline.saturating_sub(first.deadline) }
    }

    /// Records for each fair task that waits on one of these CPUs why idle `to` left it there.
    pub(in crate::core) fn fair_tell_not_pulled(&mut self, to: CpuId, from: impl Iterator<Item = CpuId>) {
        if self.recorded.details {
            let left: Vec<TaskId> = from.flat_map(|from| self.fair_waiting(from).collect::<Vec<_>>()).collect();
            for task in left {
                let excluded = !self.task(task).allowed.contains(to);
                self.detail(task, |_| DetailKind::Fair(FairDecision::NotPulled { to, excluded }));
            }
        }
    }
}
