// SPDX-License-Identifier: GPL-2.0-only
//! Which task stands in which queue with which key.

use ids::{DsqId, TaskId};
use std::collections::BTreeMap;

/// The dispatch queues of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: BTreeMap<DsqId, BTreeMap<TaskId, u64>>,
    place: BTreeMap<TaskId, DsqId>,
}

impl Queues {
    /// A task stands in this queue from now on, and in no other.
    pub(crate) fn insert(&mut self, dsq: DsqId, key: u64, task: TaskId) {
        self.remove(task);
        self.queues.entry(dsq).or_default().insert(task, key);
        self.place.insert(task, dsq);
    }

    /// Takes a task out of a queue; its key, if it was there.
    pub(crate) fn take(&mut self, dsq: DsqId, task: TaskId) -> Option<u64> {
        if self.place.get(&task) != Some(&dsq) {
            return None;
        }
        self.place.remove(&task);
        self.queues.get_mut(&dsq)?.remove(&task)
    }

    /// Whether a task stands in some queue.
    pub(crate) fn contains(&self, task: TaskId) -> bool {
        self.place.contains_key(&task)
    }

    /// A task stands in no queue any more.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(dsq) = self.place.get(&task).copied() {
            self.take(dsq, task);
        }
    }

    /// A task in the queue, among those that may, whose key comes before `key`, and that key: the smallest one. Keys go round:
    /// the one that is less than half of all numbers behind comes before.
    pub(crate) fn smaller(&self, dsq: DsqId, key: u64, may: impl Fn(TaskId) -> bool) -> Option<(u64, TaskId)> {
        let distance = |other: u64| other.wrapping_sub(key) as i64;
        let others = self.queues.get(&dsq)?.iter().map(|(task, key)| (*key, *task));
        others.filter(|(other, task)| distance(*other) < 0 && may(*task)).min_by_key(|(other, _)| distance(*other))
    }
}
