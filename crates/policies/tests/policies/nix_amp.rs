// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`, preset `amp`: CPU 0 gives tasks to all others.

use crate::nix::{beside, priority, sleepers};
use crate::world::{MS, World};
use event_log::BlockCause;
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};
use machine_model::Machine;

fn amp(shape: &str) -> World {
    World::new("nix@amp", shape, 100)
}

/// CPUs that work, each with a task of its own that began now.
fn occupy(world: &mut World, cpus: impl IntoIterator<Item = u32>, nice: i8) -> Vec<TaskId> {
    let attributes = cpus.into_iter().map(|cpu| world.pinned(cpu, nice)).collect();
    world.start(attributes)
}

/// 4 nodes of 2 CPUs. From node 0 node 3 is nearest, then 1 and 2; from node 1 it is 2, then 0 and 3.
fn four_nodes() -> World {
    let mut machine = Machine::from_synthetic("node:4 core:2 pu:1").unwrap();
    machine.hz = 100;
    let distances = vec![vec![10, 20, 22, 16], vec![20, 10, 16, 22], vec![22, 16, 10, 20], vec![16, 22, 20, 10]];
    machine.topology = machine.topology.with_distances(distances);
    World::on("nix@amp", machine, (7, 2))
}

/// Amp 1, 5: CPU 0 runs nobody from 6 CPUs on.
#[test]
fn cpu_0_only_gives_from_6_cpus_on() {
    for (cpus, works) in [(1, true), (5, true), (6, false), (16, false)] {
        let mut world = amp(&format!("node:1 core:{cpus} pu:1"));
        let attributes = vec![world.attributes(); 2 * cpus];
        world.start(attributes);
        world.run_ms(1_000);
        assert_eq!(world.running(0) != TaskId::NONE, works, "{cpus} CPUs");
        assert!((1..cpus as u32).all(|cpu| world.running(cpu) != TaskId::NONE), "{cpus} CPUs");
    }
}

/// 5: CPUs go until one is left, and come again. From 5 CPUs down CPU 0 works as well, and nobody waits for ever.
#[test]
fn few_cpus_that_are_left_are_as_with_one_queue() {
    let mut world = amp("node:1 core:8 pu:1");
    let attributes = vec![world.attributes(); 12];
    let hogs = world.start(attributes);
    world.run_ms(300);
    assert_eq!(world.running(0), TaskId::NONE);
    let all_run = |world: &mut World| {
        let before: Vec<u64> = hogs.iter().map(|hog| world.ran_ms(*hog)).collect();
        world.run_ms(10_000);
        hogs.iter().zip(before).all(|(hog, before)| world.ran_ms(*hog) > before)
    };
    for left in (1..8).rev() {
        world.offline(left);
        world.run_ms(300);
        assert!(left > 5 || world.running(0) != TaskId::NONE, "{left} CPUs are left");
    }
    assert!(all_run(&mut world), "on one CPU");
    (1..8).for_each(|cpu| world.online(cpu));
    assert!(all_run(&mut world), "on all");
    for hog in &hogs[4..] {
        while world.cpu_of(*hog).is_none() {
            world.run_ms(1);
        }
        world.block(*hog);
    }
    world.run_ms(1_000);
    assert_eq!(world.running(0), TaskId::NONE, "others are free, and CPU 0 gives again");
}

/// Amp 2: one free CPU goes to the highest. Of several that become free at once the first does, and then those come before
/// higher ones whose last CPU is free, or who never ran. In NIX core 0 counts its looks since it gave a task last, and any task
/// will do after the first one, which is over long before anything else happens.
#[test]
fn affinity_lasts_for_one_look() {
    for (freed, expected) in [(1, [0, 1, 2, 3]), (4, [0, 2, 3, 1])] {
        let mut world = amp("node:1 core:8 pu:1");
        let mut tasks = sleepers(&mut world, &[(6, -8), (7, -6), (3, 8)]);
        let hogs = occupy(&mut world, 1..8, 0);
        for task in &tasks {
            world.wake(0, *task, false);
        }
        let new = TaskAttributes { nice: 10, ..world.attributes() };
        tasks.extend(beside(&mut world, vec![new]));
        let priorities: Vec<u64> = tasks.iter().map(|task| priority(&world, *task)).collect();
        assert!(priorities.is_sorted_by(|a, b| a > b), "{priorities:?}");
        world.began.clear();
        for hogs in hogs[..4].chunks(freed) {
            for hog in hogs {
                let cpu = world.cpu_of(*hog).unwrap();
                world.kernel.schedule(CpuId(cpu), Leave::Block(BlockCause::Timer));
            }
            world.settle();
        }
        let inserted = world.inserted.iter().rev().filter(|one| one.dsq >> 63 == 1 && tasks.contains(&one.task));
        let mut order: Vec<TaskId> = inserted.take(4).map(|one| one.task).collect();
        order.reverse();
        assert_eq!(order, expected.map(|at| tasks[at]), "{freed} at once");
    }
}

