// SPDX-License-Identifier: GPL-2.0-only
//! What a run waited for, from its beginning to its end: the longest chain of causes.
//!
//! The chain is followed backwards from the end of the task that ended last. A task runs because it got a CPU, waited
//! for that since it was woken, and was woken by what another task did: the chain goes on with that task. Where a
//! timer, a device or something outside ended a sleep, the sleep itself is a link. So every nanosecond between the
//! first cause and the end belongs to one link, and the run would have been shorter if any link had been.

use crate::Timeline;
use crate::task::{What, Why};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Nanos, TaskId};

/// What a link of the chain was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The task had a CPU.
    Ran,
    /// The task had a CPU and polled a lock.
    Spun,
    /// The task waited for a CPU.
    Waited,
    /// The task slept until a timer rang.
    Timer,
    /// The task waited for a device.
    Device,
    /// The task waited for something outside of the run, or for what is not known.
    Outside,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Kind; 6] = [Kind::Ran, Kind::Spun, Kind::Waited, Kind::Timer, Kind::Device, Kind::Outside];
}

/// A part of the chain: one task did one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Who.
    pub task: TaskId,
    /// From when.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// What.
    pub kind: Kind,
    /// Where it ran, or ran next.
    pub cpu: Option<CpuId>,
    /// It began because the task of the link before woke or made this one, which had waited for it for so long.
    pub handed_over: Option<Nanos>,
    /// That wait was for a lock.
    pub by_lock: bool,
}

impl Link {
    /// How long it was.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The chain, in order of time and without gaps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// Its parts.
    pub links: Vec<Link>,
}

impl Chain {
    /// How much of it was of this kind.
    pub fn sum(&self, kind: Kind) -> Nanos {
        Nanos(self.links.iter().filter(|link| link.kind == kind).map(|link| link.length().0).sum())
    }

    /// From its beginning to its end.
    pub fn length(&self) -> Nanos {
        match (self.links.first(), self.links.last()) {
            (Some(first), Some(last)) => last.to.since(first.from),
            _ => Nanos::ZERO,
        }
    }

    /// How often it went from one task to another, and how often because of a lock.
    pub fn handovers(&self) -> (u64, u64) {
        let counts = |counts: &dyn Fn(&Link) -> bool| self.links.iter().filter(|link| counts(link)).count() as u64;
        (counts(&|link| link.handed_over.is_some()), counts(&|link| link.by_lock))
    }

    /// How much of it each task had, of each kind in the order of [`Kind::ALL`]; the longest first.
    pub fn tasks(&self) -> Vec<(TaskId, [Nanos; 6])> {
        let mut all: std::collections::BTreeMap<TaskId, [Nanos; 6]> = Default::default();
        for link in &self.links {
            all.entry(link.task).or_default()[link.kind as usize] += link.length();
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(task, times)| (std::cmp::Reverse(times.iter().map(|time| time.0).sum::<u64>()), *task));
        all
    }
}

