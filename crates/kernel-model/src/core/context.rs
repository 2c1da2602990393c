// SPDX-License-Identifier: GPL-2.0-only
//! What an operation of the kernel has of its own while it is in progress: the CPU that does it, the callback that it is
//! in, and what that asked for. All of it is here, so that operations of several CPUs share none of it.

use super::insert::DispatchBuffer;
use super::locks::HeldLocks;
use crate::kfuncs;
use crate::ops::Op;
use bpf_machine::{SourceLine, TimerId};
use ids::{CpuId, DsqId, TaskId};
use std::collections::VecDeque;

/// The state of one operation.
#[derive(Debug, Default)]
pub(crate) struct CpuContext {
    /// CPU on which it is done.
    pub cpu: CpuId,
    /// The callback in progress.
    pub running: Running,
    /// The locks that it holds.
    pub locks: HeldLocks,
    /// Inserts of the `dispatch` in progress.
    pub buffer: DispatchBuffer,
    /// LOCAL_ON verdicts to be carried out when it ends (contract D2).
    pub deferred: VecDeque<TaskId>,
    /// CPUs whose local queue is to be enqueued again, in the order in which that was asked for (contract K2).
    pub reenqueue: VecDeque<CpuId>,
    /// Queues of the scheduler that are to be enqueued again, likewise.
    pub reenqueue_users: VecDeque<DsqId>,
    /// Its number among those that came to their end, once it has.
    pub finish: u64,
    /// `dequeue` calls that wait for the callback in progress to end: task, flags.
    pub left_custody: Vec<(TaskId, u64)>,
    /// Kicks: CPU, flags.
    pub kicks: Vec<(CpuId, u64)>,
    /// Whom it took off its CPU, and who waits elsewhere when that has switched. Only if it waits.
    pub evicted: Option<TaskId>,
    /// It stops at locks, and others go on meanwhile.
    pub waits: bool,
    /// Runqueues of other CPUs that it must still lock for a moment, since it took a task there or put one. Only if it waits.
    pub visits: Vec<CpuId>,
    /// Of the instructions that the callback in progress executed, so many are in the usage already.
    pub counted: u64,
    /// CPUs that it interrupts without asking for more.
    pub interrupted: Vec<CpuId>,
}

impl CpuContext {
    /// Whether anything waits for the operation's end to be done.
    #[inline]
    pub fn is_more_to_do(&self) -> bool {
        !(self.deferred.is_empty() && self.reenqueue.is_empty() && self.reenqueue_users.is_empty())
    }
}

/// Whom a callback may direct-dispatch (contract D1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DirectDispatch {
    /// Not in `select_cpu` or `enqueue`.
    Off,
    /// This task.
    Task(TaskId),
    /// This task was meant, and the one dispatch was tried.
    Done(TaskId),
}

/// The callback in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// Which op; `None` outside of any.
    pub op: Option<Op>,
    /// Whom it may dispatch directly.
    pub direct: DirectDispatch,
    /// The CPU whose runqueue the kernel has locked for it, if it has.
    pub locked: Option<CpuId>,
    /// The tasks that it is about (`current->scx.kf_tasks`; contract C2).
    pub subjects: [TaskId; 2],
    /// The kfunc or helper that it is calling.
    pub call: Option<Call>,
    /// The timer whose callback it is.
    pub timer: Option<TimerId>,
}

/// What a program calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callee {
    /// The kfunc with this number in the table.
    Kfunc(u32),
    /// The helper with this number.
    Helper(u32),
}

impl Callee {
    /// Its name in the kernel.
    pub fn name(self) -> String {
        match self {
            Callee::Kfunc(kfunc) => kfuncs::name(kfunc).to_owned(),
            Callee::Helper(helper) => kfuncs::helper_name(helper),
        }
    }
}

/// A call of a kfunc or a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    /// Who was called.
    pub callee: Callee,
    /// The line of the policy that made it.
    pub line: SourceLine,
}

impl Running {
    /// No callback.
    pub const NONE: Running = Running {
        op: None,
        direct: DirectDispatch::Off,
        locked: None,
        subjects: [TaskId::NONE; 2],
        call: None,
        timer: None,
    };
}

impl Default for Running {
    fn default() -> Running {
        Running::NONE
    }
}
