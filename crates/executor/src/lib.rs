// SPDX-License-Identifier: GPL-2.0-only
//! Executes a workload with real processes and threads.
//!
//! What a task does next is decided by the same [`workload::Executor`] that the simulator asks: who gets a mutex, whom a
//! signal wakes and in which order, when a signal is lost. So both executors mean the same by a workload, to the last
//! corner. What is real here is everything else:
//! - **A task is a process**, or a thread of one as the workload says, forked by the task that forks it. All are in the memory
//!   of this process (`process.rs`), where the Executor is. Those that start by themselves are forked by the *stage*, a process
//!   that does nothing else. It is the one child of the thread that called [`Stage::begin`]: who watches that child and its
//!   descendants sees the whole play and nothing but it. So a meter starts between [`Stage::prepare`], which needs threads
//!   of its own, and [`Stage::begin`], on the same thread. Some of those threads stay: they lend tasks their storage
//!   (`lenders.rs`).
//! - **Work** is rounds of a loop ([`Calibration`]), so that a slower or shared CPU needs longer for it; its part in the
//!   kernel is work like the rest. **CPU time** (`runtime`) ends by the thread's own clock.
//! - **Waiting** is a futex of the task's own. Who wakes several tasks makes one call for each, in the Executor's order.
//! - **Sleeping** is that futex with an absolute time, so that the end of the play can end it. The timer in the kernel is
//!   the one of `clock_nanosleep(2)`; it has no slack, unlike rt-app's (50 us).
//! - **Affinity, policy and nice value** are set by the task itself: first of all, and at each change. CPUs that this
//!   process does not have are left out, as in the simulator. A task without CPUs of its own has those of the caller.
//! - **Groups** are control groups (`cgroups.rs`), which tasks join first of all, before the gate. **A user** is the real
//!   one of the task: that is what a scheduler looks at. The effective one stays, so all else goes on as before. A process
//!   whose **session** is not its parent's begins one.
//! - **CriticalSections** go through real locks in the memory of all. A mutex is a futex whose waiters sleep at once.
//! - **Fork** is `clone(2)`. A yield is `sched_yield(2)`.
//!
//! The Executor is one for all tasks, behind a lock that is held for some 100 ns at a time and spun for. Only a task
//! that does not get it for some 20 us, because its holder lost its CPU meanwhile, sleeps for it: a sleep that is not in
//! the workload, counted in [`Played::disturbances`].
//!
//! A play ends when all tasks have ended, after its duration, when [`Stopper::stop`] is called, or when all that are left
//! wait for each other. Tasks see the end by themselves, within 50 us of CPU time; none is left behind. If one of them is
//! killed, all others are as well, and the play is an error (`will.rs`).

mod actor;
mod cgroups;
mod company;
mod error;
mod lenders;
pub mod lock_costs;
mod locks;
mod prepare;
mod process;
mod shared;
mod stack;
mod stage;
#[cfg(test)]
mod tests;
mod will;
mod work;

pub use cgroups::{CgroupError, remove_stale_cgroups};
pub use error::PlayError;
use locks::Locks;
pub use stage::{Running, Stage, Stopper};
pub use work::Calibration;

use ids::{CpuId, Nanos, TaskId};
use measures::Periods;
use workload::{TaskGroup, Workload};

/// How to play.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Overrides the workload's duration.
    pub duration: Option<Nanos>,
    /// All tasks that start at 0 are created first and then released at once; time begins then. Without it time begins
    /// before the first one is created, and each begins when it is there: one sleep and one wakeup less for each.
    pub gate: bool,
    /// For scenarios whose order must be caused, not timed. A task that is about to signal, broadcast, resume or post
    /// spins until somebody waits for that, and whoever wakes a task spins until the kernel has really taken that task
    /// off its CPU. Each time at most for so long; then it goes on and [`TaskPlayed::unsettled`] counts one more.
    pub settle: Option<Nanos>,
    /// Keeps [`Played::log`].
    pub log: bool,
    /// What a nanosecond of work is; `None`: it is measured first, which takes some 16 ms for each CPU.
    pub calibration: Option<Calibration>,
}

