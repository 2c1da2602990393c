// SPDX-License-Identifier: GPL-2.0-only
//! The one form that every workload takes: tasks with scripts of operations.

use ids::{CpuSet, Nanos, Policy};

/// A mutex by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MutexId(pub u32);
/// A condition variable by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConditionId(pub u32);
/// A barrier by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierId(pub u32);
/// A one-shot signal between two tasks of a recording: posted once, awaited once, in either order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalId(pub u32);
/// A reference for periodic timers (`timer` with `ref` in rt-app).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference(pub u32);

/// Why a sleep of fixed length happened when it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// A timer.
    Timer,
    /// A device.
    Io,
    /// Something outside the recording (a daemon, a kernel thread).
    External,
}

/// One step of a script.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// So much work: nanoseconds on the reference CPU at full speed, user and system part.
    Work {
        /// In user mode.
        user: Nanos,
        /// In the kernel.
        system: Nanos,
    },
    /// So much CPU time, whatever work it does (`runtime` in rt-app).
    CpuTime(Nanos),
    /// Sleep for a time.
    Sleep(Nanos, Sleep),
    /// Sleep until this period of the reference ends; a period already past does not sleep and, unless `absolute`,
    /// restarts the reference at now, as rt-app does.
    Timer {
        /// Which reference.
        reference: Reference,
        /// Length of the period.
        period: Nanos,
        /// Keep the grid even after an overrun (rt-app's `mode: absolute`).
        absolute: bool,
    },
    /// Take a mutex; waits in FIFO order.
    Lock(MutexId),
    /// Give it back.
    Unlock(MutexId),
    /// Release the mutex, wait for the condition, take the mutex again.
    Wait(ConditionId, MutexId),
    /// Wake one waiter of the condition.
    Signal(ConditionId),
    /// Wake all waiters of the condition.
    Broadcast(ConditionId),
    /// Signal the condition and wait for it, atomically (rt-app's `sync`).
    Sync(ConditionId, MutexId),
    /// Wait until all tasks that use the barrier are there.
    Barrier(BarrierId),
    /// Sleep until resumed. A resume that came first is not remembered (rt-app).
    Suspend,
    /// Wake the tasks with this spec index from `Suspend`.
    Resume(Vec<u32>),
    /// Post a signal.
    Post(SignalId),
    /// Wait for a signal, unless it is posted already.
    Await(SignalId),
    /// `sched_yield(2)`.
    Yield,
    /// Start the task of this spec index (a new instance of it each time).
    Fork(u32),
    /// From here on: these CPUs, this policy and nice value, where given (phases of rt-app).
    Change {
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// Repeat the ops from index `from` up to here, `times` times in all; `None`: for ever.
    Repeat {
        /// First op of the body.
        from: u32,
        /// How often the body runs in all.
        times: Option<u64>,
    },
}

/// When a task begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time, created from outside.
    At(Nanos),
    /// Only when another task forks it.
    Forked,
}

/// A task and what it does.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSpec {
    /// Name, as `comm` would show it (any length).
    pub name: String,
    /// Command line, if recorded.
    pub command: Option<String>,
    /// When it begins.
    pub start: Start,
    /// Policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Where it may run; `None`: everywhere.
    pub cpus: Option<CpuSet>,
    /// Largest resident set, in bytes, if recorded; 0 if not.
    pub peak_rss_bytes: u64,
    /// What it does; it exits after the last op.
    pub script: Vec<Op>,
}

/// A workload in its one form.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Name of the file without directory and extension.
    pub name: String,
    /// After this time the run ends, whatever is left; `None`: when the last task has ended.
    pub duration: Option<Nanos>,
    /// Its tasks.
    pub tasks: Vec<TaskSpec>,
    /// How many mutexes, conditions, signals and references the scripts use.
    pub mutexes: u32,
    /// See above.
    pub conditions: u32,
    /// Number of tasks that each barrier waits for.
    pub barriers: Vec<u32>,
    /// See above.
    pub signals: u32,
    /// See above.
    pub references: u32,
}

/// Why a workload was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct WorkloadError {
    /// File, and line or path in the document.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl Workload {
    /// From rt-app JSON (the relaxed form is accepted: comments, repeated keys, trailing commas).
    pub fn from_rt_app(name: &str, text: &str) -> Result<Workload, WorkloadError> {
        todo!("{name} {text}")
    }

    /// Whether every task that starts by itself ends by itself.
    pub fn is_finite(&self) -> bool {
        todo!()
    }
}
