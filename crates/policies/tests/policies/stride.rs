// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/stride`. The policy is deterministic, so all results except rates are exact.

use crate::headers;
use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{CgroupId, CgroupKnobs, Leave, TaskAttributes};

/// Quanta of 10 ms, one tick each.
const QUANTUM_MS: u64 = 10;
const SPEC: &str = "stride,quantum_us=10000";

fn alone() -> World {
    World::new(SPEC, "node:1 core:1 pu:1", 100)
}

fn nice(world: &World, nice: i8) -> TaskAttributes {
    TaskAttributes { nice, ..world.attributes() }
}

/// Tickets by nice value: Linux weights (`sched_prio_to_weight`) / 1024 * 100, rounded.
fn tickets(nice: i8) -> u64 {
    let weight = match nice {
        -10 => 9548,
        -5 => 3121,
        -1 => 1277,
        0 => 1024,
        1 => 820,
        3 => 526,
        4 => 423,
        5 => 335,
        7 => 215,
        10 => 110,
        _ => unreachable!("not in these tests"),
    };
    (weight * 100 + 512) / 1024
}

/// Returns the task that runs on `cpu` in each of the next `quanta`.
pub fn winners(world: &mut World, cpu: u32, quanta: usize) -> Vec<TaskId> {
    (0..quanta)
        .map(|_| {
            let winner = world.running(cpu);
            world.run_ms(QUANTUM_MS);
            winner
        })
        .collect()
}

/// Point 1 of `stride.bpf.c`: the pairwise error of any two tasks is below one quantum at all times.
#[test]
fn pairwise_error_is_below_one_quantum() {
    for levels in
        [&[0, 1][..], &[0, 4], &[0, 3, 5], &[-5, 0, 0, 7], &[-10, 0, 1, 3, 4, 5, 7, 10], &[-1, -1, 10, 10, 10]]
    {
        let mut world = alone();
        let attributes = levels.iter().map(|level| nice(&world, *level)).collect();
        let tasks = world.start(attributes);
        let mut ran = vec![0.0; tasks.len()];
        let mut worst = 0.0f64;
        for winner in winners(&mut world, 0, 3000) {
            ran[tasks.iter().position(|task| *task == winner).unwrap()] += 1.0;
            for a in 0..tasks.len() {
                for b in 0..a {
                    let (of_a, of_b) = (tickets(levels[a]) as f64, tickets(levels[b]) as f64);
                    let due = (ran[a] + ran[b]) * of_a / (of_a + of_b);
                    worst = worst.max((ran[a] - due).abs());
                }
            }
        }
        assert!(worst < 1.0, "{levels:?}: {worst}");
        assert!(ran.iter().all(|ran| *ran > 0.0), "{levels:?}: {ran:?}");
    }
}

/// Point 1 of `stride.bpf.c`: with 100 and 41 tickets the light task gets every third or fourth quantum.
#[test]
fn gaps_between_a_tasks_quanta_differ_by_at_most_one_quantum() {
    let mut world = alone();
    let attributes = vec![nice(&world, 0), nice(&world, 4)];
    let light = world.start(attributes)[1];
    let winners = winners(&mut world, 0, 1410);
    let won: Vec<usize> = (100..winners.len()).filter(|turn| winners[*turn] == light).collect();
    let gaps: Vec<usize> = won.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| [3, 4].contains(gap)), "{gaps:?}");
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    assert!((mean - 141.0 / 41.0).abs() < 0.02, "{mean}");
}

