// SPDX-License-Identifier: GPL-2.0-only
//! The records of a timeline: phases and queue stays of tasks, run intervals of CPUs.

use crate::recorder::TaskEvent;
use crate::wait::gaps;
use event_log::{BlockCause, CallbackSite, FairDecision, KickFlags, LockKind, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::VecDeque;

/// A task and its history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Properties at its creation.
    pub info: TaskInfo,
    /// Time of its creation.
    pub created: Nanos,
    /// Time of its exit, if it exited.
    pub ended: Option<Nanos>,
    /// Affinity masks with the time from which each applied, in order; at least one.
    pub allowed: Vec<(Nanos, CpuSet)>,
    /// Phases in order, without gaps.
    pub phases: Vec<Phase>,
    /// Queue stays in order.
    pub queue_stays: Vec<QueueStay>,
    /// Values that callbacks wrote into the scheduler's storage for the task; only the most recent ones, the latest
    /// last.
    pub written: VecDeque<(u64, CallbackSite)>,
    /// CPUs chosen for the task, in order.
    pub choices: Vec<Choice>,
    /// Waits for other tasks, in order.
    pub task_waits: Vec<TaskWait>,
    /// Decisions of the fair class about the task while it waited, in order.
    pub fair: Vec<(Nanos, FairDecision)>,
    /// Most recent events in order, at most [`crate::MAX_LAST_EVENTS`].
    pub last: VecDeque<TaskEvent>,
}

impl Task {
    /// Affinity mask at `time`.
    pub fn allowed_at(&self, time: Nanos) -> &CpuSet {
        let known = self.allowed.partition_point(|(from, _)| *from <= time);
        &self.allowed[known.saturating_sub(1)].1
    }

    /// The callback that last wrote this value.
    pub fn writer(&self, value: u64) -> Option<CallbackSite> {
        self.written.iter().rev().find(|(written, _)| *written == value).map(|(_, site)| *site)
    }

    /// Index of the last phase that had begun at `time`. `None` before the creation of the task and after its exit.
    pub fn phase_at(&self, time: Nanos) -> Option<usize> {
        let begun = self.phases.partition_point(|phase| phase.from <= time);
        let index = begun.checked_sub(1)?;
        self.ended.is_none_or(|ended| time < ended).then_some(index)
    }

    /// Queue stays that overlap with this period, in order, including those of length zero within it or at its start.
    pub fn queue_stays_within(&self, from: Nanos, to: Nanos) -> &[QueueStay] {
        // A task is in one queue at a time, so the ends are sorted like the starts.
        let first = self.queue_stays.partition_point(|stay| stay.to < from || stay.to == from && stay.from < from);
        let end = self.queue_stays.partition_point(|stay| stay.from < to);
        &self.queue_stays[first.min(end)..end]
    }
}

/// A phase of a task's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Start of the phase.
    pub from: Nanos,
    /// End; the end of the run if nothing ended the phase.
    pub to: Nanos,
    /// Activity of the task.
    pub activity: Activity,
}

impl Phase {
    /// Length of the phase.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// Activity of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// The task runs.
    Runs {
        /// CPU on which it runs.
        cpu: CpuId,
    },
    /// The task is runnable and waits for a CPU.
    Waits {
        /// Why it waits.
        reason: WaitReason,
    },
    /// The task is not runnable: new or asleep.
    Sleeps {
        /// Cause of the sleep; `None` if the task is new or the cause unknown.
        cause: Option<BlockCause>,
    },
}

/// Reason that a task waits for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitReason {
    /// The task was woken.
    Woken {
        /// Waker.
        waker: Waker,
        /// CPU on which the wakeup happened.
        on: CpuId,
        /// CPU on whose runqueue it was put.
        target: CpuId,
    },
    /// The task lost its CPU.
    Lost {
        /// Reason of the switch.
        reason: SwitchReason,
        /// CPU that it lost.
        cpu: CpuId,
    },
}

/// A stay of a task in a queue, or in the scheduler's own data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueStay {
    /// The queue; `None` if the scheduler's `enqueue` inserted the task into none.
    pub queue: Option<DsqId>,
    /// Start of the stay.
    pub from: Nanos,
    /// End; the end of the run if nothing ended the stay.
    pub to: Nanos,
    /// Virtual time in the queue; 0 in a FIFO.
    pub key: u64,
    /// Slice that the task was given, in nanoseconds.
    pub slice_ns: u64,
    /// Number of tasks ahead at the insert; `None` if unknown.
    pub ahead: Option<u32>,
    /// Number of tasks in the queue after the insert; 0 if unknown.
    pub queued: u32,
    /// Callback and line of the insert.
    pub site: CallbackSite,
    /// Callback that computed the virtual time, if known.
    pub key_by: Option<CallbackSite>,
    /// Callback that computed the slice, if known.
    pub slice_by: Option<CallbackSite>,
    /// How the stay ended.
    pub departure: Departure,
}

