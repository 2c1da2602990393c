// SPDX-License-Identifier: GPL-2.0-only
//! Workload representation: tasks with scripts of operations.

use crate::composition::Part;
use crate::groups::TaskGroup;
use crate::io::{DeviceId, DiskId, Io, NetworkCall, Submission};
use crate::locks::{CriticalSections, SharedLock};
use crate::memory::MemoryUse;
use crate::requests::{Source, SourceId};
use crate::window::Window;
use ids::{CpuSet, Nanos, Policy};

/// Index of a mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MutexId(pub u32);
/// A mutex.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MutexSpec {
    /// Name; empty if unknown.
    pub name: String,
    /// Priority inheritance: its holder runs with the class and priority of the most important waiter
    /// (`PTHREAD_PRIO_INHERIT`).
    pub inherits_priority: bool,
}

impl MutexSpec {
    /// Mutexes without names.
    pub fn unnamed(count: usize) -> Vec<MutexSpec> {
        vec![MutexSpec::default(); count]
    }
}

/// Index of a condition variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConditionId(pub u32);
/// Index of a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierId(pub u32);
/// Index of a one-shot signal between two tasks of a recording: posted once, awaited once, in either order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalId(pub u32);
/// Index of a reference time of periodic timers (`timer` with `ref` in rt-app). It is initialized when its first user
/// starts: to the time of [`Start::At`], for a forked task to the start of its part (rt-app counts all from the start
/// of its first thread).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference(pub u32);

impl Reference {
    /// Flag of references private to each started task (rt-app's `unique`); the other bits number them within the
    /// task. Other references are shared by all tasks.
    pub const PRIVATE: u32 = 1 << 31;

    /// Number among the private references of its task, if it is private.
    pub fn private(self) -> Option<u32> {
        (self.0 & Self::PRIVATE != 0).then_some(self.0 & !Self::PRIVATE)
    }
}

/// Recorded cause of a sleep of fixed length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// A timer.
    Timer,
    /// A device.
    Io,
    /// A cause outside the recording, such as a daemon or kthread.
    External,
}

