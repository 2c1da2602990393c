// SPDX-License-Identifier: GPL-2.0-only
//! Why a workload could not be played.

use ids::{CpuSet, Policy};
use std::io;
use workload::WorkloadError;

/// Why a workload could not be played with real threads. Everything that can be known beforehand is found before the
/// first of its threads exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The workload itself is not sound.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// It would never end.
    #[error("{workload}: the workload has endless tasks and no duration; set a duration")]
    Endless {
        /// The workload's name.
        workload: String,
    },
    /// A lock that only a kernel has.
    #[error("{workload}: lock {lock:?} is of kind rcu, which only the kernel has; it can be simulated, but not played")]
    Rcu {
        /// The workload's name.
        workload: String,
        /// The lock's name.
        lock: String,
    },
    /// A task may run nowhere.
    #[error("{workload}: {task} may only run on CPUs {wanted}, but this process has CPUs {present}")]
    NoCpu {
        /// The workload's name.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// What the task wants.
        wanted: CpuSet,
        /// What there is.
        present: CpuSet,
    },
    /// The kernel refused a policy or nice value.
    #[error("{workload}: {task} wants {}: {source}{}", wish(.policy, *.nice), hint(.source, .policy))]
    Policy {
        /// The workload's name.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// What the task wants.
        policy: Policy,
        /// What the task wants.
        nice: i8,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused a set of CPUs that looked right.
    #[error("{workload}: {task} wants to run on CPUs {cpus}: {source}")]
    Affinity {
        /// The workload's name.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// What the task wants.
        cpus: CpuSet,
        /// What the kernel answered.
        source: io::Error,
    },
    /// There is nothing of which its groups could be made.
    #[error("{workload}: it has groups, but {missing}")]
    NoCgroups {
        /// The workload's name.
        workload: String,
        /// What there is not.
        missing: &'static str,
    },
    /// A control group could not be made, set or joined.
    #[error(transparent)]
    Cgroup(#[from] super::CgroupError),
    /// The kernel did not let a task become another user's.
    #[error("{workload}: {task} is of user {uid}: {source}; needs root (CAP_SETUID)")]
    User {
        /// The workload's name.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// Whose it is.
        uid: u32,
        /// What the kernel answered.
        source: io::Error,
    },
    /// There is no thread to be had.
    #[error("cannot create the thread of {task}: {source}")]
    Thread {
        /// Number and name of the task.
        task: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Somebody killed it, or it crashed; the others were ended.
    #[error("{task} was killed, and with it the play")]
    Killed {
        /// Number and name of the task.
        task: String,
    },
    /// Something about the calling thread.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}

fn wish(policy: &Policy, nice: i8) -> String {
    match policy {
        Policy::Other => format!("nice value {nice}"),
        Policy::Batch => format!("SCHED_BATCH with nice value {nice}"),
        Policy::Idle => format!("SCHED_IDLE with nice value {nice}"),
        Policy::Ext => format!("SCHED_EXT with nice value {nice}"),
        Policy::Fifo(priority) => format!("SCHED_FIFO with priority {priority}"),
        Policy::RoundRobin(priority) => format!("SCHED_RR with priority {priority}"),
        Policy::Deadline { runtime, deadline, period } => {
            format!("SCHED_DEADLINE with {runtime} of {period} within {deadline}")
        }
    }
}

/// What is missing, where the kernel's answer does not say it.
fn hint(source: &io::Error, policy: &Policy) -> &'static str {
    match (source.raw_os_error(), policy) {
        (Some(libc::EPERM), Policy::Fifo(_) | Policy::RoundRobin(_)) => {
            "; needs root (CAP_SYS_NICE), or a limit of that priority at least (ulimit -r)"
        }
        (Some(libc::EPERM), Policy::Deadline { .. }) => {
            "; needs root (CAP_SYS_NICE) and an affinity of all CPUs of the process's cpuset"
        }
        (Some(libc::EPERM | libc::EACCES), _) => "; needs root (CAP_SYS_NICE), or a limit that allows it (ulimit -e)",
        (Some(libc::EINVAL), Policy::Ext) => "; needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT",
        (Some(libc::EBUSY), Policy::Deadline { .. }) => "; the CPUs have no such share left for deadlines",
        _ => "",
    }
}
