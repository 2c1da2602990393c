// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs` on one CPU: virtual runtime, placement, slices and preemption (theory 1 to 4), to the nanosecond.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

pub const PRESETS: [&str; 3] = ["2.6.36", "4.1", "6.1"];

/// One CPU, where the scheduling latency is 6 ms.
fn alone(spec: &str, hz: u32) -> World {
    World::new(spec, "node:1 core:1 pu:1", hz)
}

fn of_policy(world: &World, policy: Policy) -> TaskAttributes {
    TaskAttributes { policy, ..world.pinned(0, 0) }
}

/// Returns the run intervals of CPU 0 in ns, from the times of its context switches.
fn turns(world: &World) -> Vec<u64> {
    world.switches.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

/// Point 1 of `weight.bpf.h`: how far a run advances the virtual runtime at each nice value.
#[test]
fn virtual_runtime_is_cpu_time_over_weight() {
    #[rustfmt::skip]
    let weights = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
        1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];
    // With ticks of 100 ms, weights that differ by 1 give different results.
    for (nice, weight) in (-20..20).zip(weights) {
        for hz in [1000, 10] {
            let mut world = alone("cfs", hz);
            let tick_ns = world.tick_ns();
            let tasks = world.start(vec![world.pinned(0, nice); 2]);
            let (first, began) = (world.running(0), world.last_queued(world.running(0)).key);
            while world.running(0) == first {
                world.run_until(world.now_ns + tick_ns);
            }
            assert!(tasks.contains(&first) && world.now_ns <= tick_ns.max(4 * MS), "nice {nice}");
            // Runtime is charged at each tick, in whole nanoseconds.
            let ticks = world.now_ns / tick_ns;
            assert_eq!(world.last_queued(first).key - began, ticks * (tick_ns * 1024 / weight), "nice {nice} {hz}");
        }
    }
}

/// Share of the first of two hogs in 1/100 percent (computed, not published), to 0.2 points, and to 0.1 points beside
/// SCHED_IDLE.
#[test]
fn cpu_shares_follow_nice_weights() {
    for preset in PRESETS {
        for (policy, nice, share) in [
            (Policy::Other, 1, 55_53),
            (Policy::Other, 5, 75_35),
            (Policy::Other, 10, 90_30),
            (Policy::Other, 19, 98_56),
            (Policy::Batch, 5, 75_35),
            (Policy::Idle, 0, 99_71),
        ] {
            let mut world = alone(&format!("cfs@{preset}"), 1000);
            let other = TaskAttributes { policy, ..world.pinned(0, nice) };
            let tasks = world.start(vec![world.pinned(0, 0), other]);
            world.run_ms(20_000);
            let found = world.ran_ns[tasks[0].0 as usize] / 2_000_000;
            let tolerance = if policy == Policy::Idle { 10 } else { 20 };
            assert!(found.abs_diff(share) <= tolerance, "{preset}, {policy:?} {nice}: {found}");
        }
    }
}

/// Points 3, 4 of `queue.bpf.h` and "pick.bpf.h" 5: run intervals by number of tasks; they end at ticks. Computed,
/// not published.
#[test]
fn run_intervals_share_the_scheduling_latency() {
    for preset in PRESETS {
        for (cpus, hz, wanted) in [
            (1, 1000, [4, 2, 1, 1]),
            (2, 1000, [7, 4, 2, 2]),
            (4, 1000, [10, 5, 3, 3]),
            (8, 1000, [13, 7, 4, 4]),
            (64, 1000, [13, 7, 4, 4]),
            (1, 250, [4, 4, 4, 4]),
            (4, 250, [12, 8, 4, 4]),
        ] {
            for (number, ms) in [2, 4, 8, 16].into_iter().zip(wanted) {
                let spec = format!("cfs@{preset}");
                let mut world = World::new(&spec, &format!("node:1 core:{cpus} pu:1"), hz);
                world.start(vec![world.pinned(0, 0); number]);
                world.run_ms(200);
                world.switches.clear();
                world.run_ms(600);
                let turns = turns(&world);
                assert!(turns.len() > 20, "{spec} {cpus} {hz} {number}");
                assert!(turns.iter().all(|turn| *turn == ms * MS), "{spec} {cpus} {hz} {number}: {turns:?}");
            }
        }
    }
}

