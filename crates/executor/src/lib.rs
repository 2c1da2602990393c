// SPDX-License-Identifier: GPL-2.0-only
//! Executes a workload with real processes and threads.
//!
//! The next operation of a task is determined by the same [`workload::Executor`] that the simulator uses: which task
//! gets a mutex, which tasks a signal wakes and in which order, when a signal is lost. Both ways of execution
//! therefore have exactly the same semantics. Everything else is real here:
//! - **A task is a process**, or a thread of one, as the workload says, forked by the task that forks it in the
//!   workload. All share the memory of this process (`process.rs`), which contains the Executor. Tasks that start by
//!   themselves are forked by the *coordinator*, a process without other work. It is the only child of the thread
//!   that called [`PreparedWorkload::begin`], so a meter that follows this child and its descendants sees all tasks
//!   and nothing else. The meter must start between [`PreparedWorkload::prepare`], which needs threads of its own,
//!   and [`PreparedWorkload::begin`], on the same thread. Some of these threads stay: they provide stacks and
//!   thread-local storage for the tasks (`donors.rs`).
//! - **Work** is a number of rounds of a loop ([`Calibration`]), so that it takes longer on a slower or shared CPU.
//!   Kernel work in a recording is executed like user work. **CPU time** (`runtime`) is measured by the thread's own
//!   clock.
//! - **Waiting** uses one futex per task. A task that wakes several others makes one call for each, in the Executor's
//!   order.
//! - **Sleeping** waits on the same futex with an absolute timeout, so that the end of the execution can interrupt
//!   it. The kernel timer is the one of `clock_nanosleep(2)`, without timer slack, unlike rt-app (50 us).
//! - **Affinity, policy and nice value** are set by the task itself, when it starts and at each change. CPUs that
//!   this process may not use are omitted, as in the simulator. A task without an affinity inherits that of the
//!   caller.
//! - **Groups** are cgroups (`cgroups.rs`), which tasks join before the start gate. **Users**: only the real UID of a
//!   task is set, which is what schedulers read. The effective UID stays, so permissions do not change. A process
//!   whose **session** differs from its parent's starts a new one.
//! - **Critical sections** use real locks in the shared memory. A mutex is a futex whose waiters sleep without
//!   spinning.
//! - **Requests to disks** are direct I/O in files that exist only meanwhile (`disks.rs`), in directories that the user
//!   names. Recorded requests are not executed: the task sleeps for the recorded length.
//! - **Fork** is `clone(2)`. A yield is `sched_yield(2)`.
//!
//! All tasks share one Executor, behind a spin lock that is held for about 100 ns. A task sleeps for it only after
//! spinning for some 20 us, because the lock holder was preempted. Such a sleep is not part of the workload and is
//! counted in [`ExecutionResult::disturbances`].
//!
//! The execution ends when all tasks have exited, after its duration, when [`Stopper::stop`] is called, or when all
//! remaining tasks wait for each other. Working tasks check for the end every 50 us of CPU time; no task is left
//! behind. If a task is killed, all others are killed too, and the execution fails (`tombstone.rs`).

mod cgroups;
mod coordinator;
mod disks;
mod donors;
mod error;
pub mod lock_costs;
mod locks;
mod memory;
mod named_process;
mod prepare;
mod process;
mod shared;
mod stack;
mod task;
#[cfg(test)]
mod tests;
mod tombstone;
mod work;

pub use cgroups::{CgroupError, remove_stale_cgroups};
pub use coordinator::{PreparedWorkload, Running, Stopper};
pub use disks::DiskDirectory;
pub use error::ExecuteError;
use locks::Locks;
pub use work::Calibration;

use ids::{CpuId, Nanos, Policy, TaskId};
use measures::{DiskMeasures, Periods, RequestMeasures};
use workload::{TaskGroup, Workload};

/// Options of an execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Overrides the workload's duration.
    pub duration: Option<Nanos>,
    /// First create all tasks that start at time 0, then release them together; time starts at the release. Without
    /// the gate, time starts before the first task is created, and each task starts as soon as it exists, which saves
    /// one sleep and one wakeup per task.
    pub gate: bool,
    /// Enforce the order of wakeups, for tests. A task that is about to signal, broadcast, resume or post spins until
    /// another task waits for it, and a waking task spins until the wakee has really left its CPU. After this time
    /// limit it proceeds, which [`TaskResult::unsettled`] counts.
    pub settle: Option<Nanos>,
    /// Record [`ExecutionResult::log`].
    pub log: bool,
    /// Directories in which the requests to the workload's disks are executed.
    pub disks: Vec<DiskDirectory>,
    /// Loop rounds per nanosecond of work; `None` measures them first, which takes about 16 ms per CPU.
    pub calibration: Option<Calibration>,
}

