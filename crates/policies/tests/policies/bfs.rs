// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/bfs`, by the numbers of its theory.

use crate::world::{MS, World, only};
use ids::{CpuId, CpuSet, Policy, TaskId};
use kernel_model::TaskAttributes;
use proptest::prelude::*;

/// Point 7 of `bfs.bpf.c`: a wakeup preempts the allowed CPU whose running task has the latest deadline.
#[test]
fn wakeup_preempts_the_task_with_the_latest_deadline() {
    for (nices, allowed, sync, expected) in [
        ([0, 5, 19, 10], &[0, 1, 2, 3][..], false, Some(2)),
        ([0, 5, 19, 10], &[0, 1, 3], false, Some(3)),
        ([19, 5, 5, 19], &[0, 1, 2, 3], false, Some(0)),
        ([-20, -20, -20, -20], &[0, 1, 2, 3], false, None),
        ([0, 5, 19, 10], &[0, 1, 2, 3], true, None),
    ] {
        let mut world = World::new("bfs", "node:1 core:4 pu:1", 1000);
        let woken = TaskAttributes { allowed: only(allowed), ..world.attributes() };
        let woken = world.start(vec![woken])[0];
        world.block(woken);
        world.start((0..4).rev().map(|cpu| world.pinned(cpu, nices[cpu as usize])).collect());
        world.rescheduled.clear();
        world.wake(0, woken, sync);
        assert_eq!(world.cpu_of(woken), expected, "{nices:?} {allowed:?} {sync}");
        assert_eq!(world.rescheduled.len(), usize::from(expected.is_some()), "at most one CPU is rescheduled");
    }
}

const SHAPES: [&str; 5] = [
    "node:1 core:4 pu:1",
    "node:1 core:2 pu:2",
    "node:2 core:3 pu:2",
    "node:1 l3:3 core:2 pu:2",
    "node:2 l3:2 core:2 pu:2",
];

