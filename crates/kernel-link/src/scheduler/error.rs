// SPDX-License-Identifier: GPL-2.0-only
//! Errors in loading and unloading a scheduler: problem, reason and advice, in one line.

use bpf_object::ObjectError;
use launch_profile::ProfileError;
use machine_model::MachineError;
use std::time::Duration;

/// Reasons why a scheduler could not be loaded, monitored or unloaded.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The kernel was built without sched_ext.
    #[error("this kernel ({kernel}) has no sched_ext: boot one of 6.12 or later that has CONFIG_SCHED_CLASS_EXT=y")]
    NoSchedExt {
        /// Kernel name and release.
        kernel: String,
    },
    /// This process may not load schedulers.
    #[error("loading a scheduler needs root, or CAP_BPF with CAP_PERFMON: use sudo")]
    NoRights,
    /// Another scheduler is active.
    #[error("scheduler `{name}` is active: stop the program that loaded it first")]
    Busy {
        /// Name of the active scheduler.
        name: String,
    },
    /// Enabling or disabling a scheduler does not finish.
    #[error("sched_ext is in state `{state}` after {waited:?}, expected `{expected}`: see the kernel log (dmesg)")]
    Stuck {
        /// Contents of `/sys/kernel/sched_ext/state`.
        state: String,
        /// Expected contents.
        expected: &'static str,
        /// Time waited.
        waited: Duration,
    },
    /// The bytes are not a valid BPF object.
    #[error("{name}: {source}")]
    Object {
        /// Scheduler as named by the user.
        name: String,
        /// Error of the parser.
        source: ObjectError,
    },
    /// The object cannot be loaded as a scheduler on this machine.
    #[error("{name}: {problem}")]
    Unsuitable {
        /// Scheduler as named by the user.
        name: String,
        /// Problem and expectation.
        problem: String,
    },
    /// The launch profile does not fit the object.
    #[error("{name}: {source}")]
    Profile {
        /// Scheduler as named by the user.
        name: String,
        /// Position and problem in the profile.
        source: ProfileError,
    },
    /// The topology of this machine cannot be described.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// The verifier rejected a program.
    #[error("{name}: the kernel's verifier rejects program `{program}`: {last_line}")]
    Verifier {
        /// Scheduler as named by the user.
        name: String,
        /// Function in the object.
        program: String,
        /// Last line of the verifier before its statistics, which is the reason.
        last_line: String,
        /// Complete log.
        log: String,
    },
    /// libbpf or the kernel rejected the object before or after verification.
    #[error("{name}: the object cannot be loaded: {reason}")]
    Load {
        /// Scheduler as named by the user.
        name: String,
        /// Most informative line of the log.
        reason: String,
        /// Complete log of libbpf and the kernel.
        log: String,
    },
    /// The kernel rejected the struct_ops table.
    #[error("{name}: the kernel rejects the scheduler: {reason}")]
    Attach {
        /// Scheduler as named by the user.
        name: String,
        /// Error number, such as 22 for EINVAL.
        errno: i32,
        /// Meaning in this situation, and advice.
        reason: String,
    },
    /// The object has no such data section.
    #[error("the object has no data section `{section}` (it has {known})")]
    NoSection {
        /// Requested section.
        section: String,
        /// Existing sections.
        known: String,
    },
}

impl SchedulerError {
    /// Complete log of the verifier or libbpf; `None` if the message contains everything.
    pub fn log(&self) -> Option<&str> {
        match self {
            SchedulerError::Verifier { log, .. } | SchedulerError::Load { log, .. } => Some(log),
            _ => None,
        }
    }
}
