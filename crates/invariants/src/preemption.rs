// SPDX-License-Identifier: GPL-2.0-only
//! Checks that a woken task with an earlier key than a running task gets a CPU in time.
//!
//! Keys belong to ordered queues and are compared only within one queue. A running task has the key with which it
//! left its queue; a task that ran without passing an ordered queue has no key and is never preempted. The measured
//! time is one uninterrupted stretch in which some CPU that the woken task may use always runs a later key.

use crate::queues::comes_before;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

type Key = Option<(DsqId, u64)>;

#[derive(Debug)]
struct Waiter {
    key: Key,
    allowed: CpuSet,
    /// Number of CPUs that run a later key, and the time since which it is not zero.
    beats: u32,
    since: Nanos,
}

/// Keys of the tasks on all CPUs, and the tasks that wait for one.
#[derive(Debug)]
pub(crate) struct Preemption {
    running: Vec<Key>,
    keys: Vec<Key>,
    /// Whether the task has left an ordered queue, so that its next insert is into a CPU's local queue.
    leaves: Vec<bool>,
    /// Woken tasks that are in an ordered queue.
    waiters: BTreeMap<TaskId, Waiter>,
}

fn beats(key: Key, running: Key) -> bool {
    key.zip(running).is_some_and(|((queue, key), (of, late))| queue == of && comes_before(key, late))
}

impl Preemption {
    pub(crate) fn new(cpus: usize) -> Preemption {
        Preemption { running: vec![None; cpus], keys: Vec::new(), leaves: Vec::new(), waiters: BTreeMap::new() }
    }

    /// Registers a new task.
    pub(crate) fn announce(&mut self) {
        self.keys.push(None);
        self.leaves.push(false);
    }

    /// Notes that a task leaves an ordered queue; it keeps its key.
    pub(crate) fn leave(&mut self, task: TaskId) {
        self.leaves[task.index()] = true;
    }

    /// Notes that a task is inserted into a queue. `woken` means that it has not run since its wakeup.
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

    /// Notes that a CPU switches to another task, or to none.
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

    /// Stops observing a task. Returns the time since which it should have had a CPU, if it should.
    pub(crate) fn stop(&mut self, task: TaskId) -> Option<Nanos> {
        self.waiters.remove(&task).filter(|waiter| waiter.beats > 0).map(|waiter| waiter.since)
    }

    /// Woken tasks that are being observed.
    pub(crate) fn waiters(&self) -> Vec<TaskId> {
        self.waiters.keys().copied().collect()
    }

    /// Stops observing all tasks.
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
        /// Compares the incremental counts with a recount after each step.
        #[test]
        fn preemptible_cpu_counts_match_a_recount(steps in prop::collection::vec(step(), 0..150)) {
            let mut preemption = Preemption::new(CPUS as usize);
            (0..TASKS).for_each(|_| preemption.announce());
            let mut keys = [None; TASKS as usize];
            let mut running = [None; CPUS as usize];
            let mut waiters: Vec<Option<(u64, u64, Option<u64>)>> = vec![None; TASKS as usize];
            for (now, step) in (1..).zip(steps) {
                match step {
                    // Key 0 means a queue without order.
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