/// Point 6 of `bfs.bpf.c` in the simplest form: the rank of `cpu` (lower is better) for a task that last ran on
/// `last`.
fn rank(world: &World, last: u32, cpu: u32) -> u32 {
    let place = |cpu: u32| world.machine.topology.place(CpuId(cpu));
    let busy = |shares: &dyn Fn(u32) -> bool| {
        (0..world.cpus()).any(|other| shares(other) && world.running(other) != TaskId::NONE)
    };
    let mut rank = 0;
    if place(cpu).node != place(last).node {
        rank += 32;
    } else if place(cpu).llc != place(last).llc {
        rank += 8;
    } else if place(cpu).core != place(last).core {
        rank += 2;
    } else if cpu != last {
        rank += 1;
    }
    if busy(&|other| place(other).llc == place(cpu).llc) {
        rank += 4;
    }
    if busy(&|other| place(other).core == place(cpu).core) {
        rank += 16;
    }
    rank
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Point 6 of `bfs.bpf.c` on random machines with random busy CPUs, affinities and last CPUs.
    #[test]
    fn chosen_idle_cpu_has_the_lowest_rank(
        shape in 0..SHAPES.len(), busy in any::<u16>(), allowed in 1..u16::MAX, last in 0..16u32,
    ) {
        let mut world = World::new("bfs", SHAPES[shape], 1000);
        let cpus = world.cpus();
        let last = last % cpus;
        let task = world.start(vec![world.pinned(last, 0)])[0];
        world.block(task);
        let bits = |bits: u16| (0..cpus).filter(move |cpu| bits >> (cpu % 16) & 1 == 1);
        let allowed: Vec<u32> = bits(allowed).collect();
        prop_assume!(!allowed.is_empty());
        let allowed_set: CpuSet = only(&allowed);
        world.kernel.set_affinity(CpuId(0), task, &allowed_set).unwrap();
        world.settle();
        let hogs = bits(busy).collect::<Vec<_>>().into_iter().rev();
        world.start(hogs.map(|cpu| world.pinned(cpu, -20)).collect());
        let idle: Vec<u32> = allowed.iter().copied().filter(|cpu| world.running(*cpu) == TaskId::NONE).collect();
        let best = idle.iter().map(|cpu| rank(&world, last, *cpu)).min();
        let ranks: Vec<u32> = (0..cpus).map(|cpu| rank(&world, last, cpu)).collect();
        world.wake(cpus - 1, task, false);
        let chosen = world.cpu_of(task).filter(|cpu| idle.contains(cpu));
        prop_assert_eq!(chosen.map(|cpu| ranks[cpu as usize]), best, "ranks {:?}, chosen {:?}", ranks, chosen);
    }

    /// Point 1 of `bfs.bpf.c`: no CPU is idle while a task waits that is allowed to run there, whatever the sequence
    /// of events.
    #[test]
    fn no_cpu_idles_while_an_allowed_task_waits(
        shape in 0..SHAPES.len(), events in prop::collection::vec((0..6u8, any::<u32>(), any::<u16>()), 1..60),
    ) {
        let mut world = World::new("bfs", SHAPES[shape], 250);
        let mut tasks: Vec<(TaskId, CpuSet, bool)> = vec![];
        for (what, number, bits) in events {
            let cpu = number % world.cpus();
            let allowed: Vec<u32> = (0..world.cpus()).filter(|cpu| bits >> (cpu % 16) & 1 == 1).collect();
            let allowed = if allowed.is_empty() { only(&[cpu]) } else { only(&allowed) };
            let index = number as usize % tasks.len().max(1);
            match what {
                0 | 1 => {
                    let nice = (number % 40) as i8 - 20;
                    let policy = [Policy::Other, Policy::Batch, Policy::Idle][bits as usize % 3];
                    let attributes =
                        TaskAttributes { nice, policy, allowed: allowed.clone(), ..world.attributes() };
                    let task = world.spawn(cpu, attributes);
                    tasks.push((task, allowed, true));
                }
                2 if !tasks.is_empty() && world.cpu_of(tasks[index].0).is_some() => {
                    world.block(tasks[index].0);
                    tasks[index].2 = false;
                }
                3 if !tasks.is_empty() => {
                    world.wake(cpu, tasks[index].0, bits % 2 == 0);
                    tasks[index].2 = true;
                }
                4 if !tasks.is_empty() => {
                    world.kernel.set_affinity(CpuId(cpu), tasks[index].0, &allowed).unwrap();
                    world.settle();
                    tasks[index].1 = allowed;
                }
                _ => world.run_ms(u64::from(bits % 20)),
            }
            for (task, allowed, runnable) in &tasks {
                if *runnable && world.cpu_of(*task).is_none() {
                    let idle = (0..world.cpus()).find(|cpu| {
                        world.running(*cpu) == TaskId::NONE && allowed.contains(CpuId(*cpu))
                    });
                    prop_assert_eq!(idle, None, "{} waits", task);
                }
            }
        }
    }
}

/// `wait_us`: a task that wakes while its last CPU is busy waits for that CPU, though another one is idle, for at
/// most this time.
#[test]
fn wait_us_keeps_a_woken_task_for_its_last_cpu() {
    let woken_beside_a_hog = |spec: &str| {
        let mut world = World::new(spec, "node:1 core:2 pu:1", 1000);
        let task = world.start(vec![world.pinned(1, 0)])[0];
        world.block(task);
        let hog = world.start(vec![world.pinned(1, -20)])[0];
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1])).unwrap();
        world.settle();
        world.wake(0, task, false);
        (world, task, hog)
    };
    let (world, task, _) = woken_beside_a_hog("bfs");
    assert_eq!(world.cpu_of(task), Some(0), "no wait without wait_us");
    // The task waits for 2 ms; then the idle CPU is kicked.
    let (mut world, task, _) = woken_beside_a_hog("bfs,wait_us=2000");
    world.run_until(2 * MS - 1);
    assert_eq!((world.cpu_of(task), world.running(0)), (None, TaskId::NONE));
    world.run_until(2 * MS);
    assert_eq!(world.cpu_of(task), Some(0));
    // The last CPU becomes free before the time is over.
    let (mut world, task, hog) = woken_beside_a_hog("bfs,wait_us=2000");
    world.run_until(MS);
    world.block(hog);
    assert_eq!(world.cpu_of(task), Some(1));
    // The last CPU is idle: there is no wait.
    world.block(task);
    world.wake(0, task, false);
    assert_eq!(world.cpu_of(task), Some(1));
    // Other CPUs do not pick the task before its time is over.
    let (mut world, task, _) = woken_beside_a_hog("bfs,wait_us=2000");
    let other = world.start(vec![world.pinned(0, 0)])[0];
    world.run_until(MS);
    world.block(other);
    assert_eq!((world.cpu_of(task), world.running(0)), (None, TaskId::NONE));
    // When the wait ends without a CPU, the task stays in the queue.
    let (mut world, task, _) = woken_beside_a_hog("bfs,wait_us=2000");
    let other = world.start(vec![world.pinned(0, -20)])[0];
    world.run_until(3 * MS);
    assert_eq!(world.cpu_of(task), None);
    world.block(other);
    assert_eq!(world.cpu_of(task), Some(0));
}

