// SPDX-License-Identifier: GPL-2.0-only
//! The deadline class: constant bandwidth servers, ordered by earliest deadline (kernel/sched/deadline.c of 7.2).
//!
//! 1. A reservation has a runtime, a relative deadline and a period. The task holds what is left of its runtime, and
//!    an absolute deadline, which orders the tasks of the class.
//! 2. A task that wakes up keeps both, unless its deadline has passed or what is left would exceed its bandwidth:
//!    then a new period begins. A task whose deadline is shorter than its period gets less runtime instead, and waits
//!    for its next period if its deadline has passed.
//! 3. Running uses up runtime, on a CPU of lower capacity more slowly (`dl_scaled_delta_exec`). A task without
//!    runtime is throttled: it stays runnable, but is in no queue until the timer of its next period replenishes it.
//! 4. `sched_yield` gives up the rest of the runtime.
//!
//! `balance` chooses CPUs, pushes and pulls; `admission` limits the sum of all bandwidths; `server` reserves time for
//! the fair class and for ext. Not modelled: GRUB (`SCHED_FLAG_RECLAIM`), overrun signals, and inheritance of
//! reservations.

use super::Core;
use super::classes::Turn;
use super::task::Class;
use crate::api::{Effect, TimerKey};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};

mod admission;
mod balance;
pub(crate) mod server;

pub use admission::Refusal;
pub(crate) use admission::{Leaving, Request};

/// Fraction bits of bandwidths (`BW_SHIFT`).
const BW_SHIFT: u32 = 20;
/// Bits by which times are reduced before two are multiplied (`DL_SCALE`): decisions are exact to about 1 us.
const DL_SCALE: u32 = 10;

/// State of a task's reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reservation {
    /// Runtime that is left, in nanoseconds; negative after an overrun.
    pub(super) runtime: i64,
    /// Absolute deadline; 0 before the first period.
    pub(super) deadline: u64,
    /// Out of runtime, until the timer fires.
    throttled: bool,
    /// The task has given up the rest of its runtime.
    yielded: bool,
}

impl Reservation {
    /// Whether the task must wait for its next period.
    pub fn is_throttled(&self) -> bool {
        self.throttled
    }
}

/// Parameters of a reservation in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Parameters {
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// `to_ratio`: bandwidth of a runtime in each period.
fn ratio(runtime: u64, period: u64) -> u64 {
    ((u128::from(runtime) << BW_SHIFT) / u128::from(period)) as u64
}

/// `dl_entity_overflow`: whether runtime `left` until `deadline` exceeds a bandwidth of `runtime` in `relative`.
fn overflows(left: i64, deadline: u64, runtime: u64, relative: u64, now: u64) -> bool {
    let wanted = i128::from(relative >> DL_SCALE) * i128::from(left >> DL_SCALE);
    let given = i128::from(deadline.saturating_sub(now) >> DL_SCALE) * i128::from(runtime >> DL_SCALE);
    given < wanted
}

/// `update_dl_revised_wakeup`: the runtime until `deadline` that a bandwidth of `runtime` in `relative` allows.
fn revised(deadline: u64, runtime: u64, relative: u64, now: u64) -> i64 {
    ((u128::from(ratio(runtime, relative)) * u128::from(deadline - now)) >> BW_SHIFT) as i64
}

/// `start_dl_timer` refuses a time that passed at least 1 us ago.
fn is_past(at: u64, now: u64) -> bool {
    at + 1_000 <= now
}

impl Core {
    fn dl_parameters(&self, task: TaskId) -> Parameters {
        match self.task(task).policy {
            Policy::Deadline { runtime, deadline, period } => {
                Parameters { runtime: runtime.0, deadline: deadline.0, period: period.0 }
            }
            policy => unreachable!("{policy:?} is not of the deadline class"),
        }
    }

    /// `update_dl_entity` and `dl_check_constrained_dl`: a task wakes up.
    pub fn dl_wake(&mut self, task: TaskId) {
        let (given, now) = (self.dl_parameters(task), self.time.now().0);
        let dl = self.task(task).dl;
        let passed = dl.deadline < now || dl.deadline == 0;
        let constrained = given.deadline != given.period;
        if !dl.throttled && constrained && passed && dl.deadline > 0 && now < self.dl_next_period(task) {
            self.dl_arm(task);
            let dl = &mut self.task_mut(task).dl;
            (dl.throttled, dl.runtime) = (true, dl.runtime.min(0));
        }
        if self.task(task).dl.throttled {
            return;
        }
        if passed {
            self.dl_begin_period(task);
        } else if overflows(dl.runtime, dl.deadline, given.runtime, given.deadline, now) {
            if constrained {
                self.task_mut(task).dl.runtime = revised(dl.deadline, given.runtime, given.deadline, now);
            } else {
                self.dl_begin_period(task);
            }
        }
        self.dl_publish_key(task);
    }

