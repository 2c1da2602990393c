// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/vrq`, by the numbers of its theory.

use crate::world::{MS, World, only};
use event_log::BlockCause;
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};
use proptest::prelude::*;

/// First dispatch queue of the per-CPU slots.
const SLOT_DSQ: u64 = 0x10000;

/// Wakes a nice-0 task while four CPUs run tasks of these nice values. Returns the machine and the woken task.
fn victim(spec: &str, nices: [i8; 4], allowed: &[u32], sync: bool) -> (World, TaskId) {
    let mut world = World::new(spec, "node:1 core:4 pu:1", 50);
    let woken = world.start(vec![TaskAttributes { allowed: only(allowed), ..world.attributes() }])[0];
    world.block(woken);
    world.start((0..4).rev().map(|cpu| world.pinned(cpu, nices[cpu as usize])).collect());
    world.rescheduled.clear();
    world.inserted.clear();
    world.wake(0, woken, sync);
    (world, woken)
}

/// Points 3 and 4 of `vrq.bpf.c`: the woken task goes into the slot of the first CPU with a later deadline, or of the
/// CPU with the latest one; one CPU is rescheduled.
#[test]
fn woken_task_goes_into_the_slot_of_its_victim() {
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
        assert_eq!(world.rescheduled.len(), usize::from(expected.is_some()), "{spec}");
    }
}

/// Point 3 of `vrq.bpf.c`: a CPU whose slot is occupied is not preempted; the next one is.
#[test]
fn simultaneous_wakeups_preempt_different_cpus() {
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

/// Point 3 of `vrq.bpf.c`: a new task is not put into a slot; SCHED_IDLE tasks preempt no CPU.
#[test]
fn new_and_sched_idle_tasks_go_to_the_queue_not_a_slot() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
    world.start(vec![world.pinned(1, 19)]);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_until(1);
    let child = world.spawn(0, TaskAttributes { parent: Some(hog), ..world.attributes() });
    assert_eq!(world.last_queued(child).dsq, 0);
    assert_eq!(world.cpu_of(child), Some(1), "its victim is kicked and finds it in the queue");
    let idle = world.spawn(0, TaskAttributes { policy: Policy::Idle, ..world.attributes() });
    assert_eq!((world.last_queued(idle).dsq, world.cpu_of(idle)), (1, None));
}

/// Point 2 of `vrq.bpf.c`: the nearest idle CPU is chosen, whether its SMT sibling is busy or not.
#[test]
fn nearest_idle_cpu_is_chosen_despite_a_busy_sibling() {
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

/// Point 3 of `vrq.bpf.c`, 0.3: the task stays in the queue, and the CPU with the latest deadline is preempted.
#[test]
fn vrq_0_3_keeps_the_woken_task_in_the_queue() {
    for (nices, sync, expected) in
        [([0, 5, 19, 10], false, Some(2)), ([-20, -20, -20, -20], false, None), ([0, 5, 19, 10], true, None)]
    {
        let (world, woken) = victim("vrq@0.3", nices, &[0, 1, 2, 3], sync);
        assert_eq!((world.cpu_of(woken), world.last_queued(woken).dsq), (expected, 0), "{nices:?} {sync}");
        assert_eq!(world.rescheduled.len(), usize::from(expected.is_some()));
    }
}

/// Returns the CPU time, in 10 s, of two normal tasks that wake beside six nice-19 SCHED_BATCH tasks on two CPUs,
/// with the clock of CPU 1 behind by `behind_ms`.
fn normal_ms(spec: &str, behind_ms: i64) -> u64 {
    let mut world = World::new(spec, "node:1 core:2 pu:1", 250);
    // Start late enough that even a CPU whose clock is behind shows a time above 0.
    world.run_ms(20_000);
    let normal = world.start(vec![world.attributes(); 2]);
    for task in &normal {
        world.block(*task);
    }
    let batch = TaskAttributes { policy: Policy::Batch, nice: 19, ..world.attributes() };
    world.start(vec![batch; 6]);
    world.kernel.disturb_clock(CpuId(1), -behind_ms * MS as i64, None);
    world.run_ms(1_000);
    normal.iter().for_each(|task| world.wake(0, *task, false));
    world.run_ms(10_000);
    normal.iter().map(|task| world.ran_ms(*task)).sum()
}

/// Point 6 of `vrq.bpf.c`. Each normal task runs 27 slices of 8 ms for one of each of the three other tasks on its
/// CPU: 18 s for both. In VRQ 0.3 the clocks of the CPUs were 6 s apart after 16 hours, and beside nice-19
/// SCHED_BATCH tasks one CPU took no normal task. Since then deadlines use one common clock.
#[test]
fn cpu_with_a_late_clock_starves_normal_tasks_only_in_0_3() {
    let (right, behind) = (normal_ms("vrq@0.3", 0), normal_ms("vrq@0.3", 6_000));
    assert!(right > 17_500, "the clocks are right: {right} ms");
    assert!(behind < 10_500, "one CPU of two: {behind} ms");
    for preset in ["0.4", "4.2", "4.3"] {
        for behind_ms in [1, 6_000] {
            let ms = normal_ms(&format!("vrq@{preset}"), behind_ms);
            assert!(ms > 17_500, "{preset}, {behind_ms} ms behind: {ms} ms");
        }
    }
}

/// A real-time task takes the victim CPU before it has served its slot: another CPU serves it.
#[test]
fn slot_is_served_by_another_cpu_while_a_real_time_task_runs() {
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
    assert!(world.ran_ms(woken) > 0, "CPU 0 serves the slot at its next pick");
}

/// No CPU is kicked for an empty slot.
#[test]
fn no_cpu_is_kicked_for_an_empty_slot() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 250);
    let fifo = world.start(vec![TaskAttributes { policy: Policy::Fifo(1), ..world.pinned(1, 0) }])[0];
    world.block(fifo);
    world.start(vec![world.pinned(1, 0)]);
    world.rescheduled.clear();
    world.wake(1, fifo, false);
    assert_eq!((world.running(1), &world.rescheduled[..]), (fifo, &[CpuId(1)][..]), "CPU 0 stays idle");
}

