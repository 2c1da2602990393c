// SPDX-License-Identifier: GPL-2.0-only
//! Compares stretches by group with a scan of all tasks and CPUs after each step.

use super::*;
use proptest::prelude::*;

const CPUS: usize = 4;
const TASKS: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u32),
    Stop(u32),
    Idle(u32, bool),
    Allow(u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..TASKS).prop_map(Step::Wait),
        (0..TASKS).prop_map(Step::Stop),
        (0..CPUS as u32, any::<bool>()).prop_map(|(cpu, idle)| Step::Idle(cpu, idle)),
        (0..TASKS, 1u64..16).prop_map(|(task, mask)| Step::Allow(task, mask)),
    ]
}

/// For each task, the time since which it has waited while a CPU was idle.
#[derive(Default)]
struct Naive {
    masks: Vec<u64>,
    waits: Vec<bool>,
    idle: u64,
    since: Vec<Option<u64>>,
}

impl Naive {
    /// Returns the start times of the stretches that end now. The stretch of a task with a changed mask ends in any
    /// case.
    fn ended_stretches(&mut self, now: u64, moved: Option<u32>) -> Vec<u64> {
        let mut ended = Vec::new();
        for task in 0..TASKS {
            let index = task as usize;
            let unserved = self.waits[index] && self.idle & self.masks[index] != 0;
            let since = &mut self.since[index];
            if moved == Some(task) || !unserved {
                ended.extend(since.take());
            }
            if unserved {
                since.get_or_insert(now);
            }
        }
        ended
    }
}

/// Counts the tasks of all stretches.
fn count_tasks(stretches: &[Stretch]) -> usize {
    stretches.iter().map(|stretch| stretch.tasks.len()).sum()
}

proptest! {
    #[test]
    fn stretches_match_a_scan_of_all_tasks_and_cpus(steps in prop::collection::vec(step(), 0..200)) {
        let all = CpuSet::first_n(CPUS);
        let mut unserved = Unserved::new(CPUS, Nanos::ZERO);
        (0..TASKS).for_each(|task| unserved.announce(Nanos(0), TaskId(task), &all));
        let mut naive = Naive {
            masks: vec![15; TASKS as usize],
            waits: vec![false; TASKS as usize],
            idle: 15,
            since: vec![None; TASKS as usize],
        };
        for (now, step) in (1..).zip(steps) {
            let at = Nanos(now);
            let mut moved = None;
            let ended = match step {
                Step::Wait(task) => {
                    if !std::mem::replace(&mut naive.waits[task as usize], true) {
                        unserved.wait(at, TaskId(task), Population::Waiting);
                    }
                    vec![]
                }
                Step::Stop(task) => {
                    naive.waits[task as usize] = false;
                    unserved.stop_waiting(at, TaskId(task), Population::Waiting).into_iter().collect()
                }
                Step::Idle(cpu, idle) => {
                    naive.idle = if idle { naive.idle | 1 << cpu } else { naive.idle & !(1 << cpu) };
                    unserved.set_idle(at, CpuId(cpu), idle)
                }
                Step::Allow(task, mask) => {
                    moved = (std::mem::replace(&mut naive.masks[task as usize], mask) != mask).then_some(task);
                    unserved.set_allowed(at, TaskId(task), &CpuSet::from_words(&[mask]))
                }
            };
            let expected = naive.ended_stretches(now, moved);
            prop_assert_eq!(count_tasks(&ended), expected.len(), "{:?}", step);
            let first = |all: &mut dyn Iterator<Item = u64>| all.min();
            prop_assert_eq!(first(&mut ended.iter().map(|it| it.since.0)), first(&mut expected.iter().copied()));
        }
        let open = naive.since.iter().flatten().count();
        prop_assert_eq!(count_tasks(&unserved.open(Nanos(1_000))), open);
    }
}

#[test]
fn unserved_wait_continues_while_another_cpu_becomes_idle_and_is_counted_per_task() {
    let mut unserved = Unserved::new(2, Nanos(15));
    (0..2).for_each(|task| unserved.announce(Nanos(0), TaskId(task), &CpuSet::first_n(2)));
    unserved.wait(Nanos(10), TaskId(0), Population::Waiting);
    unserved.wait(Nanos(20), TaskId(1), Population::Waiting);
    assert_eq!(unserved.stop_waiting(Nanos(25), TaskId(0), Population::Waiting), None, "15 ns are tolerated");
    assert_eq!(unserved.set_idle(Nanos(30), CpuId(0), false), [], "CPU 1 is still idle");
    assert_eq!(unserved.set_idle(Nanos(35), CpuId(0), true), []);
    assert_eq!(unserved.set_idle(Nanos(36), CpuId(1), false), [], "CPU 0 is idle again");
    let ended = unserved.set_idle(Nanos(50), CpuId(0), false);
    let stretch =
        Stretch { population: Population::Waiting, since: Nanos(20), tasks: vec![TaskId(1)], cpus: vec![CpuId(0)] };
    assert_eq!(ended, [stretch]);
}

#[test]
fn tasks_that_wait_beside_an_idle_cpu_are_sorted_by_number() {
    let mut unserved = Unserved::new(1, Nanos(5));
    (0..3).for_each(|task| unserved.announce(Nanos(0), TaskId(task), &CpuSet::first_n(1)));
    (0..3).for_each(|task| unserved.wait(Nanos(10), TaskId(task), Population::Lost));
    assert!(unserved.stop_waiting(Nanos(12), TaskId(0), Population::Lost).is_none());
    unserved.wait(Nanos(13), TaskId(0), Population::Lost);
    let ended = unserved.set_idle(Nanos(30), CpuId(0), false);
    assert_eq!(ended[0].tasks, [TaskId(0), TaskId(1), TaskId(2)]);
    assert_eq!((ended.len(), ended[0].since), (1, Nanos(10)));
}