/// Point 2 of `stride.bpf.c`: only CPU time used is charged: a task that yields after a fifth of a quantum still gets
/// its share.
#[test]
fn partial_quantum_is_charged_partially() {
    let mut world = World::new(SPEC, "node:1 core:1 pu:1", 1000);
    let attributes = vec![nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    for _ in 0..2000 {
        if world.running(0) == tasks[1] {
            world.run_ms(2);
            world.leave(0, Leave::Yield);
        } else {
            world.run_ms(QUANTUM_MS);
        }
    }
    let (hog, short) = (world.ran_ms(tasks[0]), world.ran_ms(tasks[1]));
    assert!(hog.abs_diff(short) <= 2 * QUANTUM_MS, "{hog} and {short} ms");
}

/// Point 3 of `stride.bpf.c`: after sleep a task gets exactly its share.
#[test]
fn sleep_neither_earns_nor_costs_cpu_time() {
    for slept_ms in [100, 1_000, 60_000] {
        let mut world = alone();
        let attributes = vec![nice(&world, 0); 3];
        let tasks = world.start(attributes);
        world.run_ms(300);
        while world.running(0) != tasks[2] {
            world.run_ms(QUANTUM_MS);
        }
        world.block(tasks[2]);
        world.run_ms(slept_ms);
        let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
        world.wake(0, tasks[2], false);
        world.run_ms(3_000);
        for (task, before) in tasks.iter().zip(before) {
            let ran = world.ran_ms(*task) - before;
            assert!(ran.abs_diff(1_000) <= 2 * QUANTUM_MS, "{slept_ms} ms: {ran}");
        }
    }
}

/// Point 3 of `stride.bpf.c`: a new task starts one quantum behind, however long the others have run.
#[test]
fn new_task_does_not_catch_up_with_the_past() {
    for ran_ms in [0, 10_000, 100_000] {
        let mut world = alone();
        let attributes = vec![nice(&world, 0); 2];
        let old = world.start(attributes);
        world.run_ms(ran_ms);
        let parent = world.running(0);
        let new = world.spawn(0, TaskAttributes { parent: Some(parent), ..world.attributes() });
        let before: Vec<u64> = old.iter().map(|task| world.ran_ms(*task)).collect();
        world.run_ms(6 * QUANTUM_MS);
        assert!([1, 2].contains(&(world.ran_ms(new) / QUANTUM_MS)), "{ran_ms}: {}", world.ran_ms(new));
        world.run_ms(2_940);
        for (task, before) in [(old[0], before[0]), (old[1], before[1]), (new, 0)] {
            let ran = world.ran_ms(task) - before;
            assert!(ran.abs_diff(1_000) <= 2 * QUANTUM_MS, "{ran_ms}: {ran}");
        }
    }
}

/// Point 4 of `stride.bpf.c`: when the tickets change, a task's distance in quanta is kept: a debt of one quantum
/// with 100 tickets is one with 11 tickets, which is a longer distance in virtual time.
#[test]
fn remaining_distance_is_scaled_with_the_stride() {
    let mut world = alone();
    let attributes = vec![nice(&world, 0); 2];
    let tasks = world.start(attributes);
    // The second task has not run yet: it is one of its own quanta behind.
    let behind = |world: &World| world.last_queued(tasks[1]).key - (1 << 50);
    assert_eq!(behind(&world), QUANTUM_MS * MS * 1024 / 100);
    world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, 10).unwrap();
    world.settle();
    assert_eq!(behind(&world), QUANTUM_MS * MS * 1024 / 100 * 100 / 11);
}

/// Point 5 of `stride.bpf.c`: on two CPUs a task of 932 tickets beside one of 100 can use only one CPU. After 1,000
/// quanta a third task starts: by the paper's rules it would run for as long as the first task is ahead of the global
/// pass.
#[test]
fn newcomer_does_not_starve_a_task_beside_an_infeasible_one() {
    for (clamp, at_least, at_most) in [(true, 0, 2), (false, 790, 820)] {
        let mut world = World::new(&format!("{SPEC},clamp={clamp}"), "node:1 core:2 pu:1", 100);
        let attributes = vec![world.pinned(0, 0), world.pinned(1, -10)];
        let light = world.start(attributes)[0];
        winners(&mut world, 0, 1000);
        let new = world.spawn(1, world.pinned(0, 0));
        let waited = winners(&mut world, 0, 1200).iter().skip(1).take_while(|winner| **winner == new).count();
        assert!((at_least..=at_most).contains(&waited), "clamp={clamp}: the first task waits for {waited} quanta");
        assert!(world.ran_ms(light) > 0);
    }
}

