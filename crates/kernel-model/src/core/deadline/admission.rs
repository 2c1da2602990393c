// SPDX-License-Identifier: GPL-2.0-only
//! Admission control of the deadline class: the bandwidths of all reservations must fit into the CPUs
//! (`sched_dl_overflow`, `__dl_overflow` of kernel/sched/deadline.c).
//!
//! 1. The limit is a share of the capacity of all active CPUs: `sched_rt_runtime_us` of `sched_rt_period_us`.
//!    Deadline servers count like tasks, with 5 % of each CPU.
//! 2. A task that leaves the class or exits counts until its 0-lag time, when it would have used up its runtime at
//!    the speed of its bandwidth.
//! 3. The affinity of a deadline task contains all CPUs. A task that is created with a smaller one counts as if its
//!    user had made a cpuset partition of these CPUs: its reservation must fit there, too.

use super::super::task::Task;
use super::{BW_SHIFT, Core, ratio};
use ids::{CpuSet, Nanos, Policy, TaskId, Topology};

/// Shortest and longest period (`sched_deadline_period_min_us`, `..._max_us`), and shortest runtime.
const PERIOD_MIN: u64 = 100_000;
const PERIOD_MAX: u64 = (1 << 22) * 1_000;
const RUNTIME_MIN: u64 = 1 << 10;
/// First kernel whose default of `sched_rt_runtime_us` is the whole period; 95 % before.
const WHOLE_SINCE: (u16, u16) = (7, 0);

/// Reason why a reservation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The parameters are out of range (EINVAL).
    Parameters,
    /// The affinity does not contain all CPUs (EPERM).
    Affinity,
    /// The bandwidth exceeds the limit (EBUSY). All numbers are in millionths of one CPU.
    Bandwidth {
        /// Bandwidth of the reservation.
        wanted: u64,
        /// Bandwidth of the others, deadline servers included.
        used: u64,
        /// Limit of the sum.
        limit: u64,
    },
}

impl Refusal {
    /// The errno of `sched_setattr(2)`, negative.
    pub fn errno(self) -> i32 {
        match self {
            Refusal::Parameters => -22,
            Refusal::Affinity => -1,
            Refusal::Bandwidth { .. } => -16,
        }
    }
}

/// Bandwidth of a task that has left the class, and until when it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    task: TaskId,
    until: Nanos,
    bandwidth: u64,
}

/// A task that asks for a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The task, unless it is about to be created.
    pub task: Option<TaskId>,
    /// The wanted policy.
    pub policy: Policy,
    /// Its affinity.
    pub allowed: &'a CpuSet,
    /// Whether a scheduler is attached, and whether it has all normal tasks.
    pub attached: (bool, bool),
}

fn bandwidth(policy: Policy) -> u64 {
    match policy {
        Policy::Deadline { runtime, period, .. } => ratio(runtime.0, period.0),
        _ => 0,
    }
}

fn millionths(bandwidth: u64) -> u64 {
    ((u128::from(bandwidth) * 1_000_000) >> BW_SHIFT) as u64
}

impl Core {
    /// Decides about a reservation, for which the caller then sets the policy.
    pub fn dl_admit(&self, request: Request<'_>) -> Result<(), Refusal> {
        let Policy::Deadline { runtime, deadline, period } = request.policy else { return Ok(()) };
        let ordered = RUNTIME_MIN <= runtime.0 && runtime <= deadline && deadline <= period;
        if !ordered || !(PERIOD_MIN..=PERIOD_MAX).contains(&period.0) {
            return Err(Refusal::Parameters);
        }
        let active = self.active_cpus();
        let covers = active.iter().all(|cpu| request.allowed.contains(cpu));
        if !covers && request.task.is_some() {
            return Err(Refusal::Affinity);
        }
        self.dl_fits_into(request, &active)?;
        if covers { Ok(()) } else { self.dl_fits_into(request, &request.allowed.intersection(&active)) }
    }

    /// `__dl_overflow` for the tasks that are confined to `cpus`.
    fn dl_fits_into(&self, request: Request<'_>, cpus: &CpuSet) -> Result<(), Refusal> {
        let now = self.time.now();
        let whole = if self.config.version >= WHOLE_SINCE { 1_000_000 } else { 950_000 };
        let capacity: u64 = cpus.iter().map(|cpu| u64::from(self.capacity(cpu))).sum();
        let limit = ratio(whole, 1_000_000) * capacity / u64::from(Topology::FULL_CAPACITY);
        let others = self.tasks.iter().zip((0..).map(TaskId)).filter(|(entry, task)| {
            let confined = entry.allowed.iter().all(|cpu| cpus.contains(cpu) || !self.cpus[cpu.index()].active);
            Some(*task) != request.task && entry.dl_counts() && confined
        });
        let (attached, switch_all) = request.attached;
        let servers = self.servers_per_cpu(attached, switch_all) * cpus.len() as u64 * Core::server_bandwidth();
        let left = self.leaving.iter().filter(|left| left.until > now && Some(left.task) != request.task);
        let used = servers
            + others.map(|(entry, _)| bandwidth(entry.policy)).sum::<u64>()
            + left.map(|left| left.bandwidth).sum::<u64>();
        let wanted = bandwidth(request.policy);
        if used + wanted <= limit {
            return Ok(());
        }
        let [wanted, used, limit] = [wanted, used, limit].map(millionths);
        Err(Refusal::Bandwidth { wanted, used, limit })
    }

    /// `task_non_contending` of a task that leaves the class or exits: its bandwidth counts until its 0-lag time.
    pub fn dl_leave(&mut self, task: TaskId) {
        let (now, dl) = (self.time.now(), self.task(task).dl);
        let Policy::Deadline { runtime, period, .. } = self.task(task).policy else { return };
        let worth = (i128::from(dl.runtime) * i128::from(period.0) / i128::from(runtime.0)) as i64;
        let until = Nanos(dl.deadline.saturating_add_signed(-worth));
        self.leaving.retain(|left| left.until > now && left.task != task);
        if until > now {
            self.leaving.push(Leaving { task, until, bandwidth: bandwidth(self.task(task).policy) });
        }
    }
}

impl Core {
    /// A task comes back to the class. It continues its period if it comes before its 0-lag time.
    pub fn dl_return(&mut self, task: TaskId) {
        let now = self.time.now();
        let continues = self.leaving.iter().any(|left| left.task == task && left.until > now);
        self.leaving.retain(|left| left.task != task);
        let armed = self.armed.contains(&crate::TimerKey::Replenish(task));
        let dl = &mut self.task_mut(task).dl;
        if !continues {
            *dl = super::Reservation::default();
        }
        dl.throttled &= armed;
    }
}

impl Task {
    /// Whether the task has a reservation that counts in admission control.
    fn dl_counts(&self) -> bool {
        matches!(self.policy, Policy::Deadline { .. }) && self.run_state != super::super::task::RunState::Dead
    }
}
