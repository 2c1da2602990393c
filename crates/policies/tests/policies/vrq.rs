// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/vrq`, by the numbers of its theory.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;
use proptest::prelude::*;

/// Queues of CPUs begin here.
const SLOT_DSQ: u64 = 0x10000;

/// Where a task of nice 0 goes that wakes while four CPUs run tasks of these nice values.
fn victim(spec: &str, nices: [i8; 4], allowed: &[u32], sync: bool) -> (World, TaskId) {
    let mut world = World::new(spec, "node:1 core:4 pu:1", 50);
    let woken = world.start(vec![TaskAttributes { allowed: only(allowed), ..world.attributes() }])[0];
    world.block(woken);
    world.start((0..4).rev().map(|cpu| world.pinned(cpu, nices[cpu as usize])).collect());
    world.told.clear();
    world.inserted.clear();
    world.wake(0, woken, sync);
    (world, woken)
}

/// Theory 3 and 4: into the slot of the first CPU that is later, or of the latest; one CPU is told.
#[test]
fn a_wakeup_is_handed_to_its_victim() {
    for (spec, nices, allowed, sync, expected) in [
        ("vrq", [0, 5, 19, 10], &[0, 1, 2, 3][..], false, Some(1)),
        ("vrq@4.3", [0, 5, 19, 10], &[0, 2, 3], false, Some(2)),
        ("vrq@0.4", [0, 5, 19, 10], &[0, 1, 2, 3], false, Some(2)),
        ("vrq@0.4", [0, 5, 19, 10], &[0, 1, 3], false, Some(3)),
        ("vrq", [-20, -20, -20, -20], &[0, 1, 2, 3], false, None),
        ("vrq", [0, 5, 19, 10], &[0, 1, 2, 3], true, None),
    ] {
        let (world, woken) = victim(spec, nices, allowed, sync);
        assert_eq!(world.cpu_of(woken), expected, "{spec} {nices:?} {allowed:?} {sync}");
        assert_eq!(world.last_queued(woken).dsq, expected.map_or(0, |cpu| SLOT_DSQ + u64::from(cpu)), "{spec}");
        assert_eq!(world.told.len(), usize::from(expected.is_some()), "{spec}");
    }
}

/// Theory 3: a CPU with a task in its slot is no victim; the next one is.
#[test]
fn two_wakeups_have_two_victims() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
    let sleepers = world.start(vec![world.attributes(); 3]);
    for task in &sleepers {
        let task = if world.cpu_of(*task).is_some() { *task } else { continue };
        world.block(task);
    }
    let last = (0..2).map(|cpu| world.running(cpu)).find(|task| *task != TaskId::NONE);
    last.into_iter().for_each(|task| world.block(task));
    world.run_until(1);
    world.start(vec![world.pinned(1, 19), world.pinned(0, 19)]);
    world.inserted.clear();
    for task in &sleepers {
        world.wake_without_settling(0, *task);
    }
    world.settle();
    let queues: Vec<u64> = sleepers.iter().map(|task| world.last_queued(*task).dsq).collect();
    assert_eq!(queues, [SLOT_DSQ, SLOT_DSQ + 1, 0], "the third waits in the queue");
    assert_eq!(sleepers[..2].iter().map(|task| world.cpu_of(*task)).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

/// Theory 3: a new task is not handed over; SCHED_IDLE tasks have no victims.
#[test]
fn new_tasks_and_idle_ones_go_to_the_queue() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
    world.start(vec![world.pinned(1, 19)]);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_until(1);
    let child = world.spawn(0, TaskAttributes { parent: Some(hog), ..world.attributes() });
    assert_eq!(world.last_queued(child).dsq, 0);
    assert_eq!(world.cpu_of(child), Some(1), "its victim is told and finds it");
    let idle = world.spawn(0, TaskAttributes { policy: Policy::Idle, ..world.attributes() });
    assert_eq!((world.last_queued(idle).dsq, world.cpu_of(idle)), (1, None));
}

/// Theory 2: the nearest idle CPU, whatever its siblings do.
#[test]
fn the_nearest_idle_cpu_is_taken() {
    for (busy, expected) in [(&[][..], 2), (&[2], 3), (&[2, 3], 0), (&[3], 2)] {
        let mut world = World::new("vrq", "node:1 core:2 pu:2", 50);
        let task = world.start(vec![world.pinned(2, 0)])[0];
        world.block(task);
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1, 2, 3])).unwrap();
        world.settle();
        world.start(busy.iter().map(|cpu| world.pinned(*cpu, 0)).collect());
        world.wake(1, task, false);
        assert_eq!(world.cpu_of(task), Some(expected), "{busy:?}");
    }
}

