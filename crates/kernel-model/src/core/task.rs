// SPDX-License-Identifier: GPL-2.0-only
//! State of a task.

use super::Call;
use super::deadline::Reservation;
use super::dsq::{Position, QueueRef};
use crate::CgroupId;
use crate::ops::Op;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};
use std::sync::Arc;

/// Scheduling classes in their order of precedence (contract fact 8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// The stopper thread (migration helper), which takes no time in the model.
    Stop,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    Rt,
    /// The fair class.
    Fair,
    /// sched_ext.
    Ext,
    /// The idle task.
    Idle,
}

/// Run state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunState {
    /// Forked, not yet woken.
    New,
    /// Blocked.
    Sleeping,
    /// A wakeup is in progress (TASK_WAKING); further wakeups have no effect. Used only with `+waiting`.
    Waking,
    /// On a runqueue, running or not.
    Runnable,
    /// Exited.
    Dead,
}

/// Task state as sched_ext sees it (contract O5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExtState {
    /// `init_task` has not been called.
    None,
    /// `init_task` is in progress.
    InitBegin,
    /// `init_task` has returned; the task can be enabled.
    Ready,
    /// Scheduled by the BPF scheduler.
    Enabled,
}

/// Owner of a runnable ext task that does not run. The kernel's transient states never show here (contract fact 10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The core: the task is in a queue, runs, or is not runnable.
    Core,
    /// `enqueue` is in progress; the number is its sequence number.
    Queueing(u32),
    /// The BPF scheduler, since the `enqueue` with this sequence number.
    Bpf(u32),
}

/// Why a task is re-enqueued: bits 12 and 13 of `p->scx.flags` (contract D10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReenqueueReason {
    /// The task is not being re-enqueued.
    None = 0,
    /// Requested by the scheduler through a kfunc.
    Kfunc = 1,
    /// An IMMED task could not run at once.
    Immediate = 2,
    /// A higher class took its CPU.
    Preempted = 3,
}

/// Direct-dispatch verdict of `select_cpu` or `enqueue`, carried out after the op (contract D1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// Target queue.
    pub dsq: DsqId,
    /// Whether the insert is vtime-ordered: the key is the task's virtual time when the verdict is carried out.
    pub ordered: bool,
    /// Enqueue flags of the insert.
    pub enq_flags: u64,
    /// The op that inserted.
    pub op: Option<Op>,
    /// The kfunc call that inserted.
    pub call: Option<Call>,
}

/// Sort key of a waiting task of a class above ext: class, key within the class, arrival number, task.
pub(crate) type TaskKey = (Class, u64, u64, TaskId);

/// State of a task in the fair class (`super::fair`). Times are virtual: nanoseconds of a nice-0 task.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Entity {
    /// Effective weight on its CPU after the shares of its cgroups; 0 until it is first computed and without cgroups.
    pub(super) weight: u64,
    pub(super) vruntime: u64,
    pub(super) deadline: u64,
    /// Protected from preemption by other fair tasks until this virtual time.
    pub(super) protected_until: u64,
    /// Average vruntime minus its own vruntime when it left its queue.
    pub(super) lag: i64,
    /// Remaining virtual time of its request when it left its queue, if the request continues.
    pub(super) request: Option<i64>,
    /// Not new: it has been on a fair queue before, or comes from another class.
    pub(super) known: bool,
    /// Delayed dequeue: the task sleeps but is still on its queue.
    pub(super) delayed: bool,
    /// When it last ran on its current CPU, if it did.
    pub(super) ran_at: Option<Nanos>,
}

impl Entity {
    /// State of a task that comes from another class.
    pub fn of_other_class() -> Entity {
        Entity { known: true, ..Entity::default() }
    }

    /// Whether the task sleeps but is still on its queue.
    pub fn is_delayed(&self) -> bool {
        self.delayed
    }
}

/// What makes a task runnable at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Activation {
    /// The task is not being woken.
    #[default]
    None,
    /// Its first wakeup, after fork (`wake_up_new_task`).
    New,
    /// A wakeup (`try_to_wake_up`).
    Woken,
}

