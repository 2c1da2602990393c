// SPDX-License-Identifier: GPL-2.0-only
//! Errors about the running kernel.

use std::io;

/// Reasons why an action on the running kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// This machine or process cannot do it.
    #[error(transparent)]
    Host(#[from] host::HostError),
    /// The kernel does not provide BTF.
    #[error("{path}: {source}: the kernel must be built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf {
        /// Expected path of the BTF.
        path: &'static str,
        /// Error of reading it.
        source: io::Error,
    },
    /// The kernel lacks something that Weir's programs need.
    #[error("this kernel has no {missing}, which Weir's programs need ({reason})")]
    Unsupported {
        /// Missing feature.
        missing: String,
        /// Purpose of the feature.
        reason: &'static str,
    },
    /// A libbpf call for Weir's own programs failed.
    #[error("cannot {action}: {source}")]
    Bpf {
        /// Attempted action.
        action: String,
        /// Error of libbpf.
        source: libbpf_rs::Error,
    },
    /// The kernel's verifier or libbpf rejected Weir's own programs.
    #[error("cannot load Weir's own programs into the kernel: {source}\n{log}")]
    Load {
        /// Error of libbpf.
        source: libbpf_rs::Error,
        /// Last lines of the log of kernel and libbpf.
        log: String,
    },
    /// The command could not be started.
    #[error("cannot start `{command}`: {source}")]
    Spawn {
        /// Name of the program.
        command: String,
        /// Error of starting it.
        source: io::Error,
    },
    /// A process to be recorded does not exist.
    #[error("there is no process {process}")]
    NoProcess {
        /// Its PID.
        process: u32,
    },
    /// A file has no such function, or cannot be probed.
    #[error("{}: cannot probe the function {function}: {source}", file.display())]
    LockFunction {
        /// Program or library.
        file: std::path::PathBuf,
        /// Name of the function.
        function: String,
        /// The kernel's or libbpf's error.
        source: libbpf_rs::Error,
    },
    /// No command was given.
    #[error("no command: give a program and its arguments")]
    NoCommand,
    /// The command ran, but no event of it was received.
    #[error("the kernel did not report the start of the command: Weir does not work inside a PID namespace")]
    NothingSeen,
    /// A scheduler could not be loaded, monitored or unloaded.
    #[error(transparent)]
    Scheduler(#[from] crate::scheduler::SchedulerError),
    /// An event or a kernel file does not have the expected format.
    #[error("unexpected kernel data: {0}")]
    Malformed(String),
    /// The workload cannot be executed.
    #[error(transparent)]
    Execute(#[from] executor::ExecuteError),
}

impl LinkError {
    /// Returns a function for [`Result::map_err`] on calls to libbpf.
    pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> LinkError {
        let action = action.into();
        move |source| LinkError::Bpf { action, source }
    }

    /// Returns a function for [`Result::map_err`] on file accesses.
    pub(crate) fn file(path: impl Into<String>) -> impl FnOnce(io::Error) -> LinkError {
        let path = path.into();
        move |source| LinkError::Host(host::HostError::File { path, source })
    }
}
