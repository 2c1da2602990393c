// SPDX-License-Identifier: GPL-2.0-only
//! State of a kernel operation in progress: the CPU that executes it, the callback it is in, and the actions that the
//! callback requested. All of it is here, so that concurrent operations of several CPUs share no such state.

use super::insert::DispatchBuffer;
use super::locks::HeldLocks;
use crate::ops::Op;
use bpf_machine::{SourceLine, TimerId};
use ids::{CpuId, DsqId, TaskId};
use std::collections::VecDeque;

/// State of one operation.
#[derive(Debug, Default)]
pub(crate) struct CpuContext {
    /// CPU that executes it.
    pub cpu: CpuId,
    /// The callback in progress.
    pub running: Running,
    /// Locks that the operation holds.
    pub locks: HeldLocks,
    /// Dispatch buffer of the `dispatch` in progress.
    pub buffer: DispatchBuffer,
    /// Tasks with a LOCAL_ON verdict to be carried out when the operation ends (contract D2).
    pub deferred: VecDeque<TaskId>,
    /// CPUs whose local queue is to be re-enqueued, in request order (contract K2).
    pub reenqueue: VecDeque<CpuId>,
    /// User queues to be re-enqueued, in request order.
    pub reenqueue_users: VecDeque<DsqId>,
    /// Its number in the order of finished operations, once it has finished.
    pub finish: u64,
    /// `dequeue` calls to make after the callback in progress: task, flags.
    pub left_custody: Vec<(TaskId, u64)>,
    /// Requested kicks: CPU, flags.
    pub kicks: Vec<(CpuId, u64)>,
    /// Task to requeue elsewhere once this CPU has switched. Used only with `+waiting`.
    pub evicted: Option<TaskId>,
    /// Whether the operation stops at locks while other CPUs continue (`--kernel 7.2+waiting`).
    pub waits: bool,
    /// Runqueues of other CPUs that it must still lock briefly, because it moved a task from or to them. Used only
    /// with `+waiting`.
    pub visits: Vec<CpuId>,
    /// Number of instructions of the callback in progress that are already in the usage.
    pub counted: u64,
    /// CPUs that it interrupts without requesting a reschedule.
    pub interrupted: Vec<CpuId>,
}

impl CpuContext {
    /// Whether actions remain to be done at the end of the operation.
    #[inline]
    pub fn is_more_to_do(&self) -> bool {
        !(self.deferred.is_empty() && self.reenqueue.is_empty() && self.reenqueue_users.is_empty())
    }
}

/// Task that a callback may direct-dispatch (contract D1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DirectDispatch {
    /// None: the callback is neither `select_cpu` nor `enqueue`.
    Off,
    /// This task, once.
    Task(TaskId),
    /// No further direct dispatch is allowed: the one for this task has been attempted.
    Done(TaskId),
}

/// The callback in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    /// The op; `None` outside of callbacks.
    pub op: Option<Op>,
    /// Task that it may direct-dispatch.
    pub direct: DirectDispatch,
    /// The CPU whose runqueue is locked for the callback, if any.
    pub locked: Option<CpuId>,
    /// The tasks that it operates on (`current->scx.kf_tasks`; contract C2).
    pub subjects: [TaskId; 2],
    /// The kfunc or helper call in progress.
    pub call: Option<Call>,
    /// The timer whose callback this is.
    pub timer: Option<TimerId>,
}

/// Target of a call by a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callee {
    /// A kfunc, by index in the model's table.
    Kfunc(u32),
    /// A helper, by number.
    Helper(u32),
}

/// A call of a kfunc or a helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    /// The kfunc or helper.
    pub callee: Callee,
    /// Source line of the call.
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
