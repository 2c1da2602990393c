// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`, preset `amp`: CPU 0 dispatches tasks to all other CPUs.

use crate::nix::{beside, priority, sleepers};
use crate::world::{MS, World};
use event_log::BlockCause;
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};
use machine_model::Machine;

fn amp(shape: &str) -> World {
    World::new("nix@amp", shape, 100)
}

/// Starts a pinned task on each of these CPUs.
fn occupy(world: &mut World, cpus: impl IntoIterator<Item = u32>, nice: i8) -> Vec<TaskId> {
    let attributes = cpus.into_iter().map(|cpu| world.pinned(cpu, nice)).collect();
    world.start(attributes)
}

/// 4 nodes of 2 CPUs. Distances from node 0: node 3, then 1, then 2; from node 1: node 2, then 0, then 3.
fn four_nodes() -> World {
    let mut machine = Machine::from_synthetic("node:4 core:2 pu:1").unwrap();
    machine.hz = 100;
    let distances = vec![vec![10, 20, 22, 16], vec![20, 10, 16, 22], vec![22, 16, 10, 20], vec![16, 22, 20, 10]];
    machine.topology = machine.topology.with_distances(distances);
    World::on("nix@amp", machine, (7, 2))
}

/// Points 1, 5 of `amp.bpf.h`: CPU 0 only dispatches from 6 CPUs on.
#[test]
fn amp_cpu_0_only_dispatches_from_6_cpus_on() {
    for (cpus, works) in [(1, true), (5, true), (6, false), (16, false)] {
        let mut world = amp(&format!("node:1 core:{cpus} pu:1"));
        let attributes = vec![world.attributes(); 2 * cpus];
        world.start(attributes);
        world.run_ms(1_000);
        assert_eq!(world.running(0) != TaskId::NONE, works, "{cpus} CPUs");
        assert!((1..cpus as u32).all(|cpu| world.running(cpu) != TaskId::NONE), "{cpus} CPUs");
    }
}

/// Point 5 of `amp.bpf.h`: CPUs go offline until one is left, then all return. While 5 CPUs or fewer are online, CPU
/// 0 runs tasks as well, and no task starves.
#[test]
fn amp_with_5_or_fewer_cpus_left_behaves_like_smp() {
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
    assert_eq!(world.running(0), TaskId::NONE, "other CPUs are free, and CPU 0 only dispatches again");
}

