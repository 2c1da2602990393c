// SPDX-License-Identifier: GPL-2.0-only
//! Why a task waited, what a run waited for, why a scheduler was ejected: from a [`timeline::Timeline`] to sentences,
//! tables of 80 columns, and JSON. Nothing is derived here that is not in the timeline, and nothing is guessed: what a
//! run does not tell is said to be not seen.

mod chain;
mod ejection;
mod events;
mod source;
mod wait;
mod words;

pub use chain::{chain_json, chain_text};
pub use ejection::{ejection_json, ejection_text};
pub use source::Source;
pub use wait::{wait_json, wait_sentence, wait_text};
pub use words::{queue_name, suspect_sentence, task_name};

use timeline::Timeline;

/// A run, and what its scheduler was compiled from.
#[derive(Debug)]
pub struct Story<'a> {
    /// What happened.
    pub timeline: &'a Timeline,
    /// The scheduler's lines.
    pub source: &'a Source,
}
