// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/lottery`. Random results are checked against their distribution, within four
//! standard deviations.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{CgroupId, CgroupKnobs, Leave, TaskAttributes};
use machine_model::Machine;

/// Quanta of 10 ms, one tick each.
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

/// Returns the task that runs on CPU 0 in each of the next `quanta`.
fn winners(world: &mut World, quanta: usize) -> Vec<TaskId> {
    (0..quanta)
        .map(|_| {
            let winner = world.running(0);
            world.run_ms(QUANTUM_MS);
            winner
        })
        .collect()
}

/// Asserts that `hits` of `n` agree with probability `p`.
fn assert_binomial(hits: usize, n: usize, p: f64, what: &str) {
    let (share, sigma) = (hits as f64 / n as f64, (p * (1.0 - p) / n as f64).sqrt());
    assert!((share - p).abs() < 4.0 * sigma, "{what}: {share:.4} of {n}, expected {p:.4} +- {:.4}", 4.0 * sigma);
}

/// Point 1 of `lottery.bpf.c`: each task wins in proportion to its tickets.
#[test]
fn tasks_win_in_proportion_to_their_tickets() {
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

/// Point 1 of `lottery.bpf.c`: lotteries are independent. A winner has the same probability to win again, and the
/// gaps between wins are geometric, with mean 1/p and standard deviation sqrt(1-p)/p.
#[test]
fn lotteries_are_independent() {
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
    // Relative error of the standard deviation of a geometric distribution, whose kurtosis is about 9.
    assert!((sd / expected - 1.0).abs() < 4.0 * (2.0 / gaps.len() as f64).sqrt(), "sd {sd}, expected {expected}");
}

/// Point 2 of `lottery.bpf.c`: samples are exponential: the mean is one quantum divided by the tickets, and a sample
/// exceeds k means with probability e^-k. The first task runs at once, and from then on the virtual clock stands
/// still.
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

/// Point 3 of `lottery.bpf.c`: a woken task waits for the end of the quantum.
#[test]
fn woken_task_waits_for_the_end_of_the_quantum() {
    let mut world = World::new("lottery", "node:1 core:1 pu:1", 1000);
    let urgent = world.start(vec![world.pinned(0, -20)])[0];
    world.block(urgent);
    let hog = world.start(vec![world.pinned(0, 19)])[0];
    world.run_ms(30);
    world.wake(0, urgent, false);
    world.run_ms(69);
    assert_eq!(world.running(0), hog);
    // 8866 tickets against 1.
    world.run_ms(1);
    assert_eq!(world.running(0), urgent);
}

/// Point 5 of `lottery.bpf.c`: a task that yields after a fifth of its quantum gets as much CPU time as a hog with as
/// many tickets. Without compensation it gets a sixth.
#[test]
fn compensation_tickets_make_up_for_a_partial_quantum() {
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
        // Of 8000 quanta, 5 in 6 are partly used with compensation, and half of them without.
        assert!((share - expected).abs() < 0.02, "{spec}: {share}");
    }
}