impl Default for Options {
    /// The workload's duration, with a gate, without the other options.
    fn default() -> Options {
        Options { duration: None, gate: true, settle: None, log: false, disks: Vec::new(), calibration: None }
    }
}

/// Reason why an execution ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// All tasks exited.
    Finished,
    /// The duration elapsed.
    Duration,
    /// [`Stopper::stop`] was called.
    Stopped,
    /// Deadlock: all remaining tasks waited, and no task was left to wake them.
    Stuck(Vec<Stuck>),
}

/// A deadlocked task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// Number of the task.
    pub task: TaskId,
    /// Name of the task.
    pub name: String,
    /// Description of what the task waited for.
    pub waits_for: String,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {} ({}) waits for {}", self.task, self.name, self.waits_for)
    }
}

/// Result of an execution.
#[derive(Clone, PartialEq, Debug)]
pub struct ExecutionResult {
    /// Reason why it ended.
    pub end: End,
    /// Time from the start to the exit of the last task.
    pub elapsed: Nanos,
    /// Unit of work.
    pub calibration: Calibration,
    /// Tasks in the order of creation; the index is the task's number.
    pub tasks: Vec<TaskResult>,
    /// Number of forks for which the kernel created no task.
    pub failed_forks: u64,
    /// Number of changes of affinity, policy or nice value that the kernel rejected.
    pub refused_changes: u64,
    /// Number of times a task slept for the executor's own lock or for storage. These sleeps and wakeups are not part
    /// of the workload.
    pub disturbances: u64,
    /// Requests of each source of the workload.
    pub requests: Vec<RequestMeasures>,
    /// Use of each disk; empty if the workload uses none.
    pub disks: Vec<DiskMeasures>,
    /// Operations in order, if requested.
    pub log: Vec<Step>,
    /// Groups of the workload, parents first.
    pub groups: Vec<TaskGroup>,
}

/// An operation of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Start time of the operation.
    pub time: Nanos,
    /// Task that executed it.
    pub task: TaskId,
    /// Index in the script; the length of the script stands for the exit.
    pub operation: u32,
    /// CPU on which it started.
    pub cpu: CpuId,
}

/// Result of a task. Times count from the start of the execution.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskResult {
    /// Index of its spec in the workload.
    pub spec: u32,
    /// Background task: the execution does not wait for its exit.
    pub is_beside: bool,
    /// Name of the spec; `comm` has its first 15 bytes.
    pub name: String,
    /// Policy of the spec, which it sets itself when it starts.
    pub policy: Policy,
    /// Path of its group.
    pub group: Option<String>,
    /// TID in the kernel.
    pub tid: u32,
    /// Time at which it started its script.
    pub started: Nanos,
    /// Time of its exit.
    pub ended: Nanos,
    /// The task completed its script.
    pub finished: bool,
    /// Amount of work requested.
    pub work_asked: Nanos,
    /// Amount of work done; less than requested only if the end of the execution cut it short.
    pub work_done: Nanos,
    /// CPU time since `started`, by the thread's clock.
    pub cpu: Nanos,
    /// Number of voluntary context switches; one of them may be at the start gate.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
    /// Number of sleeps started.
    pub sleeps: u64,
    /// Number of timers that had already expired when the task reached them.
    pub late_timers: u64,
    /// Periods of its timers, if any.
    pub periods: Option<Box<Periods>>,
    /// Number of waits for other tasks.
    pub waits: u64,
    /// Number of tasks that it woke.
    pub wakes: u64,
    /// Number of yields.
    pub yields: u64,
    /// Number of forks.
    pub forks: u64,
    /// Number of times it gave up waiting for a sleeping waiter ([`Options::settle`]).
    pub unsettled: u64,
}

/// Executes `workload` with real tasks and waits for its end.
///
/// # Errors
/// If the workload cannot be executed here; see [`ExecuteError`].
pub fn execute(workload: &Workload, options: &Options) -> Result<ExecutionResult, ExecuteError> {
    let prepared = PreparedWorkload::prepare(workload, options)?;
    prepared.begin(|running| running.join())
}
