// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archive writer: a pipeline of concurrent stages.
//!
//! ```text
//! read ─▶ scan ─▶ look ─▶ match ─▶ weave ─▶ pack ─▶ write
//!   │    (many)         (many)            (many)      ▲
//!   └───────────────────── hash ──────────────────────┘
//! ```
//!
//! Bounded queues connect the stages, so no stage runs far ahead of the next. If several threads share a stage, the
//! queue holds their pending results in file order, and the next stage waits for the first. Stages do not drain at
//! the end of a chunk: a chunk is searched while blocks of earlier ones are compressed. The output depends on the
//! input and the options only, never on thread timing.

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

/// Options of the writer.
pub struct Options<'a> {
    /// Back end.
    pub packer: Packer,
    /// Compression level, 1 to 9.
    pub level: u8,
    /// Number of compressing threads, and of searching threads; at least 1.
    pub threads: usize,
    /// Memory limit.
    pub memory: Limit,
    /// Maximum chunk length in bytes; the default follows from the memory limit. Ignored for a file if `unlimited`.
    pub window: Option<u64>,
    /// Whether a file is one chunk, whatever its length.
    pub unlimited: bool,
    /// Password that encrypts the archive.
    pub password: Option<Vec<u8>>,
    /// Key-derivation work `[e, m]`: m * 2^e SHA-512 inputs of 64 bytes.
    pub rounds: [u8; 2],
    /// Whether blocks are checked for compressibility before they are passed to the back end.
    pub threshold: bool,
    /// Whether a chunk is searched while blocks of the previous one are compressed.
    pub overlap: bool,
    /// Whether matches are searched.
    pub search: bool,
    /// Callback with the input bytes packed and the output bytes written so far.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Callback for messages about measures taken because memory is short.
    pub log: Option<&'a (dyn Fn(&str) + Sync)>,
    /// Trace that collects the stages' spans.
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

/// Result of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Length of the input in bytes.
    pub bytes: u64,
    /// Length of the archive in bytes.
    pub packed: u64,
    /// MD5 of the input.
    pub md5: [u8; 16],
    /// Number of chunks.
    pub chunks: usize,
    /// Bytes of literals, before compression by the back end.
    pub literals: u64,
    /// Bytes of tokens, before compression by the back end.
    pub tokens: u64,
}

/// Writes an archive of `source` at the start of `archive`, which must be empty.
///
/// # Errors
/// [`crate::error::Error::Io`] for the input and the output, [`crate::error::Error::Memory`] if memory does
/// not suffice even for the smallest plan.
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