impl Default for Options {
    /// The workload's duration, a gate, nothing else.
    fn default() -> Options {
        Options { duration: None, gate: true, settle: None, log: false, calibration: None }
    }
}

/// Why a play ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// All tasks ended.
    Finished,
    /// Its time was over.
    Duration,
    /// Somebody called [`Stopper::stop`].
    Stopped,
    /// The tasks that were left all waited, and nobody was left to wake them.
    Stuck(Vec<Stuck>),
}

/// A task that would have waited for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// Which one.
    pub task: TaskId,
    /// Its name.
    pub name: String,
    /// What it waited for, in words.
    pub waits_for: String,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {} ({}) waits for {}", self.task, self.name, self.waits_for)
    }
}

/// What a play was like.
#[derive(Clone, PartialEq, Debug)]
pub struct Played {
    /// Why it ended.
    pub end: End,
    /// From its beginning to the end of the last task.
    pub elapsed: Nanos,
    /// The unit of work.
    pub calibration: Calibration,
    /// All tasks in the order of their creation: the index is the task's number.
    pub tasks: Vec<TaskPlayed>,
    /// Forks for which the kernel created no thread.
    pub failed_forks: u64,
    /// Changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// How often a task slept for the executor's own lock, or to get storage: a sleep and a wakeup that are not in the
    /// workload.
    pub disturbances: u64,
    /// Operations in the order in which they happened, if that was asked for.
    pub log: Vec<Step>,
    /// The groups of the workload, parents first.
    pub groups: Vec<TaskGroup>,
}

/// One operation of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// When.
    pub time: Nanos,
    /// Who.
    pub task: TaskId,
    /// Index in the script; the length of the script is the exit.
    pub operation: u32,
    /// Where.
    pub cpu: CpuId,
}

/// What one task did. Times count from the play's beginning.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TaskPlayed {
    /// Index of its spec in the workload.
    pub spec: u32,
    /// It played beside others, for whose end the play lasted.
    pub is_beside: bool,
    /// Name of the spec; `comm` has its first 15 bytes.
    pub name: String,
    /// Path of its group.
    pub group: Option<String>,
    /// The thread's number in the kernel.
    pub tid: u32,
    /// When it first ran its script.
    pub started: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// It came to the end of its script.
    pub finished: bool,
    /// Work that it began.
    pub work_asked: Nanos,
    /// Work that it did: the same, but for work that the end of the play cut.
    pub work_done: Nanos,
    /// CPU time since `started`, by the thread's clock.
    pub cpu: Nanos,
    /// How often it gave up its CPU to sleep; one of these may have been at the gate.
    pub voluntary_switches: u64,
    /// How often it lost its CPU to another.
    pub involuntary_switches: u64,
    /// Sleeps that it began.
    pub sleeps: u64,
    /// Timers that were already due when it came to them.
    pub late_timers: u64,
    /// Periods of its timers, if it has any.
    pub periods: Option<Box<Periods>>,
    /// How often it had to wait for another task.
    pub waits: u64,
    /// Tasks that it woke.
    pub wakes: u64,
    /// How often it yielded.
    pub yields: u64,
    /// Tasks that it forked.
    pub forks: u64,
    /// How often it gave up looking for a sleeping waiter ([`Options::settle`]).
    pub unsettled: u64,
}

/// Plays `workload` with real tasks and waits for its end.
///
/// # Errors
/// If the workload cannot be executed here; see [`PlayError`].
pub fn play(workload: &Workload, options: &Options) -> Result<Played, PlayError> {
    let stage = Stage::prepare(workload, options)?;
    Ok(stage.begin(|running| running.join())?)
}
