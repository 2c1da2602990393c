// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a task's memory: reloads of caches, memory of other nodes, memory bandwidth.
//!
//! [`Memory`] is notified when a task gets a CPU and when it leaves it. It answers with the [`Reload`] that costs the
//! task run time, and with the [`speed::Rate`] at which its memory lets it work. Time is passed in; nothing here reads
//! a clock. All results are integers: bytes, nanoseconds, and fixed-point numbers with 16 fractional bits.
//!
//! 1. *Caches* keep the working sets that were used in them last, in order, with stamps. What others used since a task
//!    left tells the part of its working set that is gone ([`loss::lost`]). The number of sets kept is bounded; there
//!    is no table by pairs of tasks.
//! 2. *Nodes*: memory has a [`Home`], which the placement decides. The choice of a core never moves memory.
//! 3. *Bandwidth*: one latency multiplier for each node, which balances the demand of the tasks and the capacity.
//!
//! `docs/explanation/memory.md` has the formulas with their sources, and lists what is not modelled.

mod bandwidth;
mod cache;
mod hierarchy;
pub mod loss;
mod nodes;
#[cfg(test)]
mod tests;
mod working_set;

pub use bandwidth::loaded_latency;
pub use hierarchy::{Memory, Reload, Source};
pub use nodes::{Home, Moved};

/// One, as a fixed-point number with 16 fractional bits.
pub const ONE: u64 = 1 << 16;

/// Use of memory by a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// Working set: bytes that the task accesses again and again; 0: none.
    pub footprint: u64,
    /// Part of the working set that the task writes, in percent.
    pub dirty_percent: u64,
    /// Bytes that the task accesses once, in MB/s (bytes in a microsecond) of undisturbed work.
    pub stream_mb_s: u64,
    /// Share of its undisturbed time in which the task waits for memory, in percent.
    pub share_percent: u64,
    /// Region to which the working set belongs, if several tasks share it.
    pub region: Option<u32>,
    /// Placement of its memory; `None`: that of the machine.
    pub placement: Option<ids::Placement>,
}
