// SPDX-License-Identifier: GPL-2.0-only
//! The rows of a timeline: what a task did, where it stood, whom a CPU ran.

use crate::recorder::Happening;
use event_log::{BlockCause, CallbackSite, KickFlags, LockKind, SwitchReason, TaskInfo, Waker};
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::VecDeque;

/// A task and its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// As it was announced.
    pub info: TaskInfo,
    /// When.
    pub born: Nanos,
    /// When it ended, if it did.
    pub ended: Option<Nanos>,
    /// Where it was allowed from which time on, in order; at least one.
    pub allowed: Vec<(Nanos, CpuSet)>,
    /// What it did, in order and without gaps.
    pub phases: Vec<Phase>,
    /// Where it stood, in order.
    pub stands: Vec<Stand>,
    /// Numbers that callbacks wrote into what the scheduler keeps for it, the latest last; the last few alone.
    pub written: VecDeque<(u64, CallbackSite)>,
    /// CPUs that were chosen for it, in order.
    pub choices: Vec<Choice>,
    /// What it waited for of other tasks, in order.
    pub words: Vec<Words>,
    /// Its last events, at most [`crate::LAST`], in order.
    pub last: VecDeque<Happening>,
}

impl Task {
    /// Where it was allowed at `time`.
    pub fn allowed_at(&self, time: Nanos) -> &CpuSet {
        let known = self.allowed.partition_point(|(from, _)| *from <= time);
        &self.allowed[known.saturating_sub(1)].1
    }

    /// The callback that wrote this number last.
    pub fn writer(&self, value: u64) -> Option<CallbackSite> {
        self.written.iter().rev().find(|(written, _)| *written == value).map(|(_, site)| *site)
    }

    /// Index of the phase in which it was at `time`: the last one that had begun. `None` before its birth, and from its
    /// end on.
    pub fn phase_at(&self, time: Nanos) -> Option<usize> {
        let begun = self.phases.partition_point(|phase| phase.from <= time);
        let index = begun.checked_sub(1)?;
        self.ended.is_none_or(|ended| time < ended).then_some(index)
    }

    /// Where it stood in this time, in order: what began before its end and ended after its beginning, or both at it.
    pub fn stands_within(&self, from: Nanos, to: Nanos) -> &[Stand] {
        // A task is in one queue at a time, so ends are in order as beginnings are.
        let first = self.stands.partition_point(|stand| stand.to < from || stand.to == from && stand.from < from);
        let end = self.stands.partition_point(|stand| stand.from < to);
        &self.stands[first.min(end)..end]
    }
}

/// A part of a task's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phase {
    /// From when.
    pub from: Nanos,
    /// Until when; the end of the run if nothing ended it.
    pub to: Nanos,
    /// What it did.
    pub what: What,
}

impl Phase {
    /// How long it was.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It has this CPU.
    Runs {
        /// Which.
        cpu: CpuId,
    },
    /// It could run and has no CPU.
    Waits {
        /// Since it was woken, or since it lost its CPU.
        why: Why,
    },
    /// It is not runnable: new, or asleep.
    Sleeps {
        /// What it waits for; `None`: it is new, or that is not known.
        cause: Option<BlockCause>,
    },
}

/// Why a task waits for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It was woken.
    Woken {
        /// By whom.
        waker: Waker,
        /// On this CPU.
        on: CpuId,
        /// It was put onto the runqueue of this CPU.
        target: CpuId,
    },
    /// It lost its CPU.
    Lost {
        /// How.
        reason: SwitchReason,
        /// Which.
        cpu: CpuId,
    },
}

/// A stay in a queue, or in the scheduler's own hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stand {
    /// Which queue; `None`: the scheduler's `enqueue` put it into none.
    pub queue: Option<DsqId>,
    /// From when.
    pub from: Nanos,
    /// Until when; the end of the run if nothing ended it.
    pub to: Nanos,
    /// Its virtual time there; 0 in a FIFO.
    pub key: u64,
    /// The slice that it was given, in nanoseconds.
    pub slice_ns: u64,
    /// How many stood before it when it came; `None`: not known.
    pub ahead: Option<u32>,
    /// How many were there then, itself among them; 0: not known.
    pub queued: u32,
    /// Which callback and line put it there.
    pub site: CallbackSite,
    /// Which callback had computed its virtual time, if that is known.
    pub key_by: Option<CallbackSite>,
    /// Which callback had computed its slice, if that is known.
    pub slice_by: Option<CallbackSite>,
    /// How it left.
    pub departure: Departure,
}