/// Point 3 of `queue.bpf.h`: up to 8 tasks share the latency, 24 ms on 8 CPUs. With more, each task gets the minimal
/// granularity, 3 ms, and runs to the next tick.
#[test]
fn more_than_eight_tasks_run_for_the_minimal_granularity_each() {
    for preset in PRESETS {
        for number in [8, 9, 10] {
            let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:8 pu:1", 1000);
            world.start(vec![world.pinned(0, 0); number]);
            world.run_ms(200);
            world.switches.clear();
            world.run_ms(600);
            assert!(turns(&world).iter().all(|turn| *turn == 4 * MS), "{preset} {number}: {:?}", turns(&world));
        }
    }
}

/// Point 4 of `queue.bpf.h`: the three kinds of scaling, visible in the run intervals of two hogs.
#[test]
fn scaling_is_none_logarithmic_or_linear() {
    for (scaling, turn_ms) in [(0, 4), (1, 10), (2, 13)] {
        let mut world = World::new(&format!("cfs,scaling={scaling}"), "node:1 core:4 pu:1", 1000);
        world.start(vec![world.pinned(0, 0); 2]);
        world.run_ms(100);
        world.switches.clear();
        world.run_ms(200);
        assert!(turns(&world).iter().all(|turn| *turn == turn_ms * MS), "{scaling}: {:?}", turns(&world));
    }
}

/// Point 3 of `queue.bpf.h`: by weight, nice 19 beside nice 0 would run for 0.087 ms; since 6.1 a slice is at least
/// 0.75 ms.
#[test]
fn slices_have_a_minimum_length_since_6_1() {
    for (preset, us) in [("2.6.36", 100), ("4.1", 100), ("6.1", 800)] {
        let mut world = alone(&format!("cfs@{preset}"), 10_000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
        world.run_ms(2_000);
        let light = world.switches.windows(2).filter(|pair| pair[0].1 == tasks[1]).map(|pair| pair[1].0 - pair[0].0);
        let light: Vec<_> = light.skip(1).collect();
        assert!(light.len() > 5 && light.iter().all(|turn| *turn == us * 1000), "{preset}: {light:?}");
    }
}

/// Returns a machine with a hog on CPU 0 and a sleeper, both with the same virtual runtime; the hog is about to run,
/// and new tasks have no start debit.
fn level_with_a_hog(spec: &str, hz: u32, sleeper: TaskAttributes) -> (World, TaskId, TaskId) {
    let mut world = alone(&format!("{spec},start_debit=false"), hz);
    let sleeper = world.start(vec![sleeper])[0];
    world.block(sleeper);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    (world, hog, sleeper)
}

/// Point 4 of `pick.bpf.h`: a woken task preempts if its virtual runtime is behind by more than 1 ms scaled by its
/// own weight.
#[test]
fn wakeup_preempts_beyond_the_wakeup_granularity() {
    for preset in PRESETS {
        for (nice, weight) in [(-10, 9548), (-1, 1277), (0, 1024), (3, 526)] {
            let limit = MS * 1024 / weight;
            for (behind, preempts) in [(limit, false), (limit + 1, true)] {
                let attributes = alone("cfs", 50).pinned(0, nice);
                let (mut world, hog, sleeper) = level_with_a_hog(&format!("cfs@{preset}"), 50, attributes);
                world.run_until(behind);
                world.wake(0, sleeper, false);
                let expected = if preempts { sleeper } else { hog };
                assert_eq!(world.running(0), expected, "{preset} {nice} {behind}");
            }
        }
    }
}

/// Point 4 of `pick.bpf.h`: effect of policies on wakeup preemption. Each sleeper is behind by 2 ms; a running
/// SCHED_IDLE task is preempted by any other policy.
#[test]
fn sched_batch_and_sched_idle_do_not_preempt_normal_tasks() {
    for (hog_policy, policy, preempts) in [
        (Policy::Other, Policy::Other, true),
        (Policy::Other, Policy::Batch, false),
        (Policy::Other, Policy::Idle, false),
        (Policy::Batch, Policy::Other, true),
        (Policy::Idle, Policy::Batch, true),
        (Policy::Idle, Policy::Other, true),
        (Policy::Idle, Policy::Idle, false),
    ] {
        let mut world = alone("cfs,start_debit=false", 50);
        let sleeper = world.start(vec![of_policy(&world, policy)])[0];
        world.block(sleeper);
        let hog = world.start(vec![of_policy(&world, hog_policy)])[0];
        world.run_until(if hog_policy == Policy::Idle { 6_000 } else { 2 * MS });
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0) == sleeper, preempts, "{policy:?} beside {hog_policy:?} {hog:?}");
    }
}