/// A step of a script. There are millions of the common kinds, so rare kinds keep long data in boxes.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Work, in nanoseconds on the reference CPU at full speed.
    Work {
        /// User-mode part.
        user: Nanos,
        /// Kernel part.
        system: Nanos,
    },
    /// CPU time, however much work that is (`runtime` in rt-app).
    CpuTime(Nanos),
    /// Sleep for a time.
    Sleep(Nanos, Sleep),
    /// Sleep until the end of this period of the reference. If the end has passed, the task does not sleep and,
    /// unless `absolute`, the reference is reset to now, as in rt-app.
    Timer {
        /// Timer reference.
        reference: Reference,
        /// Period length.
        period: Nanos,
        /// Keep the phase after an overrun (rt-app's `mode: absolute`).
        absolute: bool,
    },
    /// Lock a mutex; waiters are served in FIFO order.
    Lock(MutexId),
    /// Unlock a mutex.
    Unlock(MutexId),
    /// Release the mutex, wait for the condition, reacquire the mutex.
    Wait(ConditionId, MutexId),
    /// Wake one waiter of the condition.
    Signal(ConditionId),
    /// Wake all waiters of the condition.
    Broadcast(ConditionId),
    /// Signal the condition and wait for it, atomically (rt-app's `sync`).
    Sync(ConditionId, MutexId),
    /// Wait until all participants of the barrier have arrived.
    Barrier(BarrierId),
    /// As `Barrier`, but spinning.
    SpinBarrier(BarrierId),
    /// Sleep until resumed. An earlier resume is lost, as in rt-app.
    Suspend,
    /// Wake the tasks of these specs from `Suspend`.
    Resume(Box<[u32]>),
    /// Post a signal.
    Post(SignalId),
    /// Wait for a signal, unless it is already posted.
    Await(SignalId),
    /// Complete the current request, if there is one, and take the next of this source; sleep until it arrives. After
    /// the last one the task exits.
    TakeRequest(SourceId),
    /// The work of the current request of this source, in user mode.
    Serve(SourceId),
    /// A request to a disk, for which the task waits.
    Io(Box<Io>),
    /// Wait until the pages of this disk that the task made dirty are written (`fsync(2)`).
    Fsync(DiskId),
    /// Shrink the address space of the process by this number of pages (`munmap(2)`, `madvise(2)`).
    Unmap(u32),
    /// A call over a network, for whose answer the task waits.
    Call(Box<NetworkCall>),
    /// Submit a recorded request to a device and continue. Nothing happens if the machine does not have the device.
    Submit(Box<Submission>),
    /// Wait until at most `most` requests of the task to this device are in progress. If the machine does not have the
    /// device, the task sleeps for the recorded time instead.
    AwaitRequests {
        /// The device.
        device: DeviceId,
        /// Number of its requests that may be in progress at the end of the wait.
        most: u32,
        /// Recorded length of the wait.
        slept: Nanos,
    },
    /// Critical sections of a lock in shared memory.
    CriticalSections(Box<CriticalSections>),
    /// `sched_yield(2)`.
    Yield,
    /// Start a new instance of this spec as a child.
    Fork(u32),
    /// Wait until at most this number of the task's children are alive, like `wait(2)` in a loop.
    Children(u32),
    /// Change the task's own CPUs, policy and nice value, where given (phases of rt-app).
    Change {
        /// New affinity.
        cpus: Option<Box<CpuSet>>,
        /// New policy and nice value.
        policy: Option<Box<(Policy, i8)>>,
    },
    /// Change CPUs, policy and nice value of all live tasks of another spec (`taskset -p`, `renice`).
    ChangeOf {
        /// Spec of the tasks.
        spec: u32,
        /// New affinity.
        cpus: Option<Box<CpuSet>>,
        /// New policy and nice value.
        policy: Option<Box<(Policy, i8)>>,
    },
    /// Reset the reference to now.
    Anchor(Reference),
    /// Sleep until the next expiry of an interval timer that started at the reference. If it has expired since the
    /// last wait, once or several times, the task does not sleep (`timerfd`, `setitimer`).
    Interval {
        /// Start or last expiry of the timer.
        reference: Reference,
        /// Interval length.
        period: Nanos,
    },
    /// Work in user mode until a time: the task polls the clock, or works until an alarm.
    WorkUntil {
        /// Reference from which the time is counted.
        reference: Reference,
        /// Time after the reference at which the work ends.
        after: Nanos,
    },
    /// Work in user mode until the signal is posted: another task stops the work by a signal to its process.
    WorkUntilPosted(SignalId),
    /// Timeout of the next wait, had it not been woken earlier. Informational: what the task would have done is
    /// unknown.
    Timeout(Nanos),
    /// Repeat the operations from index `from` to here, `times` times in total; `None`: endlessly.
    Repeat {
        /// First operation of the loop.
        from: u32,
        /// Total number of iterations.
        times: Option<u64>,
    },
}

impl Op {
    /// Time the operation counts from a reference; 0 if none.
    pub(crate) fn period(&self) -> Nanos {
        match *self {
            Op::Timer { period, .. } | Op::Interval { period, .. } => period,
            Op::WorkUntil { after, .. } => after,
            _ => Nanos::ZERO,
        }
    }
}

/// Start of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time, created externally.
    At(Nanos),
    /// When another task forks it.
    Forked,
}

/// Identity of a task, as far as known. Numbers are those of the recorded machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Who {
    /// Thread-group ID. A task forked by one with the same number is a thread.
    pub tgid: Option<u32>,
    /// Session ID (`setsid(2)`).
    pub session: Option<u32>,
    /// User ID.
    pub uid: Option<u32>,
    /// Cgroup, as a path from the root of the hierarchy (`/`).
    pub group: Option<String>,
    /// Process name, if the workload assigns tasks to processes. A recording has a number instead.
    pub process: Option<String>,
}

