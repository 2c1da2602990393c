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
        /// Text that describes the object, such as `mutex m`.
        what: String,
        /// Task that holds the lock; `None` if no task does or if the object has no holder.
        holder: Option<TaskId>,
        /// Whether the task waits for a lock, as opposed to a condition or other event.
        lock: bool,
        /// Whether the task spins on its CPU.
        spins: bool,
    },
    /// The task acquired the lock on which it spun.
    Passed,
    /// A decision of the fair class about a task that waits on a runqueue.
    Fair(FairDecision),
    /// The CPU became idle and skipped newidle balancing, because it rarely succeeded.
    NewidleSkipped {
        /// Success ratio, in 1/1024.
        ratio: u32,
    },
    /// The number of requests in progress at a device has changed. The detail is of no task.
    Device {
        /// Device, such as `disk:sda`.
        name: String,
        /// Number of requests in progress, those that the kernel keeps included.
        requests: u32,
    },
    /// The task reloads what its caches have lost, which costs it run time.
    Reloads {
        /// Time that it needs.
        time: Nanos,
        /// Text that describes what is reloaded, such as `640 KB, last ran on CPU 3, other LLC`.
        what: String,
    },
}

/// A decision of the fair class about a task that waits on a runqueue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairDecision {
    /// The task was put on the runqueue of a CPU.
    Queued {
        /// CPU of the runqueue.
        on: CpuId,
        /// Number of fair tasks that wait there, including this one.
        waiting: u32,
    },
    /// The CPU chose another task.
    PassedOver {
        /// CPU that chose.
        on: CpuId,
        /// Task that it chose.
        chosen: TaskId,
        /// Rule by which the other task came first.
        rule: FairRule,
    },
    /// An idle CPU searched for tasks and left this one where it waits.
    NotPulled {
        /// CPU that searched.
        to: CpuId,
        /// Whether the affinity mask of the task excludes the CPU. Otherwise the task was cache-hot.
        excluded: bool,
    },
}

/// Rule of EEVDF by which one task is chosen before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FairRule {
    /// The waiting task is not eligible.
    Ineligible {
        /// CPU time that it has received beyond its share, in nanoseconds.
        ahead_ns: u64,
    },
    /// The chosen task was running and is protected until its slice ends.
    Protected,
    /// The virtual deadline of the chosen task is not later.
    Deadline {
        /// Difference in virtual nanoseconds.
        earlier_ns: u64,
    },
}
