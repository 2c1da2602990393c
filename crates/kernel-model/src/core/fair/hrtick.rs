// SPDX-License-Identifier: GPL-2.0-only
//! HRTICK: a timer of the CPU ends a turn when the request of the task that runs is served, before the next tick does
//! (kernel/sched/fair.c and core.c of 7.2; on by default since 7.1).
//!
//! 1. Who is picked anew while others compete starts it for its deadline. So does whoever joins a task that runs, if it is
//!    not started.
//! 2. It is for 10 us at least, and stays where it is if it would move by 5 us or less.
//! 3. When it fires the CPU reschedules, whether the request is served or not. It is not started again until somebody is
//!    picked anew or joins: who goes on after its request waits for a tick.
//! 4. Whoever joins from another CPU has it started there by an interrupt, after which that CPU reschedules if it is to.
//! 5. Nothing stops it but a CPU that goes idle. If another class has the CPU when it fires, that class gets a tick.
//!
//! That of the deadline class is not modelled, for its bandwidth is not.

use super::{Core, NICE_0};
use crate::api::{Effect, TimerKey};
use ids::{CpuId, Nanos, TaskId};

/// The shortest time for which the timer is started.
const LEAST_NS: u64 = 10_000;
/// A timer that is due so near to the wanted time is left alone.
const NEAR_NS: u64 = 5_000;

impl Core {
    /// `hrtick_start_fair`: the task that runs on `cpu`, or is about to, shall run until its deadline if others compete.
    pub(super) fn hrtick_start(&mut self, cpu: CpuId, task: TaskId) {
        if self.config.version < (7, 1) || !self.cpus[cpu.index()].active || !self.fair_has_others(cpu) {
            return;
        }
        let fair = &self.task(task).fair;
        // The kernel rounds down, but its timers are later than that: the request must be served when one fires.
        let left = (fair.deadline.saturating_sub(fair.vruntime) * self.fair_weight(task)).div_ceil(NICE_0);
        let at = self.now + Nanos(left.max(LEAST_NS));
        let queue = &mut self.cpus[cpu.index()].fair;
        if queue.hrtick.is_some_and(|due| due.0.abs_diff(at.0) <= NEAR_NS) {
            return;
        }
        queue.hrtick = Some(at);
        let timer = TimerKey::Hrtick(cpu);
        self.armed.insert(timer);
        self.output.effects.push(Effect::ArmTimer { timer, cpu, at });
        if cpu != self.context.cpu {
            // Only the CPU itself can start its timer.
            self.context.interrupted.push(cpu);
        }
    }

    /// `hrtick_update`: somebody joined those that compete on `cpu`.
    pub(in crate::core) fn hrtick_joined(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].fair.hrtick.is_none()
            && let Some(task) = self.fair_running(cpu)
        {
            self.hrtick_start(cpu, task);
        }
    }

    /// The timer of `cpu` has fired.
    pub fn hrtick_fired(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.hrtick = None;
    }

    /// `hrtick_schedule_exit` of a CPU that has nothing to do.
    pub fn hrtick_stop(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].fair.hrtick.take().is_some() {
            let timer = TimerKey::Hrtick(cpu);
            self.armed.remove(&timer);
            self.output.effects.push(Effect::CancelTimer { timer });
        }
    }
}
