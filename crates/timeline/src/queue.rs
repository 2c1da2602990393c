// SPDX-License-Identifier: GPL-2.0-only
//! Who stood where in a queue.

use crate::Timeline;
use ids::{DsqId, Nanos, TaskId};

/// The history of a queue. Empty where a run was not told in detail.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// What changed, in order.
    pub changes: Vec<(Nanos, Change)>,
}

/// A change of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A task came, behind so many others.
    Came(TaskId, u32),
    /// A task left.
    Left(TaskId),
}

impl Change {
    fn apply(self, order: &mut Vec<TaskId>) {
        match self {
            // Queues of several nodes share an id, so it can be more than there are.
            Change::Came(task, ahead) => order.insert((ahead as usize).min(order.len()), task),
            Change::Left(task) => order.retain(|&other| other != task),
        }
    }
}

impl Queue {
    /// Who stood in it, in order, after all that happened before `time`, and at it if `inclusive`.
    fn order(&self, time: Nanos, inclusive: bool) -> (Vec<TaskId>, usize) {
        let end = self.changes.partition_point(|(at, _)| *at < time || inclusive && *at == time);
        let mut order = Vec::new();
        self.changes[..end].iter().for_each(|(_, change)| change.apply(&mut order));
        (order, end)
    }

    /// How many stood in it, from which time on, in order.
    pub fn depths(&self) -> impl Iterator<Item = (Nanos, u32)> + '_ {
        self.changes.iter().scan(0u32, |depth, &(time, change)| {
            *depth = match change {
                Change::Came(..) => *depth + 1,
                Change::Left(_) => depth.saturating_sub(1),
            };
            Some((time, *depth))
        })
    }
}

impl Timeline {
    /// Who stood in a queue at `time`, in order, after all that happened then. Empty where that is not known.
    pub fn queue_at(&self, queue: DsqId, time: Nanos) -> Vec<TaskId> {
        self.queues.get(&queue).map_or(Vec::new(), |queue| queue.order(time, true).0)
    }

    /// Who left `queue` between `from` and `to` from behind `task`, in order.
    pub(crate) fn left_from_behind(&self, queue: DsqId, task: TaskId, from: Nanos, to: Nanos) -> Vec<(Nanos, TaskId)> {
        let Some(queue) = self.queues.get(&queue) else { return Vec::new() };
        let (mut order, first) = queue.order(from, false);
        let mut found = Vec::new();
        for &(time, change) in queue.changes[first..].iter().take_while(|(time, _)| *time <= to) {
            if let Change::Left(other) = change
                && let Some(place) = order.iter().position(|&stands| stands == task)
                && order[place + 1..].contains(&other)
            {
                found.push((time, other));
            }
            change.apply(&mut order);
        }
        found
    }
}
