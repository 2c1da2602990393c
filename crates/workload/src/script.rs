// SPDX-License-Identifier: GPL-2.0-only
//! The one form that every workload takes: tasks with scripts of operations.

use crate::composition::Part;
use crate::groups::TaskGroup;
use crate::locks::{CriticalSections, SharedLock};
use crate::window::Window;
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
/// A reference for periodic timers (`timer` with `ref` in rt-app). It begins when its first user starts: at the time of
/// [`Start::At`], or with its part, at 0, for a forked task (rt-app counts all of them from the start of its first thread).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference(pub u32);

impl Reference {
    /// Set in references that each started task has for itself (rt-app's `unique`); the other bits number them within
    /// their task. Without it, all tasks share the reference.
    pub const PRIVATE: u32 = 1 << 31;

    /// The number among the private references of its task, if it is one.
    pub fn private(self) -> Option<u32> {
        (self.0 & Self::PRIVATE != 0).then_some(self.0 & !Self::PRIVATE)
    }
}

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

/// One step of a script. There are millions of the frequent kinds, so the rare ones have what is long elsewhere.
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
    /// The same, looking all the time whether they are: the CPU is used for that.
    SpinBarrier(BarrierId),
    /// Sleep until resumed. A resume that came first is not remembered (rt-app).
    Suspend,
    /// Wake the tasks with this spec index from `Suspend`.
    Resume(Box<[u32]>),
    /// Post a signal.
    Post(SignalId),
    /// Wait for a signal, unless it is posted already.
    Await(SignalId),
    /// Pass through a lock in shared memory.
    CriticalSections(Box<CriticalSections>),
    /// `sched_yield(2)`.
    Yield,
    /// Start the task of this spec index (a new instance of it each time).
    Fork(u32),
    /// Wait until at most so many of the task's own children live, as `wait(2)` in a loop does.
    Children(u32),
    /// From here on: these CPUs, this policy and nice value, where given (phases of rt-app).
    Change {
        /// New affinity.
        cpus: Option<Box<CpuSet>>,
        /// New policy and nice value.
        policy: Option<Box<(Policy, i8)>>,
    },
    /// The same for another task: for all that live of this spec index (`taskset -p`, `renice`).
    ChangeOf {
        /// Whose.
        spec: u32,
        /// New affinity.
        cpus: Option<Box<CpuSet>>,
        /// New policy and nice value.
        policy: Option<Box<(Policy, i8)>>,
    },
    /// The reference begins anew: now.
    Anchor(Reference),
    /// Sleep until a timer with this interval, which began with the reference, expires next. If it has expired since it was
    /// last waited for, once or more often, that does not sleep (`timerfd`, `setitimer`).
    Interval {
        /// When it began, or expired last.
        reference: Reference,
        /// Length of the interval.
        period: Nanos,
    },
    /// Work in user mode until so long after the reference, however much that is: who does this looks at the clock, or
    /// waits for an alarm, while it works.
    WorkUntil {
        /// The time that is waited for, counted from here.
        reference: Reference,
        /// How long after it.
        after: Nanos,
    },
    /// Work in user mode until the signal is posted, however much that is: another task ends this, by a signal to the
    /// process that works.
    WorkUntilPosted(SignalId),
    /// The wait that follows would have ended after this time, had nobody ended it before. For information: what its task
    /// would have done then is not known.
    Timeout(Nanos),
    /// Repeat the ops from index `from` up to here, `times` times in all; `None`: for ever.
    Repeat {
        /// First op of the body.
        from: u32,
        /// How often the body runs in all.
        times: Option<u64>,
    },
}

impl Op {
    /// The time that it counts from a reference; 0 if it counts none.
    pub(crate) fn period(&self) -> Nanos {
        match *self {
            Op::Timer { period, .. } | Op::Interval { period, .. } => period,
            Op::WorkUntil { after, .. } => after,
            _ => Nanos::ZERO,
        }
    }
}