/// Point 5 of `queue.bpf.h`: credit of a long sleep: 3 ms, or 6 ms without GENTLE_FAIR_SLEEPERS; 0.375 ms for
/// SCHED_IDLE in 6.1.
#[test]
fn long_sleep_earns_half_a_latency_of_credit() {
    for (spec, policy, credit) in [
        ("cfs@2.6.36", Policy::Other, 3 * MS),
        ("cfs@4.1", Policy::Other, 3 * MS),
        ("cfs@6.1", Policy::Other, 3 * MS),
        ("cfs@6.1,gentle_sleepers=false", Policy::Other, 6 * MS),
        ("cfs@4.1", Policy::Idle, 3 * MS),
        ("cfs@6.1", Policy::Idle, 375_000),
        ("cfs@6.1,latency_us=20000", Policy::Other, 10 * MS),
    ] {
        let attributes = of_policy(&alone("cfs", 50), policy);
        let (mut world, _, sleeper) = level_with_a_hog(spec, 50, attributes);
        world.run_until(15 * MS);
        world.wake(0, sleeper, false);
        // The hog started at 0 and has run for 15 ms.
        assert_eq!(world.last_queued(sleeper).key, 15 * MS - credit, "{spec} {policy:?}");
    }
}

/// Point 5 of `queue.bpf.h`: a short sleep leaves the virtual runtime as it was.
#[test]
fn short_sleep_keeps_the_virtual_runtime() {
    let (mut world, hog, sleeper) = {
        let attributes = alone("cfs", 50).pinned(0, 0);
        level_with_a_hog("cfs", 50, attributes)
    };
    world.run_until(MS + 1);
    world.wake(0, sleeper, false);
    assert_eq!((world.running(0), world.last_queued(sleeper).key), (sleeper, 0));
    world.run_until(2 * MS);
    world.block(sleeper);
    assert_eq!(world.running(0), hog);
    world.run_until(3 * MS);
    world.wake(0, sleeper, false);
    assert_eq!(world.last_queued(sleeper).key, MS - 1);
}

/// Point 6 of `queue.bpf.h`: a child starts one slice after the minimum virtual runtime, and not before its parent's.
/// Computed, not published: beside h hogs it first runs after 4 ms (h = 1) and 8 ms (h = 4).
#[test]
fn forked_child_starts_one_slice_behind() {
    for preset in PRESETS {
        for (hogs, waits_ms) in [(1, 4), (4, 8)] {
            let mut world = alone(&format!("cfs@{preset}"), 1000);
            world.start(vec![world.pinned(0, 0); hogs]);
            world.run_ms(1000);
            let attributes = world.pinned(0, 0);
            let parent = world.last_queued(world.running(0)).key;
            let child = world.spawn(0, attributes);
            assert!(world.last_queued(child).key >= parent, "{preset} {hogs}");
            world.switches.clear();
            world.run_ms(40);
            let began = world.switches.iter().find(|began| began.1 == child).unwrap().0;
            assert!((began - 1000 * MS).abs_diff(waits_ms * MS) <= MS, "{preset} {hogs}: {}", began - 1000 * MS);
        }
    }
    for (spec, key) in [("cfs", 100 + 3 * MS), ("cfs,start_debit=false", 100), ("cfs,latency_us=8000", 100 + 4 * MS)] {
        let mut world = alone(&spec.replace("cfs", "cfs@6.1"), 50);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        let began = world.last_queued(hog).key;
        world.run_until(100);
        let attributes = world.pinned(0, 0);
        let child = world.spawn(0, attributes);
        assert_eq!(world.last_queued(child).key - began, key, "{spec}");
    }
}

