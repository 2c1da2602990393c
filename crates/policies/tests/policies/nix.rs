// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`: priorities, and one queue (`nix@smp`). Expected numbers are those that the rules give by reckoning.

use crate::world::{MS, World, only};
use ids::{CpuId, Locality, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// Above all others.
const PROMOTED: u64 = 20;

/// Ticks as in NIX.
pub fn smp(shape: &str) -> World {
    World::new("nix@smp", shape, 100)
}

/// With what priority the task was last queued.
pub fn priority(world: &World, task: TaskId) -> u64 {
    PROMOTED - (world.last_queued(task).key >> 56)
}

/// Tasks that ran on these CPUs last, may run on all, and sleep.
pub fn sleepers(world: &mut World, homes: &[(u32, i8)]) -> Vec<TaskId> {
    let all = world.attributes().allowed;
    let sleeper = |(cpu, nice): &(u32, i8)| {
        let task = world.start(vec![world.pinned(*cpu, *nice)])[0];
        assert_eq!(world.cpu_of(task), Some(*cpu));
        world.block(task);
        world.kernel.set_affinity(CpuId(0), task, &all).unwrap();
        world.settle();
        task
    };
    homes.iter().map(sleeper).collect()
}

/// The same with nice 0.
pub fn sleepers_on(world: &mut World, cpus: &[u32]) -> Vec<TaskId> {
    let homes: Vec<(u32, i8)> = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    sleepers(world, &homes)
}

/// New tasks without a parent while CPU 0 works.
pub fn beside(world: &mut World, attributes: Vec<TaskAttributes>) -> Vec<TaskId> {
    attributes.into_iter().map(|one| world.spawn(0, TaskAttributes { parent: None, ..one })).collect()
}

/// Share 3: the base, by nice value and kind of task, as long as nobody used anything.
#[test]
fn a_task_begins_with_its_base() {
    let mut world = smp("node:1 core:1 pu:1");
    let task = |nice, policy, kernel_thread| {
        let world = &world;
        TaskAttributes { policy, kernel_thread, ..world.pinned(0, nice) }
    };
    let kinds = [
        (task(0, Policy::Other, false), 10),
        (task(1, Policy::Other, false), 9),
        (task(2, Policy::Other, false), 9),
        (task(19, Policy::Other, false), 0),
        (task(-1, Policy::Other, false), 10),
        (task(-2, Policy::Other, false), 11),
        (task(-20, Policy::Other, false), 19),
        (task(-20, Policy::Idle, false), 0),
        (task(0, Policy::Other, true), 13),
        (task(-20, Policy::Other, true), 13),
    ];
    let tasks = world.start(kinds.iter().map(|(attributes, _)| attributes.clone()).collect());
    for (task, (attributes, base)) in tasks.iter().zip(&kinds) {
        assert_eq!(priority(&world, *task), *base, "{attributes:?}");
    }
}

/// Share 1 to 3: after so many seconds alone on one CPU (load 1), and so many asleep.
#[test]
fn who_used_much_comes_back_low() {
    for (ran_s, slept_s, expected) in [(2, 0, 10), (5, 0, 6), (15, 0, 2), (15, 15, 4), (30, 0, 1), (60, 20, 3)] {
        let mut world = smp("node:1 core:1 pu:1");
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.run_ms(ran_s * 1000);
        world.block(task);
        world.run_ms(slept_s * 1000);
        world.wake(0, task, false);
        assert_eq!(priority(&world, task), expected, "{ran_s} s, then {slept_s} s asleep");
    }
}

/// Share 3: 1 / share is rounded. It is 2.5 after 12 s of 30; and after 15.07 s if the task gives way once a second, as what
/// comes to the share is a part of what is missing then.
#[test]
fn a_priority_is_rounded() {
    for (yields, ran_ms, expected) in [(0, 11_995, 3), (0, 12_005, 2), (15, 62, 3), (15, 78, 2)] {
        let mut world = smp("node:1 core:1 pu:1");
        let task = world.start(vec![world.pinned(0, 0)])[0];
        for _ in 0..yields {
            world.run_ms(1_000);
            world.leave(0, Leave::Yield);
        }
        world.run_ms(ran_ms);
        world.block(task);
        world.wake(0, task, false);
        assert_eq!(priority(&world, task), expected, "{yields} s and {ran_ms} ms");
    }
}

/// Share 2, 3: the fair share falls with the load and grows with the CPUs. The task has half a
/// CPU's share after 15 s without a look at it. Where somebody waits there are looks, and it has 1 - exp(-1/2) = 0.39.
#[test]
fn the_fair_share_is_cpus_by_load() {
    for (cpus, load, expected) in [(2, 1, 4), (2, 2, 2), (2, 5, 1), (2, 9, 1), (2, 11, 0), (4, 1, 8), (4, 3, 3)] {
        let mut world = smp(&format!("node:1 core:{cpus} pu:1"));
        let mut all = vec![world.pinned(0, 0)];
        all.resize(load, world.pinned(1, 0));
        let task = world.start(all)[0];
        world.run_ms(15_000);
        world.block(task);
        world.wake(0, task, false);
        assert_eq!(priority(&world, task), expected, "{cpus} CPUs, load {load}");
    }
}

/// 1: by priority, each first come, first served.
#[test]
fn a_queue_is_in_order() {
    let mut world = smp("node:1 core:1 pu:1");
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    let [a, b, c, d, e] = [0, 10, -10, 0, 10].map(|nice| {
        world.run_until(world.now_ns + 1000);
        let attributes = vec![world.pinned(0, nice)];
        beside(&mut world, attributes)[0]
    });
    world.block(hog);
    for next in [c, a, d, b, e] {
        assert_eq!(world.running(0), next);
        world.block(next);
    }
}

/// 3, first pass: who ran here last, however low, before who did not; and who never ran.
#[test]
fn a_cpu_takes_its_own_tasks_before_higher_ones() {
    let mut world = smp("node:1 core:2 pu:1");
    let tasks = sleepers(&mut world, &[(0, 10), (1, -10)]);
    let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
    let (own, other) = (tasks[0], tasks[1]);
    world.wake(0, other, false);
    world.wake(0, own, false);
    let fresh = world.spawn(1, TaskAttributes { nice: 12, parent: None, ..world.attributes() });
    assert!(priority(&world, other) > priority(&world, own) && priority(&world, own) > priority(&world, fresh));
    world.block(hogs[0]);
    assert_eq!(world.running(0), own, "ran here last");
    world.block(own);
    assert_eq!(world.running(0), fresh, "never ran");
    world.block(fresh);
    assert_eq!(world.running(0), other, "second pass");
}

/// 3: neither pass takes who is bound to another CPU.
#[test]
fn nobody_takes_who_is_bound_elsewhere() {
    let mut world = smp("node:1 core:2 pu:1");
    let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
    let bound = vec![world.pinned(1, -20)];
    let bound = beside(&mut world, bound)[0];
    world.block(hogs[0]);
    assert_eq!((world.running(0), world.cpu_of(bound)), (TaskId::NONE, None));
    world.block(hogs[1]);
    assert_eq!(world.running(1), bound);
}

/// 3: who could go on competes as one who ran here last, behind its equals. It does not make way for one from elsewhere.
#[test]
fn a_hog_makes_way_for_its_own_cpu_s_tasks() {
    for (home, expected) in [(0, true), (1, false)] {
        let mut world = smp("node:1 core:2 pu:1");
        let sleeper = sleepers(&mut world, &[(home, 0)])[0];
        let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
        world.wake(0, sleeper, false);
        world.run_ms(90);
        assert_eq!(world.running(0), hogs[0]);
        world.run_ms(20);
        assert_eq!(world.running(0) == sleeper, expected, "ran on CPU {home} last");
    }
}

/// 4: a higher one waits until the next tick, an equal one until 100 ms are over.
#[test]
fn ticks_stop_tasks() {
    for (nice, ms) in [(0, 100), (-2, 10), (2, 100)] {
        let mut world = smp("node:1 core:1 pu:1");
        let sleeper = sleepers(&mut world, &[(0, nice)])[0];
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0), hog, "a wakeup interrupts nobody");
        world.run_until(ms * MS - 1);
        assert_eq!(world.running(0), hog, "{nice}");
        world.run_until(ms * MS);
        // The lower one stays lower when 100 ms are over.
        assert_eq!(world.running(0), if nice > 0 { hog } else { sleeper }, "{nice}");
    }
}