/// How a stay in a queue ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// The task was still queued at the end of the run.
    StillQueued,
    /// The task got a CPU.
    Ran,
    /// The kernel moved the task to a CPU's local queue on request of the scheduler.
    Dispatched {
        /// CPU of the local queue.
        to: CpuId,
        /// Callback and line of the request.
        site: CallbackSite,
    },
    /// The task was moved to another queue.
    Moved,
}

/// A choice of a CPU for a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Time of the choice.
    pub time: Nanos,
    /// Chosen CPU.
    pub cpu: CpuId,
    /// Callback and line of the choice.
    pub site: CallbackSite,
}

/// A wait of a task for another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskWait {
    /// Start of the wait.
    pub from: Nanos,
    /// End, if known.
    pub to: Option<Nanos>,
    /// Object, such as `mutex m`.
    pub object: String,
    /// Task that held the lock when the wait began, if known.
    pub holder: Option<TaskId>,
    /// Whether the task waits for a lock.
    pub lock: bool,
    /// Whether the task spins on its CPU.
    pub spins: bool,
}

/// History of a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// Run intervals in order.
    pub run_intervals: Vec<RunInterval>,
    /// Calls of the scheduler's `dispatch` for this CPU, in order.
    pub dispatches: Vec<Dispatched>,
    /// Kicks of this CPU, in order.
    pub kicks: Vec<Kick>,
    /// Waits for locks of the kernel or the scheduler, in order: start of the wait, lock, length.
    pub lock_waits: Vec<(Nanos, LockKind, Nanos)>,
    /// Times at which it became idle and skipped newidle balancing, with the success ratio in 1/1024, in order.
    pub skipped_searches: Vec<(Nanos, u32)>,
    /// Periods in which the CPU was offline, in order.
    pub offline: Vec<(Nanos, Nanos)>,
    /// Periods in which it ran tasks outside the run, in order; only in real runs.
    pub others: Vec<(Nanos, Nanos)>,
}

/// A period in which a task runs on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunInterval {
    /// The task.
    pub task: TaskId,
    /// Start of the run interval.
    pub from: Nanos,
    /// End; the end of the run if nothing ended the interval.
    pub to: Nanos,
    /// Reason of its end; `None` if it did not end.
    pub reason: Option<SwitchReason>,
}

/// A call of the scheduler's `dispatch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatched {
    /// Time of the call.
    pub time: Nanos,
    /// Whether the CPU has a task to run now.
    pub found: bool,
    /// Whether the previous task of the CPU continues.
    pub kept: bool,
}

/// A request to a CPU to reschedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kick {
    /// Time of the kick.
    pub time: Nanos,
    /// CPU that sent the kick.
    pub by: CpuId,
    /// Kind of kick.
    pub flags: KickFlags,
    /// Callback and line of the kick.
    pub site: CallbackSite,
}

impl Cpu {
    /// Run intervals that overlap with this period.
    pub fn run_intervals_within(&self, from: Nanos, to: Nanos) -> &[RunInterval] {
        let first = self.run_intervals.partition_point(|interval| interval.to <= from);
        let end = self.run_intervals.partition_point(|interval| interval.from < to);
        &self.run_intervals[first.min(end)..end]
    }

    /// Run interval at `time`.
    pub fn run_interval_at(&self, time: Nanos) -> Option<&RunInterval> {
        let begun = self.run_intervals.partition_point(|interval| interval.from <= time);
        self.run_intervals[..begun].last().filter(|interval| time < interval.to)
    }

    /// Periods with tasks outside the run that overlap with this period.
    pub fn others_within(&self, from: Nanos, to: Nanos) -> &[(Nanos, Nanos)] {
        let first = self.others.partition_point(|&(_, ends)| ends <= from);
        let end = self.others.partition_point(|&(begins, _)| begins < to);
        &self.others[first.min(end)..end]
    }

    /// Periods between `from` and `to` in which the CPU was online and idle, in order.
    pub fn idle_within(&self, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
        let run_intervals = self.run_intervals_within(from, to).iter().map(|interval| (interval.from, interval.to));
        let others = self.others_within(from, to).iter().copied();
        let busy = run_intervals.chain(others).chain(self.offline.iter().copied()).collect();
        gaps(busy, from, to)
    }
}
