// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/bfs`, by the numbers of its theory.

use crate::world::{MS, World, only};
use ids::{CpuId, CpuSet, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};
use proptest::prelude::*;

/// Theory 2: the deadline of nice 19 is 209 ms behind that of nice 0, so there are 35 slices of 6 ms between.
#[test]
fn nice_19_gets_one_slice_in_36() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
    world.run_ms(6 * 36 * 100);
    assert_eq!(world.ran_ms(tasks[1]), 600);
    assert_eq!(world.ran_ms(tasks[0]), 600 * 35);
    assert_eq!(world.kernel.event_count("SCX_EV_REFILL_SLICE_DFL"), 0, "every slice is ours");
}

#[test]
fn equals_share_equally() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 250);
    let tasks = world.start(vec![world.pinned(0, 0); 3]);
    world.run_ms(30_000);
    for task in tasks {
        let ran_ms = world.ran_ms(task);
        assert!((9_980..=10_020).contains(&ran_ms), "{ran_ms}");
    }
}

/// Theory 4, substitute: BFS lets a SCHED_IDLE task starve beside others; here the first one has 2 ms after 8 s, and then
/// every 8 s.
#[test]
fn idle_tasks_wait_but_not_for_ever() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
    let tasks = world.start(vec![world.pinned(0, 0), idle]);
    world.run_ms(8_000);
    assert_eq!(world.ran_ms(tasks[1]), 0);
    world.run_ms(8_000);
    assert_eq!(world.ran_ms(tasks[1]), 2);
    world.run_ms(80_000);
    assert_eq!(world.ran_ms(tasks[1]), 22);
}

/// Theory 4: a long sleeper of that level has an old deadline and still does not pass normal tasks.
#[test]
fn an_idle_task_that_wakes_does_not_preempt() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
    let idle = world.start(vec![idle])[0];
    world.block(idle);
    world.run_ms(20_000);
    let hog = world.start(vec![world.pinned(0, 19)])[0];
    world.wake(0, idle, false);
    world.run_ms(1_000);
    assert_eq!((world.running(0), world.ran_ms(idle)), (hog, 0));
}

/// Theory 7: the CPU whose task has the latest deadline, among those that the woken task may use.
#[test]
fn a_wakeup_preempts_the_latest_deadline() {
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
        world.told.clear();
        world.wake(0, woken, sync);
        assert_eq!(world.cpu_of(woken), expected, "{nices:?} {allowed:?} {sync}");
        assert_eq!(world.told.len(), usize::from(expected.is_some()), "one CPU is told, no more");
    }
}

/// Theory 7: two tasks that wake at the same instant preempt two CPUs, not one CPU twice.
#[test]
fn a_cpu_that_was_told_is_not_told_again() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 1000);
    let sleepers = world.start(vec![world.attributes(); 2]);
    for task in &sleepers {
        world.block(*task);
    }
    world.start(vec![world.pinned(1, 19), world.pinned(0, 19)]);
    for task in &sleepers {
        world.wake_without_settling(0, *task);
    }
    world.settle();
    assert!(sleepers.iter().all(|task| world.cpu_of(*task).is_some()));
}

/// Theory 6: two tasks that wake at the same instant go to two idle CPUs, even if one of them ran on both.
#[test]
fn an_idle_cpu_that_was_claimed_is_not_claimed_again() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 1000);
    let sleepers = world.start(vec![world.pinned(0, 0); 2]);
    for _ in 0..2 {
        let task = world.running(0);
        world.block(task);
    }
    for task in &sleepers {
        world.kernel.set_affinity(CpuId(0), *task, &only(&[0, 1])).unwrap();
        world.wake_without_settling(0, *task);
    }
    world.settle();
    assert_eq!([0, 1].map(|cpu| world.running(cpu)), sleepers[..]);
}

/// Theory 4: a SCHED_BATCH task has a new deadline whenever it stops, so it is behind a normal one that stopped before.
#[test]
fn a_batch_task_has_a_new_deadline_after_every_sleep() {
    for (policy, preempts) in [(Policy::Other, true), (Policy::Batch, false)] {
        let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
        let batch = TaskAttributes { policy, ..world.pinned(0, 0) };
        let tasks = world.start(vec![world.pinned(0, 1), batch]);
        let [hog, task] = tasks[..] else { unreachable!() };
        // Deadlines are 45.2 and 41.1 ms; a new one for the task is 46.1.
        world.run_ms(5);
        assert_eq!(world.running(0), task);
        world.block(task);
        world.wake(0, task, false);
        assert_eq!(world.running(0), if preempts { task } else { hog }, "{policy:?}");
    }
}