/// Points 3, 6 of `queue.bpf.h`: the eighth task has a debit of an eighth of the latency, the ninth of a ninth of
/// nine granularities: 0.75 ms each. One CPU, where all tasks started together.
#[test]
fn start_debit_is_one_slice_of_the_period() {
    for (hogs, debit) in [(7, 750_000), (8, 750_000), (5, MS), (11, 750_000)] {
        let mut world = alone("cfs@4.1,start_debit=false", 50);
        world.start(vec![world.pinned(0, 0); hogs]);
        let level = world.last_queued(world.running(0)).key;
        let mut debited = alone("cfs@4.1", 50);
        debited.start(vec![debited.pinned(0, 0); hogs]);
        let attributes = debited.pinned(0, 0);
        let least = debited.inserted.iter().map(|one| one.key).min().unwrap();
        assert_eq!(level, least);
        let child = debited.spawn(0, attributes);
        assert_eq!(debited.last_queued(child).key - debited.last_queued(debited.running(0)).key, debit, "{hogs}");
    }
}

/// Point 5 of `pick.bpf.h`: a run ends early, but not before the minimal granularity, if another task is behind by
/// more than a slice. That task is SCHED_BATCH, so that it does not preempt at wakeup.
#[test]
fn run_ends_early_if_another_task_is_far_behind() {
    for (spec, ends_us) in [("cfs", 11_000), ("cfs,min_granularity_us=1500", 12_000)] {
        let mut world = alone(&format!("{spec},start_debit=false"), 1000);
        let behind = world.start(vec![of_policy(&world, Policy::Batch)])[0];
        world.block(behind);
        let other = world.start(vec![world.pinned(0, 0)])[0];
        let attributes = world.pinned(0, 0);
        let hog = world.spawn(0, attributes);
        world.run_until(10_200_000);
        let (stays, goes) = if world.running(0) == other { (hog, other) } else { (other, hog) };
        world.block(goes);
        assert_eq!(world.running(0), stays);
        world.run_until(10_250_000);
        world.wake(0, behind, false);
        assert_eq!(world.running(0), stays, "{spec}");
        world.run_until(ends_us * 1000 - 1);
        assert_eq!(world.running(0), stays, "{spec}");
        world.run_until(ends_us * 1000);
        assert_eq!(world.running(0), behind, "{spec}");
    }
}

/// Point 5 of `pick.bpf.h`: being behind by exactly a slice is not enough. Both started at 0, and the slice of two
/// tasks is 3 ms.
#[test]
fn task_behind_by_exactly_a_slice_waits_another_tick() {
    for preset in PRESETS {
        let mut world = alone(&format!("cfs@{preset},start_debit=false"), 1000);
        let tasks = world.start(vec![of_policy(&world, Policy::Batch), world.pinned(0, 0)]);
        world.block(tasks[0]);
        world.run_until(2_500_000);
        world.wake(0, tasks[0], false);
        world.run_until(4 * MS - 1);
        assert_eq!(world.running(0), tasks[1], "{preset}");
        world.run_until(4 * MS);
        assert_eq!(world.running(0), tasks[0], "{preset}");
    }
}