impl Timeline {
    /// The chain that ends with `last`, or with the end of the task of the workload that ended last; without one that
    /// ended, with whoever ran last.
    pub fn chain(&self, last: Option<TaskId>) -> Chain {
        let of_workload = || (0..).map(TaskId).zip(&self.tasks).filter(|(_, task)| !task.info.kernel_thread);
        let ended = || of_workload().filter_map(|(id, task)| Some((task.ended?, id))).max();
        let ran = || {
            of_workload()
                .filter_map(|(id, task)| {
                    let ran = task.phases.iter().rev().find(|phase| matches!(phase.what, What::Runs { .. }))?;
                    Some((ran.to, id))
                })
                .max()
        };
        let end = match last {
            Some(id) => Some((self.task(id).phases.last().map_or(self.end, |phase| phase.to), id)),
            None => ended().or_else(ran),
        };
        let Some((mut now, mut id)) = end else { return Chain::default() };
        let mut links: Vec<Link> = Vec::new();
        let Some(mut index) = self.last_before(id, now) else { return Chain::default() };
        loop {
            let phase = self.task(id).phases[index];
            let next = self.cause(id, index);
            let mut link = Link {
                task: id,
                from: phase.from,
                to: now,
                kind: Kind::Outside,
                cpu: None,
                handed_over: None,
                by_lock: false,
            };
            match (phase.what, next) {
                (What::Runs { cpu }, _) => {
                    link.cpu = Some(cpu);
                    self.split(link, &mut links);
                }
                (What::Waits { .. }, Some(other)) => {
                    let slept =
                        index.checked_sub(1).map_or(Nanos::ZERO, |before| self.task(id).phases[before].length());
                    (link.kind, link.handed_over, link.by_lock) =
                        (Kind::Waited, Some(slept), self.waited_for_lock(id, phase.from));
                    links.push(link);
                    (now, id) = (phase.from, other);
                    match self.last_before(id, now) {
                        Some(found) => index = found,
                        None => break,
                    }
                    continue;
                }
                (What::Waits { .. }, None) => {
                    link.kind = Kind::Waited;
                    links.push(link);
                }
                (What::Sleeps { cause }, _) => {
                    // Before a task was made nothing of the run was waited for.
                    if index > 0 {
                        link.kind = kind_of(cause, self.waker_after(id, index));
                        links.push(link);
                    }
                }
            }
            now = phase.from;
            match index.checked_sub(1) {
                Some(before) => index = before,
                None => break,
            }
        }
        links.retain(|link| link.to > link.from || link.handed_over.is_some());
        links.reverse();
        Chain { links }
    }

    /// The phase in which a task was just before `time`.
    fn last_before(&self, task: TaskId, time: Nanos) -> Option<usize> {
        let phases = &self.tasks.get(task.index())?.phases;
        // What begins at `time` is what the wakeup led to, unless it is all that there is.
        phases.partition_point(|phase| phase.from < time).checked_sub(1)
    }

    /// The task whose act made this one runnable.
    fn cause(&self, task: TaskId, index: usize) -> Option<TaskId> {
        let What::Waits { why: Why::Woken { waker, .. } } = self.task(task).phases[index].what else { return None };
        match waker {
            Waker::Task(other) | Waker::Fork(other) => other.some().filter(|&other| other != task),
            Waker::Timer | Waker::Interrupt | Waker::External => None,
        }
    }

    /// Who ended the sleep of this phase.
    fn waker_after(&self, task: TaskId, index: usize) -> Option<Waker> {
        match self.task(task).phases.get(index + 1)?.what {
            What::Waits { why: Why::Woken { waker, .. } } => Some(waker),
            _ => None,
        }
    }

    fn waited_for_lock(&self, task: TaskId, until: Nanos) -> bool {
        let words = &self.task(task).words;
        words[..words.partition_point(|words| words.from <= until)]
            .last()
            .is_some_and(|words| words.lock && !words.spins && words.to == Some(until))
    }

    /// A link of running, latest part first, without the times in which the task polled a lock.
    fn split(&self, link: Link, links: &mut Vec<Link>) {
        let words = &self.task(link.task).words;
        let mut to = link.to;
        for poll in words.iter().rev().filter(|words| words.spins) {
            let (from, until) = (poll.from.max(link.from), poll.to.unwrap_or(self.end).min(to));
            if poll.from >= to || until <= from {
                if poll.to.is_some_and(|until| until <= link.from) {
                    break;
                }
                continue;
            }
            links.push(Link { from: until, to, kind: Kind::Ran, ..link });
            links.push(Link { from, to: until, kind: Kind::Spun, ..link });
            to = from;
        }
        links.push(Link { to, kind: Kind::Ran, ..link });
    }
}

/// By why it began, or else by what ended it: a real kernel tells of a timer only when that rings.
fn kind_of(cause: Option<BlockCause>, waker: Option<Waker>) -> Kind {
    match (cause, waker) {
        (Some(BlockCause::Timer), _) => Kind::Timer,
        (Some(BlockCause::Io), _) => Kind::Device,
        (_, Some(Waker::Timer)) => Kind::Timer,
        (_, Some(Waker::Interrupt)) => Kind::Device,
        _ => Kind::Outside,
    }
}
