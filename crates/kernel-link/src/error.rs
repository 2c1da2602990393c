// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong with the running kernel.

use std::io;

/// Why something on the running kernel was not possible.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// This machine or process cannot do it.
    #[error(transparent)]
    Host(#[from] host::HostError),
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
    /// A scheduler could not be loaded, watched or unloaded.
    #[error(transparent)]
    Scheduler(#[from] crate::scheduler::SchedulerError),
    /// An event did not have the layout that both sides agreed on, or a file of the kernel has another.
    #[error("the kernel's events make no sense: {0}")]
    Malformed(String),
    /// The workload cannot be executed.
    #[error(transparent)]
    Play(#[from] executor::PlayError),
}

impl LinkError {
    /// For [`Result::map_err`] on calls into libbpf.
    pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> LinkError {
        let action = action.into();
        move |source| LinkError::Bpf { action, source }
    }

    /// For [`Result::map_err`] on file accesses.
    pub(crate) fn file(path: impl Into<String>) -> impl FnOnce(io::Error) -> LinkError {
        let path = path.into();
        move |source| LinkError::Host(host::HostError::File { path, source })
    }
}
