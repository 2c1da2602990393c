// SPDX-License-Identifier: GPL-2.0-only
//! Details that only the explanation of a run needs. They are passed beside the events to sinks that ask for them,
//! and are not part of the run's hash: a run is the same with and without them.

use crate::CallbackSite;
use ids::{CpuId, DsqId, Nanos, TaskId};

/// A fact that no event contains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detail {
    /// Time on the clock of the run.
    pub time: Nanos,
    /// CPU on which it happened.
    pub cpu: CpuId,
    /// Task concerned; [`TaskId::NONE`] if none is.
    pub task: TaskId,
    /// Kind of detail.
    pub kind: DetailKind,
    /// The scheduler callback that caused it, if one did.
    pub site: CallbackSite,
}

/// Contents of a detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DetailKind {
    /// Position in the queue of the task that the previous event inserted.
    Placed {
        /// Queue of the insert.
        dsq: DsqId,
        /// Number of tasks before the inserted task in the queue.
        ahead: u32,
        /// Number of tasks in the queue, including this one.
        queued: u32,
    },
    /// The task left its queue.
    Left {
        /// Queue that the task left.
        dsq: DsqId,
    },
    /// The scheduler's `enqueue` returned without inserting the task into a queue: the scheduler keeps the task in
    /// its own data, or lost it.
    Kept,
    /// The callback that just returned wrote this value into the scheduler's storage for the task.
    Wrote {
        /// Value written.
        value: u64,
    },
    /// The scheduler's `select_cpu` chose the CPU of the previous event.
    Chose,
    /// The scheduler's `dispatch` was called for the CPU until it provided a task or did nothing.
    Dispatched {
        /// Whether the CPU has a task to run now.
        found: bool,
        /// Whether the previous task of the CPU continues.
        kept: bool,
    },
    /// The task begins to wait for another one.
    Waits {
        /// Text that describes the wait, such as `mutex 0, which task 3 holds`.
        what: String,
        /// Whether the task waits for a lock, as opposed to a condition or other event.
        lock: bool,
        /// Whether the task spins on its CPU.
        spins: bool,
    },
    /// The task acquired the lock on which it spun.
    Passed,
    /// The task reloads what its caches have lost before it works again.
    Reloads {
        /// Time that it needs.
        time: Nanos,
        /// Text that describes what is reloaded, such as `640 KB, last ran on CPU 3, other LLC`.
        what: String,
    },
}
