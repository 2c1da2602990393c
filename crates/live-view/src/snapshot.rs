// SPDX-License-Identifier: GPL-2.0-only
//! Numbers shown in a frame.

use crate::Latencies;
use ids::{CpuId, Nanos};

/// Number of values kept of the number of waiting tasks: more than the columns of most screens.
pub const HISTORY: usize = 400;

/// State of a run at one moment. Rates and shares refer to the preceding `interval`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Time since the start of the run.
    pub elapsed: Nanos,
    /// Interval of rates and shares; 0 at the start of the run.
    pub interval: Nanos,
    /// Context switches to a task in the interval.
    pub switches: u64,
    /// Wakeups in the interval.
    pub wakeups: u64,
    /// Number of the run's tasks that are alive; `None` if unknown.
    pub alive: Option<u32>,
    /// CPUs by number.
    pub cpus: Vec<CpuShare>,
    /// Wakeup latencies of the last 5 to 10 s.
    pub latencies: Latencies,
    /// Tasks with the longest total run-queue delay in the last 5 to 10 s, longest first; `None` if individual tasks
    /// are not tracked.
    pub waiters: Option<Vec<Waiter>>,
    /// Maximum number of waiting tasks in each frame, latest last; `None` if unknown.
    pub depths: Option<Vec<u32>>,
    /// Time between frames, the interval of each value in `depths`.
    pub frame: Nanos,
}

/// A CPU's time in an interval, in nanoseconds, and its current state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuShare {
    /// Time running tasks of the run, or all tasks if individual tasks are not tracked.
    pub run: Nanos,
    /// Time running other tasks.
    pub others: Nanos,
    /// Idle time.
    pub idle: Nanos,
    /// Whether the CPU is offline.
    pub is_offline: bool,
    /// Number of the run's tasks waiting on this CPU; `None` if unknown.
    pub waiting: Option<u32>,
    /// Task of the run that is currently running.
    pub current: Option<String>,
}

/// A task with run-queue delay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Name and PID.
    pub name: String,
    /// Total run-queue delay in the last 5 to 10 s.
    pub waited: Nanos,
    /// Duration of the current wait and its CPU, if the task is waiting.
    pub now: Option<(Nanos, CpuId)>,
}
