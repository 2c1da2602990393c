// SPDX-License-Identifier: GPL-2.0-only
//! The queue and key of each task.

use ids::{DsqId, TaskId};
use std::collections::BTreeMap;

/// Whether a key comes before another one. Keys wrap around: a key comes before another one if the other one is less
/// than 2^63 ahead of it.
pub(crate) fn comes_before(key: u64, other: u64) -> bool {
    (key.wrapping_sub(other) as i64) < 0
}

/// The dispatch queues of the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Contents of each queue, if they are needed.
    queues: Option<BTreeMap<DsqId, BTreeMap<TaskId, u64>>>,
    /// Queue and key of each task.
    positions: Vec<Option<(DsqId, u64)>>,
    has_keys: bool,
}

impl Queues {
    /// Creates the table. If `contents` is false, only the queue of each task is known, not the tasks of each queue.
    pub(crate) fn new(contents: bool) -> Queues {
        Queues { queues: contents.then(BTreeMap::new), positions: Vec::new(), has_keys: false }
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self) {
        self.positions.push(None);
    }

    /// Moves a task into this queue, out of any other.
    pub(crate) fn insert(&mut self, dsq: DsqId, key: u64, task: TaskId) {
        self.remove(task);
        if let Some(queues) = &mut self.queues {
            queues.entry(dsq).or_default().insert(task, key);
        }
        self.positions[task.index()] = Some((dsq, key));
        self.has_keys |= key != 0 && !dsq.is_builtin();
    }

    /// Removes a task from a queue and returns its key, if it was there.
    pub(crate) fn take(&mut self, dsq: DsqId, task: TaskId) -> Option<u64> {
        let (_, key) = self.positions[task.index()].take_if(|(at, _)| *at == dsq)?;
        if let Some(queues) = &mut self.queues {
            queues.get_mut(&dsq)?.remove(&task);
        }
        Some(key)
    }

    /// Whether any task was ever in an ordered queue.
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Queue that a task is in.
    pub(crate) fn place(&self, task: TaskId) -> Option<DsqId> {
        self.positions[task.index()].map(|(dsq, _)| dsq)
    }

    /// Whether a task is in a queue.
    pub(crate) fn contains(&self, task: TaskId) -> bool {
        self.positions[task.index()].is_some()
    }

    /// Removes a task from its queue, if any.
    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some((dsq, _)) = self.positions[task.index()] {
            self.take(dsq, task);
        }
    }

    /// Returns the smallest key in the queue that comes before `key`, and its task, among the tasks for which `may`
    /// is true.
    pub(crate) fn smaller(&self, dsq: DsqId, key: u64, may: impl Fn(TaskId) -> bool) -> Option<(u64, TaskId)> {
        let others = self.queues.as_ref()?.get(&dsq)?.iter().map(|(task, key)| (*key, *task));
        let first = others.filter(|(other, task)| comes_before(*other, key) && may(*task));
        first.min_by_key(|(other, _)| other.wrapping_sub(key) as i64)
    }
}
