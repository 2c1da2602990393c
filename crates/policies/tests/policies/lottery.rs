// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/lottery`. What is left to chance is held against its distribution, within four standard deviations.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// Quanta of 10 ms, each of one tick.
const QUANTUM_MS: u64 = 10;
const SPEC: &str = "lottery,quantum_us=10000";

/// Tickets by nice value: the kernel's weight / 1024 * 100.
const TICKETS: [(i8, f64); 4] = [(0, 100.0), (4, 41.0), (10, 11.0), (-5, 305.0)];

fn alone(spec: &str) -> World {
    World::new(spec, "node:1 core:1 pu:1", 100)
}

fn nice(world: &World, nice: i8) -> TaskAttributes {
    TaskAttributes { nice, ..world.attributes() }
}

/// Who runs in each of the next `quanta` on CPU 0.
fn winners(world: &mut World, quanta: usize) -> Vec<TaskId> {
    (0..quanta)
        .map(|_| {
            let winner = world.running(0);
            world.run_ms(QUANTUM_MS);
            winner
        })
        .collect()
}

/// That `hits` of `n` are as probable as `p`.
fn assert_binomial(hits: usize, n: usize, p: f64, what: &str) {
    let (share, sigma) = (hits as f64 / n as f64, (p * (1.0 - p) / n as f64).sqrt());
    assert!((share - p).abs() < 4.0 * sigma, "{what}: {share:.4} of {n}, not {p:.4} +- {:.4}", 4.0 * sigma);
}

/// Theory 1: each task wins by its tickets.
#[test]
fn who_has_so_many_tickets_wins_so_many_quanta() {
    let total: f64 = TICKETS.iter().map(|(_, tickets)| tickets).sum();
    let mut world = alone(SPEC);
    let attributes = TICKETS.iter().map(|(level, _)| nice(&world, *level)).collect();
    let tasks = world.start(attributes);
    let n = 4000;
    let winners = winners(&mut world, n);
    for (task, (level, tickets)) in tasks.iter().zip(TICKETS) {
        let hits = winners.iter().filter(|winner| *winner == task).count();
        assert_binomial(hits, n, tickets / total, &format!("nice {level}"));
    }
}

/// Theory 1: whatever was drawn before. Who has won has the same chance to win again, and waits are those of independent
/// draws: geometric, with mean 1/p and standard deviation sqrt(1-p)/p.
#[test]
fn draws_do_not_depend_on_those_before() {
    let mut world = alone(SPEC);
    let attributes = vec![nice(&world, 0), nice(&world, 4)];
    let light = world.start(attributes)[1];
    let winners = winners(&mut world, 6000);
    let p = 41.0 / 141.0;
    let after_itself = winners.windows(2).filter(|pair| pair[0] == light);
    let again = after_itself.clone().filter(|pair| pair[1] == light).count();
    assert_binomial(again, after_itself.count(), p, "twice in a row");
    let won: Vec<usize> = (0..winners.len()).filter(|turn| winners[*turn] == light).collect();
    let gaps: Vec<f64> = won.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let sd = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    let expected = (1.0 - p).sqrt() / p;
    assert!((mean * p - 1.0).abs() < 4.0 * expected * p / (gaps.len() as f64).sqrt(), "mean {mean}");
    // The relative error of a standard deviation of a geometric distribution: its kurtosis is about 9.
    assert!((sd / expected - 1.0).abs() < 4.0 * (2.0 / gaps.len() as f64).sqrt(), "sd {sd}, not {expected}");
}

/// Theory 2: a draw is exponential: its mean is one quantum for each ticket, and it is above k means with probability e^-k.
/// The first task wins at once, and with that the clock stands.
#[test]
fn draws_are_exponential() {
    for (level, tickets) in TICKETS {
        let mut world = alone(SPEC);
        let (hog, other) = (world.attributes(), nice(&world, level));
        world.start([vec![hog], vec![other; 3000]].concat());
        let mean = (QUANTUM_MS * MS * 1024) as f64 / tickets;
        let keys: Vec<u64> = world.inserted.iter().filter(|put| put.dsq >> 63 == 0).map(|put| put.key).collect();
        let draws: Vec<f64> = keys[1..].iter().map(|key| (key - keys[0]) as f64 / mean).collect();
        let n = draws.len();
        let found = draws.iter().sum::<f64>() / n as f64;
        assert!(n == 3000 && (found - 1.0).abs() < 4.0 / (n as f64).sqrt(), "nice {level}: mean {found} of {n}");
        for above in [0.1, 1.0, 3.0] {
            let hits = draws.iter().filter(|draw| **draw > above).count();
            assert_binomial(hits, n, (-above).exp(), &format!("nice {level}, above {above} means"));
        }
    }
}

