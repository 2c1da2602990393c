// SPDX-License-Identifier: GPL-2.0-only
//! Which task stands in which queue with which key.

use ids::{DsqId, TaskId};
use std::collections::BTreeMap;

/// Whether a key comes before another one. Keys go round: the one that is less than half of all numbers behind comes before.
pub(crate) fn comes_before(key: u64, other: u64) -> bool {
    (key.wrapping_sub(other) as i64) < 0
}

/// The dispatch queues of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// What each has, where that is wanted.
    queues: Option<BTreeMap<DsqId, BTreeMap<TaskId, u64>>>,
    /// Where each task stands, and its key.
    places: Vec<Option<(DsqId, u64)>>,
    has_keys: bool,
}

impl Queues {
    /// Knows what each queue has, if `contents`; else only where each task stands.
    pub(crate) fn new(contents: bool) -> Queues {
        Queues { queues: contents.then(BTreeMap::new), places: Vec::new(), has_keys: false }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self) {
        self.places.push(None);
    }

    /// A task stands in this queue from now on, and in no other.
    pub(crate) fn insert(&mut self, dsq: DsqId, key: u64, task: TaskId) {
        self.remove(task);
        if let Some(queues) = &mut self.queues {
            queues.entry(dsq).or_default().insert(task, key);
        }
        self.places[task.index()] = Some((dsq, key));
        self.has_keys |= key != 0 && !dsq.is_builtin();
    }

    /// Takes a task out of a queue; its key, if it was there.
    pub(crate) fn take(&mut self, dsq: DsqId, task: TaskId) -> Option<u64> {
        let (_, key) = self.places[task.index()].take_if(|(at, _)| *at == dsq)?;
        if let Some(queues) = &mut self.queues {
            queues.get_mut(&dsq)?.remove(&task);
        }
        Some(key)
    }

    /// Whether a task was ever in an ordered queue.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Where a task stands.
    pub(crate) fn place(&self, task: TaskId) -> Option<DsqId> {
        self.places[task.index()].map(|(dsq, _)| dsq)
    }

    /// Whether a task stands in some queue.
    pub(crate) fn contains(&self, task: TaskId) -> bool {
        self.places[task.index()].is_some()
    }

    /// A task stands in no queue any more.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some((dsq, _)) = self.places[task.index()] {
            self.take(dsq, task);
        }
    }

    /// A task in the queue, among those that may, whose key comes before `key`, and that key: the smallest one.
    pub(crate) fn smaller(&self, dsq: DsqId, key: u64, may: impl Fn(TaskId) -> bool) -> Option<(u64, TaskId)> {
        let others = self.queues.as_ref()?.get(&dsq)?.iter().map(|(task, key)| (*key, *task));
        let first = others.filter(|(other, task)| comes_before(*other, key) && may(*task));
        first.min_by_key(|(other, _)| other.wrapping_sub(key) as i64)
    }
}
