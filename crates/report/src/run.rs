// SPDX-License-Identifier: GPL-2.0-only
//! A run with its name tags.

use measures::RunMeasures;

/// Why the kernel put the scheduler out before the work was done (contract E2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …
    pub kind: u32,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// The BPF fault behind it, with function, file and line, if one was.
    pub fault: Option<String>,
    /// The kernel's debug dump; may be empty.
    pub dump: String,
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
    /// Hash of all events.
    pub log_hash: u128,
    /// What was measured.
    pub measures: RunMeasures,
}

impl RunReport {
    /// `completed` or `ejected`.
    pub fn outcome(&self) -> &'static str {
        if self.ejected.is_some() { "ejected" } else { "completed" }
    }
}
