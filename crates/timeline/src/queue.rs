// SPDX-License-Identifier: GPL-2.0-only
//! The contents of queues over time.

use crate::Timeline;
use ids::{DsqId, Nanos, TaskId};

/// The history of a queue. Empty if the run did not pass details.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// Changes in order of time.
    pub changes: Vec<(Nanos, Change)>,
}

/// A change of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A task entered the queue behind this number of others.
    Entered(TaskId, u32),
    /// A task left the queue.
    Left(TaskId),
}

impl Change {
    fn apply(self, order: &mut Vec<TaskId>) {
        match self {
            // Global queues of several nodes share an id, so the number can exceed the length.
            Change::Entered(task, ahead) => order.insert((ahead as usize).min(order.len()), task),
            Change::Left(task) => order.retain(|&other| other != task),
        }
    }
}

impl Queue {
    /// Contents of the queue before `time`, or after all changes at `time` if `inclusive`, and the number of changes
    /// until then.
    fn order(&self, time: Nanos, inclusive: bool) -> (Vec<TaskId>, usize) {
        let end = self.changes.partition_point(|(at, _)| *at < time || inclusive && *at == time);
        let mut order = Vec::new();
        self.changes[..end].iter().for_each(|(_, change)| change.apply(&mut order));
        (order, end)
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
