// SPDX-License-Identifier: GPL-2.0-only
//! Bypass mode: the core schedules by itself while a scheduler is attached or detached, or the machine suspends
//! (contract B1, B2). The driver decides how long that lasts; bypass queues are never balanced.

use super::{Kernel, Stage};
use crate::core::deq_flags;
use ids::CpuId;

impl Kernel {
    /// Enters bypass mode; calls nest.
    pub(super) fn enter_bypass(&mut self) {
        if self.core.bypass.enter(self.core.time.now()) {
            self.core.attached.counters.bypass_activate += 1;
            self.cycle_all();
        }
    }

    /// Leaves bypass mode.
    pub(super) fn leave_bypass(&mut self) {
        if let Some(length) = self.core.bypass.leave(self.core.time.now()) {
            self.core.attached.counters.bypass_duration_ns += length.0;
            self.cycle_all();
        }
    }

    /// Dequeues and enqueues every waiting ext task, newest first, and reschedules every CPU. Does nothing unless the
    /// scheduler is enabled: otherwise no task is on ext.
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