/// Theory 3: a task that wakes waits for the quantum to end.
#[test]
fn nobody_is_interrupted() {
    let mut world = World::new("lottery", "node:1 core:1 pu:1", 1000);
    let urgent = world.start(vec![world.pinned(0, -20)])[0];
    world.block(urgent);
    let hog = world.start(vec![world.pinned(0, 19)])[0];
    world.run_ms(30);
    world.wake(0, urgent, false);
    world.run_ms(69);
    assert_eq!(world.running(0), hog);
    // 8866 tickets beside 1.
    world.run_ms(1);
    assert_eq!(world.running(0), urgent);
}

/// Theory 5: a task that gives the CPU away after a fifth of its quantum has it for as long as a hog with as many tickets.
/// Without compensation it would have a sixth.
#[test]
fn who_uses_a_part_of_its_quantum_wins_more_often() {
    for (compensation, expected) in [("", 0.5), (",compensation=false", 1.0 / 6.0)] {
        let spec = format!("{SPEC}{compensation}");
        let mut world = World::new(&spec, "node:1 core:1 pu:1", 1000);
        let attributes = vec![nice(&world, 0), nice(&world, 0)];
        let tasks = world.start(attributes);
        for _ in 0..8000 {
            if world.running(0) == tasks[1] {
                world.run_ms(2);
                world.leave(0, Leave::Yield);
            } else {
                world.run_ms(QUANTUM_MS);
            }
        }
        let ran: Vec<f64> = tasks.iter().map(|task| world.ran_ms(*task) as f64).collect();
        let share = ran[1] / (ran[0] + ran[1]);
        // Of 8000 turns, 5 of 6 are short with compensation and half of them without.
        assert!((share - expected).abs() < 0.02, "{spec}: {share}");
    }
}

/// Theory 6: on each CPU the lottery is among those who may run there, however many draws others have had meanwhile.
#[test]
fn each_cpu_draws_among_its_own() {
    let mut world = World::new(SPEC, "node:1 core:8 pu:1", 100);
    let mut attributes: Vec<_> = (1..8).map(|cpu| world.pinned(cpu, 0)).collect();
    attributes.extend((1..8).map(|cpu| world.pinned(cpu, 0)));
    attributes.extend([world.pinned(0, 0), world.pinned(0, 10)]);
    let tasks = world.start(attributes);
    let n = 4000;
    let winners = winners(&mut world, n);
    let hits = winners.iter().filter(|winner| **winner == tasks[14]).count();
    assert_binomial(hits, n, 100.0 / 111.0, "CPU 0");
}

/// Theory 6: where one that is bound to the CPU competes with one that is not, both have their chance.
#[test]
fn bound_tasks_compete_with_free_ones() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
    let other = TaskAttributes { allowed: only(&[1]), ..world.attributes() };
    let attributes = vec![world.pinned(0, 0), world.attributes(), other];
    let tasks = world.start(attributes);
    world.run_ms(4000 * QUANTUM_MS);
    // By symmetry the two bound tasks have the same, and no CPU idles.
    let ran: Vec<f64> = tasks.iter().map(|task| world.ran_ms(*task) as f64 / (4000 * QUANTUM_MS) as f64).collect();
    assert!((ran.iter().sum::<f64>() - 2.0).abs() < 0.001, "{ran:?}");
    assert!((ran[0] - ran[2]).abs() < 4.0 * 0.016, "{ran:?}");
    // CPU 0 draws first. From there the free task goes to 0, 1, nowhere with 1/2, 1/4, 1/4; from CPU 1 with 0, 1/2, 1/2; and
    // as from CPU 0 if it waits. So it is at each a third of the time.
    assert!((ran[1] - 2.0 / 3.0).abs() < 4.0 * 0.016, "{ran:?}");
}

/// A new nice value counts from the next draw on, for a task that waits as well.
#[test]
fn new_tickets_count_at_once() {
    let mut world = alone(SPEC);
    let attributes = vec![nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.run_ms(100);
    world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, 10).unwrap();
    world.settle();
    let n = 4000;
    let winners = winners(&mut world, n);
    assert_binomial(winners.iter().filter(|winner| **winner == tasks[1]).count(), n, 11.0 / 111.0, "after");
}
