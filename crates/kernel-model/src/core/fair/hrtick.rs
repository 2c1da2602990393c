// SPDX-License-Identifier: GPL-2.0-only
//! HRTICK: a timer of the CPU that ends a slice when the request of the running task is served, without waiting for
//! the next tick (kernel/sched/fair.c and core.c of 7.2; on by default since 7.1).
//!
//! 1. A task that is newly picked while others compete starts the timer for its deadline. A task that joins a running
//!    one starts it if it is not armed.
//! 2. It is armed for at least 10 us, and is not moved by 5 us or less.
//! 3. When it fires the CPU reschedules, whether the request is served or not. It is armed again only by a new pick
//!    or a joining task: a task that continues after its request waits for a tick.
//! 4. A task that joins from another CPU has the timer started there by an interrupt, after which that CPU honors a
//!    lazy reschedule.
//! 5. It is cancelled only when the CPU goes idle. If another class has the CPU when it fires, that class gets a
//!    tick.
//! 6. A newly picked deadline task starts it for the rest of its runtime.

use super::{Core, NICE_0};
use crate::api::{Effect, TimerKey};
use ids::{CpuId, Nanos, TaskId};

/// Minimum delay for which the timer is armed, in nanoseconds.
const LEAST_NS: u64 = 10_000;
/// An armed timer is kept if it is due within this many nanoseconds of the wanted time.
const NEAR_NS: u64 = 5_000;

impl Core {
    /// `hrtick_start_fair`: arms the timer for the deadline of the task that runs on `cpu`, or is about to, if others
    /// compete.
    pub(super) fn hrtick_start(&mut self, cpu: CpuId, task: TaskId) {
        if self.config.version < (7, 1) || !self.cpus[cpu.index()].active || !self.fair_has_others(cpu) {
            return;
        }
        let fair = &self.task(task).fair;
        // The kernel rounds down, but its timers fire late. Here the timer fires exactly, so the request must be
        // served by then.
        let left = (fair.deadline.saturating_sub(fair.vruntime) * self.fair_weight(task)).div_ceil(NICE_0);
        self.hrtick_set(cpu, left);
    }

    /// `hrtick_start` for a deadline task: arms the timer to fire after this time.
    pub(in crate::core) fn hrtick_arm(&mut self, cpu: CpuId, left_ns: u64) {
        if self.config.version >= (7, 1) && self.cpus[cpu.index()].active {
            self.hrtick_set(cpu, left_ns);
        }
    }

    fn hrtick_set(&mut self, cpu: CpuId, left_ns: u64) {
        let at = self.time.now() + Nanos(left_ns.max(LEAST_NS));
        let queue = &mut self.cpus[cpu.index()].fair;
        if queue.hrtick.is_some_and(|due| due.0.abs_diff(at.0) <= NEAR_NS) {
            return;
        }
        queue.hrtick = Some(at);
        let timer = TimerKey::Hrtick(cpu);
        self.armed.insert(timer);
        self.output.effects.push(Effect::ArmTimer { timer, cpu, at });
        if cpu != self.context.cpu {
            // Only the CPU itself can start its timer: it takes an interrupt.
            self.context.interrupted.push(cpu);
        }
    }

    /// `hrtick_update`: a task has joined the competing tasks of `cpu`.
    pub(in crate::core) fn hrtick_joined(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].fair.hrtick.is_none()
            && let Some(task) = self.fair_running(cpu)
        {
            self.hrtick_start(cpu, task);
        }
    }

    /// Records that the timer of `cpu` has fired.
    pub fn hrtick_fired(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.hrtick = None;
    }

    /// `hrtick_schedule_exit`: cancels the timer of a CPU that goes idle.
    pub fn hrtick_stop(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].fair.hrtick.take().is_some() {
            let timer = TimerKey::Hrtick(cpu);
            self.armed.remove(&timer);
            self.output.effects.push(Effect::CancelTimer { timer });
        }
    }
}