/// Amp 3: the nearest free CPU by the distances of nodes, not by their numbers.
#[test]
fn the_nearest_free_cpu_is_chosen() {
    for (home, order) in [(2, [2, 3, 4, 5, 1, 6, 7]), (1, [1, 6, 7, 2, 3, 4, 5])] {
        let mut world = four_nodes();
        let tasks = sleepers(&mut world, &[(home, 0); 7]);
        let got: Vec<u32> = tasks
            .iter()
            .map(|task| {
                world.wake(0, *task, false);
                world.cpu_of(*task).unwrap()
            })
            .collect();
        assert_eq!(got, order, "home {home}");
    }
}

/// Amp 4, first round: the nearest CPU whose task is lower makes way, at its next tick and not before.
#[test]
fn a_lower_task_makes_way_at_a_tick() {
    let mut world = four_nodes();
    let sleeper = sleepers(&mut world, &[(2, 0)])[0];
    // Nodes 1 and 2 have equals, 0 and 3 lower ones; 0 is as near to node 1 as 3 is not.
    let equal = occupy(&mut world, [2, 3, 4, 5], 0);
    let lower = occupy(&mut world, [1, 6, 7], 2);
    world.wake(0, sleeper, false);
    world.run_until(10_000_000 - 1);
    assert_eq!(world.cpu_of(sleeper), None);
    world.run_until(10_000_000);
    assert_eq!(world.cpu_of(sleeper), Some(1));
    assert!(equal.iter().all(|task| world.cpu_of(*task).is_some()));
    assert_eq!(lower.iter().filter(|task| world.cpu_of(**task).is_some()).count(), 2);
}

/// Amp 4, second round: an equal makes way after 100 ms, a higher one after 1 s.
#[test]
fn an_equal_makes_way_after_100_ms_and_a_higher_one_after_1_s() {
    for (nice, ms) in [(0, 100), (-4, 1_000)] {
        let mut world = amp("node:1 core:6 pu:1");
        let sleeper = sleepers(&mut world, &[(3, 0)])[0];
        occupy(&mut world, 1..6, nice);
        world.wake(0, sleeper, false);
        // The time must be over when CPU 0 looks at a tick; and the CPU that it chose stops at its own next one.
        world.run_ms(ms + 10);
        assert_eq!(world.cpu_of(sleeper), None, "{nice}: not before the time is over");
        world.run_ms(10);
        let runs = world.cpu_of(sleeper).is_some();
        // A higher one that was stopped still goes first, but on CPU 0's list its equals wait behind nobody.
        assert!(runs || nice < 0, "{nice}");
        if nice < 0 {
            world.run_ms(12_000);
            assert!(world.ran_ms(sleeper) > 0);
        }
    }
}

/// Amp 4: no CPU is stopped for a task that may not use it, and one that is bound has its own CPU's time in turn.
#[test]
fn who_is_bound_stops_its_own_cpu() {
    let mut world = amp("node:1 core:8 pu:1");
    let hogs = occupy(&mut world, 1..8, 0);
    let bound = vec![world.pinned(4, 0)];
    let bound = beside(&mut world, bound)[0];
    world.run_ms(2_000);
    let (own, shared) = (world.ran_ms(bound), world.ran_ms(hogs[3]));
    assert!(own > 800 && shared > 800, "{own} and {shared} ms");
    assert!(hogs.iter().all(|hog| *hog == hogs[3] || world.ran_ms(*hog) == 2_000), "nobody else stopped");
}

/// What is bound to CPU 0 runs there in turns, and CPU 0 gives all the same.
#[test]
fn cpu_0_runs_what_is_bound_to_it() {
    let mut world = amp("node:1 core:6 pu:1");
    let sleeper = sleepers(&mut world, &[(3, 0)])[0];
    let bound = world.start(vec![world.pinned(0, 0); 2]);
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(1), "the first free one of the node");
    world.run_ms(2_000);
    assert!(bound.iter().all(|task| world.ran_ms(*task).abs_diff(1_000) <= 200));
    for _ in 0..20 {
        world.block(sleeper);
        world.wake(0, sleeper, false);
        assert_eq!(world.cpu_of(sleeper), Some(1));
    }
}

