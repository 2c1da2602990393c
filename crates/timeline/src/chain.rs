// SPDX-License-Identifier: GPL-2.0-only
//! The critical path of a run: the longest chain of causes from its beginning to its end.
//!
//! The chain is followed backwards from the end of the task that ended last. A task runs because it got a CPU; before
//! that it waited for a CPU since its wakeup; it was woken by another task, with which the chain continues. If a
//! timer, a device or an external event ended a sleep, the sleep itself is a link. Every nanosecond between the first
//! cause and the end thus belongs to exactly one link, and the run would have been shorter if any link had been
//! shorter.

use crate::Timeline;
use crate::task::{Activity, WaitReason};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Nanos, TaskId};

/// Kind of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The task ran.
    Ran,
    /// The task ran and spun on a lock.
    Spun,
    /// The task waited for a CPU.
    Waited,
    /// The task slept until a timer expired.
    Timer,
    /// The task waited for a device.
    Device,
    /// The task waited for an event outside the run, or of unknown kind.
    Outside,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Kind; 6] = [Kind::Ran, Kind::Spun, Kind::Waited, Kind::Timer, Kind::Device, Kind::Outside];
}

/// A link of the chain: a period in which one task did one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Task of the link.
    pub task: TaskId,
    /// Start of the link.
    pub from: Nanos,
    /// End of the link.
    pub to: Nanos,
    /// Kind of the link.
    pub kind: Kind,
    /// CPU on which the task ran, or ran next.
    pub cpu: Option<CpuId>,
    /// If the task of the previous link woke or created this task: the time for which this task had slept before.
    pub slept_before: Option<Nanos>,
    /// Whether that sleep was a wait for a lock.
    pub by_lock: bool,
}

impl Link {
    /// Length of the link.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// The links in order of time, without gaps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// All links.
    pub links: Vec<Link>,
}

impl Chain {
    /// Total length of the links of this kind.
    pub fn sum(&self, kind: Kind) -> Nanos {
        Nanos(self.links.iter().filter(|link| link.kind == kind).map(|link| link.length().0).sum())
    }

    /// Time from the start to the end of the chain.
    pub fn length(&self) -> Nanos {
        match (self.links.first(), self.links.last()) {
            (Some(first), Some(last)) => last.to.since(first.from),
            _ => Nanos::ZERO,
        }
    }

    /// Number of times that the chain went from one task to another, and how many of these were lock handoffs.
    pub fn handoffs(&self) -> (u64, u64) {
        let counts = |counts: &dyn Fn(&Link) -> bool| self.links.iter().filter(|link| counts(link)).count() as u64;
        (counts(&|link| link.slept_before.is_some()), counts(&|link| link.by_lock))
    }

    /// Time of each task by kind, in the order of [`Kind::ALL`]; the task with the most time first.
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
    /// Returns the chain that ends with the task `last`. `None` selects the task of the workload that exited last,
    /// or, if none exited, the one that ran last.
    pub fn chain(&self, last: Option<TaskId>) -> Chain {
        let of_workload = || (0..).map(TaskId).zip(&self.tasks).filter(|(_, task)| !task.info.kernel_thread);
        let ended = || of_workload().filter_map(|(id, task)| Some((task.ended?, id))).max();
        let ran = || {
            of_workload()
                .filter_map(|(id, task)| {
                    let ran = task.phases.iter().rev().find(|phase| matches!(phase.activity, Activity::Runs { .. }))?;
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
                slept_before: None,
                by_lock: false,
            };
            match (phase.activity, next) {
                (Activity::Runs { cpu }, _) => {
                    link.cpu = Some(cpu);
                    self.split(link, &mut links);
                }
                (Activity::Waits { .. }, Some(other)) => {
                    let slept =
                        index.checked_sub(1).map_or(Nanos::ZERO, |before| self.task(id).phases[before].length());
                    (link.kind, link.slept_before, link.by_lock) =
                        (Kind::Waited, Some(slept), self.waited_for_lock(id, phase.from));
                    links.push(link);
                    (now, id) = (phase.from, other);
                    match self.last_before(id, now) {
                        Some(found) => index = found,
                        None => break,
                    }
                    continue;
                }
                (Activity::Waits { .. }, None) => {
                    link.kind = Kind::Waited;
                    links.push(link);
                }
                (Activity::Sleeps { cause }, _) => {
                    // The time before a task was created is not a wait of the run.
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
        links.retain(|link| link.to > link.from || link.slept_before.is_some());
        links.reverse();
        Chain { links }
    }

    /// What a task waited for that began to wait for a device at this time, such as `disk sda, 5 requests before`.
    /// `None` if that is unknown.
    pub fn device_at(&self, task: TaskId, from: Nanos) -> Option<&str> {
        let waits = &self.tasks.get(task.index())?.task_waits;
        let last = waits[..waits.partition_point(|wait| wait.from <= from)].last()?;
        (last.from == from && last.holder.is_none()).then_some(last.object.as_str())
    }

    /// Index of the phase of a task just before `time`.
    fn last_before(&self, task: TaskId, time: Nanos) -> Option<usize> {
        let phases = &self.tasks.get(task.index())?.phases;
        // A phase that begins at `time` results from the wakeup, so the one before it is taken.
        phases.partition_point(|phase| phase.from < time).checked_sub(1)
    }

    /// The task that woke or created this one at the start of the phase.
    fn cause(&self, task: TaskId, index: usize) -> Option<TaskId> {
        let Activity::Waits { reason: WaitReason::Woken { waker, .. } } = self.task(task).phases[index].activity else {
            return None;
        };
        match waker {
            Waker::Task(other) | Waker::Fork(other) => other.some().filter(|&other| other != task),
            Waker::Timer | Waker::Interrupt | Waker::External => None,
        }
    }

    /// The waker that ended the sleep of this phase.
    fn waker_after(&self, task: TaskId, index: usize) -> Option<Waker> {
        match self.task(task).phases.get(index + 1)?.activity {
            Activity::Waits { reason: WaitReason::Woken { waker, .. } } => Some(waker),
            _ => None,
        }
    }

    fn waited_for_lock(&self, task: TaskId, until: Nanos) -> bool {
        let wait = &self.task(task).task_waits;
        wait[..wait.partition_point(|wait| wait.from <= until)]
            .last()
            .is_some_and(|wait| wait.lock && !wait.spins && wait.to == Some(until))
    }

    /// Splits a link of running into parts in which the task worked and parts in which it spun on a lock, and pushes
    /// them, the latest first.
    fn split(&self, link: Link, links: &mut Vec<Link>) {
        let wait = &self.task(link.task).task_waits;
        let mut to = link.to;
        for poll in wait.iter().rev().filter(|wait| wait.spins) {
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

/// Kind of a sleep by its cause, or else by its waker: a real kernel reports a timer only when it expires.
fn kind_of(cause: Option<BlockCause>, waker: Option<Waker>) -> Kind {
    match (cause, waker) {
        (Some(BlockCause::Timer), _) => Kind::Timer,
        (Some(BlockCause::Io), _) => Kind::Device,
        (_, Some(Waker::Timer)) => Kind::Timer,
        (_, Some(Waker::Interrupt)) => Kind::Device,
        _ => Kind::Outside,
    }
}
