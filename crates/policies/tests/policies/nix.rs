// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`: priorities, and the single queue (`nix@smp`). Expected numbers are computed from the rules.

use crate::world::{MS, World, only};
use ids::{CpuId, Locality, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// Priority level of promoted tasks, above all others.
const PROMOTED: u64 = 20;

/// Loads `nix@smp` on a machine with 100 ticks a second, as in NIX.
pub fn smp(shape: &str) -> World {
    World::new("nix@smp", shape, 100)
}

/// Returns the priority with which the task was last queued.
pub fn priority(world: &World, task: TaskId) -> u64 {
    PROMOTED - (world.last_queued(task).key >> 56)
}

/// Creates sleeping tasks, each of which last ran on the given CPU at the given nice value, and may run on all CPUs.
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

/// As [`sleepers`], with nice 0.
pub fn sleepers_on(world: &mut World, cpus: &[u32]) -> Vec<TaskId> {
    let homes: Vec<(u32, i8)> = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    sleepers(world, &homes)
}

/// Starts tasks without a parent while CPU 0 is busy.
pub fn beside(world: &mut World, attributes: Vec<TaskAttributes>) -> Vec<TaskId> {
    attributes.into_iter().map(|one| world.spawn(0, TaskAttributes { parent: None, ..one })).collect()
}

/// Point 3 of `share.bpf.h`: base priority by nice value and kind of task, before any CPU time is used.
#[test]
fn new_task_has_its_base_priority() {
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

/// Points 1 to 3 of `share.bpf.h`: priority after running alone on one CPU (load 1) and then sleeping, in seconds.
#[test]
fn priority_falls_with_usage_and_recovers_asleep() {
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

/// Point 3 of `share.bpf.h`: 1 / share is rounded. It is 2.5 after 12 s of 30 s, and after 15.07 s if the task yields
/// once a second, because each update closes a part of the remaining gap.
#[test]
fn priority_is_rounded() {
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

/// Points 2, 3 of `share.bpf.h`: the fair share falls with the load and grows with the CPUs. Without updates in
/// between, the task has used half a CPU after 15 s; where another task waits there are updates, and it has used 1 -
/// exp(-1/2) = 0.39.
#[test]
fn fair_share_is_cpus_divided_by_load() {
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

/// Point 1 of `nix.bpf.c`: tasks are queued by priority, and first in, first out within a priority.
#[test]
fn queue_is_ordered_by_priority_then_arrival() {
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

/// Point 3 of `nix.bpf.c`, first pass: tasks that last ran on this CPU, and new tasks, go before all others, however
/// low their priority.
#[test]
fn cpu_takes_its_own_tasks_before_higher_priorities() {
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

/// Point 3 of `nix.bpf.c`: neither pass takes a task that is pinned to another CPU.
#[test]
fn tasks_pinned_elsewhere_are_skipped() {
    let mut world = smp("node:1 core:2 pu:1");
    let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
    let bound = vec![world.pinned(1, -20)];
    let bound = beside(&mut world, bound)[0];
    world.block(hogs[0]);
    assert_eq!((world.running(0), world.cpu_of(bound)), (TaskId::NONE, None));
    world.block(hogs[1]);
    assert_eq!(world.running(1), bound);
}

/// Point 3 of `nix.bpf.c`: the previous task competes as one that last ran here, behind equal priorities. It is not
/// displaced by a task that last ran elsewhere.
#[test]
fn hog_is_displaced_only_by_tasks_that_ran_on_its_cpu() {
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

/// Point 4 of `nix.bpf.c`: a higher-priority task waits until the next tick, one of equal priority until the quantum
/// of 100 ms is over.
#[test]
fn higher_priority_preempts_at_the_next_tick_and_equal_after_100_ms() {
    for (nice, ms) in [(0, 100), (-2, 10), (2, 100)] {
        let mut world = smp("node:1 core:1 pu:1");
        let sleeper = sleepers(&mut world, &[(0, nice)])[0];
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0), hog, "a wakeup does not preempt");
        world.run_until(ms * MS - 1);
        assert_eq!(world.running(0), hog, "{nice}");
        world.run_until(ms * MS);
        // The lower-priority task still has a lower priority after 100 ms.
        assert_eq!(world.running(0), if nice > 0 { hog } else { sleeper }, "{nice}");
    }
}

/// Point 4 of `nix.bpf.c`: a lone task continues after its 100 ms, and stops at the first tick at which another task
/// waits.
#[test]
fn expired_task_stops_when_another_task_is_queued() {
    let mut world = smp("node:1 core:1 pu:1");
    let sleeper = sleepers(&mut world, &[(0, 0)])[0];
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(255);
    world.wake(0, sleeper, false);
    assert_eq!(world.running(0), hog);
    world.run_ms(5);
    assert_eq!(world.running(0), sleeper);
}

/// Point 2 of `nix.bpf.c`: one idle CPU is kicked, preferably the task's last one.
#[test]
fn woken_task_runs_on_its_last_cpu_if_idle() {
    let mut world = smp("node:1 core:4 pu:1");
    let tasks = sleepers(&mut world, &[(2, 0), (2, 0), (2, 0)]);
    world.rescheduled.clear();
    world.wake(0, tasks[0], false);
    assert_eq!((world.cpu_of(tasks[0]), world.rescheduled.as_slice()), (Some(2), &[CpuId(2)][..]));
    world.wake(0, tasks[1], false);
    assert!(world.cpu_of(tasks[1]).is_some(), "any other CPU, as the last one is busy");
}

/// Point 4 of `share.bpf.h`: priorities of queued tasks are recomputed once a second. With a load of 3 on one CPU, a
/// share of 0.8 has priority 0; in the sixth second it falls below two thirds, which has priority 1. The other tasks
/// have at most 1, and 100 ms each.
#[test]
fn priority_of_a_queued_task_rises() {
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

/// Advances the clock until the task runs, and returns the time in ms.
fn waited_ms(world: &mut World, task: TaskId) -> u64 {
    let since = world.now_ns;
    while world.cpu_of(task).is_none() {
        world.run_ms(1);
    }
    (world.now_ns - since) / MS
}

/// Point 5 of `share.bpf.h`: a task that has used much CPU time runs within 11 s plus the quanta of the others,
/// however many unused tasks come.
#[test]
fn task_with_high_usage_is_promoted_after_10_s() {
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
fn lowest_base_priority_is_promoted() {
    let mut world = smp("node:1 core:2 pu:1");
    let idle = TaskAttributes { policy: Policy::Idle, ..world.attributes() };
    let low = TaskAttributes { nice: 19, ..world.attributes() };
    world.start(vec![TaskAttributes { nice: -20, ..world.attributes() }; 4]);
    let tasks = beside(&mut world, vec![idle, low]);
    world.run_ms(25_000);
    assert!(tasks.iter().all(|task| world.ran_ms(*task) > 0));
}

/// A CPU goes offline while tasks are queued for it: they run elsewhere, and the CPU is used again once it is back.
#[test]
fn tasks_queued_for_an_offlined_cpu_run_elsewhere() {
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

/// A higher class takes the CPU: the displaced task continues elsewhere.
#[test]
fn task_displaced_by_a_higher_class_moves_to_an_idle_cpu() {
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

/// A yield lets equal priorities run first.
#[test]
fn yield_runs_equal_priorities_first() {
    let mut world = smp("node:1 core:1 pu:1");
    let tasks = world.start(vec![world.pinned(0, 0); 2]);
    assert_eq!(world.running(0), tasks[0]);
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), tasks[1]);
}

/// Point 3 of `nix.bpf.c`: this includes a task that was created in the same nanosecond, at any time stamp.
#[test]
fn yield_runs_a_new_equal_priority_first() {
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

/// Point 3 of `nix.bpf.c`: a task that ran elsewhere is not mistaken for a new one, at any time stamp of its wakeup.
#[test]
fn task_that_ran_elsewhere_waits_for_the_second_pass() {
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

/// Point 2 of `nix.bpf.c`: if the last CPU is busy, a wholly idle core is preferred to the SMT sibling.
#[test]
fn woken_task_prefers_a_whole_idle_core() {
    let mut world = smp("node:1 core:2 pu:2");
    let task = sleepers_on(&mut world, &[0])[0];
    world.start(vec![world.pinned(0, 0)]);
    world.wake(0, task, false);
    let cpu = world.cpu_of(task).unwrap();
    assert_ne!(world.machine.topology.locality(CpuId(cpu), CpuId(0)), Locality::Smt, "on CPU {cpu}");
}

/// Point 2 of `share.bpf.h`: the load is an average: ten tasks compete, but for 10 ms only, so the load is 1.09 and a
/// share of one half has priority 2.
#[test]
fn load_is_averaged_over_a_second() {
    let mut world = smp("node:1 core:1 pu:1");
    let old = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(15_000);
    let many = vec![world.pinned(0, 0); 9];
    beside(&mut world, many);
    world.run_ms(20);
    assert_eq!((world.cpu_of(old), priority(&world, old)), (None, 2));
}
