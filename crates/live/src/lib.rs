// SPDX-License-Identifier: GPL-2.0-only
//! Everything that needs the running kernel.
//!
//! [`record`] runs a command and writes down what its processes do: how much CPU time between sleeps, why each sleep
//! ended, who forked whom. The BPF programs for that are in `bpf/record.bpf.c`; what they send becomes a workload in
//! [`convert`], which needs no kernel and is tested without one.

pub mod convert;
mod cost;
mod error;
pub mod event;
mod kernel;
mod recorder;
mod split;

pub use error::LiveError;
pub use recorder::RecordSummary;

use std::ffi::OsString;

/// A recorded workload and what recording it was like.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// What was recorded.
    pub workload: workload::Workload,
    /// What recording it was like.
    pub summary: RecordSummary,
}

/// Runs `command` with this process's standard streams and records its process tree under this name.
///
/// The tree is the command and all its descendants, also those that outlive their parents. The recording ends when all
/// of them have ended, or when the command has and none of the others has run for two seconds: those are daemons.
///
/// # Errors
/// If this process is not root, the kernel lacks BTF or a tracepoint, or the command cannot be started.
pub fn record(name: &str, command: &[OsString]) -> Result<Recorded, LiveError> {
    let (converted, summary) = recorder::run(name, command)?;
    Ok(Recorded { workload: converted.workload, summary })
}