/// When a task begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time, created from outside.
    At(Nanos),
    /// Only when another task forks it.
    Forked,
}

/// Whose a task is, as far as that is known. Numbers are those of the machine that was recorded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Who {
    /// Its process: the number that all its threads share. A task that is forked by one with the same number is a thread.
    pub tgid: Option<u32>,
    /// Its session: the number of the process that began it (`setsid(2)`).
    pub session: Option<u32>,
    /// Its user.
    pub uid: Option<u32>,
    /// Its control group, as a path from the root of the hierarchy (`/`).
    pub group: Option<String>,
    /// Its process by name, where the tasks of a workload were put into some. A recording has a number.
    pub process: Option<String>,
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
    /// Where it may run; `None`: everywhere. May name CPUs that a machine does not have: the driver intersects.
    pub cpus: Option<CpuSet>,
    /// Largest resident set, in bytes, if recorded; 0 if not.
    pub peak_rss_bytes: u64,
    /// Its process, session, user and group.
    pub who: Who,
    /// How many of its requests may be late; `None` if nobody counts them.
    pub window: Option<Window>,
    /// The task that works for it while it sleeps, by spec index; `None` if it waits for nobody in particular.
    pub lends: Option<u32>,
    /// What it does; it exits after the last op.
    pub script: Vec<Op>,
}

/// A workload in its one form.
#[derive(Clone, PartialEq, Debug, Default)]
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
    /// See above; without the private ones.
    pub references: u32,
    /// Locks in shared memory.
    pub locks: Vec<SharedLock>,
    /// Groups that are described. Tasks may be in others, which have what is usual ([`Workload::all_groups`]).
    pub groups: Vec<TaskGroup>,
    /// The groups of its tasks are to be groups of the machine that runs it. Those of a recording only say where its tasks
    /// were: nothing is known of them, and one of them is all that most recordings have.
    pub is_grouped: bool,
    /// What it is composed of, in the order of the tasks; empty if it comes from one file.
    pub parts: Vec<Part>,
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
    /// Whether a run of it ends by itself: no task that starts by itself, and none that it forks, repeats anything for ever;
    /// or that is so of some part, for which the others are played. A task may still wait for ever, for a lock that nobody
    /// releases for example: that depends on the run.
    pub fn is_finite(&self) -> bool {
        if !self.parts.is_empty() {
            return self.parts.iter().any(|part| part.is_finite);
        }
        let endless = |op: &Op| matches!(op, Op::Repeat { times: None, .. });
        let mut reached: Vec<bool> = self.tasks.iter().map(|task| task.start != Start::Forked).collect();
        let mut todo: Vec<usize> = (0..self.tasks.len()).filter(|&task| reached[task]).collect();
        while let Some(task) = todo.pop() {
            for op in &self.tasks[task].script {
                if endless(op) {
                    return false;
                }
                if let &Op::Fork(child) = op
                    && !std::mem::replace(&mut reached[child as usize], true)
                {
                    todo.push(child as usize);
                }
            }
        }
        true
    }

    /// From the contents of a file: a recording if it begins like one, else rt-app JSON.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Workload, WorkloadError> {
        if crate::Recording::is_recording(bytes) {
            return crate::Recording::from_bytes(name, bytes).map(|recording| recording.workload);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| WorkloadError {
            place: format!("{name}: byte {}", error.valid_up_to()),
            problem: "neither UTF-8 nor the first bytes of a recording; expected rt-app JSON or a recording".into(),
        })?;
        Workload::from_rt_app(name, text)
    }
}

/// Name of a file without directory and extension.
pub(crate) fn stem(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map_or(file, |(stem, _)| if stem.is_empty() { file } else { stem })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of a million switches has some millions of them.
    #[test]
    fn an_operation_is_small() {
        assert!(size_of::<Op>() <= 24, "{} bytes", size_of::<Op>());
    }
}
