// SPDX-License-Identifier: GPL-2.0-only
//! The tree of `policies/stride` (preset `hierarchical`, policies/stride/tree.bpf.h).

use crate::stride::{clients_of, gaps, spread_of_error, winners};
use crate::world::World;
use ids::TaskId;
use kernel_model::{CgroupId, Leave, TaskAttributes};

/// Quanta of 10 ms, each of one tick.
const QUANTUM_MS: u64 = 10;
const SPEC: &str = "stride@hierarchical,quantum_us=10000";

fn world(shape: &str, tasks: usize) -> (World, Vec<TaskId>) {
    let mut world = World::new(SPEC, shape, 100);
    let attributes = vec![world.attributes(); tasks];
    let tasks = world.start(attributes);
    (world, tasks)
}

/// Of CPU time of the next `quanta`, each task's part.
fn parts(world: &mut World, tasks: &[TaskId], quanta: u64) -> Vec<f64> {
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(quanta * QUANTUM_MS);
    let ran = tasks.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before);
    ran.map(|ran| ran as f64 / (quanta * QUANTUM_MS) as f64).collect()
}

/// 8 clients of 7 : 1 : ... : 1: waits of the first one have a standard deviation of 2.45 without the tree. The paper has 1.07
/// with it. It depends on how the tree is when all have come: in Weir's own computation of 300 trees and 300 beginnings it is
/// between 0.5 and 1.5. The error is 1.5 quanta in the paper.
#[test]
fn waits_are_more_even_than_without_it() {
    let (mut world, tasks) = clients_of(SPEC, &[7, 1, 1, 1, 1, 1, 1, 1]);
    world.run_ms(140 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 10_000);
    let (mean, sd, _) = gaps(&winners, tasks[0]);
    assert!((mean - 2.0).abs() < 0.01 && (0.5..1.5).contains(&sd), "{mean} {sd}");
    let spread = spread_of_error(&winners, tasks[0], 0.5);
    assert!(spread <= 2.0 * 1.5, "{spread}");
}

/// Theory 2: beside 100 light clients a heavy one with as many tickets as all of them is not 50 quanta from what is due (the
/// paper: 4.5), but below the depth of the tree.
#[test]
fn a_heavy_client_is_near_its_due_beside_many_light_ones() {
    let (mut world, tasks) = world("node:1 core:1 pu:1", 101);
    let group = world.group(CgroupId::ROOT, "heavy", 10_000);
    world.place(&tasks[..1], group);
    world.run_ms(400 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 4_000);
    let spread = spread_of_error(&winners, tasks[0], 0.5);
    assert!(spread < 2.0 * 101_f64.log2(), "{spread}");
    let ran = winners.iter().filter(|winner| **winner == tasks[0]).count();
    assert!(ran.abs_diff(2_000) <= 7, "{ran}");
    let fewest = tasks.iter().map(|task| winners.iter().filter(|winner| *winner == task).count()).min();
    assert!(fewest >= Some(18), "each has 20: {fewest:?}");
}

/// Theory 1: nice values and weights are tickets here, too; in the long run shares are exact.
#[test]
fn shares_are_as_tickets() {
    for levels in [&[0, 4][..], &[0, 0, 0], &[-5, 0, 5], &[0, 1, 3, 4, 5, 7, 10]] {
        let mut world = World::new(SPEC, "node:1 core:1 pu:1", 100);
        let attributes = levels.iter().map(|nice| TaskAttributes { nice: *nice, ..world.attributes() }).collect();
        let tasks = world.start(attributes);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 10_000);
        let sum: f64 = levels.iter().map(|nice| 1.25_f64.powi(-i32::from(*nice))).sum();
        for (found, nice) in found.iter().zip(levels) {
            let due = 1.25_f64.powi(-i32::from(*nice)) / sum;
            assert!((found - due).abs() < 0.01, "{levels:?}: {found:.4}, not {due:.4}");
        }
    }
}

/// Theory 4: who gives the CPU away after a fifth of a quantum has its share all the same.
#[test]
fn a_part_of_a_quantum_is_charged_as_that() {
    let mut world = World::new(SPEC, "node:1 core:1 pu:1", 1000);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    for _ in 0..3000 {
        if world.running(0) == tasks[1] {
            world.run_ms(2);
            world.leave(0, Leave::Yield);
        } else {
            world.run_ms(QUANTUM_MS);
        }
    }
    let ran: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    let third = ran.iter().sum::<u64>() / 3;
    assert!(ran.iter().all(|ran| ran.abs_diff(third) < 30), "{ran:?}");
}

