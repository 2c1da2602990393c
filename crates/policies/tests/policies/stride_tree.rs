// SPDX-License-Identifier: GPL-2.0-only
//! The tree of `policies/stride` (preset `hierarchical`, policies/stride/tree.bpf.h).

use crate::stride::{clients_of, gaps, spread_of_error, winners};
use crate::world::World;
use ids::TaskId;
use kernel_model::{CgroupId, Leave, TaskAttributes};

/// Quanta of 10 ms, one tick each.
const QUANTUM_MS: u64 = 10;
const SPEC: &str = "stride@hierarchical,quantum_us=10000";

fn world(shape: &str, tasks: usize) -> (World, Vec<TaskId>) {
    let mut world = World::new(SPEC, shape, 100);
    let attributes = vec![world.attributes(); tasks];
    let tasks = world.start(attributes);
    (world, tasks)
}

/// Returns each task's share of CPU time in the next `quanta`.
fn parts(world: &mut World, tasks: &[TaskId], quanta: u64) -> Vec<f64> {
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(quanta * QUANTUM_MS);
    let ran = tasks.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before);
    ran.map(|ran| ran as f64 / (quanta * QUANTUM_MS) as f64).collect()
}

/// 8 clients with tickets 7 : 1 : ... : 1. Without the tree, the gaps of the first one have a standard deviation of
/// 2.45; the paper has 1.07 with it. It depends on the shape of the tree: in Weir's own computation of 300 trees and
/// 300 starting states it is between 0.5 and 1.5. The paper's worst error is 1.5 quanta.
#[test]
fn tree_makes_gaps_between_a_tasks_quanta_more_even() {
    let (mut world, tasks) = clients_of(SPEC, &[7, 1, 1, 1, 1, 1, 1, 1]);
    world.run_ms(140 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 10_000);
    let (mean, sd, _) = gaps(&winners, tasks[0]);
    assert!((mean - 2.0).abs() < 0.01 && (0.5..1.5).contains(&sd), "{mean} {sd}");
    let spread = spread_of_error(&winners, tasks[0], 0.5);
    assert!(spread <= 2.0 * 1.5, "{spread}");
}

/// Point 2 of `tree.bpf.h`: beside 100 light clients, the error of a heavy one with half of all tickets is below the
/// depth of the tree (paper: 4.5 quanta), instead of 50 quanta without it.
#[test]
fn tree_bounds_the_error_of_a_heavy_client() {
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
    assert!(fewest >= Some(18), "each is due 20: {fewest:?}");
}

/// Point 1 of `tree.bpf.h`: nice values and weights are tickets here, too; in the long run shares are exact.
#[test]
fn tree_shares_follow_tickets() {
    for levels in [&[0, 4][..], &[0, 0, 0], &[-5, 0, 5], &[0, 1, 3, 4, 5, 7, 10]] {
        let mut world = World::new(SPEC, "node:1 core:1 pu:1", 100);
        let attributes = levels.iter().map(|nice| TaskAttributes { nice: *nice, ..world.attributes() }).collect();
        let tasks = world.start(attributes);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 10_000);
        let sum: f64 = levels.iter().map(|nice| 1.25_f64.powi(-i32::from(*nice))).sum();
        for (found, nice) in found.iter().zip(levels) {
            let due = 1.25_f64.powi(-i32::from(*nice)) / sum;
            assert!((found - due).abs() < 0.01, "{levels:?}: {found:.4}, expected {due:.4}");
        }
    }
}

/// Point 4 of `tree.bpf.h`: a task that yields after a fifth of a quantum still gets its share.
#[test]
fn tree_charges_partial_quanta() {
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

/// Point 5 of `tree.bpf.h`: after sleep a task gets exactly its share.
#[test]
fn tree_gives_no_credit_for_sleep() {
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

/// Point 3 of `tree.bpf.h`: all CPUs are busy, and equal tasks get equal shares.
#[test]
fn equal_tasks_on_several_cpus_share_one_tree() {
    for tasks in [4, 5, 7, 16] {
        let (mut world, tasks) = world("node:1 core:4 pu:1", tasks);
        world.run_ms(100 * QUANTUM_MS);
        let found = parts(&mut world, &tasks, 2_000);
        let due = 4.0 / tasks.len() as f64;
        assert!(found.iter().all(|found| (found - due).abs() < 0.02 * due), "{found:.3?}");
        assert!((found.iter().sum::<f64>() - 4.0).abs() < 0.001, "{found:?}");
    }
}

/// Point 3 of `tree.bpf.h`: a picked task that may not run on the CPU waits for another CPU, and the CPU takes
/// another task. Shares are then not exact, but each task gets at least half of its share, whatever the tree
/// positions of pinned tasks.
#[test]
fn pinned_tasks_in_the_tree_get_half_their_share_at_least() {
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
            assert!(*found > due / 2.0, "{to_first_cpu:b}, {task}: {found:.3}, expected {due:.3}");
        }
    }
}

/// Point 7 of `tree.bpf.h`: with more tasks than leaves in the tree, those without a leaf get every other quantum.
/// Quanta of 1 ms: with longer ones all tasks in the tree would be overdue.
#[test]
fn tasks_beyond_the_tree_get_every_other_quantum() {
    let mut world = World::new("stride@hierarchical,quantum_us=1000", "node:1 core:1 pu:1", 1000);
    let attributes = vec![world.attributes(); 1024 + 6];
    let tasks = world.start(attributes);
    let found = parts(&mut world, &tasks, 4 * 1030 / QUANTUM_MS);
    assert!(found.iter().all(|found| *found > 0.0), "every task runs");
    let without_leaf = found.iter().filter(|found| **found > 0.05).sum::<f64>();
    assert!((without_leaf - 0.5).abs() < 0.05, "{without_leaf}");
}

/// Point 3 of `tree.bpf.h`: on several CPUs shares follow tickets as long as no task is due nearly a whole CPU. Such
/// a task alternates with its sibling instead of running beside it: the two together still get their share, and all
/// others theirs.
#[test]
fn tree_shares_follow_tickets_on_several_cpus() {
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
            assert!((found - due).abs() < 0.03 * due, "{levels:?}: {found:.4}, expected {due:.4}");
        }
    }
}

/// Point 1 of `tree.bpf.h`: a task that is picked again runs for a full quantum: with 3 : 1 tickets the light task
/// gets every fourth one.
#[test]
fn repicked_task_runs_for_a_full_quantum() {
    let (mut world, tasks) = world("node:1 core:1 pu:1", 2);
    let group = world.group(CgroupId::ROOT, "heavy", 300);
    world.place(&tasks[..1], group);
    world.run_ms(100 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 400);
    let (mean, sd, most) = gaps(&winners, tasks[1]);
    assert!((mean - 4.0).abs() < 0.05 && sd < 0.01 && most == 4, "{mean} {sd} {most}");
}