/// Who goes first on CPU 1: a task that is bound there, or one with an earlier deadline that ran on CPU 2 and stopped
/// `ago_ns` before. Whether it is the one from elsewhere.
fn takes_from_elsewhere(spec: &str, policy: Policy, ago_ns: u64, slept: bool) -> bool {
    let mut world = World::new(spec, "node:1 core:3 pu:1", 50);
    let sleeper = world.start(vec![world.pinned(2, -20)])[0];
    world.block(sleeper);
    let task = world.start(vec![TaskAttributes { policy, ..world.pinned(2, 19) }])[0];
    let on_1 = world.start(vec![world.pinned(1, -20)])[0];
    let begin_ns = 10 * MS;
    world.run_until(begin_ns);
    if slept {
        world.block(task);
        world.wake(0, sleeper, false);
        world.wake(0, task, false);
    } else {
        world.wake(0, sleeper, false);
    }
    assert_eq!(world.cpu_of(task), None, "{spec}");
    world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2])).unwrap();
    world.settle();
    let near = world.start(vec![world.pinned(1, 19)])[0];
    world.run_until(begin_ns + ago_ns);
    world.block(on_1);
    assert!([near, task].contains(&world.running(1)), "{spec}");
    world.running(1) == task
}

/// Theory 5, 4.3: one slice for normal tasks, 1 s for SCHED_BATCH or all; sleepers are cached as well.
#[test]
fn tasks_are_cached_for_a_time_by_policy() {
    const SLICE_NS: u64 = 6 << 20;
    for slept in [false, true] {
        assert!(!takes_from_elsewhere("vrq", Policy::Other, SLICE_NS - 1, slept), "{slept}");
        assert!(takes_from_elsewhere("vrq", Policy::Other, SLICE_NS, slept), "{slept}");
        assert!(!takes_from_elsewhere("vrq,preempt_none=true", Policy::Other, SLICE_NS, slept), "{slept}");
    }
    assert!(!takes_from_elsewhere("vrq", Policy::Batch, SLICE_NS, false));
}

/// Theory 5, 0.4: only who could have gone on, and by the switches of its CPU, whatever time it takes.
#[test]
fn in_0_4_tasks_are_cached_for_14_switches() {
    assert!(!takes_from_elsewhere("vrq@0.4", Policy::Other, 7 * MS, false));
    assert!(takes_from_elsewhere("vrq@0.4", Policy::Other, MS, true), "a sleeper is not cached");
    for (rounds, half, taken) in [(6, true, false), (7, false, true)] {
        let mut world = World::new("vrq@0.4", "node:1 core:3 pu:1", 50);
        let sleepers = [0, 1].map(|at| {
            world.run_until(at);
            let task = world.start(vec![world.pinned(2, -20)])[0];
            world.block(task);
            task
        });
        let task = world.start(vec![world.pinned(2, 19)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.run_until(10 * MS);
        // Its CPU switches to the first sleeper, then to the second and back, again and again: 14 or 15 times.
        sleepers.iter().for_each(|sleeper| world.wake(0, *sleeper, false));
        for _ in 0..rounds {
            world.block(sleepers[0]);
            world.wake(0, sleepers[0], false);
        }
        if half {
            world.block(sleepers[0]);
        }
        world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2])).unwrap();
        world.settle();
        let near = world.start(vec![world.pinned(1, 19)])[0];
        world.block(on_1);
        assert!([near, task].contains(&world.running(1)));
        assert_eq!(world.running(1) == task, taken, "{rounds}");
    }
}

/// Theory 6: the clock of one CPU is behind by 1 ms, more than the kernel's ever are. A normal task beside others of nice 19
/// has what it has without that. (In VRQ 0.3 such clocks drifted on, by seconds in a night.)
#[test]
fn a_clock_that_is_behind_favours_nobody() {
    let normal_ms = |behind_ns: i64| {
        let mut world = World::new("vrq", "node:1 core:2 pu:1", 250);
        world.kernel.disturb_clock(CpuId(1), -behind_ns, None);
        let batch = TaskAttributes { policy: Policy::Batch, nice: 19, ..world.attributes() };
        let mut all = vec![batch; 6];
        all.push(world.attributes());
        let tasks = world.start(all);
        world.run_ms(10_000);
        world.ran_ms(*tasks.last().unwrap())
    };
    let (without, with) = (normal_ms(0), normal_ms(1_000_000));
    assert!(without > 8_000 && with.abs_diff(without) * 20 < without, "{with} ms instead of {without}");
}

