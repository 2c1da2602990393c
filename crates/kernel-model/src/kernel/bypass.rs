// SPDX-License-Identifier: GPL-2.0-only
//! Bypass: the core schedules by itself while the scheduler comes or goes (contract B1, B2).

use super::Kernel;
use super::tick::BYPASS_BALANCE_PERIOD;
use crate::TimerKey;
use ids::CpuId;

impl Kernel {
    /// Enters bypass; calls nest.
    pub(super) fn enter_bypass(&mut self) {
        self.core.bypass_depth += 1;
        if self.core.bypass_depth == 1 {
            self.core.counters.bypass_activate += 1;
            self.arm(TimerKey::BypassBalance, self.core.this_cpu, self.core.now + BYPASS_BALANCE_PERIOD);
            self.cycle_all();
        }
    }

    /// Leaves bypass.
    pub(super) fn leave_bypass(&mut self) {
        self.core.bypass_depth -= 1;
        if self.core.bypass_depth == 0 {
            self.cycle_all();
        }
    }

    /// Every waiting ext task goes through dequeue and enqueue, newest first; every CPU reschedules.
    fn cycle_all(&mut self) {
        for cpu in (0..self.core.cpus()).map(CpuId) {
            for task in self.core.runnable_on(cpu).into_iter().rev() {
                if self.core.task(task).queued {
                    self.change(task, |_| {});
                }
            }
            self.core.resched(cpu);
        }
    }
}
