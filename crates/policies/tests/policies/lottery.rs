// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/lottery`. What is left to chance is held against its distribution, within four standard deviations.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{CgroupId, CgroupKnobs, Leave, TaskAttributes};
use machine_model::Machine;

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
fn samples_are_exponentially_distributed() {
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

/// Shares of CPU 0 in the next `quanta`, by groups of tasks.
fn shares(world: &mut World, groups: &[&[TaskId]], quanta: usize) -> Vec<f64> {
    let winners = winners(world, quanta);
    let of = |group: &&[TaskId]| winners.iter().filter(|winner| group.contains(winner)).count() as f64 / quanta as f64;
    groups.iter().map(of).collect()
}

/// The paper's figure 4 has 10 : 1 tickets come out as 13.42 : 1 over 60 s of 100 ms. By the binomial distribution 99.8 % of
/// such runs are between 6.9 and 16.6, and 3.3 % are at 13.42 or above: of 300 runs 10, give or take four standard deviations
/// of 3.1.
#[test]
fn one_minute_is_too_short_for_ten_to_one() {
    let mut world = alone(SPEC);
    let (heavy, light) = (world.group(CgroupId::ROOT, "heavy", 1000), world.group(CgroupId::ROOT, "light", 100));
    let attributes = vec![world.attributes(); 2];
    let tasks = world.start(attributes);
    world.place(&tasks[..1], heavy);
    world.place(&tasks[1..], light);
    let ratios: Vec<f64> = (0..300)
        .map(|_| {
            let of_light = winners(&mut world, 600).iter().filter(|winner| **winner == tasks[1]).count();
            (600 - of_light) as f64 / of_light as f64
        })
        .collect();
    let inside = ratios.iter().filter(|ratio| (6.9..=16.6).contains(*ratio)).count();
    let above = ratios.iter().filter(|ratio| **ratio >= 13.42).count();
    assert!(inside >= 296, "{inside} of 300");
    assert!((1..=22).contains(&above), "{above} of 300");
}

/// Theory 7, the paper's experiment with currencies (figure 9): A and B have the same backing; A1 has 100 and A2 200 tickets of
/// A, B1 100 and B2 200 of B. Then B3 comes with 300 of B: B1 and B2 have half of what they had, and A does not notice.
#[test]
fn inflation_stays_inside_of_a_currency() {
    let n = 4000;
    let close = |found: f64, p: f64| {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, not {p}")
    };
    let mut world = alone(SPEC);
    let (a, b) = (world.group(CgroupId::ROOT, "a", 100), world.group(CgroupId::ROOT, "b", 100));
    // Weights inside of a currency are those of cgroups of one task, as nice values have no 1 : 2 : 3.
    let inner: Vec<_> = [(a, "1", 100), (a, "2", 200), (b, "1", 100), (b, "2", 200), (b, "3", 300)]
        .into_iter()
        .map(|(parent, name, weight)| world.group(parent, name, weight))
        .collect();
    let attributes = vec![world.attributes(); 5];
    let tasks = world.start(attributes);
    for (task, group) in tasks.iter().zip(&inner) {
        world.place(&[*task], *group);
    }
    let late = tasks[4];
    while world.running(0) != late {
        world.run_ms(1);
    }
    world.block(late);
    let [a1, a2, b1, b2] = [0, 1, 2, 3].map(|at| [tasks[at]]);
    let found = shares(&mut world, &[&a1, &a2, &b1, &b2], n);
    for (found, p) in found.iter().zip([1.0 / 6.0, 1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0]) {
        close(*found, p);
    }
    world.wake(0, late, false);
    let found = shares(&mut world, &[&a1, &a2, &b1, &b2, &[late]], n);
    for (found, p) in found.iter().zip([1.0 / 6.0, 1.0 / 3.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 4.0]) {
        close(*found, p);
    }
}

/// Theory 7: tasks of the root together are as a currency of weight 100, and tickets count inside of each.
#[test]
fn a_cgroups_own_tasks_are_as_one_of_weight_100() {
    let mut world = alone(SPEC);
    let group = world.group(CgroupId::ROOT, "a", 300);
    let attributes = vec![nice(&world, 0), nice(&world, 4), nice(&world, 0), nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.place(&tasks[..2], group);
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1], &tasks[1..2], &tasks[2..]], n);
    for (found, p) in found.iter().zip([0.75 * 100.0 / 141.0, 0.75 * 41.0 / 141.0, 0.25]) {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, not {p:.4}");
    }
}

/// Theory 7: a new weight counts from the next draw on, and a currency of which nobody wants the CPU leaves its part to others.
#[test]
fn backing_can_change_and_be_idle() {
    let mut world = alone(SPEC);
    let groups: Vec<_> = ["a", "b", "c"].into_iter().map(|name| world.group(CgroupId::ROOT, name, 100)).collect();
    let attributes = vec![world.attributes(); 2];
    let tasks = world.start(attributes);
    world.place(&tasks[..1], groups[0]);
    world.place(&tasks[1..], groups[1]);
    world.kernel.set_cgroup(CpuId(0), groups[0], CgroupKnobs { weight: 900, ..CgroupKnobs::default() });
    world.settle();
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1]], n)[0];
    assert!((found - 0.9).abs() < 4.0 * (0.09 / n as f64).sqrt(), "{found}");
}