/// 4: alone a task goes on after its 100 ms, and stops at the first tick at which somebody waits.
#[test]
fn whose_time_is_over_stops_when_somebody_comes() {
    let mut world = smp("node:1 core:1 pu:1");
    let sleeper = sleepers(&mut world, &[(0, 0)])[0];
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(255);
    world.wake(0, sleeper, false);
    assert_eq!(world.running(0), hog);
    world.run_ms(5);
    assert_eq!(world.running(0), sleeper);
}

/// 2: one idle CPU is told, the last one of the task first.
#[test]
fn a_task_that_wakes_gets_its_last_cpu_if_that_idles() {
    let mut world = smp("node:1 core:4 pu:1");
    let tasks = sleepers(&mut world, &[(2, 0), (2, 0), (2, 0)]);
    world.told.clear();
    world.wake(0, tasks[0], false);
    assert_eq!((world.cpu_of(tasks[0]), world.told.as_slice()), (Some(2), &[CpuId(2)][..]));
    world.wake(0, tasks[1], false);
    assert!(world.cpu_of(tasks[1]).is_some(), "any other, as that one works");
}

/// Share 4: once a second priorities of who waits are reckoned anew. With a load of 3 on one CPU a share of 0.8 is priority 0,
/// and comes below two thirds, which is priority 1, in the sixth second. The others have no more than 1, and 100 ms each.
#[test]
fn who_waits_rises() {
    let mut world = smp("node:1 core:1 pu:1");
    let old = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(30_000);
    world.block(old);
    world.start(vec![world.pinned(0, 18); 3]);
    world.run_ms(6_000);
    world.block(world.running(0));
    world.wake(0, old, false);
    assert_eq!(priority(&world, old), 0);
    let waited_ms = waited_ms(&mut world, old);
    assert!((5_000..7_000).contains(&waited_ms), "{waited_ms} ms");
}

