// SPDX-License-Identifier: GPL-2.0-only
//! A run with its name tags.

use ids::Nanos;
use measures::RunMeasures;

/// Why the kernel put the scheduler out before the work was done (contract E2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …
    pub kind: u32,
    /// Exit code of the scheduler or of the kernel: bits 32 and up say what user space shall do, and why.
    pub code: i64,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// The BPF fault behind it, with function, file and line, if one was.
    pub fault: Option<String>,
    /// The kernel's debug dump; may be empty.
    pub dump: String,
}

/// How a run in a real kernel was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Events received.
    pub events: u64,
    /// Events lost: with any of them, counts are too low and times may be charged to the wrong owner.
    pub lost_events: u64,
    /// Switches to tasks that the kernel did not report: inferred from their CPU time, and counted.
    pub unseen_switches: u64,
    /// Wakeups that it did not report: counted, but not among the latencies, as nobody knows when they were.
    pub unseen_wakeups: u64,
    /// Time in the meter's own programs in the kernel. It is contained in what it measured.
    pub probes: Nanos,
    /// How often they ran.
    pub probe_runs: u64,
    /// CPU time of the thread that received the events, beside the run.
    pub reader: Nanos,
    /// How long the two above were counted: the run, and a moment before and after it.
    pub listened: Nanos,
    /// Tasks that had not ended when the run was over.
    pub unfinished_tasks: u32,
    /// What failed of what was run: `the command failed: exit status: 2`.
    pub failure: Option<String>,
}

/// Everything a report says of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// The scheduler as it was asked for: `bfs@0.360`, or the path of an object.
    pub scheduler: String,
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// Kernel version, such as `7.2`.
    pub kernel: String,
    /// Set if the scheduler was ejected.
    pub ejected: Option<Exit>,
    /// The run ended because the tasks that were left waited for each other for ever.
    pub deadlocked: bool,
    /// Forks that the scheduler refused: these tasks never existed.
    pub failed_forks: u64,
    /// Changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// How often the scheduler was attached again because its exit asked for that (contract E2).
    pub restarts: u64,
    /// Hash of all events.
    pub log_hash: u128,
    /// How it was measured, if it ran in a real kernel; `None` for a simulated run.
    pub meter: Option<Meter>,
    /// What was measured.
    pub measures: RunMeasures,
}

impl RunReport {
    /// `completed` or `ejected`.
    pub fn outcome(&self) -> &'static str {
        if self.ejected.is_some() { "ejected" } else { "completed" }
    }
}
