// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel knows of a task.

use super::Call;
use super::dsq::{Position, QueueRef};
use crate::CgroupId;
use crate::ops::Op;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};
use std::sync::Arc;

/// Scheduling classes in their order of precedence (contract fact 8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Nothing but the migration helper, which takes no time here.
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

/// Whether a task can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunState {
    /// Forked, not yet woken.
    New,
    /// Blocked.
    Sleeping,
    /// It is being woken (TASK_WAKING): nobody else does that. Only where operations wait.
    Waking,
    /// On a runqueue, running or not.
    Runnable,
    /// Gone.
    Dead,
}

/// How far a task is known to the scheduler (contract O5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExtState {
    /// `init_task` was not called.
    None,
    /// `init_task` is being called.
    InitBegin,
    /// `init_task` is done: could be enabled.
    Ready,
    /// Scheduled by the BPF scheduler.
    Enabled,
}

/// Who owns a runnable ext task that does not run (contract fact 10: the transient states never show here).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The core: it is in a queue, or running, or not runnable.
    Core,
    /// `enqueue` is deciding about it; the number is its sequence.
    Queueing(u32),
    /// The BPF scheduler, since the `enqueue` with this sequence number.
    Bpf(u32),
}

/// Why a task is enqueued again: bits 12 and 13 of `p->scx.flags` (contract D10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReenqueueReason {
    /// It is not.
    None = 0,
    /// The scheduler asked for it.
    Kfunc = 1,
    /// It could not have its CPU at once.
    Immediate = 2,
    /// A higher class took its CPU.
    Preempted = 3,
}

/// A verdict of `select_cpu` or `enqueue` that is carried out after the op (contract D1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// Queue.
    pub dsq: DsqId,
    /// The insert was an ordered one: the key is the task's virtual time when it is carried out.
    pub ordered: bool,
    /// Flags of the insert.
    pub enq_flags: u64,
    /// The op that gave it.
    pub op: Option<Op>,
    /// The call that gave it.
    pub call: Option<Call>,
}

/// Where a task of a class above ext stands among those that wait: class, position, arrival.
pub(crate) type TaskKey = (Class, u64, u64, TaskId);

/// What the fair class knows of a task (`super::fair`). Times are virtual, in nanoseconds of a task of nice 0.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Entity {
    /// What its groups leave of its weight on its CPU; 0 as long as nothing was reckoned, and without groups.
    pub(super) weight: u64,
    pub(super) vruntime: u64,
    pub(super) deadline: u64,
    /// It cannot be preempted by its equals before this time.
    pub(super) safe_until: u64,
    /// The average less its own time when it left its queue.
    pub(super) lag: i64,
    /// What was left of its request then, if that goes on.
    pub(super) request: Option<i64>,
    /// It is not new: it has been on a queue before, or comes from another class.
    pub(super) known: bool,
    /// It sleeps, and is still on its queue.
    pub(super) delayed: bool,
    /// When it ran last on the CPU where it is, if it did.
    pub(super) ran_at: Option<Nanos>,
}

impl Entity {
    /// That of a task which comes from another class.
    pub fn of_other_class() -> Entity {
        Entity { known: true, ..Entity::default() }
    }

    /// Whether it sleeps and is still on its queue.
    pub fn is_delayed(&self) -> bool {
        self.delayed
    }
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    /// It is on its way to sleep, and a wakeup would keep it from that. Only where operations wait.
    pub blocks: bool,
    /// `comm`, cut to 15 bytes as the kernel does.
    pub comm: String,
    /// Process number that programs see.
    pub pid: i32,
    /// The pid of its process: of the first thread.
    pub tgid: i32,
    /// Policy.
    pub policy: Policy,
    /// -20 to 19.
    pub nice: i8,
    /// Where it may run. Tasks that may run everywhere share one set: it stays in the cache.
    pub allowed: Arc<CpuSet>,
    /// How many CPUs that is.
    pub allowed_count: u32,
    /// A thread of the kernel.
    pub kernel_thread: bool,
    /// The CPU to which a thread of the kernel belongs (KTHREAD_IS_PER_CPU).
    pub own_cpu: Option<CpuId>,
    /// Who forked it.
    pub parent: TaskId,
    /// The same, or else a task of its process.
    pub sibling: TaskId,
    /// PF_EXITING.
    pub exiting: bool,
    /// Its user.
    pub uid: u32,
    /// Number of its session's leader.
    pub session: u32,
    /// Its cgroup.
    pub cgroup: CgroupId,

    /// CPU where it runs, waits or last ran.
    pub cpu: CpuId,
    /// Can it run.
    pub run_state: RunState,
    /// Its class now.
    pub class: Class,
    /// Executed time, as `se.sum_exec_runtime`.
    pub sum_exec: Nanos,
    /// Position among the tasks of its class, for the classes above ext.
    pub class_key: u64,
    /// Arrival order there.
    pub class_seq: u64,
    /// Ticks until its turn is over, if it is of SCHED_RR.
    pub quantum_left: u32,
    /// What the fair class knows of it.
    pub fair: Entity,

    /// Relation to the scheduler.
    pub ext_state: ExtState,
    /// SCX_TASK_QUEUED: on an ext runqueue, running included.
    pub queued: bool,
    /// Who owns it.
    pub owner: Owner,
    /// Counts its calls of `enqueue`, to tell a late verdict from a timely one (6.12 counts for each runqueue).
    pub ops_qseq: u32,
    /// In BPF custody (contract T14).
    pub custody: bool,
    /// It must have its CPU at once or be enqueued again; holds until it is enqueued anew (contract D10).
    pub immediate: bool,
    /// The last time that it stopped being runnable it went to sleep.
    pub slept: bool,
    /// Why it is being enqueued again.
    pub reenqueue_reason: ReenqueueReason,
    /// Where the migration helper takes it, if it runs where it may not.
    pub migrate_to: CpuId,
    /// Verdict to be carried out.
    pub verdict: Option<Verdict>,
    /// CPU that `select_cpu` returned.
    pub selected_cpu: CpuId,
    /// Queue that holds it.
    pub queue: Option<QueueRef>,
    /// Where in that queue.
    pub position: Position,
    /// The queue's count of inserts when it went in.
    pub queue_seq: u64,
    /// When it became runnable, at the resolution of a jiffy; restarts only when it has run (contract W1).
    pub runnable_at: Nanos,
    /// The next time that it becomes runnable sets `runnable_at`.
    pub reset_runnable_at: bool,
    /// Order in its runqueue's list of runnable tasks; 0 if it is not on it.
    pub runnable_seq: u64,
}

/// Where weights stand: the kernel's `sched_prio_to_weight`, nice -20 first.
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Load weight of the fair class: 1024 for nice 0, 3 for SCHED_IDLE.
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

    /// `p->prio`: -1 for deadline tasks, 0..=98 for real-time ones, 100..=139 for the rest.
    pub fn prio(&self) -> i32 {
        prio_of(self.policy, self.nice)
    }

    /// Ready to be picked but not in BPF hands: what the kernel calls being on a dispatch queue.
    pub fn is_runnable(&self) -> bool {
        self.run_state == RunState::Runnable
    }
}

/// `p->prio` of a task with these: the lower the more important.
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
    fn t13_weights_are_nice_scaled_to_100() {
        let weight = |nice| ext_weight(Policy::Other, nice);
        assert_eq!((weight(0), weight(-20), weight(19), weight(5)), (100, 8668, 1, 33));
        assert_eq!(ext_weight(Policy::Idle, 0), 1);
    }
}
