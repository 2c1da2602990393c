// SPDX-License-Identifier: GPL-2.0-only
//! Bypass: the core schedules by itself while the scheduler comes or goes, or the machine sleeps (contract B1, B2). The
//! driver says how long that lasts; the queues of bypass are never balanced.

use super::{Kernel, Stage};
use crate::core::deq_flags;
use ids::CpuId;

impl Kernel {
    /// Enters bypass; calls nest.
    pub(super) fn enter_bypass(&mut self) {
        self.core.bypass_depth += 1;
        if self.core.bypass_depth == 1 {
            self.core.counters.bypass_activate += 1;
            self.core.bypass_since = self.core.now;
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
}
