// SPDX-License-Identifier: GPL-2.0-only
//! `policies/vrq`: which tasks are cached on their CPU, and when that ends (theory 5).

use crate::world::{MS, World, only};
use ids::{CpuId, Policy};
use kernel_model::TaskAttributes;
use machine_model::Machine;

const SLICE_NS: u64 = 6 << 20;

/// Returns whether CPU 1 picks a task with an earlier deadline that ran on CPU 2 and stopped `ago_ns` before, rather
/// than a task pinned to CPU 1.
fn takes_the_remote_task(spec: &str, policy: Policy, ago_ns: u64, slept: bool) -> bool {
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
    // SCHED_IDLE tasks have a queue of their own.
    let policy = if policy == Policy::Idle { policy } else { Policy::Other };
    let near = world.start(vec![TaskAttributes { policy, ..world.pinned(1, 19) }])[0];
    world.run_until(begin_ns + ago_ns);
    world.block(on_1);
    assert!([near, task].contains(&world.running(1)), "{spec}");
    world.running(1) == task
}

/// Point 5 of `vrq.bpf.c`, 4.3: a normal task is cached for one slice, SCHED_BATCH for 1 s, and all tasks for 1 s
/// with `preempt_none`; tasks that slept are cached as well.
#[test]
fn policy_decides_how_long_a_task_is_cached() {
    for slept in [false, true] {
        assert!(!takes_the_remote_task("vrq", Policy::Other, SLICE_NS - 1, slept), "{slept}");
        assert!(takes_the_remote_task("vrq", Policy::Other, SLICE_NS, slept), "{slept}");
        assert!(!takes_the_remote_task("vrq,preempt_none=true", Policy::Other, SLICE_NS, slept), "{slept}");
    }
    assert!(!takes_the_remote_task("vrq", Policy::Batch, SLICE_NS, false));
}

/// Returns whether CPU 1 takes a task that was displaced on CPU 2. Two other tasks have been switched in and out
/// there since: the first at once; then, in each round, the second and again the first; with `half`, the second once
/// more.
fn is_taken_after(spec: &str, llc_kb: u64, rounds: u32, half: bool) -> bool {
    is_taken_after_those(spec, llc_kb, rounds, half, false)
}

/// As [`is_taken_after`], optionally with kthreads as the two other tasks.
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

/// Point 5 of `vrq.bpf.c`, 0.4: only a task that was still runnable when it stopped is cached, for a number of
/// switches of its CPU, whatever the time.
#[test]
fn vrq_0_4_caches_a_task_for_14_switches() {
    assert!(!takes_the_remote_task("vrq@0.4", Policy::Other, 7 * MS, false));
    assert!(takes_the_remote_task("vrq@0.4", Policy::Other, MS, true), "a task that slept is not cached");
    assert!(!is_taken_after("vrq@0.4", 0, 6, true), "14 switches");
    assert!(is_taken_after("vrq@0.4", 0, 7, false), "15 switches");
}

/// Point 5 of `vrq.bpf.c`, 4.2: a task is cached until the switches of its CPU cost more than a threshold: 8 for
/// switching to a task that slept, 2 for one that is cached itself. The first switch costs 8, the first round 16,
/// each later round 10, half a round 2.
#[test]
fn vrq_4_2_caches_a_task_until_switches_cost_more_than_the_cache_size_allows() {
    assert!(!takes_the_remote_task("vrq@4.2,scost_threshold=8", Policy::Other, 7 * MS, false));
    assert!(
        takes_the_remote_task("vrq@4.2,scost_threshold=1000", Policy::Other, MS, true),
        "a task that slept is not cached"
    );
    for (spec, llc_kb, rounds, half, taken) in [
        // Threshold 3 per 512 KB of cache: 24 for 4 MB.
        ("vrq@4.2", 4096, 1, false, false),
        ("vrq@4.2", 4096, 1, true, true),
        ("vrq@4.2", 5 * 1024, 1, true, false),
        ("vrq@4.2", 5 * 1024, 2, false, true),
        // In 32-bit mode 2 per 256 KB: 32 for 4 MB.
        ("vrq@4.2,scost_32bit=true", 4096, 1, true, false),
        ("vrq@4.2,scost_32bit=true", 4096, 2, false, true),
        // Threshold 3 if the cache size is unknown.
        ("vrq@4.2", 0, 0, false, true),
        ("vrq@4.2,scost_threshold=8", 0, 0, false, false),
        ("vrq@4.2,scost_threshold=7", 4096, 0, false, true),
    ] {
        assert_eq!(is_taken_after(spec, llc_kb, rounds, half), taken, "{spec}, {llc_kb} KB, {rounds} rounds, {half}");
    }
}