/// Point 3 of `pick.bpf.h`: yield.
#[test]
fn yield_skips_the_task_since_4_1() {
    for (spec, ran_us, other_runs) in [
        // The yielding task is still leftmost and runs again.
        ("cfs@2.6.36", 500, false),
        ("cfs@2.6.36,compat_yield=true", 500, true),
        // The second task is at most 1 ms behind the leftmost in the order, so it runs.
        ("cfs@4.1", 500, true),
        ("cfs@6.1", 500, true),
        ("cfs@6.1,wakeup_granularity_us=400", 500, false),
        ("cfs@4.1", 0, false),
    ] {
        let mut world = alone(&format!("{spec},start_debit=false"), 1000);
        let sleeper = world.start(vec![world.pinned(0, 0)])[0];
        world.block(sleeper);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(5 * MS);
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0), sleeper);
        // The woken task is 3 ms behind the hog; when it yields it is still `ran_us` behind (1001 us for 0).
        let behind_us = if ran_us == 0 { 1001 } else { ran_us };
        world.run_until(8 * MS - behind_us * 1000);
        assert_eq!(world.running(0), sleeper, "{spec}");
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0) == hog, other_runs, "{spec} {ran_us}");
    }
    // A lone task continues after a yield.
    let mut world = alone("cfs", 1000);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), hog);
}

/// Point 3 of `pick.bpf.h`: in 2.6.36 a yielding SCHED_BATCH task goes behind all others.
#[test]
fn sched_batch_yields_behind_all_tasks_in_2_6_36() {
    let mut world = alone("cfs@2.6.36,start_debit=false", 50);
    let batch = world.start(vec![of_policy(&world, Policy::Batch)])[0];
    let hogs = [world.pinned(0, 0), world.pinned(0, 19)].map(|attributes| world.spawn(0, attributes));
    world.leave(0, Leave::Yield);
    assert_ne!(world.running(0), batch);
    let last = hogs.iter().map(|hog| world.last_queued(*hog).key).max().unwrap();
    assert_eq!(world.last_queued(batch).key, last + 1);
}

/// Point 3 of `pick.bpf.h`: a task that yielded is skipped until it runs again, also when the task that ran instead
/// sleeps. The next in order is taken if it is within the wakeup granularity.
#[test]
fn yielded_task_is_skipped_until_it_runs_again() {
    for (spec, expected) in
        [("cfs@2.6.36", 1), ("cfs@4.1", 2), ("cfs@6.1", 2), ("cfs@6.1,wakeup_granularity_us=200", 1)]
    {
        let mut world = alone(&format!("{spec},start_debit=false"), 10);
        let tasks = world.start(vec![world.pinned(0, 0); 3]);
        // Three tasks start at 0; the first runs for 0.6 ms, the second for 0.3 ms, the third for 0.05 ms.
        let mut order = Vec::new();
        for us in [600, 300, 50] {
            order.push(world.running(0));
            world.run_until(world.now_ns + us * 1000);
            if order.len() < 3 {
                world.leave(0, Leave::Yield);
            }
        }
        assert!(tasks.iter().all(|task| order.contains(task)), "{spec}");
        world.block(order[2]);
        assert_eq!(world.running(0), [order[2], order[1], order[0]][expected], "{spec}");
    }
}

/// Point 2 of `pick.bpf.h`: since 4.1 a task that preempts at wakeup runs before the leftmost task if it is at most 1
/// ms behind that.
#[test]
fn preempting_task_runs_before_the_leftmost_since_4_1() {
    for (preset, passes) in [("2.6.36", false), ("4.1", true), ("6.1", true)] {
        let mut world = alone(&format!("cfs@{preset},start_debit=false"), 50);
        let sleeper = world.start(vec![world.pinned(0, 0)])[0];
        world.block(sleeper);
        let batch = world.start(vec![of_policy(&world, Policy::Batch)])[0];
        world.block(batch);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        // Both are 3 ms behind when they wake; the SCHED_BATCH task, which does not preempt, wakes 0.5 ms earlier.
        world.run_until(10 * MS);
        world.wake(0, batch, false);
        assert_eq!(world.running(0), hog);
        world.run_until(10 * MS + 500_000);
        world.wake(0, sleeper, false);
        let (first, second) = (world.last_queued(batch).key, world.last_queued(sleeper).key);
        assert_eq!((first, world.running(0)), (7 * MS, if passes { sleeper } else { batch }), "{preset} {second}");
    }
}