/// Facts about the past of a task that only programs read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    /// Time of the fork since boot.
    pub forked: Nanos,
    /// When its time was last charged, since boot.
    pub charged: Nanos,
    /// Number of switches away from it because it blocked or exited.
    pub voluntary: u64,
    /// Number of switches away from it while it was still runnable.
    pub involuntary: u64,
    /// Number of changes of its CPU.
    pub migrations: u64,
    /// Whether the task last blocked for a device and has not left a CPU since.
    pub iowait: bool,
    /// What makes it runnable at present.
    pub activation: Activation,
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    /// The task is about to block, and a wakeup now keeps it runnable. Used only with `+waiting`.
    pub blocks: bool,
    /// `comm`, truncated to 15 bytes as in the kernel.
    pub comm: String,
    /// Pid that programs see.
    pub pid: i32,
    /// Pid of the first thread of its process.
    pub tgid: i32,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// CPUs where it may run. Tasks without affinity share one set, which saves cache misses.
    pub allowed: Arc<CpuSet>,
    /// Number of CPUs in `allowed`.
    pub allowed_count: u32,
    /// Whether it is a kthread.
    pub kernel_thread: bool,
    /// CPU of a per-CPU kthread (KTHREAD_IS_PER_CPU).
    pub own_cpu: Option<CpuId>,
    /// The task that forked it.
    pub parent: TaskId,
    /// Its parent, or a task of its process if the parent is unknown.
    pub sibling: TaskId,
    /// PF_EXITING.
    pub exiting: bool,
    /// User id.
    pub uid: u32,
    /// Pid of the session leader.
    pub session: u32,
    /// The task's cgroup.
    pub cgroup: CgroupId,

    /// CPU where it runs, waits or last ran.
    pub cpu: CpuId,
    /// Run state.
    pub run_state: RunState,
    /// Current scheduling class.
    pub class: Class,
    /// Executed time, as `se.sum_exec_runtime`.
    pub sum_exec: Nanos,
    /// Key that orders the tasks of a class above ext.
    pub class_key: u64,
    /// Arrival number among tasks with equal keys.
    pub class_seq: u64,
    /// SCHED_RR: ticks left of the time slice.
    pub quantum_left: u32,
    /// State in the fair class.
    pub fair: Entity,
    /// State in the deadline class.
    pub dl: Reservation,

    /// State in sched_ext.
    pub ext_state: ExtState,
    /// SCX_TASK_QUEUED: on an ext runqueue, running or not.
    pub queued: bool,
    /// Owner while it waits.
    pub owner: Owner,
    /// Number of its `enqueue` calls, to detect a verdict that answers an earlier one. 6.12 counts per runqueue.
    pub ops_qseq: u32,
    /// Whether the task is in BPF custody (contract T14).
    pub custody: bool,
    /// IMMED: must run at once or be re-enqueued; holds until its next enqueue (contract D10).
    pub immediate: bool,
    /// Whether the task last stopped being runnable in order to sleep.
    pub slept: bool,
    /// Why it is being re-enqueued.
    pub reenqueue_reason: ReenqueueReason,
    /// CPU to which the stopper thread moves it if it runs on a forbidden CPU.
    pub migrate_to: CpuId,
    /// Direct-dispatch verdict not yet carried out.
    pub verdict: Option<Verdict>,
    /// CPU that `select_cpu` returned.
    pub selected_cpu: CpuId,
    /// Queue that holds it.
    pub queue: Option<QueueRef>,
    /// Position of the task in that queue.
    pub position: Position,
    /// Insert count of the queue when it was inserted.
    pub queue_seq: u64,
    /// When it became runnable, rounded down to a jiffy; reset only after the task has run (contract W1).
    pub runnable_at: Nanos,
    /// Whether `runnable_at` is set the next time the task becomes runnable.
    pub reset_runnable_at: bool,
    /// Its order in the runqueue's list of runnable tasks; 0 if it is not on the list.
    pub runnable_seq: u64,
    /// Values that only programs read.
    pub history: History,
}

/// The kernel's `sched_prio_to_weight`, nice -20 first.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Extra fraction bits of weights over the weight table, which keep the shares of small weights precise
/// (SCHED_FIXEDPOINT_SHIFT).
pub(super) const SCALE: u32 = 10;

/// Load weight in the fair class: 1024 for nice 0, 3 for SCHED_IDLE.
pub(crate) fn load_weight(policy: Policy, nice: i8) -> u32 {
    match policy {
        Policy::Idle => 3,
        _ => WEIGHTS[(i32::from(nice) + 20).clamp(0, 39) as usize],
    }
}

/// `p->scx.weight`: the load weight scaled so that nice 0 is 100, within 1..=10000 (contract T13).
pub(crate) fn ext_weight(policy: Policy, nice: i8) -> u32 {
    ((load_weight(policy, nice) * 100 + 512) / 1024).clamp(1, 10_000)
}

impl Task {
    /// `p->scx.flags` (contract O5).
    pub fn scx_flags(&self) -> u32 {
        let state = match self.ext_state {
            ExtState::None => 0,
            ExtState::InitBegin => 1,
            ExtState::Ready => 3,
            ExtState::Enabled => 4,
        };
        u32::from(self.queued)
            | u32::from(self.custody) << 1
            | u32::from(self.reset_runnable_at) << 2
            | u32::from(self.slept) << 3
            | u32::from(self.immediate) << 5
            | state << 8
            | (self.reenqueue_reason as u32) << 12
    }

    /// Number of the policy in `sched_setscheduler(2)`.
    pub fn policy_number(&self) -> u32 {
        match self.policy {
            Policy::Other => 0,
            Policy::Fifo(_) => 1,
            Policy::RoundRobin(_) => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
            Policy::Deadline { .. } => 6,
            Policy::Ext => 7,
        }
    }

    /// `p->rt_priority`: 1 to 99, or 0 for policies without one.
    pub fn rt_priority(&self) -> u32 {
        match self.policy {
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => priority.into(),
            _ => 0,
        }
    }

    /// `p->prio`: -1 for deadline tasks, 0..=98 for real-time ones, 100..=139 for the rest.
    pub fn prio(&self) -> i32 {
        prio_of(self.policy, self.nice)
    }

    /// Whether the task is on a runqueue, running or waiting.
    pub fn is_runnable(&self) -> bool {
        self.run_state == RunState::Runnable
    }
}

/// `p->prio` for a policy and nice value: lower is more important.
pub(crate) fn prio_of(policy: Policy, nice: i8) -> i32 {
    match policy {
        Policy::Deadline { .. } => -1,
        Policy::Fifo(priority) | Policy::RoundRobin(priority) => 99 - i32::from(priority),
        _ => 120 + i32::from(nice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_nice_0_has_ext_weight_100() {
        let weight = |nice| ext_weight(Policy::Other, nice);
        assert_eq!((weight(0), weight(-20), weight(19), weight(5)), (100, 8668, 1, 33));
        assert_eq!(ext_weight(Policy::Idle, 0), 1);
    }
}