/// Point 5 of `vrq.bpf.c`, 0.3: each CPU has one sticky task, the last that was preempted.
#[test]
fn vrq_0_3_makes_the_last_preempted_task_sticky() {
    assert!(!takes_the_remote_task("vrq@0.3", Policy::Other, 100 * MS, false));
    assert!(takes_the_remote_task("vrq@0.3", Policy::Other, MS, true), "a task that slept is not sticky");
    assert!(!is_taken_after("vrq@0.3", 0, 0, false));
    assert!(is_taken_after("vrq@0.3", 0, 1, false), "another task was preempted since");
}

/// Point 5 of `vrq.bpf.c`, 4.2: cost of a switch to a task: 2 if it is cached there, four times that if not, and half
/// of either for a kthread.
#[test]
fn switch_costs_depend_on_caching_and_kthreads() {
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

/// The cache size counts in whole units and at least one unit: thresholds 3, 3, 6, and in 32-bit mode 2, 2, 4.
#[test]
fn vrq_4_2_switch_cost_threshold_counts_whole_units_of_the_cache_size() {
    // Switches to kthreads cost 4 at first, and then 4, 4 and 1.
    let taken = |spec: &str, llc_kb, rounds| is_taken_after_those(spec, llc_kb, rounds, false, true);
    for (llc_kb, taken_at_once) in [(511, true), (512, true), (1023, true), (1024, false)] {
        assert_eq!(taken("vrq@4.2", llc_kb, 0), taken_at_once, "{llc_kb} KB");
    }
    for (llc_kb, taken_at_once) in [(255, true), (256, true), (511, true), (512, false)] {
        assert_eq!(taken("vrq@4.2,scost_32bit=true", llc_kb, 0), taken_at_once, "{llc_kb} KB in 32 bits");
    }
    // Threshold 12 for 2 MB, and 12 for 1.5 MB in 32-bit mode.
    assert!(!taken("vrq@4.2", 2048, 1) && taken("vrq@4.2", 2047, 1));
    assert!(!taken("vrq@4.2,scost_32bit=true", 1536, 1) && taken("vrq@4.2,scost_32bit=true", 1535, 1));
}

/// Point 5 of `vrq.bpf.c`, 4.3: normal tasks are cached for one slice of the configured length, SCHED_BATCH and
/// SCHED_IDLE for a second, and all tasks for a second with `preempt_none`.
#[test]
fn batch_idle_and_preempt_none_tasks_are_cached_for_a_second() {
    const SECOND_NS: u64 = 1_000_000_000;
    // With slices of a second no other task takes the CPUs in the meantime.
    for (spec, policy, limit_ns) in [
        ("vrq,rr_interval_ms=20", Policy::Other, 20 << 20),
        ("vrq,rr_interval_ms=1000", Policy::Other, 1000 << 20),
        ("vrq,rr_interval_ms=1000,preempt_none=true", Policy::Other, SECOND_NS),
        ("vrq,rr_interval_ms=1000", Policy::Batch, SECOND_NS),
        ("vrq,rr_interval_ms=1000", Policy::Idle, SECOND_NS),
    ] {
        assert!(!takes_the_remote_task(spec, policy, limit_ns - 1, false), "{spec} {policy:?}");
        assert!(takes_the_remote_task(spec, policy, limit_ns, false), "{spec} {policy:?}");
    }
}

/// Point 5 of `vrq.bpf.c`, 4.3: a new task is cached on the CPU of its parent; in earlier versions a task that has
/// not run yet is not cached.
#[test]
fn new_task_is_cached_on_its_parents_cpu_since_4_3() {
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

/// Point 5 of `vrq.bpf.c`: of two remote tasks with equal effective deadlines, a CPU takes the one that has waited
/// longer.
#[test]
fn longest_waiting_task_wins_among_equal_effective_deadlines() {
    let mut world = World::new("vrq", "node:1 core:2 pu:1", 50);
    let parent = world.start(vec![world.pinned(1, -20)])[0];
    let on_0 = world.start(vec![world.pinned(0, -20)])[0];
    world.run_until(MS);
    // The children have their parent's deadline and are cached where it runs.
    let children: Vec<_> = (0..2)
        .map(|_| world.spawn(1, TaskAttributes { parent: Some(parent), nice: -20, ..world.attributes() }))
        .collect();
    let keys = [0, 1].map(|child| world.last_queued(children[child]).key);
    assert_eq!(keys[0], keys[1]);
    world.block(on_0);
    assert_eq!(world.running(0), children[0]);
}

/// Point 5 of `vrq.bpf.c`, 0.4 and 4.2: a task that was displaced, ran again and then slept is not cached: only its
/// last stop counts.
#[test]
fn task_is_not_cached_after_running_again_and_sleeping() {
    for spec in ["vrq@0.4", "vrq@4.2,scost_threshold=1000"] {
        let mut world = World::new(spec, "node:1 core:3 pu:1", 50);
        let sleeper = world.start(vec![world.pinned(2, -20)])[0];
        world.block(sleeper);
        let task = world.start(vec![world.pinned(2, 19)])[0];
        let on_1 = world.start(vec![world.pinned(1, -20)])[0];
        world.run_until(MS);
        // Displaced, and therefore cached; then the task runs again and sleeps.
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