    /// A runnable task joins the class, or its queue again after a change (ENQUEUE_RESTORE).
    pub fn dl_restore(&mut self, task: TaskId) {
        if !self.task(task).dl.throttled && self.task(task).dl.deadline < self.time.now().0 {
            self.dl_begin_period(task);
        }
        self.dl_publish_key(task);
    }

    /// `replenish_dl_new_period`.
    fn dl_begin_period(&mut self, task: TaskId) {
        let (given, now) = (self.dl_parameters(task), self.time.now().0);
        let dl = &mut self.task_mut(task).dl;
        (dl.deadline, dl.runtime) = (now + given.deadline, given.runtime as i64);
    }

    fn dl_publish_key(&mut self, task: TaskId) {
        let entry = self.task_mut(task);
        entry.class_key = entry.dl.deadline;
    }

    /// `dl_next_period`: when the period after the current one begins.
    fn dl_next_period(&self, task: TaskId) -> u64 {
        let given = self.dl_parameters(task);
        (self.task(task).dl.deadline + given.period).saturating_sub(given.deadline)
    }

    /// `start_dl_timer`: arms the timer for the next period, unless that began in the past. Returns whether it is
    /// armed.
    fn dl_arm(&mut self, task: TaskId) -> bool {
        let (at, now) = (self.dl_next_period(task), self.time.now().0);
        if is_past(at, now) {
            return false;
        }
        let (timer, cpu) = (TimerKey::Replenish(task), self.task_cpu(task));
        if self.armed.insert(timer) {
            self.output.effects.push(Effect::ArmTimer { timer, cpu, at: Nanos(at.max(now)) });
        }
        true
    }

    /// `replenish_dl_entity`: moves the deadline by periods until there is runtime, and ends the throttling.
    pub fn dl_replenish(&mut self, task: TaskId) {
        let (given, now) = (self.dl_parameters(task), self.time.now().0);
        let dl = &mut self.task_mut(task).dl;
        if dl.yielded {
            dl.runtime = dl.runtime.min(0);
        }
        while dl.runtime <= 0 {
            dl.deadline += given.period;
            dl.runtime += given.runtime as i64;
        }
        (dl.yielded, dl.throttled) = (false, false);
        if dl.deadline < now {
            self.dl_begin_period(task);
        }
        self.dl_publish_key(task);
    }

    /// `dl_scaled_delta_exec`: what a run interval on this CPU costs a reservation.
    fn dl_scaled(&self, cpu: CpuId, ran: Nanos) -> i64 {
        let capacity = self.capacity(cpu);
        (u128::from(ran.0) * u128::from(capacity) / u128::from(Topology::FULL_CAPACITY)) as i64
    }

    /// Capacity of a CPU.
    pub(super) fn capacity(&self, cpu: CpuId) -> u32 {
        self.config.topology.capacities.get(cpu.index()).copied().unwrap_or(Topology::FULL_CAPACITY)
    }

    /// `update_curr_dl_se`: charges the running task; returns whether the CPU should pick again.
    pub(super) fn dl_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        let scaled = self.dl_scaled(self.task_cpu(task), ran);
        let dl = &mut self.task_mut(task).dl;
        if dl.throttled {
            return false;
        }
        dl.runtime -= scaled;
        dl.runtime <= 0 && self.dl_throttle(task)
    }

    /// `yield_task_dl`: the running task waits for its next period.
    pub fn dl_yield(&mut self, task: TaskId) {
        if !self.task(task).dl.throttled {
            self.task_mut(task).dl.yielded = true;
            self.dl_throttle(task);
        }
    }

    /// Throttles the running task, or replenishes it if its next period has begun. Returns whether another task of
    /// the class may be the next.
    fn dl_throttle(&mut self, task: TaskId) -> bool {
        self.task_mut(task).dl.throttled = true;
        if self.dl_arm(task) {
            return true;
        }
        self.dl_replenish(task);
        let (cpu, key) = (self.task_cpu(task), self.task(task).class_key);
        let first = self.cpus[cpu.index()].higher.first();
        first.is_some_and(|&(class, other, ..)| (class, other) <= (Class::Deadline, key))
    }

    /// Whether a runnable task is in the queue of its class, or in that of the CPU that runs it.
    pub fn is_in_class(&self, task: TaskId) -> bool {
        let entry = self.task(task);
        entry.class == Class::Deadline && !entry.dl.throttled
    }

    /// Puts a replenished task that waits back on its CPU's queue.
    pub fn dl_requeue(&mut self, task: TaskId) {
        self.higher_put_back(task, Turn::Last);
    }

    /// Starts a newly picked task: the timer of its CPU ends the run interval when the runtime is used up
    /// (`start_hrtick_dl`).
    pub fn dl_start(&mut self, task: TaskId) {
        let left = self.task(task).dl.runtime.max(0) as u64;
        let capacity = u64::from(self.capacity(self.task_cpu(task)).max(1));
        // The kernel arms the timer for the runtime itself, and again when it fires too early on a slow CPU.
        self.hrtick_arm(self.task_cpu(task), (left * u64::from(Topology::FULL_CAPACITY)).div_ceil(capacity));
    }
}
