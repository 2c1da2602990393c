// SPDX-License-Identifier: GPL-2.0-only
//! What a frame shows.

use crate::Latencies;
use ids::{CpuId, Nanos};

/// So many values of the number of waiting tasks are kept: more than the columns of most screens.
pub const HISTORY: usize = 400;

/// A moment of a run. Rates and shares are those of the time since some moment before, `interval` long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Since the run began.
    pub elapsed: Nanos,
    /// The time to which rates and shares refer; 0 at the beginning.
    pub interval: Nanos,
    /// Switches to a task in the interval.
    pub switches: u64,
    /// Tasks woken in the interval.
    pub wakeups: u64,
    /// Tasks of the run that live; `None`: not known.
    pub alive: Option<u32>,
    /// CPUs by number.
    pub cpus: Vec<CpuShare>,
    /// How long woken tasks waited for a CPU lately.
    pub latencies: Latencies,
    /// Who waited most lately, most first; `None`: single tasks are not followed.
    pub waiters: Option<Vec<Waiter>>,
    /// How many tasks waited, the most in each frame, the latest last; `None`: not known.
    pub depths: Option<Vec<u32>>,
    /// From one frame to the next: what a value of `depths` stands for.
    pub frame: Nanos,
}

/// A CPU's time in an interval, in nanoseconds, and what it does now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuShare {
    /// It ran tasks of the run; of all tasks where single ones are not followed.
    pub run: Nanos,
    /// It ran others.
    pub others: Nanos,
    /// It had nothing to do.
    pub idle: Nanos,
    /// It is not online.
    pub is_offline: bool,
    /// Tasks of the run that wait there; `None`: not known.
    pub waiting: Option<u32>,
    /// The task of the run that it runs now.
    pub current: Option<String>,
}

/// A task that waited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// As the kernel writes it: name and number.
    pub name: String,
    /// For how long it waited lately.
    pub waited: Nanos,
    /// Since when it waits now, if it does: for so long, and where.
    pub now: Option<(Nanos, CpuId)>,
}
