// SPDX-License-Identifier: GPL-2.0-only
//! Whether a task that wakes with an earlier key than that of a running task gets a CPU.
//!
//! Keys are those of ordered queues, and compared within one. A task that runs has the key with which it left its queue; of one
//! that skipped the queue nobody knows it, and it is never too late. What counts is one stretch in which, all the time, some
//! CPU that the task may use runs a later key.

use crate::queues::comes_before;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

type Key = Option<(DsqId, u64)>;

#[derive(Debug)]
struct Waiter {
    key: Key,
    allowed: CpuSet,
    /// How many CPUs it should preempt, and since when there are any.
    beats: u32,
    since: Nanos,
}

/// All CPUs.
#[derive(Debug)]
pub(crate) struct Preemption {
    running: Vec<Key>,
    keys: Vec<Key>,
    /// It has left its queue, and goes into that of a CPU next.
    leaves: Vec<bool>,
    /// Who has woken, and stands in an ordered queue.
    waiters: BTreeMap<TaskId, Waiter>,
}

fn beats(key: Key, running: Key) -> bool {
    key.zip(running).is_some_and(|((queue, key), (of, late))| queue == of && comes_before(key, late))
}

impl Preemption {
    pub(crate) fn new(cpus: usize) -> Preemption {
        Preemption { running: vec![None; cpus], keys: Vec::new(), leaves: Vec::new(), waiters: BTreeMap::new() }
    }

    /// A task exists.
    pub(crate) fn announce(&mut self) {
        self.keys.push(None);
        self.leaves.push(false);
    }

    /// A task leaves an ordered queue, and keeps its key.
    pub(crate) fn leave(&mut self, task: TaskId) {
        self.leaves[task.index()] = true;
    }

    /// A task stands in a queue; with `woken` it waits for the first time since it slept.
    pub(crate) fn insert(&mut self, now: Nanos, task: TaskId, key: Key, woken: bool, allowed: &CpuSet) {
        let leaves = std::mem::take(&mut self.leaves[task.index()]);
        if key.is_none() && leaves {
            return;
        }
        self.waiters.remove(&task);
        self.keys[task.index()] = key;
        if woken && key.is_some() {
            let ahead = |cpu: &CpuId| self.running.get(cpu.index()).is_some_and(|running| beats(key, *running));
            let beats = allowed.iter().filter(ahead).count() as u32;
            self.waiters.insert(task, Waiter { key, allowed: allowed.clone(), beats, since: now });
        }
    }

    /// Another task runs on a CPU, or none.
    pub(crate) fn run(&mut self, now: Nanos, cpu: CpuId, task: TaskId) {
        let new = task.some().and_then(|task| self.keys[task.index()]);
        let old = std::mem::replace(&mut self.running[cpu.index()], new);
        for waiter in self.waiters.values_mut().filter(|waiter| waiter.allowed.contains(cpu)) {
            let before = waiter.beats;
            waiter.beats += u32::from(beats(waiter.key, new));
            waiter.beats -= u32::from(beats(waiter.key, old));
            if before == 0 {
                waiter.since = now;
            }
        }
    }

    /// A task no longer waits, or is no longer looked at; since when it should have had a CPU.
    pub(crate) fn stop(&mut self, task: TaskId) -> Option<Nanos> {
        self.waiters.remove(&task).filter(|waiter| waiter.beats > 0).map(|waiter| waiter.since)
    }

    /// Who waits.
    pub(crate) fn waiters(&self) -> Vec<TaskId> {
        self.waiters.keys().copied().collect()
    }

    /// What was seen before counts no longer.
    pub(crate) fn forget(&mut self) {
        self.waiters.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPUS: u32 = 3;
    const TASKS: u32 = 6;
    const QUEUE: DsqId = DsqId(3);

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u32, u64, bool, u64),
        Run(u32, u32),
        Stop(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..TASKS, 0u64..8, any::<bool>(), 1u64..8).prop_map(|(a, b, c, d)| Step::Insert(a, b, c, d)),
            (0..CPUS, 0..=TASKS).prop_map(|(cpu, task)| Step::Run(cpu, task)),
            (0..TASKS).prop_map(Step::Stop),
        ]
    }

    proptest! {
        /// Counts of CPUs against a look at all of them after each step.
        #[test]
        fn matches_naive(steps in prop::collection::vec(step(), 0..150)) {
            let mut preemption = Preemption::new(CPUS as usize);
            (0..TASKS).for_each(|_| preemption.announce());
            let mut keys = [None; TASKS as usize];
            let mut running = [None; CPUS as usize];
            let mut waiters: Vec<Option<(u64, u64, Option<u64>)>> = vec![None; TASKS as usize];
            for (now, step) in (1..).zip(steps) {
                match step {
                    // Key 0 stands for a queue without order.
                    Step::Insert(task, key, woken, mask) => {
                        let key = (key > 0).then_some(key);
                        let allowed = CpuSet::from_words(&[mask]);
                        preemption.insert(Nanos(now), TaskId(task), key.map(|key| (QUEUE, key)), woken, &allowed);
                        keys[task as usize] = key;
                        waiters[task as usize] = key.filter(|_| woken).map(|key| (key, mask, None));
                    }
                    Step::Run(cpu, task) => {
                        let id = if task == TASKS { TaskId::NONE } else { TaskId(task) };
                        preemption.run(Nanos(now), CpuId(cpu), id);
                        running[cpu as usize] = keys.get(task as usize).copied().flatten();
                    }
                    Step::Stop(task) => {
                        let expected = waiters[task as usize].take().and_then(|(.., since)| since);
                        prop_assert_eq!(preemption.stop(TaskId(task)), expected.map(Nanos));
                    }
                }
                for (key, mask, since) in waiters.iter_mut().flatten() {
                    let late = |cpu: &u32| *mask & 1 << cpu != 0 && running[*cpu as usize] > Some(*key);
                    *since = if (0..CPUS).any(|cpu| late(&cpu)) { since.or(Some(now)) } else { None };
                }
            }
        }
    }
}