/// `wait_us`: several tasks wait for one CPU, each for its own time; later arrivals do not prolong earlier waits.
#[test]
fn wait_us_expires_for_each_task_separately() {
    let mut world = World::new("bfs,wait_us=2000", "node:1 core:6 pu:1", 1000);
    // Task 1 is the last in the queue, but its wait ends second.
    let tasks: Vec<TaskId> = [0, 19, 10, 0]
        .into_iter()
        .map(|nice| {
            let task = world.start(vec![world.pinned(1, nice)])[0];
            world.block(task);
            world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2, 3, 4, 5])).unwrap();
            world.settle();
            task
        })
        .collect();
    // Two tasks pinned to CPU 1 stand before and behind the waiting tasks in the queue.
    let hog = world.start(vec![world.pinned(1, -20), world.pinned(1, -19), world.pinned(1, 19)])[0];
    assert_eq!(world.running(1), hog);
    world.rescheduled.clear();
    // Task 3 wakes after the timer was rearmed.
    for (at, task, wakes) in [
        (0, 0, true),
        (500_000, 1, true),
        (1_900_000, 2, true),
        (2_000_000, 0, false),
        (2_200_000, 3, true),
        (2_500_000, 1, false),
        (3_900_000, 2, false),
        (4_200_000, 3, false),
    ] {
        if wakes {
            world.run_until(at);
            world.wake(0, tasks[task], false);
            continue;
        }
        world.run_until(at - 1);
        assert_eq!(world.cpu_of(tasks[task]), None, "{task}");
        world.run_until(at);
        assert_eq!(world.cpu_of(tasks[task]), Some(task as u32 + 2), "{task}");
    }
    assert_eq!(world.rescheduled, [2, 3, 4, 5].map(CpuId), "no other CPU is rescheduled");
}

/// `wait_us`: SCHED_IDLE tasks do not wait for their last CPU, nor do tasks that may no longer run there.
#[test]
fn wait_us_excludes_sched_idle_and_disallowed_last_cpus() {
    for (policy, allowed) in [(Policy::Idle, &[0, 1][..]), (Policy::Other, &[0])] {
        let mut world = World::new("bfs,wait_us=2000", "node:1 core:2 pu:1", 1000);
        let task = world.start(vec![TaskAttributes { policy, ..world.pinned(1, 0) }])[0];
        world.block(task);
        world.start(vec![world.pinned(1, -20)]);
        world.kernel.set_affinity(CpuId(0), task, &only(allowed)).unwrap();
        world.settle();
        world.wake(0, task, false);
        assert_eq!(world.cpu_of(task), Some(0), "{policy:?} {allowed:?}");
    }
}

/// Point 7 of `bfs.bpf.c`: a preempting task stays in the queue, and the first CPU to dispatch takes it: here CPU 1,
/// which was kicked for the other task.
#[test]
fn preempting_task_stays_in_the_queue_for_any_cpu() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 50);
    let sleepers = world.start(vec![world.attributes(); 2]);
    sleepers.iter().for_each(|task| world.block(*task));
    world.run_until(1);
    world.start(vec![world.pinned(1, 19), world.pinned(0, 18)]);
    world.inserted.clear();
    world.rescheduled.clear();
    world.wake_without_settling(0, sleepers[1]);
    world.wake_without_settling(0, sleepers[0]);
    world.settle();
    assert!(world.inserted[..2].iter().all(|put| put.dsq == 0), "{:?}", world.inserted);
    // Both tasks have the same deadline. CPU 1 was kicked for the second task and takes the first in the queue.
    assert_eq!(world.rescheduled, [CpuId(1), CpuId(0)]);
    assert!(sleepers.iter().all(|task| world.cpu_of(*task).is_some()));
}
