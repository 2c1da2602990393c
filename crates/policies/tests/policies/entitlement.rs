// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/entitlement`. Half-lives are 1 s here unless a test says otherwise, and slices 20 ms.

use crate::world::{MS, World};
use ids::{CpuId, TaskId};
use kernel_model::TaskAttributes;

const SPEC: &str = "entitlement,half_life_ms=1000,slice_us=20000";

fn alone(spec: &str) -> World {
    World::new(spec, "node:1 core:1 pu:1", 1000)
}

fn nice(world: &World, nice: i8) -> TaskAttributes {
    TaskAttributes { nice, ..world.attributes() }
}

/// CPU time of each task in the next `ms`, as a part of that.
fn shares(world: &mut World, tasks: &[TaskId], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(ms);
    tasks.iter().zip(before).map(|(task, before)| (world.ran_ms(*task) - before) as f64 / ms as f64).collect()
}

/// Theory 2 at the figures of `facts` (h = 5 s, slices of 100 ms): 420, 20 and 10 shares are worth 92.2, 5.0 and 2.8 %, for
/// slices favour those with few. Half a point.
#[test]
fn usages_are_as_shares() {
    let mut world = World::new("entitlement@williams", "node:1 core:1 pu:1", 100);
    let attributes = [-20, 0, 10].map(|level| nice(&world, level)).to_vec();
    let tasks = world.start(attributes);
    world.run_ms(60_000);
    let found = shares(&mut world, &tasks, 200_000);
    for (found, expected) in found.iter().zip([0.922, 0.050, 0.028]) {
        assert!((found - expected).abs() < 0.005, "{found:.4}, not {expected}");
    }
}

/// Theory 2: 20 - nice above 0, 20 + nice^2 below. With short slices shares are exact to a point.
#[test]
fn shares_follow_nice_values() {
    for (level, shares_of) in [(19, 1.0), (15, 5.0), (5, 15.0), (0, 20.0), (-1, 21.0), (-5, 45.0), (-10, 120.0)] {
        let mut world = alone("entitlement,half_life_ms=2000,slice_us=1000");
        let attributes = vec![nice(&world, level), nice(&world, 0)];
        let tasks = world.start(attributes);
        world.run_ms(20_000);
        let found = shares(&mut world, &tasks, 20_000)[0];
        let expected = shares_of / (shares_of + 20.0);
        assert!((found - expected).abs() < 0.01, "nice {level}: {found:.4}, not {expected:.4}");
    }
}

/// Theory 7: beside n tasks that have had the CPU for long, a newcomer without a past runs alone for h * log2((n + 1) / n),
/// within a slice.
#[test]
fn a_newcomer_has_the_cpu_until_it_has_a_past() {
    for n in [1, 2, 3, 7] {
        let mut world = alone(SPEC);
        let attributes = vec![nice(&world, 0); n + 1];
        let tasks = world.start(attributes);
        let newcomer = tasks[n];
        while world.running(0) != newcomer {
            world.run_ms(1);
        }
        world.block(newcomer);
        world.run_ms(30_000);
        let start = world.now_ns;
        world.wake(0, newcomer, false);
        assert_eq!(world.running(0), newcomer, "it interrupts: theory 5");
        while world.running(0) == newcomer {
            world.run_ms(1);
        }
        let alone_ms = (world.now_ns - start) as f64 / MS as f64;
        let expected = 1000.0 * ((n as f64 + 1.0) / n as f64).log2();
        assert!((alone_ms - expected).abs() <= 20.0, "{n}: {alone_ms} ms, not {expected:.1}");
    }
}

/// Theory 3: the order of those who wait does not change while they wait, and a longer wait makes up for usage: a task that
/// has run 300 ms and waited for a half-life is before one that has run 300 ms and waited for half of that.
#[test]
fn keys_are_right_for_as_long_as_a_task_waits() {
    let mut world = alone("entitlement,half_life_ms=1000,slice_us=300000");
    let attributes = vec![nice(&world, 0); 4];
    let tasks = world.start(attributes);
    // Each runs once: who ran first has waited for longest and is next.
    world.run_ms(1200);
    let order: Vec<TaskId> = world.began.iter().map(|(_, task)| *task).collect();
    assert_eq!(order[..5], [tasks[0], tasks[1], tasks[2], tasks[3], tasks[0]]);
    // Usage is 1 - 2^-0.3 at the end of the slice, to 16 bits of a half-life.
    let put = world.inserted.iter().rfind(|put| put.task == tasks[3]).unwrap();
    let usage = 1.0 - 2.0f64.powf(-0.3);
    let expected = 1200.0 * MS as f64 + 1e9 * (16.0 + 32.0 + usage.log2() - 20.0f64.log2());
    assert!((put.key as f64 - expected).abs() < 100_000.0, "{} and {expected}", put.key);
}

/// Theory 2, 3, to the nanosecond: who has had nothing has a usage of 2^-20, and 16 shares at nice 4. So its key is 48 - 20 - 4
/// half-lives from now. So it is again for who has slept for long enough.
#[test]
fn who_has_had_nothing_has_a_millionth() {
    for half_life_ms in [1_000, 5_000] {
        let mut world = alone(&format!("entitlement,half_life_ms={half_life_ms},slice_us=20000"));
        let attributes = vec![nice(&world, 4); 2];
        let tasks = world.start(attributes);
        let due_ns = 24 * half_life_ms * MS;
        assert_eq!(world.last_queued(tasks[1]).key, due_ns, "{half_life_ms} ms");
        while world.running(0) != tasks[1] {
            world.run_ms(1);
        }
        world.block(tasks[1]);
        world.run_ms(33 * half_life_ms);
        world.wake(0, tasks[1], false);
        assert_eq!(world.last_queued(tasks[1]).key, world.now_ns + due_ns, "{half_life_ms} ms");
    }
}

