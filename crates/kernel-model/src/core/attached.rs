// SPDX-License-Identifier: GPL-2.0-only
//! What the core keeps of the attached scheduler: its settings, the reason of its exit, its counters and its dump.

use super::context::Callee;
use super::counters::Counters;
use crate::api::ExitInfo;
use bpf_machine::SourceLine;
use ids::{CpuId, Nanos};

/// State of the attached scheduler.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    /// Capacity of the dispatch buffer: `ops.dispatch_max_batch`.
    max_batch: usize,
    /// `ops.flags`.
    flags: u64,
    /// The first error, or another reason to disable the scheduler.
    pub exit: Option<ExitInfo>,
    /// CPU reported with the exit reason, if any.
    pub exit_cpu: Option<CpuId>,
    /// Kfunc or helper whose call was the reason, if any.
    pub exit_callee: Option<Callee>,
    /// Debug dump under construction.
    pub dump: Option<String>,
    /// Event counters (`SCX_EV_*`).
    pub counters: Counters,
    /// Source files of the scheduler, without directories.
    pub files: Vec<String>,
}

impl Attached {
    /// A scheduler with these settings is about to be attached.
    pub fn begin(&mut self, flags: u64, max_batch: usize) {
        (self.flags, self.max_batch) = (flags, max_batch);
        self.exit = None;
        self.counters = Counters::default();
    }

    /// The scheduler is gone; what it reported remains.
    pub fn end(&mut self) {
        self.flags = 0;
    }

    /// Capacity of the dispatch buffer.
    pub fn max_batch(&self) -> usize {
        self.max_batch
    }

    /// Sets the capacity of the dispatch buffer.
    #[cfg(test)]
    pub fn set_max_batch(&mut self, max_batch: usize) {
        self.max_batch = max_batch;
    }

    /// Whether `ops.flags` has all of these bits.
    #[inline]
    pub fn has_flags(&self, bits: u64) -> bool {
        self.flags & bits == bits
    }

    /// Whether there is a reason to disable the scheduler.
    #[inline]
    pub fn is_exiting(&self) -> bool {
        self.exit.is_some()
    }

    /// File and line of a known place in the scheduler's source.
    pub fn source(&self, line: SourceLine) -> Option<(String, u32)> {
        let file = self.files.get(usize::from(line.file)).filter(|_| line.is_known())?;
        Some((file.clone(), line.line))
    }
}

/// Bypass mode (contract B1).
#[derive(Debug, Default)]
pub(crate) struct Bypass {
    depth: u32,
    /// Time when it began.
    since: Nanos,
}

impl Bypass {
    /// Whether bypass mode is on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.depth > 0
    }

    /// Begins bypass mode; calls nest. Returns whether it was off.
    pub fn enter(&mut self, now: Nanos) -> bool {
        self.depth += 1;
        let begins = self.depth == 1;
        if begins {
            self.since = now;
        }
        begins
    }

    /// Ends one nesting level of bypass mode. Returns the time for which it was on if it is off now.
    pub fn leave(&mut self, now: Nanos) -> Option<Nanos> {
        self.depth -= 1;
        (self.depth == 0).then(|| now.since(self.since))
    }

    /// Ends all nesting levels of bypass mode but one.
    pub fn flatten(&mut self) {
        self.depth = 1;
    }
}