/// Point 6 of `lottery.bpf.c`: each CPU holds its lottery among the tasks allowed there, however many samples other
/// tasks take meanwhile.
#[test]
fn each_cpu_holds_a_lottery_among_allowed_tasks() {
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

/// Point 6 of `lottery.bpf.c`: a task that may use both CPUs competes with a pinned task on each. It gets 2/3 of a CPU.
#[test]
fn unpinned_task_beside_one_pinned_task_per_cpu_gets_two_thirds_of_a_cpu() {
    let mut world = World::new(SPEC, "node:1 core:2 pu:1", 100);
    let other = TaskAttributes { allowed: only(&[1]), ..world.attributes() };
    let attributes = vec![world.pinned(0, 0), world.attributes(), other];
    let tasks = world.start(attributes);
    world.run_ms(4000 * QUANTUM_MS);
    // By symmetry the two pinned tasks get the same CPU time, and no CPU is idle.
    let ran: Vec<f64> = tasks.iter().map(|task| world.ran_ms(*task) as f64 / (4000 * QUANTUM_MS) as f64).collect();
    assert!((ran.iter().sum::<f64>() - 2.0).abs() < 0.001, "{ran:?}");
    assert!((ran[0] - ran[2]).abs() < 4.0 * 0.016, "{ran:?}");
    // CPU 0 holds its lottery first. From CPU 0 the unpinned task goes to CPU 0, CPU 1 or waits with probability 1/2,
    // 1/4, 1/4; from CPU 1 with 0, 1/2, 1/2; and from waiting as from CPU 0. So it is in each state a third of the
    // time.
    assert!((ran[1] - 2.0 / 3.0).abs() < 4.0 * 0.016, "{ran:?}");
}

/// A nice change counts from the next lottery on, also for a queued task.
#[test]
fn changed_tickets_count_from_the_next_lottery() {
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

/// Returns the share of CPU 0 of each group of tasks in the next `quanta`.
fn shares(world: &mut World, groups: &[&[TaskId]], quanta: usize) -> Vec<f64> {
    let winners = winners(world, quanta);
    let of = |group: &&[TaskId]| winners.iter().filter(|winner| group.contains(winner)).count() as f64 / quanta as f64;
    groups.iter().map(of).collect()
}

/// In the paper's figure 4, tickets of 10 : 1 give 13.42 : 1 over 60 s with quanta of 100 ms. By the binomial
/// distribution 99.8 % of such runs are between 6.9 and 16.6, and 3.3 % are at 13.42 or above: 10 of 300 runs, within
/// four standard deviations of 3.1.
#[test]
fn cpu_time_ratio_of_10_to_1_tickets_varies_widely_over_one_minute() {
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

/// Point 7 of `lottery.bpf.c`, the paper's experiment with currencies (figure 9): A and B have equal backing; A1 has
/// 100 and A2 200 tickets of A, B1 100 and B2 200 of B. Then B3 starts with 300 of B: B1 and B2 get half as much as
/// before, and A's tasks the same as before.
#[test]
fn inflation_stays_inside_its_currency() {
    let n = 4000;
    let close = |found: f64, p: f64| {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, expected {p}")
    };
    let mut world = alone(SPEC);
    let (a, b) = (world.group(CgroupId::ROOT, "a", 100), world.group(CgroupId::ROOT, "b", 100));
    // Tickets within a currency are weights of cgroups with one task each, as nice values cannot express 1 : 2 : 3.
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

/// Point 7 of `lottery.bpf.c`: the tasks of the root cgroup count as a currency of weight 100, within which their
/// tickets count.
#[test]
fn root_tasks_count_as_a_currency_of_weight_100() {
    let mut world = alone(SPEC);
    let group = world.group(CgroupId::ROOT, "a", 300);
    let attributes = vec![nice(&world, 0), nice(&world, 4), nice(&world, 0), nice(&world, 0), nice(&world, 0)];
    let tasks = world.start(attributes);
    world.place(&tasks[..2], group);
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1], &tasks[1..2], &tasks[2..]], n);
    for (found, p) in found.iter().zip([0.75 * 100.0 / 141.0, 0.75 * 41.0 / 141.0, 0.25]) {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, expected {p:.4}");
    }
}

/// Point 7 of `lottery.bpf.c`: a changed weight counts from the next lottery on, and the backing of a currency
/// without runnable tasks goes to the others.
#[test]
fn changed_backing_of_a_currency_counts_from_the_next_lottery() {
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

/// Points 6 and 7 of `lottery.bpf.c`: if the winning currency has no task allowed on the CPU, the lottery is
/// repeated, and no CPU is idle.
#[test]
fn currency_without_allowed_tasks_leaves_the_cpu_to_others() {
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
    // CPU 1 runs only b, and CPU 0 almost only a.
    let of_b: u64 = tasks[4..].iter().map(|task| world.ran_ms(*task)).sum();
    assert!((10_000..10_500).contains(&of_b), "{of_b}");
}

/// The table has room for 63 cgroups below the root; tasks of further ones count for their parents.
#[test]
fn cgroups_beyond_the_table_count_for_their_parents() {
    let mut world = alone(SPEC);
    let groups: Vec<_> = (0..70).map(|number| world.group(CgroupId::ROOT, &format!("g{number}"), 100)).collect();
    let attributes = vec![world.attributes(); 4];
    let tasks = world.start(attributes);
    world.place(&tasks[..1], groups[0]);
    world.place(&tasks[1..2], groups[65]);
    world.place(&tasks[2..3], groups[66]);
    let n = 4000;
    let found = shares(&mut world, &[&tasks[..1]], n)[0];
    assert!((found - 0.5).abs() < 4.0 * (0.25 / n as f64).sqrt(), "{found}: the other three count for the root");
}

/// Point 7 of `lottery.bpf.c`: at each level a currency wins by its weight, down to four levels below the root;
/// deeper cgroups count as the fourth level.
#[test]
fn lottery_is_held_at_each_level_of_nested_currencies() {
    let mut world = alone(SPEC);
    let mut parent = CgroupId::ROOT;
    let mut inner = vec![];
    for level in 0..5 {
        parent = world.group(parent, &format!("l{level}"), 100);
        inner.push(parent);
    }
    // One task at each level: half of a level's share goes to its own task, half to the level below.
    let attributes = vec![world.attributes(); 6];
    let tasks = world.start(attributes);
    for (task, group) in tasks[1..].iter().zip(&inner) {
        world.place(&[*task], *group);
    }
    let n: usize = 6000;
    let each: Vec<[TaskId; 1]> = tasks.iter().map(|task| [*task]).collect();
    let found = shares(&mut world, &each.iter().map(|task| &task[..]).collect::<Vec<_>>(), n);
    for (found, p) in found.iter().zip([1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0, 1.0 / 32.0, 1.0 / 32.0]) {
        assert!((found - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{found:.4}, expected {p:.4}");
    }
}

/// Numbers of removed cgroups are reused.
#[test]
fn numbers_of_removed_currencies_are_reused() {
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

/// Point 8 of `lottery.bpf.c`: a woken task bypasses the lottery only on an idle CPU, also before 7.1, where the
/// kernel would not give the task back.
#[test]
fn task_woken_without_an_idle_cpu_joins_the_lottery() {
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