/// Lets time pass until the task runs.
fn waited_ms(world: &mut World, task: TaskId) -> u64 {
    let since = world.now_ns;
    while world.cpu_of(task).is_none() {
        world.run_ms(1);
    }
    (world.now_ns - since) / MS
}

/// Share 5: however many come who used nothing, who used much runs within 11 s and their turns.
#[test]
fn nobody_waits_for_ever() {
    for others in [2, 20, 60] {
        let mut world = smp("node:1 core:1 pu:1");
        let old = world.start(vec![world.pinned(0, 0)])[0];
        world.run_ms(60_000);
        let many = vec![world.pinned(0, 0); others];
        beside(&mut world, many);
        world.run_ms(150);
        assert_eq!(world.cpu_of(old), None);
        let waited_ms = waited_ms(&mut world, old);
        assert!((9_000..=11_000 + 110 * others as u64).contains(&waited_ms), "beside {others}: {waited_ms} ms");
    }
}

/// SCHED_IDLE and nice 19 are promoted too.
#[test]
fn the_lowest_base_is_promoted() {
    let mut world = smp("node:1 core:2 pu:1");
    let idle = TaskAttributes { policy: Policy::Idle, ..world.attributes() };
    let low = TaskAttributes { nice: 19, ..world.attributes() };
    world.start(vec![TaskAttributes { nice: -20, ..world.attributes() }; 4]);
    let tasks = beside(&mut world, vec![idle, low]);
    world.run_ms(25_000);
    assert!(tasks.iter().all(|task| world.ran_ms(*task) > 0));
}