/// Point 2 of `pick.bpf.h`: with at least 8 tasks, a preempted task runs next though others have waited longer
/// (LAST_BUDDY).
#[test]
fn last_buddy_runs_next_with_eight_tasks() {
    for preset in PRESETS {
        for (hogs, goes_on) in [(7, true), (6, false)] {
            let mut world = alone(&format!("cfs@{preset},start_debit=false"), 100);
            let sleeper = world.start(vec![world.pinned(0, 0)])[0];
            world.block(sleeper);
            world.start(vec![world.pinned(0, 0); hogs]);
            world.run_until(605_000_000);
            // One hog has run for 0.9 ms; all other hogs have as much virtual runtime or less.
            world.leave(0, Leave::Yield);
            let hog = world.running(0);
            world.run_until(605_900_000);
            world.wake(0, sleeper, false);
            assert_eq!(world.running(0), sleeper, "{preset} {hogs}");
            world.block(sleeper);
            assert_eq!(world.running(0) == hog, goes_on, "{preset} {hogs}");
        }
    }
}

/// Point 6 of `pick.bpf.h`: nice -20 is picked again at the end of its slice. In 2.6.36 that starts a new slice of 6
/// ms; since 4.1 each tick checks again, so the run ends as soon as the other task is leftmost: 1 ms of the nice-0
/// task's CPU time is worth 86.7 ms of this one's.
#[test]
fn repicked_task_keeps_its_slice_start_since_4_1() {
    for (preset, turn_ms) in [("2.6.36", 84), ("4.1", 81), ("6.1", 81)] {
        let mut world = alone(&format!("cfs@{preset},start_debit=false,gentle_sleepers=true"), 1000);
        let tasks = world.start(vec![world.pinned(0, -20), world.pinned(0, 0)]);
        world.run_ms(2_000);
        let mut heavy =
            world.switches.windows(2).filter(|pair| pair[0].1 == tasks[0]).map(|pair| pair[1].0 - pair[0].0);
        let second = heavy.nth(1).unwrap();
        assert_eq!(second, turn_ms * MS, "{preset}");
    }
}

/// A nice change keeps the virtual runtime; a running task whose nice value rises is rescheduled.
#[test]
fn nice_change_keeps_the_virtual_runtime() {
    for (nice, resched) in [(5, true), (-5, false)] {
        let mut world = alone("cfs", 1000);
        let tasks = world.start(vec![world.pinned(0, 0); 2]);
        world.run_until(MS);
        let (current, other) = if world.running(0) == tasks[0] { (0, 1) } else { (1, 0) };
        world.rescheduled.clear();
        world.kernel.set_policy(CpuId(0), tasks[current], Policy::Other, nice).unwrap();
        world.settle();
        assert_eq!(!world.rescheduled.is_empty(), resched, "{nice}");
        let before = world.last_queued(tasks[other]).key;
        world.kernel.set_policy(CpuId(0), tasks[other], Policy::Other, nice).unwrap();
        world.settle();
        assert_eq!(world.last_queued(tasks[other]).key, before, "{nice}");
    }
    // The new weight counts from the change of the nice value on.
    let mut world = alone("cfs", 1000);
    let tasks = world.start(vec![world.pinned(0, 0); 2]);
    world.run_ms(100);
    world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, 5).unwrap();
    world.settle();
    world.ran_ns.clear();
    world.run_ms(10_000);
    assert!(world.ran_ms(tasks[0]).abs_diff(7_535) <= 30, "{}", world.ran_ms(tasks[0]));
}

