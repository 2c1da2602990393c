// SPDX-License-Identifier: GPL-2.0-only
//! What only an explanation of a run needs to know. It is told beside the events, to sinks that want it, and is no part
//! of a run's hash: a run is the same whether somebody asks for more or not.

use crate::CallbackSite;
use ids::{CpuId, DsqId, Nanos, TaskId};

/// Something that an event leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detail {
    /// When, on the clock of the run.
    pub time: Nanos,
    /// On which CPU it was done.
    pub cpu: CpuId,
    /// Whom it concerns; [`TaskId::NONE`] where no task is concerned.
    pub task: TaskId,
    /// What.
    pub kind: DetailKind,
    /// The callback of the scheduler that caused it, if one did.
    pub site: CallbackSite,
}

/// What a detail says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DetailKind {
    /// The insert that was told just before put the task behind so many others.
    Placed {
        /// Which queue.
        dsq: DsqId,
        /// How many stand before it.
        ahead: u32,
        /// How many tasks the queue has now, this one among them.
        queued: u32,
    },
    /// The task left the queue in which it stood.
    Left {
        /// Which queue.
        dsq: DsqId,
    },
    /// The scheduler's `enqueue` ended and put the task into no queue: it keeps the task itself, or lost it.
    Kept,
    /// The callback that just ended wrote this number into what the scheduler keeps for the task.
    Wrote {
        /// The number.
        value: u64,
    },
    /// The scheduler's `select_cpu` chose the CPU of the event before.
    Chose,
    /// The scheduler's `dispatch` was called for the CPU, until it brought something or did nothing more.
    Dispatched {
        /// The CPU has something to run now.
        found: bool,
        /// The task that had the CPU goes on.
        kept: bool,
    },
    /// The task begins to wait for another one; in words, what for: `mutex 0, which task 3 holds`.
    Waits {
        /// The words.
        what: String,
        /// It is a lock, not a condition or the like.
        lock: bool,
        /// It keeps its CPU and polls.
        spins: bool,
    },
    /// The task has the lock for which it polled.
    Passed,
}
