// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong with the running kernel.

use std::io;

/// Why something on the running kernel was not possible.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Loading programs into the kernel needs rights.
    #[error("this needs root (effective user id 0), this process has {effective_uid}: use sudo")]
    NotRoot {
        /// Whom the process acts as.
        effective_uid: u32,
    },
    /// The kernel does not describe its types.
    #[error("{path}: {source}: the kernel must be built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf {
        /// Where the description was expected.
        path: &'static str,
        /// What reading it gave.
        source: io::Error,
    },
    /// The kernel lacks something that Weir's programs are built on.
    #[error("this kernel has no {missing}, which Weir's programs need ({reason})")]
    Unsupported {
        /// What was looked for.
        missing: String,
        /// What it would be used for.
        reason: &'static str,
    },
    /// The kernel refused something about Weir's own programs.
    #[error("cannot {action}: {source}")]
    Bpf {
        /// What was tried.
        action: String,
        /// What libbpf answered.
        source: libbpf_rs::Error,
    },
    /// The kernel's verifier or loader refused Weir's own programs.
    #[error("cannot load Weir's own programs into the kernel: {source}\n{log}")]
    Load {
        /// What libbpf answered.
        source: libbpf_rs::Error,
        /// The last lines that the kernel and libbpf wrote about it.
        log: String,
    },
    /// The command could not be started.
    #[error("cannot start `{command}`: {source}")]
    Spawn {
        /// Name of the program.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// One that was to be recorded is not there.
    #[error("there is no process {process}")]
    NoProcess {
        /// Its number.
        process: u32,
    },
    /// No command was given.
    #[error("no command: give a program and its arguments")]
    NoCommand,
    /// The command ran, but the kernel reported nothing of it.
    #[error("the kernel did not report the start of the command: inside a PID namespace Weir cannot work")]
    NothingSeen,
    /// A file of the kernel could not be used.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A fault plan does not fit this machine.
    #[error(transparent)]
    Plan(#[from] fault_plan::FaultError),
    /// This machine cannot do what a fault plan wants of it.
    #[error("{fault}: {problem}")]
    Fault {
        /// What it wants.
        fault: String,
        /// Why that is not possible.
        problem: String,
    },
    /// A scheduler could not be loaded, watched or unloaded.
    #[error(transparent)]
    Scheduler(#[from] crate::scheduler::SchedulerError),
    /// An event did not have the layout that both sides agreed on, or a file of the kernel has another.
    #[error("the kernel's events make no sense: {0}")]
    Malformed(String),
    /// A workload could not be played.
    #[error(transparent)]
    Play(#[from] crate::threads::PlayError),
}

impl LiveError {
    /// For [`Result::map_err`] on calls into libbpf.
    pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> LiveError {
        let action = action.into();
        move |source| LiveError::Bpf { action, source }
    }

    /// For [`Result::map_err`] on file accesses.
    pub(crate) fn file(path: impl Into<String>) -> impl FnOnce(io::Error) -> LiveError {
        let path = path.into();
        move |source| LiveError::File { path, source }
    }
}