/// Point 5 of `stride.bpf.c`: after the tickets of a cgroup have changed many times, its previous tickets no longer
/// count.
#[test]
fn changed_tickets_are_counted_once() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
    let group = world.group(CgroupId::ROOT, "a", 100);
    let attributes = vec![world.pinned(0, 0), world.pinned(1, -10)];
    let light = world.start(attributes)[0];
    world.place(&[light], group);
    for turn in 0..40 {
        let weight = if turn % 2 == 0 { 200 } else { 100 };
        world.kernel.set_cgroup(CpuId(0), group, CgroupKnobs { weight, ..CgroupKnobs::default() });
        world.settle();
        winners(&mut world, 0, 5);
    }
    winners(&mut world, 0, 1000);
    let new = world.spawn(1, world.pinned(0, 0));
    let waited = winners(&mut world, 0, 1200).iter().skip(1).take_while(|winner| **winner == new).count();
    assert!(waited <= 2, "the first task waits for {waited} quanta");
}

/// Point 5 of `stride.bpf.c`: with feasible tickets, shares match the ideal: each task due more than a CPU gets one,
/// and the rest is shared.
#[test]
fn shares_on_several_cpus_match_feasible_tickets() {
    for (cpus, levels) in
        [(2, &[-10, 0, 0, 0][..]), (3, &[-10, -5, 0, 0, 4]), (4, &[0, 0, 0, 0, 0, 0]), (4, &[-10, 0, 10, 10, 10, 10])]
    {
        let mut world = World::new(SPEC, &format!("node:1 core:{cpus} pu:1"), 100);
        let attributes = levels.iter().map(|level| nice(&world, *level)).collect();
        let tasks = world.start(attributes);
        world.run_ms(60_000);
        for (task, due) in tasks.iter().zip(ideal(cpus, levels)) {
            let share = world.ran_ms(*task) as f64 / 60_000.0;
            assert!((share - due).abs() < 0.01, "{cpus} CPUs, {levels:?}: {share:.3}, expected {due:.3}");
        }
    }
}

/// Returns the ideal number of CPUs for each task: while a task is due more than one CPU, it gets one and leaves with
/// it; the rest share by tickets.
fn ideal(cpus: u32, levels: &[i8]) -> Vec<f64> {
    let mut shares = vec![None; levels.len()];
    loop {
        let rest: Vec<usize> = (0..levels.len()).filter(|task| shares[*task].is_none()).collect();
        let left = f64::from(cpus) - (levels.len() - rest.len()) as f64;
        let sum: u64 = rest.iter().map(|task| tickets(levels[*task])).sum();
        let due = |task: usize| tickets(levels[task]) as f64 * left / sum as f64;
        match rest.iter().find(|task| due(**task) > 1.0) {
            Some(task) => shares[*task] = Some(1.0),
            None => return (0..levels.len()).map(|task| shares[task].unwrap_or_else(|| due(task))).collect(),
        }
    }
}

/// Point 2 of `stride.bpf.c`: a wakeup does not preempt.
#[test]
fn wakeup_does_not_preempt_a_quantum() {
    let mut world = World::new("stride", "node:1 core:1 pu:1", 1000);
    let other = world.start(vec![world.pinned(0, -20)])[0];
    world.block(other);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(30);
    world.wake(0, other, false);
    world.run_ms(69);
    assert_eq!(world.running(0), hog);
    world.run_ms(1);
    assert_eq!(world.running(0), other);
}

/// Starts one nice-0 task in a cgroup of each weight, so that weights are tickets.
fn clients(weights: &[u32]) -> (World, Vec<TaskId>) {
    clients_of(SPEC, weights)
}