/// A migrating task keeps its distance from the minimum virtual runtime of the queue.
#[test]
fn migration_keeps_the_distance_from_the_minimum_vruntime() {
    let mut world = World::new("cfs,start_debit=false", "node:1 core:2 pu:1", 1000);
    // 1 ms of nice 19 is worth 68 ms of virtual runtime, so it is far ahead of the hogs after each run.
    let here = world.start(vec![world.pinned(0, 0), world.pinned(0, 0), world.pinned(0, 19)]);
    let attributes = world.pinned(1, 5);
    world.spawn(0, attributes);
    world.run_ms(1_000);
    while world.last_queued(here[2]).key < world.last_queued(here[0]).key + 30 * MS {
        world.run_ms(1);
    }
    assert_ne!(world.running(0), here[2]);
    let ahead = world.last_queued(here[2]).key - world.last_queued(here[0]).key;
    world.inserted.clear();
    world.kernel.set_affinity(CpuId(0), here[2], &only(&[1])).unwrap();
    world.settle();
    let there = world.now_ns * 1024 / 335;
    let found = world.last_queued(here[2]).key;
    assert!(found.abs_diff(there + ahead) <= 5 * MS, "{found} {there} {ahead}");
}

/// Beside two nice -20 hogs a nice-19 task would wait for 50 s, and the kernel would eject the scheduler after 30 s.
#[test]
fn light_task_runs_every_16_s_beside_heavy_tasks() {
    let mut world = alone("cfs", 250);
    world.start(vec![world.pinned(0, -20), world.pinned(0, -20)]);
    let attributes = world.pinned(0, 19);
    let light = world.spawn(0, attributes);
    world.run_ms(100_000);
    let began: Vec<u64> = world.switches.iter().filter(|began| began.1 == light).map(|began| began.0).collect();
    assert!(began.len() >= 4, "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] < 18_000 * MS), "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] > 15_000 * MS), "not more often than needed: {began:?}");
}

/// The search for tasks that have waited for 16 s is made twice a second, first at the first tick: here 4 ms after
/// the start.
#[test]
fn starving_tasks_are_searched_twice_a_second() {
    let mut world = alone("cfs,min_granularity_us=3000", 250);
    world.start(vec![world.pinned(0, -20), world.pinned(0, -20)]);
    world.run_until(20 * MS);
    let attributes = world.pinned(0, 19);
    let light = world.spawn(0, attributes);
    world.run_until(16_504 * MS - 1);
    assert!(world.switches.iter().all(|began| began.1 != light));
    world.run_until(16_504 * MS);
    assert_eq!(world.running(0), light);
}

/// A task that changes to a real-time class and back keeps its distance from the others: 1 ms of nice 19 is worth 68
/// ms.
#[test]
fn class_change_keeps_the_distance_from_other_tasks() {
    let mut world = alone("cfs,start_debit=false", 1000);
    let tasks = world.start(vec![world.pinned(0, 19), world.pinned(0, 0), world.pinned(0, 0)]);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    world.run_until(world.now_ns + 999_999);
    assert_eq!(world.running(0), tasks[0]);
    world.block(tasks[0]);
    let key = |world: &World| world.last_queued(tasks[1]).key.min(world.last_queued(tasks[2]).key);
    let before = key(&world);
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Fifo(1), 0).unwrap();
    world.settle();
    world.run_ms(1_000);
    world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, 19).unwrap();
    world.settle();
    let after = key(&world);
    assert!(after - before > 400 * MS);
    world.wake(0, tasks[0], false);
    let ahead = world.last_queued(tasks[0]).key - after;
    assert!(ahead.abs_diff(68 * MS) <= 8 * MS, "{ahead}");
    assert_ne!(world.running(0), tasks[0]);
}

/// Point 4 of `queue.bpf.h`: the scaling factor follows the number of online CPUs.
#[test]
fn scaling_factor_follows_cpu_hotplug() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
        world.start(vec![world.pinned(0, 0); 2]);
        for turn_ms in [7, 4, 7] {
            world.run_ms(100);
            world.switches.clear();
            world.run_ms(200);
            assert!(turns(&world).iter().all(|turn| *turn == turn_ms * MS), "{preset} {turn_ms}: {:?}", turns(&world));
            if turn_ms == 4 {
                world.online(1);
            } else {
                world.offline(1);
            }
        }
    }
}
