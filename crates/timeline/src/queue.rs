// SPDX-License-Identifier: GPL-2.0-only
//! The contents of queues over time.

use crate::Timeline;
use crate::task::{Departure, Task};
use ids::{CpuSet, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

/// Number of changes between two stored states of a queue. A query replays at most as many.
const STRIDE: usize = 256;

/// The history of a queue. Empty if the run did not pass details.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    changes: Vec<(Nanos, Change)>,
    /// Contents after all changes.
    now: Vec<TaskId>,
    /// Contents after each [`STRIDE`] changes.
    stored: Vec<Vec<TaskId>>,
}

/// A change of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A task entered the queue behind this number of others.
    Entered(TaskId, u32),
    /// A task left the queue.
    Left(TaskId),
}

/// The CPUs that ever took a task from a queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Takers {
    /// CPUs to which `dispatch` took tasks.
    pub cpus: CpuSet,
    /// Whether a task ran without a `dispatch` that took it.
    pub ran: bool,
}

impl Change {
    fn apply(self, order: &mut Vec<TaskId>) {
        match self {
            // Global queues of several nodes share an id, so the number can exceed the length.
            Change::Entered(task, ahead) => order.insert((ahead as usize).min(order.len()), task),
            Change::Left(task) => {
                order.iter().position(|&other| other == task).map(|at| order.remove(at));
            }
        }
    }
}

impl Queue {
    /// Appends a change, which is not earlier than the last one.
    pub fn push(&mut self, time: Nanos, change: Change) {
        change.apply(&mut self.now);
        self.changes.push((time, change));
        if self.changes.len().is_multiple_of(STRIDE) {
            self.stored.push(self.now.clone());
        }
    }

    /// Contents of the queue before `time`, or after all changes at `time` if `inclusive`, and the number of changes
    /// until then.
    fn order(&self, time: Nanos, inclusive: bool) -> (Vec<TaskId>, usize) {
        let end = self.changes.partition_point(|(at, _)| *at < time || inclusive && *at == time);
        let before = (end / STRIDE).checked_sub(1).and_then(|at| self.stored.get(at));
        let mut order = before.cloned().unwrap_or_default();
        self.changes[end - end % STRIDE..end].iter().for_each(|(_, change)| change.apply(&mut order));
        (order, end)
    }

    /// Changes in order of time.
    pub fn changes(&self) -> &[(Nanos, Change)] {
        &self.changes
    }

    /// Depth of the queue after each change, with the time.
    pub fn depths(&self) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        self.changes.iter().scan(0u32, |depth, &(time, change)| {
            *depth = match change {
                Change::Entered(..) => *depth + 1,
                Change::Left(_) => depth.saturating_sub(1),
            };
            Some((time, *depth))
        })
    }
}

/// The takers of each queue.
pub(crate) fn takers(tasks: &[Task]) -> BTreeMap<DsqId, Takers> {
    let mut all: BTreeMap<DsqId, Takers> = BTreeMap::new();
    for stay in tasks.iter().flat_map(|task| &task.queue_stays) {
        let Some(queue) = stay.queue else { continue };
        match stay.departure {
            Departure::Dispatched { to, .. } => {
                all.entry(queue).or_default().cpus.insert(to);
            }
            Departure::Ran => all.entry(queue).or_default().ran = true,
            Departure::StillQueued | Departure::Moved => {}
        }
    }
    all
}

impl Timeline {
    /// Contents of a queue at `time`, in order, after all changes at that time; empty if unknown.
    pub fn queue_at(&self, queue: DsqId, time: Nanos) -> Vec<TaskId> {
        self.queues.get(&queue).map_or(Vec::new(), |queue| queue.order(time, true).0)
    }

    /// Tasks that left `queue` between `from` and `to` from behind `task`, in order, with the time.
    pub(crate) fn left_from_behind(&self, queue: DsqId, task: TaskId, from: Nanos, to: Nanos) -> Vec<(Nanos, TaskId)> {
        let Some(queue) = self.queues.get(&queue) else { return Vec::new() };
        let (mut order, first) = queue.order(from, false);
        let mut found = Vec::new();
        for &(time, change) in queue.changes[first..].iter().take_while(|(time, _)| *time <= to) {
            if let Change::Left(other) = change
                && let Some(place) = order.iter().position(|&queue_stays| queue_stays == task)
                && order[place + 1..].contains(&other)
            {
                found.push((time, other));
            }
            change.apply(&mut order);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_at_any_time_are_those_after_all_changes_until_then() {
        let (mut queue, mut order, mut states) = (Queue::default(), Vec::new(), Vec::new());
        // Tasks enter at varying places and leave in another order, two changes at each time.
        for step in 0..4 * STRIDE as u32 {
            let change = match step % 3 {
                0 | 1 => Change::Entered(TaskId(step), step * 7 % 5),
                _ => Change::Left(TaskId(step - 1 - step % 2)),
            };
            change.apply(&mut order);
            queue.push(Nanos(u64::from(step / 2)), change);
            states.push(order.clone());
        }
        for time in 0..2 * STRIDE {
            let (before, count) = queue.order(Nanos(time as u64), false);
            assert_eq!(count, 2 * time);
            assert_eq!(before, time.checked_sub(1).map_or(Vec::new(), |before| states[2 * before + 1].clone()));
            assert_eq!(queue.order(Nanos(time as u64), true), (states[2 * time + 1].clone(), 2 * time + 2));
        }
    }
}
