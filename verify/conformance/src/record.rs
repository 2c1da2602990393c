// SPDX-License-Identifier: GPL-2.0-only
//! Record of a scenario's runs, the same for kernel and model, as JSON.

use serde::{Deserialize, Serialize};

/// Runs of one scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the scenario.
    pub scenario: String,
    /// `kernel` or `model`.
    pub world: String,
    /// Release of the kernel.
    pub kernel: String,
    /// One entry per run.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Exit of the scheduler; `None` if it could not be loaded.
    pub exit: Option<Exit>,
    /// Reason why the scheduler could not be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Log of the scheduler.
    pub calls: Vec<Call>,
    /// Disturbances of the run ([`crate::disturbance`]).
    #[serde(default)]
    pub disturbed: Vec<String>,
}

/// Exit of a scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// `SCX_EXIT_*`.
    pub kind: u32,
    /// Exit code.
    pub code: i64,
    /// Short reason.
    pub reason: String,
    /// Message.
    pub message: String,
}

/// One call of an op.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Call {
    /// Name of the op.
    pub op: String,
    /// CPU on which it ran.
    pub cpu: i32,
    /// Task that the call is about: name of a scenario task, `*` for a foreign task, empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// First argument of the call, as a number.
    pub a: u64,
    /// Second argument of the call, as a number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub b: u64,
    /// CPU of the task; -1 if not recorded.
    pub task_cpu: i32,
    /// Return value of the op.
    #[serde(default)]
    pub result: i32,
    /// Queue into which the op inserted the task; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verdict: u64,
    /// `scx.flags` of the task.
    #[serde(default)]
    pub flags: u32,
    /// Whether slice was left.
    #[serde(default)]
    pub slice: bool,
    /// Time on the clock of kernel or model.
    #[serde(default)]
    pub time_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