/// Theory 9: after a yield the earlier deadline runs.
#[test]
fn a_yield_lets_the_deadlines_decide() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
    world.run_ms(1);
    assert_eq!(world.running(0), tasks[0]);
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), tasks[0], "the other's deadline is later");
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0); 2]);
    world.run_ms(1);
    assert_eq!(world.running(0), tasks[1]);
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), tasks[0], "equals take turns");
}

/// Theory 9, exact: the deadline of a task that waits moves by the difference; then it preempts if it is earlier.
#[test]
fn a_nice_value_moves_the_deadline_of_a_task_that_waits() {
    for (nice, preempts) in [(-1, false), (-10, true)] {
        let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, -5), world.pinned(0, 0)]);
        world.run_ms(1);
        world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, nice).unwrap();
        world.settle();
        assert_eq!(world.running(0) == tasks[1], preempts, "nice {nice}");
    }
}

/// Theory 9, exact: a task that runs keeps its deadline until it is renewed; a worse value makes it pick again.
#[test]
fn a_nice_value_does_not_move_the_deadline_of_a_task_that_runs() {
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
    world.run_ms(1);
    world.told.clear();
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, 19).unwrap();
    world.settle();
    assert_eq!(world.running(0), tasks[0], "41 ms are still before 65");
    assert!(!world.told.is_empty(), "it picks again");
    // At the end of its slice it is renewed by the new value: 250 ms are behind.
    world.run_ms(6);
    assert_eq!(world.running(0), tasks[1]);
    let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
    world.run_ms(1);
    world.told.clear();
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, -5).unwrap();
    world.settle();
    assert_eq!((world.running(0), world.told.len()), (tasks[0], 0), "a better value changes nothing now");
}

/// A thread of the kernel that belongs to one CPU preempts a later deadline there.
#[test]
fn kernel_threads_of_a_cpu_run_at_once() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 1000);
    let thread = TaskAttributes { kernel_thread: true, ..world.pinned(1, 0) };
    let thread = world.start(vec![thread])[0];
    world.run_ms(1);
    world.block(thread);
    let hogs = world.start(vec![world.pinned(1, 0), world.pinned(0, 0)]);
    world.run_ms(1);
    world.wake(0, thread, false);
    assert_eq!(world.running(1), thread);
    world.block(thread);
    assert_eq!(world.running(1), hogs[0]);
}

const SHAPES: [&str; 5] = [
    "node:1 core:4 pu:1",
    "node:1 core:2 pu:2",
    "node:2 core:3 pu:2",
    "node:1 l3:3 core:2 pu:2",
    "node:2 l3:2 core:2 pu:2",
];

/// Theory 6 without any shortcut: the sum of what is wrong with `cpu` for a task that ran on `last`.
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

    /// Theory 6 on random machines with random busy CPUs, affinities and last CPUs.
    #[test]
    fn the_idle_cpu_has_the_lowest_rank(
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

    /// Theory 1: whatever happens, no CPU idles while a task waits that may run there.
    #[test]
    fn no_cpu_idles_while_a_task_waits(
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

/// `wait_us`: a task that wakes while its last CPU works waits for that one, though another idles; so long and no longer.
#[test]
fn a_task_can_wait_for_its_last_cpu() {
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
    assert_eq!(world.cpu_of(task), Some(0), "it does not wait unless it is told to");
    // It waits for 2 ms; then the idle CPU is told.
    let (mut world, task, _) = woken_beside_a_hog("bfs,wait_us=2000");
    world.run_until(2 * MS - 1);
    assert_eq!((world.cpu_of(task), world.running(0)), (None, TaskId::NONE));
    world.run_until(2 * MS);
    assert_eq!(world.cpu_of(task), Some(0));
    // Its CPU is free earlier.
    let (mut world, task, hog) = woken_beside_a_hog("bfs,wait_us=2000");
    world.run_until(MS);
    world.block(hog);
    assert_eq!(world.cpu_of(task), Some(1));
    // Its last CPU idles: there is nothing to wait for.
    world.block(task);
    world.wake(0, task, false);
    assert_eq!(world.cpu_of(task), Some(1));
    // SCHED_IDLE does not wait, and who waits in vain goes on waiting in the queue.
    let (mut world, task, _) = woken_beside_a_hog("bfs,wait_us=2000");
    let other = world.start(vec![world.pinned(0, -20)])[0];
    world.run_until(3 * MS);
    assert_eq!(world.cpu_of(task), None);
    world.block(other);
    assert_eq!(world.cpu_of(task), Some(0));
}
