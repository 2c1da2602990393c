// SPDX-License-Identifier: GPL-2.0-only
//! Errors of workload execution.

use ids::{CpuSet, Policy};
use std::io;
use std::path::PathBuf;
use workload::WorkloadError;

/// Reasons why a workload could not be executed with real tasks. Everything that can be checked beforehand is
/// reported before the first task exists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The workload is invalid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The workload would never end.
    #[error("{workload}: the workload has endless tasks and no duration; set a duration")]
    Endless {
        /// Name of the workload.
        workload: String,
    },
    /// The workload shrinks address spaces.
    #[error("{workload}: unmap can be simulated, but not executed: all tasks of an execution share an address space")]
    Unmaps {
        /// Name of the workload.
        workload: String,
    },
    /// The workload uses networks.
    #[error("{workload}: calls over networks can be simulated, but not executed")]
    Networks {
        /// Name of the workload.
        workload: String,
    },
    /// The workload uses a disk for which there is no directory.
    #[error(
        "{workload}: uses {}; say in which directory its requests are executed: --disk {}=DIRECTORY",
        if .disk.is_empty() { "a disk".to_owned() } else { format!("disk {disk}") },
        if .disk.is_empty() { "sda" } else { .disk }
    )]
    NoDisk {
        /// Name of the workload.
        workload: String,
        /// Name of the disk; empty for the first one.
        disk: String,
    },
    /// There are two directories for a disk.
    #[error("disk {disk} has two directories; expected one")]
    DiskTwice {
        /// Name of the disk.
        disk: String,
    },
    /// There is a directory for a disk that the workload does not use.
    #[error("{workload}: does not use disk {disk}, for which a directory is given")]
    UnusedDisk {
        /// Name of the workload.
        workload: String,
        /// Name of the disk.
        disk: String,
    },
    /// A request is longer than the file of its disk.
    #[error("disk {disk}: a request has {bytes} bytes, but the file has {size}; add ,size=BYTES to its --disk")]
    LongRequest {
        /// Name of the disk.
        disk: String,
        /// Length of the request.
        bytes: u64,
        /// Length of the file.
        size: u64,
    },
    /// A system call on the file of a disk failed.
    #[error("disk {disk}: cannot {action} {}: {source}{hint}", directory.display())]
    Directory {
        /// Name of the disk.
        disk: String,
        /// Its directory.
        directory: PathBuf,
        /// Attempted action.
        action: &'static str,
        /// Advice; may be empty.
        hint: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The workload has mutexes with priority inheritance.
    #[error("{workload}: mutexes with priority inheritance (pi_enabled) can be simulated, but not executed")]
    Inherits {
        /// Name of the workload.
        workload: String,
    },
    /// A task accesses more memory than this crate allocates.
    #[error("{workload}: task {task:?} has a footprint above 16G; it can be simulated, but not executed")]
    Footprint {
        /// Name of the workload.
        workload: String,
        /// Name of the task.
        task: String,
    },
    /// A task streams faster than its CPU can read.
    #[error(
        "task {task:?} streams {rate} MB/s, but its CPU reads at most {possible} MB/s; lower its \"stream\", or simulate it"
    )]
    Stream {
        /// Name of the task.
        task: String,
        /// Rate of the workload in MB/s.
        rate: u64,
        /// Rate that the CPU can read alone in MB/s.
        possible: u64,
    },
    /// The workload uses a kernel-only lock.
    #[error(
        "{workload}: lock {lock:?} is of kind rcu, which only the kernel has; it can be simulated, but not executed"
    )]
    Rcu {
        /// Name of the workload.
        workload: String,
        /// Name of the lock.
        lock: String,
    },
    /// A task has no usable CPU.
    #[error("{workload}: {task} may only run on CPUs {wanted}, but this process has CPUs {present}")]
    NoCpu {
        /// Name of the workload.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// Requested CPUs.
        wanted: CpuSet,
        /// Available CPUs.
        present: CpuSet,
    },
    /// The kernel rejected a policy or nice value.
    #[error("{workload}: {task} wants {}: {source}{}", wish(.policy, *.nice), hint(.source, .policy))]
    Policy {
        /// Name of the workload.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// Requested policy.
        policy: Policy,
        /// Requested nice value.
        nice: i8,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel rejected an affinity that passed the checks.
    #[error("{workload}: {task} wants to run on CPUs {cpus}: {source}")]
    Affinity {
        /// Name of the workload.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// Requested CPUs.
        cpus: CpuSet,
        /// The kernel's error.
        source: io::Error,
    },
    /// Cgroups are not available.
    #[error("{workload}: the workload has groups, but {missing}")]
    NoCgroups {
        /// Name of the workload.
        workload: String,
        /// Missing requirement.
        missing: &'static str,
    },
    /// A cgroup could not be created, configured or joined.
    #[error(transparent)]
    Cgroup(#[from] super::CgroupError),
    /// The kernel did not let a task change its user.
    #[error("{workload}: {task} cannot run as user {uid}: {source}; needs root (CAP_SETUID)")]
    User {
        /// Name of the workload.
        workload: String,
        /// Number and name of the task.
        task: String,
        /// Requested UID.
        uid: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel could not create a thread.
    #[error("cannot create the thread of {task}: {source}")]
    Thread {
        /// Number and name of the task.
        task: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A task was killed or crashed; the others were killed too.
    #[error("{task} was killed, which ended the execution")]
    Killed {
        /// Number and name of the task.
        task: String,
    },
    /// A system call on the calling thread failed.
    #[error("cannot {action}: {source}")]
    System {
        /// Attempted action.
        action: &'static str,
        /// The kernel's error.
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

/// Advice where the kernel's error does not name the missing permission or feature.
fn hint(source: &io::Error, policy: &Policy) -> &'static str {
    match (source.raw_os_error(), policy) {
        (Some(libc::EPERM), Policy::Fifo(_) | Policy::RoundRobin(_)) => {
            "; needs root (CAP_SYS_NICE), or an RLIMIT_RTPRIO of at least that priority (ulimit -r)"
        }
        (Some(libc::EPERM), Policy::Deadline { .. }) => {
            "; needs root (CAP_SYS_NICE) and an affinity of all CPUs of the process's cpuset"
        }
        (Some(libc::EPERM | libc::EACCES), _) => "; needs root (CAP_SYS_NICE), or a sufficient RLIMIT_NICE (ulimit -e)",
        (Some(libc::EINVAL), Policy::Ext) => "; needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT",
        (Some(libc::EBUSY), Policy::Deadline { .. }) => "; the CPUs do not have enough deadline bandwidth left",
        _ => "",
    }
}
