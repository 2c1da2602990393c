// SPDX-License-Identifier: GPL-2.0-only
//! Errors about this machine.

use std::io;

/// Reasons why an action on this machine failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The action needs root.
    #[error("this needs root, but the effective user id is {effective_uid}: use sudo")]
    NotRoot {
        /// Effective user id of this process.
        effective_uid: u32,
    },
    /// Access to a kernel file, or a system call, failed.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A kernel file has an unexpected format.
    #[error("unexpected content: {0}")]
    Malformed(String),
    /// A program could not be started.
    #[error("cannot start `{command}`: {source}")]
    Spawn {
        /// Name of the program.
        command: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A fault plan does not fit this machine.
    #[error(transparent)]
    Plan(#[from] fault_plan::FaultError),
    /// This machine cannot carry out a fault of the plan.
    #[error("{fault}: {problem}")]
    Fault {
        /// The fault, as the plan writes it.
        fault: String,
        /// Why the machine cannot carry it out.
        problem: String,
    },
}

impl HostError {
    /// Returns a function for [`Result::map_err`] on file accesses.
    pub fn file(path: impl Into<String>) -> impl FnOnce(io::Error) -> HostError {
        let path = path.into();
        move |source| HostError::File { path, source }
    }
}
