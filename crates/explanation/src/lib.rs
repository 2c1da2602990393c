// SPDX-License-Identifier: GPL-2.0-only
//! Explanations of a run as sentences, tables of 80 columns and JSON: why a task waited, what the run waited for, why
//! a scheduler was ejected. Everything is derived from a [`timeline::Timeline`]; facts that a run does not show are
//! reported as unknown, never guessed.

mod blocked;
mod chain;
mod ejection;
mod events;
mod fair;
mod idle;
mod overview;
mod source;
mod wait;
mod words;

pub use blocked::{blocked_json, blocked_text};
pub use chain::{chain_json, chain_text};
pub use ejection::{ejection_json, ejection_text};
pub use idle::{idle_json, idle_text};
pub use overview::{overview, worst_waits};
pub use source::Source;
pub use wait::{wait_json, wait_sentence, wait_text};
pub use words::{queue_name, suspect_sentence, task_name};

use timeline::Timeline;

/// A run with the source of its scheduler.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// Timeline of the run.
    pub timeline: &'a Timeline,
    /// Source lines and callbacks of the scheduler.
    pub source: &'a Source,
}