/// As soon as a real-time task takes a CPU with an occupied slot, an idle CPU is kicked for the task in the slot. Once
/// the real-time task has gone, other CPUs leave the slot alone again.
#[test]
fn slot_of_a_preempted_cpu_is_served_by_an_idle_cpu() {
    for victim in [0, 1] {
        let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
        let fifo = TaskAttributes { policy: Policy::Fifo(1), ..world.pinned(victim, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        let woken = world.start(vec![world.attributes()])[0];
        world.block(woken);
        world.run_until(1);
        let other = 1 - victim;
        let mut hogs = vec![world.pinned(1, -20), world.pinned(0, -20)];
        hogs[other as usize].nice = -19;
        let late = TaskAttributes { nice: 19, ..world.pinned(victim, 0) };
        hogs[if victim == 1 { 0 } else { 1 }] = late;
        let hogs = world.start(hogs);
        let beside = hogs[if victim == 1 { 1 } else { 0 }];
        for round in 0..3 {
            assert_eq!(world.cpu_of(beside), Some(other), "{victim}, round {round}");
            world.wake_without_settling(0, woken);
            assert_eq!(world.kernel.current(CpuId(other)), beside);
            // The other CPU goes idle before the victim has served its slot; until then only the victim serves it.
            world.kernel.schedule(CpuId(other), Leave::Block(BlockCause::Timer));
            assert_eq!(world.running(other), TaskId::NONE, "{victim}, round {round}: no other CPU serves the slot");
            world.wake_without_settling(0, fifo);
            world.settle();
            assert_eq!([world.running(victim), world.running(other)], [fifo, woken], "{victim}, round {round}");
            world.block(woken);
            world.block(fifo);
            world.wake(0, beside, false);
        }
    }
}

/// A displaced task waits in the queue and preempts no CPU.
#[test]
fn displaced_task_goes_to_the_queue_not_a_slot() {
    for spec in ["vrq", "vrq@0.3"] {
        let mut world = World::new(spec, "node:1 core:2 pu:1", 50);
        let early = world.start(vec![world.pinned(0, -20)])[0];
        world.block(early);
        world.run_until(100 * MS);
        let late = world.start(vec![world.pinned(1, 19), world.attributes()]);
        world.rescheduled.clear();
        world.wake(0, early, false);
        assert_eq!([0, 1].map(|cpu| world.running(cpu)), [early, late[0]], "{spec}");
        assert_eq!(world.last_insert(late[1]).dsq, 0, "{spec}");
        assert_eq!(world.rescheduled, [CpuId(0)], "{spec}");
    }
}

/// The task in the slot of a CPU that goes offline runs elsewhere.
#[test]
fn slot_of_an_offlined_cpu_is_served_elsewhere() {
    let mut world = World::new("vrq", "node:1 core:3 pu:1", 50);
    let woken = world.start(vec![world.attributes()])[0];
    world.block(woken);
    world.run_until(1);
    let late = world.start(vec![world.pinned(2, 19), world.pinned(1, -20), world.pinned(0, -20)])[0];
    world.wake_without_settling(0, woken);
    assert_eq!(world.kernel.current(CpuId(2)), late);
    world.kernel.deactivate_cpu(CpuId(2));
    world.settle();
    world.kernel.offline_cpu(CpuId(2));
    world.settle();
    assert!(world.kernel.is_vacant(CpuId(2)));
    world.kernel.kill_cpu(CpuId(2));
    world.run_ms(100);
    assert!(world.ran_ms(woken) > 0);
}

/// Tasks of an offline CPU run elsewhere, and the CPU is used again once it is back.
#[test]
fn tasks_survive_cpu_hotplug() {
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

/// SCHED_IDLE tasks wait as in bfs and are promoted every 8 s.
#[test]
fn sched_idle_task_is_promoted_every_8_s() {
    let mut world = World::new("vrq", "node:1 core:1 pu:1", 1000);
    let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
    let tasks = world.start(vec![world.pinned(0, 0), idle]);
    world.run_ms(8_000);
    assert_eq!(world.ran_ms(tasks[1]), 0);
    world.run_ms(40_000);
    assert_eq!(world.ran_ms(tasks[1]), 10);
}

/// CPU shares equal those of bfs.
#[test]
fn nice_19_gets_one_slice_in_36() {
    let mut world = World::new("vrq", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
    world.run_ms(6 * 36 * 20);
    assert_eq!((world.ran_ms(tasks[0]), world.ran_ms(tasks[1])), (120 * 35, 120));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// No CPU is idle while a task waits that is allowed to run there, in the queue or in a slot, whatever the
    /// events.
    #[test]
    fn no_cpu_idles_while_an_allowed_task_waits(
        preset in 0..4usize, events in prop::collection::vec((0..6u8, any::<u32>(), any::<u16>()), 1..60),
    ) {
        let spec = ["vrq", "vrq@0.3", "vrq@0.4", "vrq@4.2"][preset];
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
