// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/entitlement`. Unless stated otherwise, half-lives are 1 s and slices 20 ms.

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

/// Returns the CPU time of each task in the next `ms`, as a fraction of `ms`.
fn shares(world: &mut World, tasks: &[TaskId], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(ms);
    tasks.iter().zip(before).map(|(task, before)| (world.ran_ms(*task) - before) as f64 / ms as f64).collect()
}

/// Point 2 of `entitlement.bpf.c` with h = 5 s and slices of 100 ms: 420, 20 and 10 shares get 92.2, 5.0 and 2.8 %
/// (computed, not published), because slices favor small shares. Tolerance half a point.
#[test]
fn cpu_time_follows_shares_of_420_20_and_10() {
    let mut world = World::new("entitlement@williams", "node:1 core:1 pu:1", 100);
    let attributes = [-20, 0, 10].map(|level| nice(&world, level)).to_vec();
    let tasks = world.start(attributes);
    world.run_ms(60_000);
    let found = shares(&mut world, &tasks, 200_000);
    for (found, expected) in found.iter().zip([0.922, 0.050, 0.028]) {
        assert!((found - expected).abs() < 0.005, "{found:.4}, expected {expected}");
    }
}

/// Point 2 of `entitlement.bpf.c`: shares are 20 - nice for nice >= 0 and 20 + nice^2 below. With short slices CPU
/// shares are exact to a point.
#[test]
fn cpu_shares_follow_nice_values_exactly_with_short_slices() {
    for (level, shares_of) in [(19, 1.0), (15, 5.0), (5, 15.0), (0, 20.0), (-1, 21.0), (-5, 45.0), (-10, 120.0)] {
        let mut world = alone("entitlement,half_life_ms=2000,slice_us=1000");
        let attributes = vec![nice(&world, level), nice(&world, 0)];
        let tasks = world.start(attributes);
        world.run_ms(20_000);
        let found = shares(&mut world, &tasks, 20_000)[0];
        let expected = shares_of / (shares_of + 20.0);
        assert!((found - expected).abs() < 0.01, "nice {level}: {found:.4}, expected {expected:.4}");
    }
}

/// Point 7 of `entitlement.bpf.c`: beside n tasks that have used the CPU for long, a newcomer without usage runs
/// alone for h * log2((n + 1) / n), within a slice.
#[test]
fn newcomer_runs_alone_until_its_usage_catches_up() {
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
        assert_eq!(world.running(0), newcomer, "the newcomer preempts (theory 5)");
        while world.running(0) == newcomer {
            world.run_ms(1);
        }
        let alone_ms = (world.now_ns - start) as f64 / MS as f64;
        let expected = 1000.0 * ((n as f64 + 1.0) / n as f64).log2();
        assert!((alone_ms - expected).abs() <= 20.0, "{n}: {alone_ms} ms, expected {expected:.1}");
    }
}

/// Point 3 of `entitlement.bpf.c`: the order of waiting tasks does not change while they wait, and a longer wait
/// makes up for usage: after equal runs, the task that has waited longest is first.
#[test]
fn keys_order_waiting_tasks_by_usage_and_wait() {
    let mut world = alone("entitlement,half_life_ms=1000,slice_us=300000");
    let attributes = vec![nice(&world, 0); 4];
    let tasks = world.start(attributes);
    // Each task runs once; the first has then waited longest and is next.
    world.run_ms(1200);
    let order: Vec<TaskId> = world.switches.iter().map(|(_, task)| *task).collect();
    assert_eq!(order[..5], [tasks[0], tasks[1], tasks[2], tasks[3], tasks[0]]);
    // At the end of its slice the usage is 1 - 2^-0.3; the key is exact to 2^-16 of a half-life.
    let put = world.inserted.iter().rfind(|put| put.task == tasks[3]).unwrap();
    let usage = 1.0 - 2.0f64.powf(-0.3);
    let expected = 1200.0 * MS as f64 + 1e9 * (16.0 + 32.0 + usage.log2() - 20.0f64.log2());
    assert!((put.key as f64 - expected).abs() < 100_000.0, "{} and {expected}", put.key);
}

/// Points 2, 3 of `entitlement.bpf.c`, to the nanosecond: a task without usage counts with a usage of 2^-20, and has
/// 16 shares at nice 4, so its key is 48 - 20 - 4 half-lives from now. The same holds after a sleep that is long
/// enough.
#[test]
fn unused_task_counts_with_a_usage_of_2_to_the_minus_20() {
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

/// Point 6 of `entitlement.bpf.c`: forking gains no CPU time: the child inherits its parent's usage.
#[test]
fn forked_child_inherits_its_parents_usage() {
    let mut world = alone(SPEC);
    let attributes = vec![nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(5_000);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    let child = world.spawn(0, TaskAttributes { parent: Some(tasks[0]), ..world.attributes() });
    assert_eq!(world.running(0), tasks[0], "the child's key is not lower");
    let found = shares(&mut world, &[tasks[0], tasks[1], child], 300);
    assert!(found[2] < 0.5, "{found:?}");
}

/// Point 5 of `entitlement.bpf.c`: a woken task preempts the running task with the highest key, and no task with a
/// lower key than its own.
#[test]
fn wakeup_preempts_the_highest_key() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 1000);
    let attributes = vec![nice(&world, 0), nice(&world, -20), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(200);
    // The third task sleeps, and the CPUs run the other two.
    while world.cpu_of(tasks[2]).is_none() {
        world.run_ms(1);
    }
    world.block(tasks[2]);
    world.run_ms(2_000);
    let heavy_at = world.cpu_of(tasks[1]).unwrap();
    world.rescheduled.clear();
    world.wake(heavy_at, tasks[2], false);
    assert_eq!(world.cpu_of(tasks[2]), Some(1 - heavy_at));
    assert_eq!(world.cpu_of(tasks[1]), Some(heavy_at));
}

/// A task whose usage is above that of the running tasks waits for the end of the slice.
#[test]
fn task_with_higher_usage_does_not_preempt() {
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

/// Point 10 of `entitlement.bpf.c`: by keys alone a task with 1 share that had the CPU for long would wait for h *
/// log2(420) beside a newcomer with 420 shares, longer than the watchdog allows.
#[test]
fn task_with_high_usage_runs_within_11_s() {
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

/// Every slice has the length that the preset states.
#[test]
fn slice_length_follows_the_preset() {
    for (spec, slice_ns) in [("entitlement", 100 * MS), ("entitlement,slice_us=3000", 3 * MS)] {
        let mut world = World::new(spec, "node:1 core:1 pu:1", 1000);
        let attributes = vec![world.attributes(); 2];
        let tasks = world.start(attributes);
        assert_eq!(world.last_queued(tasks[1]).slice_ns, slice_ns, "{spec}");
    }
}

/// Point 5 of `entitlement.bpf.c`, on whichever CPU the task with the highest key runs.
#[test]
fn highest_key_is_preempted_on_any_cpu() {
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

/// A woken task preempts higher keys, not equal ones.
#[test]
fn equal_keys_do_not_preempt_each_other() {
    let mut world = World::new("entitlement", "node:1 core:2 pu:1", 1000);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    tasks.iter().for_each(|task| world.block(*task));
    // After this time all usage has decayed to the minimum.
    world.run_ms(400_000);
    tasks.iter().for_each(|task| world.wake(0, *task, false));
    assert_eq!([0, 1].map(|cpu| world.running(cpu)), [tasks[0], tasks[1]]);
}

/// On a machine with one CPU, an unbound kthread has a share: it waits if it has used more.
#[test]
fn unbound_kthread_has_a_share() {
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
