// SPDX-License-Identifier: GPL-2.0-only
//! `policies/vrq`: which tasks are cached, and what ends that (theory 5).

use crate::world::{MS, World, only};
use ids::{CpuId, Policy};
use kernel_model::TaskAttributes;
use machine_model::Machine;

const SLICE_NS: u64 = 6 << 20;

/// Who goes first on CPU 1: a task that is bound there, or one with an earlier deadline that ran on CPU 2 and stopped
/// `ago_ns` before. Whether it is the one from elsewhere.
fn takes_from_elsewhere(spec: &str, policy: Policy, ago_ns: u64, slept: bool) -> bool {
    let mut world = World::new(spec, "node:1 core:3 pu:1", 50);
    let sleeper = world.start(vec![world.pinned(2, -20)])[0];
    world.block(sleeper);
    let task = world.start(vec![TaskAttributes { policy, ..world.pinned(2, 19) }])[0];
    let on_1 = world.start(vec![world.pinned(1, -20)])[0];
    let begin_ns = 10 * MS;
    world.run_until(begin_ns);
    if slept {
        world.block(task);
        world.wake(0, sleeper, false);
        world.wake(0, task, false);
    } else {
        world.wake(0, sleeper, false);
    }
    assert_eq!(world.cpu_of(task), None, "{spec}");
    world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2])).unwrap();
    world.settle();
    // SCHED_IDLE has a queue of its own.
    let policy = if policy == Policy::Idle { policy } else { Policy::Other };
    let near = world.start(vec![TaskAttributes { policy, ..world.pinned(1, 19) }])[0];
    world.run_until(begin_ns + ago_ns);
    world.block(on_1);
    assert!([near, task].contains(&world.running(1)), "{spec}");
    world.running(1) == task
}

/// Theory 5, 4.3: one slice for normal tasks, 1 s for SCHED_BATCH or all; sleepers are cached as well.
#[test]
fn tasks_are_cached_for_a_time_by_policy() {
    for slept in [false, true] {
        assert!(!takes_from_elsewhere("vrq", Policy::Other, SLICE_NS - 1, slept), "{slept}");
        assert!(takes_from_elsewhere("vrq", Policy::Other, SLICE_NS, slept), "{slept}");
        assert!(!takes_from_elsewhere("vrq,preempt_none=true", Policy::Other, SLICE_NS, slept), "{slept}");
    }
    assert!(!takes_from_elsewhere("vrq", Policy::Batch, SLICE_NS, false));
}

/// Whether CPU 1 takes a task that was displaced on CPU 2, where two others have gone on and off since: the first at once,
/// then, in each round, the second one, and the first again; and half a round more.
fn is_taken_after(spec: &str, llc_kb: u64, rounds: u32, half: bool) -> bool {
    is_taken_after_those(spec, llc_kb, rounds, half, false)
}

/// The same, with threads of the kernel as the two.
fn is_taken_after_those(spec: &str, llc_kb: u64, rounds: u32, half: bool, kernel_thread: bool) -> bool {
    let mut machine = Machine::from_synthetic("node:1 core:3 pu:1").unwrap();
    (machine.hz, machine.llc_kb) = (50, llc_kb);
    let mut world = World::on(spec, machine, (7, 2));
    let sleepers = [0, 1].map(|at| {
        world.run_until(at);
        let task = world.start(vec![TaskAttributes { kernel_thread, ..world.pinned(2, -20) }])[0];
        world.block(task);
        task
    });
    let task = world.start(vec![world.pinned(2, 19)])[0];
    let on_1 = world.start(vec![world.pinned(1, -20)])[0];
    world.run_until(10 * MS);
    sleepers.iter().for_each(|sleeper| world.wake(0, *sleeper, false));
    for _ in 0..rounds {
        world.block(sleepers[0]);
        world.wake(0, sleepers[0], false);
    }
    if half {
        world.block(sleepers[0]);
    }
    world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2])).unwrap();
    world.settle();
    let near = world.start(vec![world.pinned(1, 19)])[0];
    world.block(on_1);
    assert!([near, task].contains(&world.running(1)));
    world.running(1) == task
}

/// Theory 5, 0.4: only who could have gone on, and by the switches of its CPU, whatever time it takes.
#[test]
fn in_0_4_tasks_are_cached_for_14_switches() {
    assert!(!takes_from_elsewhere("vrq@0.4", Policy::Other, 7 * MS, false));
    assert!(takes_from_elsewhere("vrq@0.4", Policy::Other, MS, true), "a sleeper is not cached");
    assert!(!is_taken_after("vrq@0.4", 0, 6, true), "14 switches");
    assert!(is_taken_after("vrq@0.4", 0, 7, false), "15 switches");
}