/// How a task left a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It did not.
    Stands,
    /// It got a CPU.
    Ran,
    /// The kernel took it to a CPU's local queue because the scheduler asked for that.
    Dispatched {
        /// Which CPU.
        to: CpuId,
        /// Which callback and line asked.
        site: CallbackSite,
    },
    /// It was put somewhere else.
    Moved,
}

/// A CPU was chosen for a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// When.
    pub time: Nanos,
    /// Which.
    pub cpu: CpuId,
    /// Which callback and line did.
    pub site: CallbackSite,
}

/// What a task waited for of another one, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// From when.
    pub from: Nanos,
    /// Until it had what it waited for, if that is known.
    pub to: Option<Nanos>,
    /// `mutex 0, which task 3 holds`.
    pub what: String,
    /// It is a lock.
    pub lock: bool,
    /// It kept its CPU and polled.
    pub spins: bool,
}

/// What happened on a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// Whom it ran, in order.
    pub stints: Vec<Stint>,
    /// When the scheduler's `dispatch` was called for it, in order.
    pub dispatches: Vec<Dispatched>,
    /// When it was kicked, in order.
    pub kicks: Vec<Kick>,
    /// When it waited for locks of the kernel or the scheduler, in order: since when, which, how long.
    pub lock_waits: Vec<(Nanos, LockKind, Nanos)>,
    /// When it was not online, in order.
    pub offline: Vec<(Nanos, Nanos)>,
    /// When it ran tasks that are not the run's, in order; only real runs have such.
    pub others: Vec<(Nanos, Nanos)>,
}

/// A task has a CPU for some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stint {
    /// Who.
    pub task: TaskId,
    /// From when.
    pub from: Nanos,
    /// Until when; the end of the run if nothing ended it.
    pub to: Nanos,
    /// Why it ended; `None`: it did not.
    pub reason: Option<SwitchReason>,
}

/// A call of the scheduler's `dispatch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatched {
    /// When.
    pub time: Nanos,
    /// Whether the CPU has something to run now.
    pub found: bool,
    /// Whether the task that had the CPU goes on.
    pub kept: bool,
}

/// Somebody asked a CPU to reschedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kick {
    /// When.
    pub time: Nanos,
    /// From which CPU.
    pub by: CpuId,
    /// How.
    pub flags: KickFlags,
    /// Which callback and line did.
    pub site: CallbackSite,
}

impl Cpu {
    /// The stints that have a part of this time.
    pub fn stints_within(&self, from: Nanos, to: Nanos) -> &[Stint] {
        let first = self.stints.partition_point(|stint| stint.to <= from);
        let end = self.stints.partition_point(|stint| stint.from < to);
        &self.stints[first.min(end)..end]
    }

    /// Whom it ran at `time`.
    pub fn stint_at(&self, time: Nanos) -> Option<&Stint> {
        let begun = self.stints.partition_point(|stint| stint.from <= time);
        self.stints[..begun].last().filter(|stint| time < stint.to)
    }

    /// The times of others that have a part of this time.
    pub fn others_within(&self, from: Nanos, to: Nanos) -> &[(Nanos, Nanos)] {
        let first = self.others.partition_point(|&(_, ends)| ends <= from);
        let end = self.others.partition_point(|&(begins, _)| begins < to);
        &self.others[first.min(end)..end]
    }

    /// The times between `from` and `to` in which it was online and ran nobody, in order.
    pub fn idle_within(&self, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
        let stints = self.stints_within(from, to).iter().map(|stint| (stint.from, stint.to));
        let others = self.others_within(from, to).iter().copied();
        let mut busy: Vec<(Nanos, Nanos)> = stints.chain(others).chain(self.offline.iter().copied()).collect();
        busy.sort_unstable();
        let (mut idle, mut at) = (Vec::new(), from);
        for (begins, ends) in busy.into_iter().filter(|&(begins, ends)| ends > from && begins < to) {
            if begins > at {
                idle.push((at, begins));
            }
            at = at.max(ends);
        }
        if at < to {
            idle.push((at, to));
        }
        idle
    }
}