pub fn clients_of(spec: &str, weights: &[u32]) -> (World, Vec<TaskId>) {
    let mut world = World::new(spec, "node:1 core:1 pu:1", 100);
    let groups: Vec<_> =
        (0..).zip(weights).map(|(n, weight)| world.group(CgroupId::ROOT, &format!("g{n}"), *weight)).collect();
    let attributes = vec![world.attributes(); weights.len()];
    let tasks = world.start(attributes);
    for (task, group) in tasks.iter().zip(groups) {
        world.place(&[*task], group);
    }
    // All tasks start at the same pass.
    for task in &tasks {
        world.kernel.set_policy(CpuId(0), *task, Policy::Other, 0).unwrap();
    }
    world.settle();
    (world, tasks)
}

/// Returns mean, standard deviation and maximum of the quanta between wins of a task.
pub fn gaps(winners: &[TaskId], of: TaskId) -> (f64, f64, usize) {
    let won: Vec<usize> = (0..winners.len()).filter(|turn| winners[*turn] == of).collect();
    let gaps: Vec<usize> = won.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
    let sd = (gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    (mean, sd, *gaps.iter().max().unwrap())
}

/// The paper's gaps of the client with fewer tickets: 7 : 3 tickets, mean 3.33 quanta, standard deviation 0.47, at
/// most 4; 19 : 1, 20.00 with 0.01. For 8 clients of 7 : 1 : ... : 1, the standard deviation of the first one's gaps
/// is 2.45.
#[test]
fn gaps_between_a_tasks_quanta_match_the_paper() {
    let (mut world, tasks) = clients(&[7, 3]);
    let winners_of = winners(&mut world, 0, 10_000);
    let (mean, sd, most) = gaps(&winners_of, tasks[1]);
    assert!((mean - 3.333).abs() < 0.005 && (sd - 0.47).abs() < 0.005 && most == 4, "{mean} {sd} {most}");
    let (mut world, tasks) = clients(&[19, 1]);
    let winners_of = winners(&mut world, 0, 10_000);
    let (mean, sd, _) = gaps(&winners_of, tasks[1]);
    assert!((mean - 20.0).abs() < 0.05 && sd < 0.05, "{mean} {sd}");
    let (mut world, tasks) = clients(&[7, 1, 1, 1, 1, 1, 1, 1]);
    let winners_of = winners(&mut world, 0, 10_000);
    let (_, sd, _) = gaps(&winners_of, tasks[0]);
    assert!((sd - 2.45).abs() < 0.1, "{sd}");
}

/// The paper's weak point: beside 100 clients with 1 ticket each, a client with 100 tickets gets its quanta in a row,
/// and its error is 50 quanta.
#[test]
fn heavy_client_beside_many_light_ones_has_an_error_of_50_quanta() {
    let mut world = alone();
    // The cgroup has 10,000 tickets, its 100 competitors 100 each.
    let group = world.group(CgroupId::ROOT, "heavy", 10_000);
    let attributes = vec![world.attributes(); 101];
    let tasks = world.start(attributes);
    world.place(&tasks[..1], group);
    world.run_ms(400 * QUANTUM_MS);
    let winners = winners(&mut world, 0, 2_000);
    let spread = spread_of_error(&winners, tasks[0], 0.5);
    assert!((spread - 50.0).abs() < 2.0, "{spread}");
}

/// Returns the difference, in quanta, between the largest and the smallest error of `task` against its share.
pub fn spread_of_error(winners: &[TaskId], task: TaskId, share: f64) -> f64 {
    let (mut ran, mut least, mut most) = (0.0, 0.0f64, 0.0f64);
    for (turn, winner) in (1..).zip(winners) {
        ran += f64::from(u8::from(*winner == task));
        let error = ran - f64::from(turn) * share;
        (least, most) = (least.min(error), most.max(error));
    }
    most - least
}

/// Point 1 of `stride.bpf.c`: a changed weight of a cgroup counts for running and queued tasks from the next charge
/// on.
#[test]
fn changed_cgroup_weight_counts_at_once() {
    let mut world = alone();
    let groups: Vec<_> = ["a", "b"].into_iter().map(|name| world.group(CgroupId::ROOT, name, 100)).collect();
    let attributes = vec![world.attributes(); 2];
    let tasks = world.start(attributes);
    for (task, group) in tasks.iter().zip(&groups) {
        world.place(&[*task], *group);
    }
    world.run_ms(1_000);
    world.kernel.set_cgroup(CpuId(0), groups[0], CgroupKnobs { weight: 300, ..CgroupKnobs::default() });
    world.settle();
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(4_000);
    let ran: Vec<u64> = tasks.iter().zip(before).map(|(task, before)| world.ran_ms(*task) - before).collect();
    assert!(ran[0].abs_diff(3_000) <= 2 * QUANTUM_MS, "{ran:?}");
}

/// Tickets are at least 1, so tasks with smaller products of weights share equally.
#[test]
fn tickets_are_at_least_one() {
    let mut world = alone();
    let group = world.group(CgroupId::ROOT, "a", 1);
    let attributes = [0, 10, 19].map(|level| nice(&world, level)).to_vec();
    let tasks = world.start(attributes);
    world.place(&tasks, group);
    world.run_ms(3_000);
    assert!(tasks.iter().all(|task| world.ran_ms(*task).abs_diff(1_000) <= 2 * QUANTUM_MS));
}

/// Unit test of the arithmetic of pinned tasks.
#[test]
fn pinned_task_arithmetic_is_exact() {
    headers::run_header_test("bound");
}

/// Point 5 of `stride.bpf.c`: feasible tickets against a naive search that removes one heavy task at a time.
#[test]
fn feasible_tickets_match_a_naive_search() {
    headers::run_header_test("feasible");
}

/// Point 6 of `stride.bpf.c`: tasks pinned to one CPU share it by their tickets, whatever runs elsewhere: nothing,
/// tasks that sleep every other quantum, or hogs. A late one starts at their pass.
#[test]
fn pinned_tasks_share_their_cpu_by_tickets() {
    let due = |ran: u64, of: i8, among: &[i8]| {
        let sum: u64 = among.iter().map(|nice| tickets(*nice)).sum();
        ran.abs_diff(2_000 * tickets(of) / sum)
    };
    for elsewhere in 0..3 {
        let mut world = World::new(SPEC, "node:1 core:4 pu:1", 100);
        let others: Vec<TaskAttributes> = (0..3 * elsewhere).map(|_| world.attributes()).collect();
        let others = others.into_iter().map(|task| TaskAttributes { allowed: only(&[1, 2, 3]), ..task }).collect();
        let others = world.start(others);
        let bound = [0, 5, 10].map(|nice| world.pinned(0, nice)).to_vec();
        let mut tasks = world.start(bound);
        let mut niceness = vec![0, 5, 10];
        for late in [false, true] {
            if late {
                tasks.push(world.spawn(0, world.pinned(0, 3)));
                niceness.push(3);
            }
            let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
            for _ in 0..100 {
                if elsewhere == 1 {
                    others.iter().for_each(|task| world.block(*task));
                }
                world.run_ms(QUANTUM_MS);
                if elsewhere == 1 {
                    others.iter().for_each(|task| world.wake(1, *task, false));
                }
                world.run_ms(QUANTUM_MS);
            }
            for ((task, nice), before) in tasks.iter().zip(&niceness).zip(before) {
                let off = due(world.ran_ms(*task) - before, *nice, &niceness);
                assert!(off <= 4 * QUANTUM_MS, "{elsewhere} {late} {nice}: {off}");
            }
        }
    }
}