/// Point 2 of `amp.bpf.h`: a single free CPU gets the highest-priority task. If several become free at once, the
/// first gets it; then tasks whose last CPU is free, and new tasks, go before higher priorities. In NIX core 0 counts
/// its scans since its last dispatch and ignores affinity after the first scan.
#[test]
fn amp_affinity_counts_only_when_several_cpus_are_free() {
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
        world.switches.clear();
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

/// Point 3 of `amp.bpf.h`: the nearest free CPU by node distances is chosen, not by node numbers.
#[test]
fn amp_chooses_the_nearest_free_cpu() {
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

/// Point 4 of `amp.bpf.h`, first pass: the nearest CPU whose task has a lower priority is preempted, at its next tick
/// and not before.
#[test]
fn amp_preempts_a_lower_priority_at_a_tick() {
    let mut world = four_nodes();
    let sleeper = sleepers(&mut world, &[(2, 0)])[0];
    // Nodes 1 and 2 run tasks of equal priority, nodes 0 and 3 of lower priority; node 0 is nearer to node 1 than
    // node 3 is.
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

/// Point 4 of `amp.bpf.h`, second pass: a task of equal priority is preempted after 100 ms, one of higher priority
/// after 1 s.
#[test]
fn amp_preempts_equal_after_100_ms_and_higher_after_1_s() {
    for (nice, ms) in [(0, 100), (-4, 1_000)] {
        let mut world = amp("node:1 core:6 pu:1");
        let sleeper = sleepers(&mut world, &[(3, 0)])[0];
        occupy(&mut world, 1..6, nice);
        world.wake(0, sleeper, false);
        // The time must be over when CPU 0 checks at a tick, and the chosen CPU stops at its own next tick.
        world.run_ms(ms + 10);
        assert_eq!(world.cpu_of(sleeper), None, "{nice}: not before the time is over");
        world.run_ms(10);
        let runs = world.cpu_of(sleeper).is_some();
        // A stopped task of higher priority still goes first in CPU 0's queue; one of equal priority is queued behind
        // the sleeper.
        assert!(runs || nice < 0, "{nice}");
        if nice < 0 {
            world.run_ms(12_000);
            assert!(world.ran_ms(sleeper) > 0);
        }
    }
}

/// Point 4 of `amp.bpf.h`: no CPU is preempted for a task that may not run there, and a pinned task shares its CPU.
#[test]
fn amp_pinned_task_preempts_its_own_cpu_only() {
    let mut world = amp("node:1 core:8 pu:1");
    let hogs = occupy(&mut world, 1..8, 0);
    let bound = vec![world.pinned(4, 0)];
    let bound = beside(&mut world, bound)[0];
    world.run_ms(2_000);
    let (own, shared) = (world.ran_ms(bound), world.ran_ms(hogs[3]));
    assert!(own > 800 && shared > 800, "{own} and {shared} ms");
    assert!(hogs.iter().all(|hog| *hog == hogs[3] || world.ran_ms(*hog) == 2_000), "no other task is preempted");
}

/// Tasks pinned to CPU 0 run there in turns, and CPU 0 dispatches all the same.
#[test]
fn amp_cpu_0_runs_tasks_pinned_to_it() {
    let mut world = amp("node:1 core:6 pu:1");
    let sleeper = sleepers(&mut world, &[(3, 0)])[0];
    let bound = world.start(vec![world.pinned(0, 0); 2]);
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(1), "the first free CPU of the node");
    world.run_ms(2_000);
    assert!(bound.iter().all(|task| world.ran_ms(*task).abs_diff(1_000) <= 200));
    for _ in 0..20 {
        world.block(sleeper);
        world.wake(0, sleeper, false);
        assert_eq!(world.cpu_of(sleeper), Some(1));
    }
}

/// A higher class takes CPU 0: the other CPUs dispatch for themselves until it is back.
#[test]
fn amp_cpus_dispatch_for_themselves_without_cpu_0() {
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
    // CPU 0 was idle, so the kernel did not report that it was taken: it is kicked, and its absence is noticed two to
    // three ticks later.
    world.run_ms(30);
    assert!(world.cpu_of(waiting[0]).is_some());
    world.block(hogs[1]);
    assert!(world.cpu_of(waiting[1]).is_some(), "from now on CPUs do not wait for CPU 0");
    world.block(fifo);
    assert_eq!(world.running(0), TaskId::NONE, "CPU 0 dispatches again, and runs no task");
    let attributes = vec![world.attributes()];
    let late = beside(&mut world, attributes)[0];
    assert!(world.cpu_of(late).is_none());
    world.block(hogs[3]);
    assert!(world.cpu_of(late).is_some());
}

/// No task is dispatched to a CPU that a higher class has taken.
#[test]
fn amp_skips_cpus_taken_by_a_higher_class() {
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
    assert_eq!(world.cpu_of(sleeper), Some(2), "the first free CPU of the node, which the higher class has released");
}

/// A wakeup kicks only CPU 0 and the CPU that gets the task.
#[test]
fn amp_wakeup_kicks_cpu_0_and_the_target_only() {
    let mut world = amp("node:1 core:6 pu:1");
    let sleeper = sleepers(&mut world, &[(4, 0)])[0];
    occupy(&mut world, [1, 4], 0);
    world.rescheduled.clear();
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), Some(2));
    assert!(world.rescheduled.iter().all(|cpu| [CpuId(0), CpuId(2)].contains(cpu)), "{:?}", world.rescheduled);
}

/// The absence of CPU 0 is noticed at the first tick more than two tick periods after it was kicked.
#[test]
fn amp_notices_the_absence_of_cpu_0_after_two_ticks() {
    for (kicked_at_ms, missed_at_ms) in [(1, 30), (10, 40)] {
        let mut world = amp("node:1 core:6 pu:1");
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(0, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        let hogs = occupy(&mut world, 1..6, 0);
        let attributes = vec![world.attributes()];
        let waiting = beside(&mut world, attributes)[0];
        world.run_ms(1);
        world.wake(0, fifo, false);
        world.run_ms(kicked_at_ms - 1);
        world.block(hogs[2]);
        world.run_until(missed_at_ms * MS - 1);
        assert_eq!(world.cpu_of(waiting), None, "{kicked_at_ms}");
        world.run_until(missed_at_ms * MS);
        assert_eq!(world.cpu_of(waiting), Some(3), "{kicked_at_ms}");
    }
}

/// A task that yields while no other waits continues, and its 100 ms start again.
#[test]
fn amp_yield_of_a_lone_task_restarts_its_quantum() {
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