/// Theory 5: whoever has slept has no more and no less than its share from then on.
#[test]
fn sleep_earns_nothing() {
    for sleeper in 0..5 {
        let (mut world, tasks) = world("node:1 core:1 pu:1", 5);
        world.run_ms(50 * QUANTUM_MS);
        while world.running(0) != tasks[sleeper] {
            world.run_ms(QUANTUM_MS);
        }
        world.block(tasks[sleeper]);
        world.run_ms(10_000);
        world.wake(0, tasks[sleeper], false);
        let found = parts(&mut world, &tasks, 100);
        assert!(found.iter().all(|found| (found - 0.2).abs() <= 0.04), "{sleeper}: {found:?}");
    }
}

/// Theory 3: tasks that no CPU lacks keep all CPUs busy, and equal ones have equal parts.
#[test]
fn several_cpus_share_one_tree() {
    for tasks in [4, 5, 7, 16] {
        let (mut world, tasks) = world("node:1 core:4 pu:1", tasks);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 2_000);
        let due = 4.0 / tasks.len() as f64;
        assert!(found.iter().all(|found| (found - due).abs() < 0.02 * due), "{found:.3?}");
        assert!((found.iter().sum::<f64>() - 4.0).abs() < 0.001, "{found:?}");
    }
}

/// Theory 3: whoever may not run where the tree picks it waits for another CPU, and the CPU takes somebody else. Shares are
/// not exact then, but everybody has half of it at least, whichever places in the tree those have that are bound to a CPU.
#[test]
fn tasks_run_where_they_may() {
    for to_first_cpu in [0b0010_0000, 0b0000_0001, 0b0000_0110, 0b0101_0000, 0b1111_0000, 0b0001_1111u32] {
        let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
        let cpu_of = |task: u32| u32::from(to_first_cpu >> task & 1 == 0);
        let bound = (0..8).map(|task| world.pinned(cpu_of(task), 0)).collect();
        let tasks = world.start(bound);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 1_000);
        let on_first = f64::from(to_first_cpu.count_ones());
        for (task, found) in (0..).zip(&found) {
            let due = if cpu_of(task) == 0 { 1.0 / on_first } else { 1.0 / (8.0 - on_first) };
            assert!(*found > due / 2.0, "{to_first_cpu:b}, {task}: {found:.3}, not {due:.3}");
        }
    }
}

/// Theory 7 of the policy: more tasks than the tree has places for. Those without one have every other turn. Quanta of 1 ms:
/// with longer ones all who are in the tree would be overdue.
#[test]
fn whoever_has_no_place_in_the_tree_has_turns() {
    let mut world = World::new("stride@hierarchical,quantum_us=1000", "node:1 core:1 pu:1", 1000);
    let attributes = vec![world.attributes(); 1024 + 6];
    let tasks = world.start(attributes);
    let found = parts(&mut world, &tasks, 4 * 1030 / QUANTUM_MS);
    assert!(found.iter().all(|found| *found > 0.0), "everybody runs");
    let placeless = found.iter().filter(|found| **found > 0.05).sum::<f64>();
    assert!((placeless - 0.5).abs() < 0.05, "{placeless}");
}

/// Theory 3: on several CPUs shares are those of the tickets where nobody holds nearly a CPU's. Somebody who does takes turns
/// with its sibling while it could run beside it: the two together still have what is due to them, and all others theirs.
#[test]
fn tickets_count_on_several_cpus() {
    for (levels, pairs) in [(&[0, 0, 4, 4][..], 1), (&[0, 0, 0, 4, 4, 4], 1), (&[0, 4, 4, 7, 10], 2)] {
        let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
        let attributes = levels.iter().map(|nice| TaskAttributes { nice: *nice, ..world.attributes() }).collect();
        let tasks = world.start(attributes);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 4_000);
        let weights: Vec<f64> = levels.iter().map(|nice| 1.25_f64.powi(-i32::from(*nice))).collect();
        let sum: f64 = weights.iter().sum();
        for (found, weights) in found.chunks(pairs).zip(weights.chunks(pairs)) {
            let (found, due) = (found.iter().sum::<f64>(), 2.0 * weights.iter().sum::<f64>() / sum);
            assert!((found - due).abs() < 0.03 * due, "{levels:?}: {found:.4}, not {due:.4}");
        }
    }
}

/// Theory 1: whoever is picked again goes on for a quantum: with 3 : 1 tickets the light one has each fourth.
#[test]
fn quanta_are_as_long_for_who_goes_on() {
    let (mut world, tasks) = world("node:1 core:1 pu:1", 2);
    let group = world.group(CgroupId::ROOT, "heavy", 300);
    world.place(&tasks[..1], group);
    world.run_ms(100 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 400);
    let (mean, sd, most) = gaps(&winners, tasks[1]);
    assert!((mean - 4.0).abs() < 0.05 && sd < 0.01 && most == 4, "{mean} {sd} {most}");
}
