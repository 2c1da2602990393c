// SPDX-License-Identifier: GPL-2.0-only
//! Why a scheduler did not get into the kernel, or not out of it: what, why, and what to do, in one line.

use bpf_object::ObjectError;
use launch_profile::ProfileError;
use machine_model::MachineError;
use std::time::Duration;

/// What went wrong with a scheduler in the running kernel.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The kernel was built without sched_ext.
    #[error("this kernel ({kernel}) has no sched_ext: boot one of 6.12 or later that has CONFIG_SCHED_CLASS_EXT=y")]
    NoSchedExt {
        /// Its name and release.
        kernel: String,
    },
    /// Loading a scheduler needs rights.
    #[error("loading a scheduler needs root, or CAP_BPF with CAP_PERFMON: use sudo")]
    NoRights,
    /// There can be only one.
    #[error("scheduler `{name}` is active: stop the program that loaded it first")]
    Busy {
        /// How it calls itself.
        name: String,
    },
    /// A scheduler that was active goes, or comes, and does not get done.
    #[error("sched_ext is in the state `{state}` after {waited:?}, not `{expected}`: see the kernel's log (dmesg)")]
    Stuck {
        /// What `/sys/kernel/sched_ext/state` says.
        state: String,
        /// What it should say.
        expected: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The bytes are no sched_ext object.
    #[error("{name}: {source}")]
    Object {
        /// The scheduler, as it was asked for.
        name: String,
        /// What is wrong.
        source: ObjectError,
    },
    /// The object is no scheduler that can be loaded here.
    #[error("{name}: {problem}")]
    Unsuitable {
        /// The scheduler, as it was asked for.
        name: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The profile does not fit the object.
    #[error("{name}: {source}")]
    Profile {
        /// The scheduler, as it was asked for.
        name: String,
        /// Where, and what is wrong.
        source: ProfileError,
    },
    /// The topology of this machine cannot be described.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// The verifier does not accept a program.
    #[error("{name}: the kernel's verifier refuses program `{program}`: {last_line}")]
    Verifier {
        /// The scheduler, as it was asked for.
        name: String,
        /// Function in the object.
        program: String,
        /// The last thing that the verifier said before its statistics: the reason.
        last_line: String,
        /// All that it said.
        log: String,
    },
    /// libbpf or the kernel refused something before or after the verifier.
    #[error("{name}: the object cannot be loaded: {reason}")]
    Load {
        /// The scheduler, as it was asked for.
        name: String,
        /// The most telling line.
        reason: String,
        /// All that libbpf and the kernel said.
        log: String,
    },
    /// The kernel refused the table of ops.
    #[error("{name}: the kernel refuses the scheduler: {reason}")]
    Attach {
        /// The scheduler, as it was asked for.
        name: String,
        /// Number of the error, such as 22 for EINVAL.
        errno: i32,
        /// What that means here and what to do.
        reason: String,
    },
    /// There is no such data section.
    #[error("the object has no data section `{section}` (it has {known})")]
    NoSection {
        /// What was asked for.
        section: String,
        /// What there is.
        known: String,
    },
}

impl SchedulerError {
    /// All that the verifier or libbpf said, for a file or a curious reader. `None` if the message is everything.
    pub fn log(&self) -> Option<&str> {
        match self {
            SchedulerError::Verifier { log, .. } | SchedulerError::Load { log, .. } => Some(log),
            _ => None,
        }
    }
}