/// A real-time task takes the victim before it has looked into its slot: somebody else does.
#[test]
fn a_handed_task_does_not_wait_for_a_real_time_task() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 250);
    let fifo = world.start(vec![TaskAttributes { policy: Policy::Fifo(1), ..world.pinned(1, 0) }])[0];
    world.block(fifo);
    let woken = world.start(vec![TaskAttributes { allowed: only(&[1]), ..world.attributes() }])[0];
    world.block(woken);
    world.run_until(1);
    world.kernel.set_affinity(CpuId(0), woken, &only(&[0, 1])).unwrap();
    world.settle();
    world.start(vec![world.pinned(1, 19), world.pinned(0, -20)]);
    world.wake_without_settling(0, woken);
    world.wake_without_settling(0, fifo);
    world.settle();
    assert_eq!((world.running(1), world.last_queued(woken).dsq), (fifo, SLOT_DSQ + 1));
    assert_eq!(world.cpu_of(woken), None, "CPU 0 has an earlier deadline");
    world.run_ms(100);
    assert!(world.ran_ms(woken) > 0, "but looks into the slot when it picks");
}

/// A CPU that goes gives away what is in its slot, and is nobody's victim.
#[test]
fn cpus_come_and_go() {
    let mut world = World::new("vrq", "node:1 core:3 pu:1", 250);
    let sleeper = world.start(vec![world.attributes()])[0];
    world.block(sleeper);
    let tasks = world.start(vec![world.attributes(); 6]);
    world.run_ms(20);
    world.offline(2);
    world.wake(0, sleeper, false);
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(400);
    for (task, before) in tasks.iter().zip(before) {
        assert!(world.ran_ms(*task) > before, "{task}");
    }
    assert_eq!(world.running(2), TaskId::NONE);
    world.online(2);
    world.run_ms(20);
    assert_ne!(world.running(2), TaskId::NONE);
}

/// SCHED_IDLE waits as in bfs, and not for ever.
#[test]
fn idle_tasks_are_promoted() {
    let mut world = World::new("vrq", "node:1 core:1 pu:1", 1000);
    let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
    let tasks = world.start(vec![world.pinned(0, 0), idle]);
    world.run_ms(8_000);
    assert_eq!(world.ran_ms(tasks[1]), 0);
    world.run_ms(40_000);
    assert_eq!(world.ran_ms(tasks[1]), 10);
}

/// Shares of a CPU are those of bfs.
#[test]
fn nice_19_gets_one_slice_in_36() {
    let mut world = World::new("vrq", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
    world.run_ms(6 * 36 * 20);
    assert_eq!((world.ran_ms(tasks[0]), world.ran_ms(tasks[1])), (120 * 35, 120));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, no CPU idles while a task waits that may run there, in the queue or in a slot.
    #[test]
    fn no_cpu_idles_while_a_task_waits(
        first in any::<bool>(), events in prop::collection::vec((0..6u8, any::<u32>(), any::<u16>()), 1..60),
    ) {
        let spec = if first { "vrq" } else { "vrq@0.4" };
        let mut world = World::new(spec, "node:2 core:2 pu:2", 250);
        let mut tasks: Vec<(TaskId, ids::CpuSet, bool)> = vec![];
        for (what, number, bits) in events {
            let cpu = number % world.cpus();
            let allowed: Vec<u32> = (0..world.cpus()).filter(|cpu| bits >> (cpu % 16) & 1 == 1).collect();
            let allowed = if allowed.is_empty() { only(&[cpu]) } else { only(&allowed) };
            let index = number as usize % tasks.len().max(1);
            match what {
                0 | 1 => {
                    let nice = (number % 40) as i8 - 20;
                    let policy = [Policy::Other, Policy::Batch, Policy::Idle][bits as usize % 3];
                    let attributes = TaskAttributes { nice, policy, allowed: allowed.clone(), ..world.attributes() };
                    tasks.push((world.spawn(cpu, attributes), allowed, true));
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
