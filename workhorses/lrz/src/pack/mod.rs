// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing an archive, by stages that all work at the same time.
//!
//! ```text
//! read ─▶ scan ─▶ look ─▶ match ─▶ weave ─▶ pack ─▶ write
//!   │    (many)          (many)            (many)     ▲
//!   └───────────────────── hash ──────────────────────┘
//! ```
//!
//! A stage hands its results on through a queue that holds few of them, so that nobody runs far ahead. Where several
//! threads share a stage, the queue holds places for their results in the order of the file, and the next stage waits
//! at the first one. No stage stops at the end of a chunk: the search in one chunk goes on while blocks of those
//! before are packed. What is written depends on the input and the options, never on which thread was faster.

mod block;
mod held;
mod input;
mod plan;
mod stages;
mod weave;
mod write;

use crate::backend::Packer;
use crate::budget::Limit;
use crate::crypto;
use crate::error::Result;
use crate::store::{ReadAt, Store};
use crate::trace::Trace;
use crate::window::Spares;
use std::io::Read;

pub use input::Source;
pub use plan::Plan;

/// How to write.
pub struct Options<'a> {
    /// The back end.
    pub packer: Packer,
    /// Its level, 1 to 9.
    pub level: u8,
    /// Threads that pack, and as many that search; at least 1.
    pub threads: usize,
    /// Memory that may be used.
    pub memory: Limit,
    /// Most bytes of a chunk; all of a file if `unlimited`, else what the memory suggests.
    pub window: Option<u64>,
    /// Whether one chunk takes the whole file, however large.
    pub unlimited: bool,
    /// Encrypts the archive.
    pub password: Option<Vec<u8>>,
    /// How much work each guess of the password is: the second number times 2 to the power of the first, in SHA-512
    /// inputs of 64 bytes.
    pub rounds: [u8; 2],
    /// Whether blocks are tried for being compressible before the back end gets them.
    pub threshold: bool,
    /// Whether a chunk is searched while blocks of the one before are packed.
    pub overlap: bool,
    /// Whether repeats are searched at all.
    pub search: bool,
    /// Told of bytes packed and bytes written so far.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Told what was done when memory was short.
    pub log: Option<&'a (dyn Fn(&str) + Sync)>,
    /// Collects who did what.
    pub trace: Option<&'a Trace>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            packer: Packer::Lzma,
            level: 7,
            threads: 2,
            memory: Limit::of_system(None),
            window: None,
            unlimited: false,
            password: None,
            rounds: crypto::ROUNDS,
            threshold: true,
            overlap: true,
            search: true,
            progress: None,
            log: None,
            trace: None,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes of the archive.
    pub packed: u64,
    /// MD5 of the input.
    pub md5: [u8; 16],
    /// How many chunks.
    pub chunks: usize,
    /// Literals that were left to the back end, in bytes.
    pub literals: u64,
    /// Tokens, in bytes.
    pub tokens: u64,
}

/// Writes an archive of `source` to the start of `archive`, which is empty.
///
/// # Errors
/// [`crate::error::Error::Io`] for the input and the output, [`crate::error::Error::Memory`] where not even the
/// smallest plan could be kept to.
pub fn pack(source: Source<'_>, archive: &dyn Store, options: &Options<'_>) -> Result<Summary> {
    let holder;
    let (behind, length, stream): (Option<&dyn ReadAt>, _, Option<&mut (dyn Read + Send)>) = match source {
        Source::Bytes(bytes) => {
            holder = input::Slice(bytes);
            (Some(&holder), Some(bytes.len() as u64), None)
        }
        Source::File(file, length) => (Some(file), Some(length), None),
        Source::Stream(stream) => (None, None, Some(stream)),
    };
    let plan = Plan::new(options, length);
    if let Some(log) = options.log {
        plan.steps.iter().for_each(|step| log(step));
    }
    let off = Trace::off();
    let trace = options.trace.unwrap_or(&off);
    let input = input::Input { behind, length, stream, spares: Spares::default() };
    stages::run(input, archive, options, &plan, trace)
}

#[cfg(test)]
mod tests;