/// Theory 5, 4.2: by what the switches of its CPU cost: 8 for a task that slept, 2 for one that is cached itself. The first
/// switch costs 8, the first round 16, each later one 10, half of one 2.
#[test]
fn in_4_2_tasks_are_cached_as_long_as_switches_cost_less_than_the_cache_bears() {
    assert!(!takes_from_elsewhere("vrq@4.2,scost_threshold=8", Policy::Other, 7 * MS, false));
    assert!(takes_from_elsewhere("vrq@4.2,scost_threshold=1000", Policy::Other, MS, true), "a sleeper is not cached");
    for (spec, llc_kb, rounds, half, taken) in [
        // 3 for each 512 KB: 24 for 4 MB.
        ("vrq@4.2", 4096, 1, false, false),
        ("vrq@4.2", 4096, 1, true, true),
        ("vrq@4.2", 5 * 1024, 1, true, false),
        ("vrq@4.2", 5 * 1024, 2, false, true),
        // In 32 bits 2 for each 256 KB: 32 for 4 MB.
        ("vrq@4.2,scost_32bit=true", 4096, 1, true, false),
        ("vrq@4.2,scost_32bit=true", 4096, 2, false, true),
        // 3 where nobody knows the cache.
        ("vrq@4.2", 0, 0, false, true),
        ("vrq@4.2,scost_threshold=8", 0, 0, false, false),
        ("vrq@4.2,scost_threshold=7", 4096, 0, false, true),
    ] {
        assert_eq!(is_taken_after(spec, llc_kb, rounds, half), taken, "{spec}, {llc_kb} KB, {rounds} rounds, {half}");
    }
}

/// Theory 5, 0.3: one task of each CPU is sticky, the last that had to stop.
#[test]
fn in_0_3_the_last_task_that_had_to_stop_is_sticky() {
    assert!(!takes_from_elsewhere("vrq@0.3", Policy::Other, 100 * MS, false));
    assert!(takes_from_elsewhere("vrq@0.3", Policy::Other, MS, true), "a sleeper is not");
    assert!(!is_taken_after("vrq@0.3", 0, 0, false));
    assert!(is_taken_after("vrq@0.3", 0, 1, false), "another one had to stop since");
}

/// Theory 5, 4.2: what a switch costs, to one: 2 for a task that is cached there, four times that for one that is not, and half
/// of either for a thread of the kernel.
#[test]
fn switches_cost_1_to_8() {
    for (kernel_thread, rounds, half, cost) in [
        (false, 0, false, 8),
        (false, 1, false, 8 + 8 + 8),
        (false, 1, true, 8 + 8 + 8 + 2),
        (false, 2, false, 8 + 8 + 8 + 2 + 8),
        (true, 0, false, 4),
        (true, 1, false, 4 + 4 + 4),
        (true, 1, true, 4 + 4 + 4 + 1),
        (true, 2, false, 4 + 4 + 4 + 1 + 4),
    ] {
        for (limit, taken) in [(cost, false), (cost - 1, true)] {
            let spec = format!("vrq@4.2,scost_threshold={limit}");
            let was = is_taken_after_those(&spec, 0, rounds, half, kernel_thread);
            assert_eq!(was, taken, "{spec}, {rounds} rounds, {half}, kernel {kernel_thread}");
        }
    }
}

/// The size of the cache counts in whole pieces, and there is at least one: limits of 3, 3, 6, and in 32 bits 2, 2, 4.
#[test]
fn the_size_of_a_cache_counts_in_whole_pieces() {
    // A thread of the kernel costs 4 at first, and then 4, 4 and 1.
    let taken = |spec: &str, llc_kb, rounds| is_taken_after_those(spec, llc_kb, rounds, false, true);
    for (llc_kb, taken_at_once) in [(511, true), (512, true), (1023, true), (1024, false)] {
        assert_eq!(taken("vrq@4.2", llc_kb, 0), taken_at_once, "{llc_kb} KB");
    }
    for (llc_kb, taken_at_once) in [(255, true), (256, true), (511, true), (512, false)] {
        assert_eq!(taken("vrq@4.2,scost_32bit=true", llc_kb, 0), taken_at_once, "{llc_kb} KB in 32 bits");
    }
    // 12 for 2 MB, and 16 in 32 bits.
    assert!(!taken("vrq@4.2", 2048, 1) && taken("vrq@4.2", 2047, 1));
    assert!(!taken("vrq@4.2,scost_32bit=true", 1536, 1) && taken("vrq@4.2,scost_32bit=true", 1535, 1));
}