/// A task and its script.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSpec {
    /// Name, as in `comm` but of any length.
    pub name: String,
    /// Recorded command line.
    pub command: Option<String>,
    /// Start of the task.
    pub start: Start,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Affinity; `None`: all CPUs. May include CPUs the machine does not have: the driver intersects.
    pub cpus: Option<CpuSet>,
    /// Recorded peak RSS in bytes; 0 if unknown.
    pub peak_rss_bytes: u64,
    /// Process, session, user and cgroup.
    pub who: Who,
    /// Number of requests that may be late; `None` if requests are not tracked.
    pub window: Option<Window>,
    /// Use of memory; `None` if the workload does not describe it.
    pub memory: Option<Box<MemoryUse>>,
    /// Spec of the task that works for this one while it sleeps, for ticket transfers.
    pub lends: Option<u32>,
    /// Operations; the task exits after the last one.
    pub script: Vec<Op>,
}

/// A workload.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// File name without directory and extension.
    pub name: String,
    /// Time after which the run ends; `None`: when all tasks have exited.
    pub duration: Option<Nanos>,
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// Mutexes used by the scripts.
    pub mutexes: Vec<MutexSpec>,
    /// Number of condition variables.
    pub conditions: u32,
    /// Number of participants of each barrier.
    pub barriers: Vec<u32>,
    /// Number of signals.
    pub signals: u32,
    /// Number of shared timer references.
    pub references: u32,
    /// Locks in shared memory.
    pub locks: Vec<SharedLock>,
    /// Names of the disks that its tasks use; an empty name is the first disk of the machine.
    pub disks: Vec<String>,
    /// Names of the networks that its tasks use; an empty name is the first network of the machine.
    pub networks: Vec<String>,
    /// Names of the block devices to which recorded tasks submitted requests. Unlike disks, a machine need not have them.
    pub devices: Vec<String>,
    /// Sources of requests.
    pub sources: Vec<Source>,
    /// Largest exit latency of idle states that its tasks permit while they exist, as a program does that keeps
    /// `/dev/cpu_dma_latency` open (the kernel's PM QoS). `None`: any.
    pub idle_exit_limit: Option<Nanos>,
    /// Described cgroups. Tasks may be in others, which have default attributes ([`Workload::all_groups`]).
    pub groups: Vec<TaskGroup>,
    /// Whether cgroups are created on the machine that runs the workload. False for recordings, whose cgroup
    /// attributes are unknown.
    pub is_grouped: bool,
    /// Checks that recordings in it did not pass, a sentence each, for every result of this workload.
    pub caveats: Vec<String>,
    /// Parts of a composition, in the order of the tasks; empty for a single workload.
    pub parts: Vec<Part>,
}

/// Error of loading or validating a workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct WorkloadError {
    /// File, and line or path in the document.
    pub place: String,
    /// What was found and what was expected.
    pub problem: String,
}

impl Workload {
    /// Returns whether a run ends by itself: no task that is started or forked has an endless loop. For a
    /// composition, this must hold for at least one part. A task may still wait forever, for example for a lock that
    /// is never released; that depends on the run.
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

    /// Describes a mutex, by name if it has one.
    pub fn mutex_name(&self, mutex: MutexId) -> String {
        match self.mutexes.get(mutex.0 as usize) {
            Some(MutexSpec { name, .. }) if !name.is_empty() => format!("mutex {name}"),
            _ => format!("mutex {}", mutex.0),
        }
    }

    /// Whether it describes the use of memory of any task. Effects of memory act on no other workloads.
    pub fn uses_memory(&self) -> bool {
        self.tasks.iter().any(|task| task.memory.is_some())
    }

    /// Whether any task shrinks its address space. The effect of TLBs acts on no other workloads.
    pub fn unmaps(&self) -> bool {
        self.tasks.iter().flat_map(|task| &task.script).any(|op| matches!(op, Op::Unmap(_)))
    }

    /// Whether any task uses the page cache. Its effect acts on no other workloads.
    pub fn uses_page_cache(&self) -> bool {
        let cached = |op: &Op| matches!(op, Op::Io(io) if io.cached);
        self.tasks.iter().flat_map(|task| &task.script).any(cached)
    }

    /// Parses a file: a recording if it has the magic, else rt-app JSON.
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

/// File name without directory and extension.
pub(crate) fn stem(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map_or(file, |(stem, _)| if stem.is_empty() { file } else { stem })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of a million context switches has millions of operations.
    #[test]
    fn operation_is_at_most_24_bytes() {
        assert!(size_of::<Op>() <= 24, "{} bytes", size_of::<Op>());
    }
}