/// A higher class takes CPU 0: the others look for themselves, until it is back.
#[test]
fn without_cpu_0_all_look_for_themselves() {
    let mut world = amp("node:1 core:6 pu:1");
    let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(0, 0) };
    let fifo = world.start(vec![fifo])[0];
    world.block(fifo);
    let hogs = occupy(&mut world, 1..6, 0);
    let attributes = vec![world.attributes(); 2];
    let waiting = beside(&mut world, attributes);
    world.run_ms(1);
    world.wake(0, fifo, false);
    assert_eq!(world.running(0), fifo);
    world.block(hogs[2]);
    // CPU 0 idled, so the kernel told nobody that it was taken: it is told, and missed at the second tick or the next one.
    world.run_ms(30);
    assert!(world.cpu_of(waiting[0]).is_some());
    world.block(hogs[1]);
    assert!(world.cpu_of(waiting[1]).is_some(), "from now on they do not wait for it");
    world.block(fifo);
    assert_eq!(world.running(0), TaskId::NONE, "it gives again, and runs nobody");
    let attributes = vec![world.attributes()];
    let late = beside(&mut world, attributes)[0];
    assert!(world.cpu_of(late).is_none());
    world.block(hogs[3]);
    assert!(world.cpu_of(late).is_some());
}

/// Nobody is given to a CPU that a higher class has.
#[test]
fn a_cpu_that_is_taken_is_not_free() {
    let mut world = amp("node:1 core:6 pu:1");
    let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(2, 0) };
    let sleeper = sleepers(&mut world, &[(2, 0)])[0];
    let fifo = world.start(vec![fifo])[0];
    world.block(fifo);
    occupy(&mut world, [1, 2], 0);
    world.wake(0, fifo, false);
    assert_eq!(world.running(2), fifo);
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(3));
    world.block(fifo);
    world.block(world.running(2));
    world.block(sleeper);
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(2), "the first free one of the node, which is given back");
}

/// Only CPU 0 is told of a task that wakes, and the CPU that gets it.
#[test]
fn a_wakeup_tells_cpu_0() {
    let mut world = amp("node:1 core:6 pu:1");
    let sleeper = sleepers(&mut world, &[(4, 0)])[0];
    occupy(&mut world, [1, 4], 0);
    world.told.clear();
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(2));
    assert!(world.told.iter().all(|cpu| [CpuId(0), CpuId(2)].contains(cpu)), "{:?}", world.told);
}

/// CPU 0 is missed at the first tick that is more than two tick periods after it was told.
#[test]
fn cpu_0_is_missed_after_two_ticks() {
    for (told_at_ms, missed_at_ms) in [(1, 30), (10, 40)] {
        let mut world = amp("node:1 core:6 pu:1");
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(0, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        let hogs = occupy(&mut world, 1..6, 0);
        let attributes = vec![world.attributes()];
        let waiting = beside(&mut world, attributes)[0];
        world.run_ms(1);
        world.wake(0, fifo, false);
        world.run_ms(told_at_ms - 1);
        world.block(hogs[2]);
        world.run_until(missed_at_ms * MS - 1);
        assert_eq!(world.cpu_of(waiting), None, "{told_at_ms}");
        world.run_until(missed_at_ms * MS);
        assert_eq!(world.cpu_of(waiting), Some(3), "{told_at_ms}");
    }
}

/// Who gives way while nobody waits goes on, and has 100 ms from then on.
#[test]
fn who_gives_way_to_nobody_is_not_stopped_for_it() {
    let mut world = amp("node:1 core:6 pu:1");
    let sleeper = sleepers(&mut world, &[(3, 0)])[0];
    let hogs = occupy(&mut world, 1..6, 0);
    (1..6).for_each(|cpu| world.leave(cpu, Leave::Yield));
    assert!((1..6).zip(&hogs).all(|(cpu, hog)| world.running(cpu) == *hog));
    world.wake(0, sleeper, false);
    world.run_ms(90);
    assert_eq!(world.cpu_of(sleeper), None);
    world.run_ms(40);
    assert!(world.cpu_of(sleeper).is_some());
}