/// Theory 5, 4.3: one slice, whatever that is; SCHED_BATCH and SCHED_IDLE a second, and everybody with `preempt_none`.
#[test]
fn patient_tasks_are_cached_for_a_second() {
    const SECOND_NS: u64 = 1_000_000_000;
    // With slices of a second nobody else has the CPUs meanwhile.
    for (spec, policy, limit_ns) in [
        ("vrq,rr_interval_ms=20", Policy::Other, 20 << 20),
        ("vrq,rr_interval_ms=1000", Policy::Other, 1000 << 20),
        ("vrq,rr_interval_ms=1000,preempt_none=true", Policy::Other, SECOND_NS),
        ("vrq,rr_interval_ms=1000", Policy::Batch, SECOND_NS),
        ("vrq,rr_interval_ms=1000", Policy::Idle, SECOND_NS),
    ] {
        assert!(!takes_from_elsewhere(spec, policy, limit_ns - 1, false), "{spec} {policy:?}");
        assert!(takes_from_elsewhere(spec, policy, limit_ns, false), "{spec} {policy:?}");
    }
}

/// Theory 5, 4.3: a new task is cached at the CPU of its parent; before that nobody is who has not run.
#[test]
fn a_new_task_is_cached_at_its_parents_cpu() {
    for (spec, ago_ns, taken) in [
        ("vrq", SLICE_NS - 1, false),
        ("vrq", SLICE_NS, true),
        ("vrq@4.2", 0, true),
        ("vrq@0.4", 0, true),
        ("vrq@0.3", 0, true),
    ] {
        let mut world = World::new(spec, "node:1 core:3 pu:1", 50);
        let parent = world.start(vec![world.pinned(2, -20)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.run_until(10 * MS);
        let child = TaskAttributes { parent: Some(parent), allowed: only(&[1, 2]), ..world.attributes() };
        let child = world.spawn(2, TaskAttributes { nice: 0, ..child });
        assert_eq!(world.cpu_of(child), None, "{spec}");
        let near = world.start(vec![world.pinned(1, 0)])[0];
        world.run_until(10 * MS + ago_ns);
        world.block(on_1);
        assert!([near, child].contains(&world.running(1)), "{spec}");
        assert_eq!(world.running(1) == child, taken, "{spec} {ago_ns}");
    }
}

/// Theory 5: of two tasks that a CPU sees alike, both from elsewhere, it takes the one that has waited for longer.
#[test]
fn of_two_that_are_seen_alike_the_first_is_taken() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
    let parent = world.start(vec![world.pinned(1, -20)])[0];
    let on_0 = world.start(vec![world.pinned(0, -20)])[0];
    world.run_until(MS);
    // They have their parent's deadline, and are cached where it runs.
    let children: Vec<_> = (0..2)
        .map(|_| world.spawn(1, TaskAttributes { parent: Some(parent), nice: -20, ..world.attributes() }))
        .collect();
    let keys = [0, 1].map(|child| world.last_queued(children[child]).key);
    assert_eq!(keys[0], keys[1]);
    world.block(on_0);
    assert_eq!(world.running(0), children[0]);
}

/// Theory 5, 0.4 and 4.2: who was displaced once, ran again and slept is not cached: only the last stop counts.
#[test]
fn running_again_ends_a_tasks_time_in_the_cache() {
    for spec in ["vrq@0.4", "vrq@4.2,scost_threshold=1000"] {
        let mut world = World::new(spec, "node:1 core:3 pu:1", 50);
        let sleeper = world.start(vec![world.pinned(2, -20)])[0];
        world.block(sleeper);
        let task = world.start(vec![world.pinned(2, 19)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.run_until(MS);
        // Displaced, so cached; it runs again, and sleeps.
        world.wake(0, sleeper, false);
        world.block(sleeper);
        assert_eq!(world.running(2), task);
        world.block(task);
        world.wake(0, sleeper, false);
        world.wake(0, task, false);
        world.kernel.set_affinity(CpuId(0), task, &only(&[1, 2])).unwrap();
        world.settle();
        let near = world.start(vec![world.pinned(1, 19)])[0];
        world.block(on_1);
        assert!([near, task].contains(&world.running(1)), "{spec}");
        assert_eq!(world.running(1), task, "{spec}");
    }
}