/// Theory 6: forking gains nothing: the child has its parent's usage.
#[test]
fn a_child_has_its_parents_past() {
    let mut world = alone(SPEC);
    let attributes = vec![nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(5_000);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    let child = world.spawn(0, TaskAttributes { parent: Some(tasks[0]), ..world.attributes() });
    assert_eq!(world.running(0), tasks[0], "it has no better key");
    let found = shares(&mut world, &[tasks[0], tasks[1], child], 300);
    assert!(found[2] < 0.5, "{found:?}");
}

/// Theory 5: who wakes interrupts the latest of those that run, and nobody who is earlier than itself.
#[test]
fn the_latest_is_interrupted() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 1000);
    let attributes = vec![nice(&world, 0), nice(&world, -20), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(200);
    // The third one sleeps, and both CPUs run the others.
    while world.cpu_of(tasks[2]).is_none() {
        world.run_ms(1);
    }
    world.block(tasks[2]);
    world.run_ms(2_000);
    let heavy_at = world.cpu_of(tasks[1]).unwrap();
    world.told.clear();
    world.wake(heavy_at, tasks[2], false);
    assert_eq!(world.cpu_of(tasks[2]), Some(1 - heavy_at));
    assert_eq!(world.cpu_of(tasks[1]), Some(heavy_at));
}

/// A task whose usage is above that of those who run waits for the slice to end.
#[test]
fn who_has_used_more_does_not_interrupt() {
    let mut world = alone("entitlement,half_life_ms=60000,slice_us=100000");
    let attributes = vec![nice(&world, 10), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(1_000);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    let used = tasks[0];
    world.run_ms(50);
    world.block(used);
    assert_eq!(world.running(0), tasks[1]);
    world.wake(0, used, false);
    assert_eq!(world.running(0), tasks[1]);
}

/// Theory 10: by keys alone one of 1 share that had the CPU for long would wait for h * log2(420) beside a newcomer of 420,
/// which the watchdog does not allow.
#[test]
fn who_had_the_cpu_for_long_does_not_wait_for_ever() {
    let mut world = World::new("entitlement@williams", "node:1 core:1 pu:1", 1000);
    let attributes = vec![nice(&world, 19)];
    let light = world.start(attributes)[0];
    world.run_ms(60_000);
    world.block(light);
    let attributes = vec![nice(&world, -20)];
    world.start(attributes);
    world.wake(0, light, false);
    let before = world.ran_ms(light);
    let mut waited = 0;
    while world.ran_ms(light) == before {
        world.run_ms(1);
        waited += 1;
    }
    assert!((9_000..=11_200).contains(&waited), "{waited} ms");
}

/// A slice has the length that the preset says, whoever has it.
#[test]
fn slices_have_their_length() {
    for (spec, slice_ns) in [("entitlement", 100 * MS), ("entitlement,slice_us=3000", 3 * MS)] {
        let mut world = World::new(spec, "node:1 core:1 pu:1", 1000);
        let attributes = vec![world.attributes(); 2];
        let tasks = world.start(attributes);
        assert_eq!(world.last_queued(tasks[1]).slice_ns, slice_ns, "{spec}");
    }
}

/// Theory 5, wherever the latest one is.
#[test]
fn each_cpu_is_known_by_itself() {
    for late in 0..2 {
        let mut world = World::new(SPEC, "node:1 core:2 pu:1", 1000);
        let attributes = vec![world.pinned(1 - late, -20), world.pinned(late, 0), nice(&world, 0)];
        let tasks = world.start(attributes);
        while world.cpu_of(tasks[2]).is_none() {
            world.run_ms(1);
        }
        world.block(tasks[2]);
        world.run_ms(2_000);
        world.wake(late, tasks[2], false);
        assert_eq!(world.cpu_of(tasks[2]), Some(late));
        assert_eq!(world.cpu_of(tasks[0]), Some(1 - late));
    }
}

/// Whoever wakes goes before those who are later, not before its equals.
#[test]
fn equals_do_not_interrupt_each_other() {
    let mut world = World::new("entitlement", "node:1 core:2 pu:1", 1000);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    tasks.iter().for_each(|task| world.block(*task));
    // By then all usage is forgotten: it is the least for all of them.
    world.run_ms(400_000);
    tasks.iter().for_each(|task| world.wake(0, *task, false));
    assert_eq!([0, 1].map(|cpu| world.running(cpu)), [tasks[0], tasks[1]]);
}

/// Where there is one CPU a thread of the kernel that belongs to none has its share: it waits when it has had more.
#[test]
fn a_thread_of_the_kernel_that_belongs_to_no_cpu_has_its_share() {
    for (own_cpu, is_client) in [(None, true), (Some(CpuId(0)), false)] {
        let mut world = World::new("entitlement", "node:1 core:1 pu:1", 1000);
        let thread = TaskAttributes { kernel_thread: true, own_cpu, ..world.attributes() };
        let thread = world.start(vec![thread])[0];
        world.run_ms(5_000);
        world.block(thread);
        let attributes = vec![world.attributes()];
        let hog = world.start(attributes)[0];
        world.run_ms(1);
        world.wake(0, thread, false);
        assert_eq!(world.running(0), if is_client { hog } else { thread });
    }
}
