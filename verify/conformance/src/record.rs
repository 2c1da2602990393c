// SPDX-License-Identifier: GPL-2.0-only
//! What a play leaves, in both worlds the same, as JSON.

use serde::{Deserialize, Serialize};

/// Plays of one scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Name of the scenario.
    pub scenario: String,
    /// `kernel` or `model`.
    pub world: String,
    /// Release of the kernel.
    pub kernel: String,
    /// One for each play.
    pub runs: Vec<Run>,
}

/// One play.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// How the scheduler ended; `None` if it could not be loaded.
    pub exit: Option<Exit>,
    /// Why it could not be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the scheduler logged.
    pub calls: Vec<Call>,
    /// What disturbed the play ([`crate::disturbance`]).
    #[serde(default)]
    pub disturbed: Vec<String>,
}

/// Why a scheduler ended.
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
    /// Task that it is about: our own by name, `*` for a foreign one; nothing if it is about none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// First argument.
    pub a: u64,
    /// Second argument.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub b: u64,
    /// CPU of the task; -1: not asked.
    pub task_cpu: i32,
    /// What the op returned.
    #[serde(default)]
    pub result: i32,
    /// Queue that it put the task into; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verdict: u64,
    /// Flags of the task for sched_ext.
    #[serde(default)]
    pub flags: u32,
    /// Whether any slice was left.
    #[serde(default)]
    pub slice: bool,
    /// When, on the clock of its world.
    #[serde(default)]
    pub time_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