/// A CPU goes while tasks wait at it: they run elsewhere, and it comes back to work.
#[test]
fn what_waits_at_a_cpu_that_goes_runs_elsewhere() {
    for preset in ["smp", "groups", "amp"] {
        let mut world = World::new(&format!("nix@{preset}"), "node:2 core:4 pu:1", 100);
        let mut all = vec![world.attributes(); 12];
        all.push(TaskAttributes { allowed: only(&[5]), ..world.attributes() });
        let tasks = world.start(all);
        world.run_ms(50);
        world.offline(5);
        let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
        world.run_ms(12_000);
        for (task, before) in tasks.iter().zip(before) {
            assert!(world.ran_ms(*task) > before, "{preset}: {task} runs on another CPU");
        }
        assert_eq!(world.running(5), TaskId::NONE);
        world.online(5);
        world.run_ms(200);
        assert_ne!(world.running(5), TaskId::NONE, "{preset}: it is used again");
    }
}

/// A higher class takes the CPU: who ran there goes on elsewhere.
#[test]
fn who_makes_way_for_a_higher_class_goes_on_elsewhere() {
    for preset in ["smp", "groups", "amp"] {
        let mut world = World::new(&format!("nix@{preset}"), "node:1 core:8 pu:1", 100);
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(5, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        let task = world.start(vec![world.pinned(5, 0)])[0];
        world.kernel.set_affinity(CpuId(0), task, &only(&[5, 6])).unwrap();
        world.settle();
        world.wake(0, fifo, false);
        assert_eq!([5, 6].map(|cpu| world.running(cpu)), [fifo, task], "{preset}");
    }
}

/// Yielding lets equals go first.
#[test]
fn a_yield_lets_equals_go_first() {
    let mut world = smp("node:1 core:1 pu:1");
    let tasks = world.start(vec![world.pinned(0, 0); 2]);
    assert_eq!(world.running(0), tasks[0]);
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), tasks[1]);
}

/// 3: also one that comes at that moment and has never run, at whatever moment that is.
#[test]
fn a_yield_lets_a_new_equal_go_first() {
    for now in 0..4 {
        let mut world = smp("node:1 core:1 pu:1");
        world.start(vec![world.pinned(0, 0)]);
        world.run_until(1_000 + now);
        let new = vec![world.pinned(0, 0)];
        let new = beside(&mut world, new)[0];
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0), new, "{now}");
    }
}

/// 3: who ran is not taken for one that never did, at whatever moment it wakes.
#[test]
fn who_ran_elsewhere_waits_for_the_second_pass() {
    for now in 0..4 {
        let mut world = smp("node:1 core:2 pu:1");
        let tasks = sleepers(&mut world, &[(0, 10), (1, -10)]);
        let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
        world.run_until(1_000 + now);
        tasks.iter().for_each(|task| world.wake(0, *task, false));
        world.block(hogs[0]);
        assert_eq!(world.running(0), tasks[0], "{now}");
    }
}

/// 2: if the last CPU works, a whole idle core comes before its other thread.
#[test]
fn a_task_that_wakes_gets_a_whole_core() {
    let mut world = smp("node:1 core:2 pu:2");
    let task = sleepers_on(&mut world, &[0])[0];
    world.start(vec![world.pinned(0, 0)]);
    world.wake(0, task, false);
    let cpu = world.cpu_of(task).unwrap();
    assert_ne!(world.machine.topology.locality(CpuId(cpu), CpuId(0)), Locality::Smt, "on CPU {cpu}");
}

/// Share 2: ten compete, but for 10 ms only: the load is 1.09, and a share of a half is worth 2.
#[test]
fn the_load_is_an_average() {
    let mut world = smp("node:1 core:1 pu:1");
    let old = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(15_000);
    let many = vec![world.pinned(0, 0); 9];
    beside(&mut world, many);
    world.run_ms(20);
    assert_eq!((world.cpu_of(old), priority(&world, old)), (None, 2));
}
