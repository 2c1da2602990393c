// SPDX-License-Identifier: GPL-2.0-only
//! All tasks, by number and by pid, and the counters that order the waiting ones.

use super::task::Task;
use ids::{CpuSet, TaskId};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// First number of the arrival counters. Head inserts count down from it, tail inserts count up.
const FIRST_ARRIVAL: u64 = 1 << 62;

/// The tasks of a kernel. Numbers of dead tasks stay used.
#[derive(Debug)]
pub(crate) struct TaskTable {
    tasks: Vec<Task>,
    by_pid: BTreeMap<i32, TaskId>,
    /// All CPUs, online or not: the affinity of most tasks.
    everywhere: Arc<CpuSet>,
    /// Arrival counter of the class queues and the runnable lists.
    arrivals: u64,
    /// Arrival counter of head inserts; it counts down.
    heads: u64,
    /// Number of waiting tasks of higher classes, on all runqueues.
    pub higher_waiting: u32,
}

impl TaskTable {
    /// No tasks, on a machine with this number of CPUs.
    pub fn new(cpus: usize) -> TaskTable {
        TaskTable {
            tasks: Vec::new(),
            by_pid: BTreeMap::new(),
            everywhere: Arc::new(CpuSet::first_n(cpus)),
            arrivals: FIRST_ARRIVAL,
            heads: FIRST_ARRIVAL,
            higher_waiting: 0,
        }
    }

    /// Number of tasks, dead ones included.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// All tasks by number, dead ones included.
    pub fn iter(&self) -> std::slice::Iter<'_, Task> {
        self.tasks.iter()
    }

    /// Adds a task with the next number.
    pub fn add(&mut self, task: Task) {
        self.by_pid.insert(task.pid, TaskId(self.tasks.len() as u32));
        self.tasks.push(task);
    }

    /// The task with this index, if there is one.
    pub fn get(&self, index: usize) -> Option<&Task> {
        self.tasks.get(index)
    }

    /// The living task with this pid.
    pub fn by_pid(&self, pid: i32) -> Option<TaskId> {
        self.by_pid.get(&pid).copied()
    }

    /// Frees the pid of a dead task.
    pub fn free_pid(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }

    /// All CPUs, online or not.
    pub fn everywhere(&self) -> &Arc<CpuSet> {
        &self.everywhere
    }

    /// An affinity mask to store: the shared full set if it holds every CPU.
    pub fn share(&self, allowed: CpuSet) -> Arc<CpuSet> {
        if allowed == *self.everywhere { Arc::clone(&self.everywhere) } else { Arc::new(allowed) }
    }

    /// The next arrival number for a tail insert.
    #[inline]
    pub fn arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// The next arrival number for a head insert.
    pub fn head_arrival(&mut self) -> u64 {
        self.heads -= 1;
        self.heads
    }
}

impl Index<TaskId> for TaskTable {
    type Output = Task;

    #[inline(always)]
    fn index(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }
}

impl IndexMut<TaskId> for TaskTable {
    #[inline(always)]
    fn index_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }
}