/// Theory 6 and 7: where the currency that wins has nobody who may run here, another one is drawn, and no CPU idles.
#[test]
fn a_currency_that_may_not_run_here_leaves_the_cpu_to_others() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
    let (a, b) = (world.group(CgroupId::ROOT, "a", 1000), world.group(CgroupId::ROOT, "b", 10));
    let attributes = [vec![world.pinned(0, 0); 4], vec![world.attributes(); 2]].concat();
    let tasks = world.start(attributes);
    world.place(&tasks[..4], a);
    world.place(&tasks[4..], b);
    let before: u64 = tasks.iter().map(|task| world.ran_ms(*task)).sum();
    world.run_ms(10_000);
    let ran: u64 = tasks.iter().map(|task| world.ran_ms(*task)).sum();
    assert_eq!(ran - before, 20_000);
    // CPU 1 is for b alone, and CPU 0 nearly all for a.
    let of_b: u64 = tasks[4..].iter().map(|task| world.ran_ms(*task)).sum();
    assert!((10_000..10_500).contains(&of_b), "{of_b}");
}

/// The table has room for 63 cgroups below the root; tasks of more are of their parents.
#[test]
fn cgroups_beyond_the_table_are_their_parents() {
    let mut world = alone(SPEC);
    let groups: Vec<_> = (0..70).map(|number| world.group(CgroupId::ROOT, &format!("g{number}"), 100)).collect();
    let attributes = vec![world.attributes(); 4];
    let tasks = world.start(attributes);
    world.place(&tasks[..1], groups[0]);
    world.place(&tasks[1..2], groups[65]);
    world.place(&tasks[2..3], groups[66]);
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1]], n)[0];
    assert!((found - 0.5).abs() < 4.0 * (0.25 / n as f64).sqrt(), "{found}: the other three are of the root");
}

/// Theory 7: at each level one wins by its weight, down to four levels below the root; deeper cgroups are of the fourth.
#[test]
fn currencies_are_drawn_level_by_level() {
    let mut world = alone(SPEC);
    let mut parent = CgroupId::ROOT;
    let mut inner = vec![];
    for level in 0..5 {
        parent = world.group(parent, &format!("l{level}"), 100);
        inner.push(parent);
    }
    // A task at each level: half of what comes down to a level is for its own task, half for the level below.
    let attributes = vec![world.attributes(); 6];
    let tasks = world.start(attributes);
    for (task, group) in tasks[1..].iter().zip(&inner) {
        world.place(&[*task], *group);
    }
    let n: usize = 6000;
    let each: Vec<[TaskId; 1]> = tasks.iter().map(|task| [*task]).collect();
    let found = shares(&mut world, &each.iter().map(|task| &task[..]).collect::<Vec<_>>(), n);
    for (found, p) in found.iter().zip([1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0, 1.0 / 32.0, 1.0 / 32.0]) {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, not {p:.4}");
    }
}

/// Numbers of cgroups that are gone are given to new ones.
#[test]
fn currencies_come_and_go() {
    let mut world = alone(SPEC);
    for round in 0..3 {
        let groups: Vec<_> =
            (0..63).map(|number| world.group(CgroupId::ROOT, &format!("r{round}g{number}"), 100)).collect();
        for group in groups {
            world.kernel.remove_cgroup(CpuId(0), group).unwrap();
            world.settle();
        }
    }
    let attributes = vec![world.attributes(); 2];
    let tasks = world.start(attributes);
    for (number, weight) in [(0, 300), (1, 100)] {
        let group = world.group(CgroupId::ROOT, &format!("last{number}"), weight);
        world.place(&tasks[number..=number], group);
    }
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1]], n)[0];
    assert!((found - 0.75).abs() < 4.0 * (0.75 * 0.25 / n as f64).sqrt(), "{found}");
}

/// Theory 8: only an idle CPU is gone to without a draw; also where the kernel would not bring the task back (before 7.1).
#[test]
fn who_wakes_beside_others_takes_part_in_the_draw() {
    for version in [(6, 12), (7, 2)] {
        let mut machine = Machine::from_synthetic("node:1 core:2 pu:1").unwrap();
        machine.hz = 100;
        let mut world = World::on("lottery", machine, version);
        let attributes = vec![world.attributes(); 4];
        let tasks = world.start(attributes);
        while world.cpu_of(tasks[0]).is_none() {
            world.run_ms(10);
        }
        world.block(tasks[0]);
        world.wake(0, tasks[0], false);
        assert_eq!(world.last_insert(tasks[0]).dsq >> 63, 0, "{version:?}");
    }
}
