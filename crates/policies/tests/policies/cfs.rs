// SPDX-License-Identifier: GPL-2.0-only
//! `policies/cfs` on one CPU: virtual time, placement, turns and preemption (theory 1 to 4), to the nanosecond.

use crate::world::{MS, World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

pub const PRESETS: [&str; 3] = ["2.6.36", "4.1", "6.1"];

/// One CPU, whose latency is 6 ms.
fn alone(spec: &str, hz: u32) -> World {
    World::new(spec, "node:1 core:1 pu:1", hz)
}

fn of_policy(world: &World, policy: Policy) -> TaskAttributes {
    TaskAttributes { policy, ..world.pinned(0, 0) }
}

/// How long the turns of CPU 0 lasted, in nanoseconds, from the times at which somebody began.
fn turns(world: &World) -> Vec<u64> {
    world.began.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
}

/// "weight.bpf.h" 1: by how much a turn moves each nice value.
#[test]
fn virtual_time_is_cpu_time_over_weight() {
    #[rustfmt::skip]
    let weights = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
        1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
    ];
    // A tenth of a second tells weights apart that differ by 1.
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
            // It is charged at each tick, in whole nanoseconds.
            let ticks = world.now_ns / tick_ns;
            assert_eq!(world.last_queued(first).key - began, ticks * (tick_ns * 1024 / weight), "nice {nice} {hz}");
        }
    }
}

/// P1 and P2 of a model of our own: what the better one of two hogs gets, to a tenth of a point beside SCHED_IDLE.
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

/// "queue.bpf.h" 3, 4 and "pick.bpf.h" 5: turns by the number of tasks, at ticks. P3 of a model of our own.
#[test]
fn turns_share_a_latency() {
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
                world.began.clear();
                world.run_ms(600);
                let turns = turns(&world);
                assert!(turns.len() > 20, "{spec} {cpus} {hz} {number}");
                assert!(turns.iter().all(|turn| *turn == ms * MS), "{spec} {cpus} {hz} {number}: {turns:?}");
            }
        }
    }
}

/// "queue.bpf.h" 3: up to 8 tasks share a latency, 24 ms on 8 CPUs; each of more has the granularity, 3 ms, and the tick
/// after.
#[test]
fn more_than_eight_tasks_have_the_granularity_each() {
    for preset in PRESETS {
        for number in [8, 9, 10] {
            let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:8 pu:1", 1000);
            world.start(vec![world.pinned(0, 0); number]);
            world.run_ms(200);
            world.began.clear();
            world.run_ms(600);
            assert!(turns(&world).iter().all(|turn| *turn == 4 * MS), "{preset} {number}: {:?}", turns(&world));
        }
    }
}

/// "queue.bpf.h" 4: the three ways to scale, seen in the turns of two hogs.
#[test]
fn scaling_is_none_logarithmic_or_linear() {
    for (scaling, turn_ms) in [(0, 4), (1, 10), (2, 13)] {
        let mut world = World::new(&format!("cfs,scaling={scaling}"), "node:1 core:4 pu:1", 1000);
        world.start(vec![world.pinned(0, 0); 2]);
        world.run_ms(100);
        world.began.clear();
        world.run_ms(200);
        assert!(turns(&world).iter().all(|turn| *turn == turn_ms * MS), "{scaling}: {:?}", turns(&world));
    }
}

/// "queue.bpf.h" 3: a turn of nice 19 beside nice 0, 0.087 ms by weight, has 0.75 ms at least since 6.1.
#[test]
fn turns_have_a_least_length_since_6_1() {
    for (preset, us) in [("2.6.36", 100), ("4.1", 100), ("6.1", 800)] {
        let mut world = alone(&format!("cfs@{preset}"), 10_000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
        world.run_ms(2_000);
        let light = world.began.windows(2).filter(|pair| pair[0].1 == tasks[1]).map(|pair| pair[1].0 - pair[0].0);
        let light: Vec<_> = light.skip(1).collect();
        assert!(light.len() > 5 && light.iter().all(|turn| *turn == us * 1000), "{preset}: {light:?}");
    }
}

/// A world in which a hog of CPU 0 and a sleeper of that nice value have the same virtual time now, the hog is about to
/// run, and new tasks have no debit.
fn level_with_a_hog(spec: &str, hz: u32, sleeper: TaskAttributes) -> (World, TaskId, TaskId) {
    let mut world = alone(&format!("{spec},start_debit=false"), hz);
    let sleeper = world.start(vec![sleeper])[0];
    world.block(sleeper);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    (world, hog, sleeper)
}

/// "pick.bpf.h" 4: who wakes preempts if it is behind by more than 1 ms, weighed by its own weight.
#[test]
fn a_wakeup_preempts_beyond_the_granularity() {
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

/// "pick.bpf.h" 4: the policies. Each sleeper is behind by 2 ms; a hog of SCHED_IDLE gives way to any other.
#[test]
fn batch_and_idle_do_not_preempt() {
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

/// "queue.bpf.h" 5: what a long sleep is worth: 3 ms or 6, and for SCHED_IDLE in 6.1 0.375.
#[test]
fn sleepers_get_half_a_latency() {
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
        // The hog began at 0 and has run for 15 ms.
        assert_eq!(world.last_queued(sleeper).key, 15 * MS - credit, "{spec} {policy:?}");
    }
}

/// "queue.bpf.h" 5: a short sleep takes nothing away, and gives nothing.
#[test]
fn a_short_sleep_keeps_virtual_time() {
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

/// "queue.bpf.h" 6: a child begins a slice after the least of all, and where its parent is at least. P7 of a model of our
/// own: beside h hogs it first runs after 4 ms (h = 1) and 8 (h = 4).
#[test]
fn a_child_begins_a_turn_behind() {
    for preset in PRESETS {
        for (hogs, waits_ms) in [(1, 4), (4, 8)] {
            let mut world = alone(&format!("cfs@{preset}"), 1000);
            world.start(vec![world.pinned(0, 0); hogs]);
            world.run_ms(1000);
            let attributes = world.pinned(0, 0);
            let parent = world.last_queued(world.running(0)).key;
            let child = world.spawn(0, attributes);
            assert!(world.last_queued(child).key >= parent, "{preset} {hogs}");
            world.began.clear();
            world.run_ms(40);
            let began = world.began.iter().find(|began| began.1 == child).unwrap().0;
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

/// "queue.bpf.h" 3, 6: the eighth task has an eighth of the latency as its debit, and the ninth a ninth of nine
/// granularities: 0.75 ms each. A machine of one CPU, whose tasks have all begun together.
#[test]
fn the_debit_is_a_part_of_the_period() {
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

/// "pick.bpf.h" 5: a turn ends early, but not before the minimal granularity, for somebody who is behind by a slice. The
/// one who waits is SCHED_BATCH, so that it does not preempt.
#[test]
fn a_turn_ends_early_for_who_is_far_behind() {
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

/// "pick.bpf.h" 5: behind by a slice is not behind by more. Both began at 0, and the slice of two is 3 ms.
#[test]
fn who_is_behind_by_a_slice_waits_a_tick_more() {
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

/// "pick.bpf.h" 3: a yield.
#[test]
fn a_yield_skips_since_4_1() {
    for (spec, ran_us, other_runs) in [
        // The one that yields is still first, and just begins again.
        ("cfs@2.6.36", 500, false),
        ("cfs@2.6.36,compat_yield=true", 500, true),
        // The second is at most 1 ms later: it runs.
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
        // It is 3 ms behind; now it is `ran_us` less 1000 us beside the hog.
        let behind_us = if ran_us == 0 { 1001 } else { ran_us };
        world.run_until(8 * MS - behind_us * 1000);
        assert_eq!(world.running(0), sleeper, "{spec}");
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0) == hog, other_runs, "{spec} {ran_us}");
    }
    // Alone, a task goes on.
    let mut world = alone("cfs", 1000);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.leave(0, Leave::Yield);
    assert_eq!(world.running(0), hog);
}

/// "pick.bpf.h" 3: in 2.6.36 SCHED_BATCH goes behind all others.
#[test]
fn batch_yields_to_all_in_2_6_36() {
    let mut world = alone("cfs@2.6.36,start_debit=false", 50);
    let batch = world.start(vec![of_policy(&world, Policy::Batch)])[0];
    let hogs = [world.pinned(0, 0), world.pinned(0, 19)].map(|attributes| world.spawn(0, attributes));
    world.leave(0, Leave::Yield);
    assert_ne!(world.running(0), batch);
    let last = hogs.iter().map(|hog| world.last_queued(*hog).key).max().unwrap();
    assert_eq!(world.last_queued(batch).key, last + 1);
}

/// "pick.bpf.h" 3: somebody who yielded is skipped until it runs again, also when the one that ran instead sleeps; by the
/// next in order, if that is not too late.
#[test]
fn who_yielded_is_skipped_until_it_runs() {
    for (spec, expected) in
        [("cfs@2.6.36", 1), ("cfs@4.1", 2), ("cfs@6.1", 2), ("cfs@6.1,wakeup_granularity_us=200", 1)]
    {
        let mut world = alone(&format!("{spec},start_debit=false"), 10);
        let tasks = world.start(vec![world.pinned(0, 0); 3]);
        // Of three that begin at 0 one runs for 0.6 ms, the next for 0.3, and the last for 0.05.
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

/// "pick.bpf.h" 2: who wakes and preempts passes the first in order, since 4.1, if it is no more than 1 ms later.
#[test]
fn who_preempts_passes_the_first_since_4_1() {
    for (preset, passes) in [("2.6.36", false), ("4.1", true), ("6.1", true)] {
        let mut world = alone(&format!("cfs@{preset},start_debit=false"), 50);
        let sleeper = world.start(vec![world.pinned(0, 0)])[0];
        world.block(sleeper);
        let batch = world.start(vec![of_policy(&world, Policy::Batch)])[0];
        world.block(batch);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        // Both are 3 ms behind when they wake, the one that does not preempt 0.5 ms before the other.
        world.run_until(10 * MS);
        world.wake(0, batch, false);
        assert_eq!(world.running(0), hog);
        world.run_until(10 * MS + 500_000);
        world.wake(0, sleeper, false);
        let (first, second) = (world.last_queued(batch).key, world.last_queued(sleeper).key);
        assert_eq!((first, world.running(0)), (7 * MS, if passes { sleeper } else { batch }), "{preset} {second}");
    }
}

/// "pick.bpf.h" 2: who was preempted goes on, though others have waited since before, if 8 tasks are there.
#[test]
fn who_was_preempted_goes_on_among_eight() {
    for preset in PRESETS {
        for (hogs, goes_on) in [(7, true), (6, false)] {
            let mut world = alone(&format!("cfs@{preset},start_debit=false"), 100);
            let sleeper = world.start(vec![world.pinned(0, 0)])[0];
            world.block(sleeper);
            world.start(vec![world.pinned(0, 0); hogs]);
            world.run_until(605_000_000);
            // One hog is 0.9 ms into its turn; all others have had as much as it or less.
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

/// "pick.bpf.h" 6: nice -20 is picked again at the end of its turn. In 2.6.36 that is a new turn of 6 ms; since 4.1 each tick
/// asks again, so it ends as soon as the other one is first: 1 ms of its CPU time is worth 86.7.
#[test]
fn a_task_that_is_picked_again_goes_on_with_its_turn_since_4_1() {
    for (preset, turn_ms) in [("2.6.36", 84), ("4.1", 81), ("6.1", 81)] {
        let mut world = alone(&format!("cfs@{preset},start_debit=false,gentle_sleepers=true"), 1000);
        let tasks = world.start(vec![world.pinned(0, -20), world.pinned(0, 0)]);
        world.run_ms(2_000);
        let mut heavy = world.began.windows(2).filter(|pair| pair[0].1 == tasks[0]).map(|pair| pair[1].0 - pair[0].0);
        let second = heavy.nth(1).unwrap();
        assert_eq!(second, turn_ms * MS, "{preset}");
    }
}

/// A new nice value: virtual time stays; one that runs and got worse picks again.
#[test]
fn a_new_nice_value_keeps_virtual_time() {
    for (nice, told) in [(5, true), (-5, false)] {
        let mut world = alone("cfs", 1000);
        let tasks = world.start(vec![world.pinned(0, 0); 2]);
        world.run_until(MS);
        let (current, other) = if world.running(0) == tasks[0] { (0, 1) } else { (1, 0) };
        world.told.clear();
        world.kernel.set_policy(CpuId(0), tasks[current], Policy::Other, nice).unwrap();
        world.settle();
        assert_eq!(!world.told.is_empty(), told, "{nice}");
        let before = world.last_queued(tasks[other]).key;
        world.kernel.set_policy(CpuId(0), tasks[other], Policy::Other, nice).unwrap();
        world.settle();
        assert_eq!(world.last_queued(tasks[other]).key, before, "{nice}");
    }
    // And the new weight counts from then on.
    let mut world = alone("cfs", 1000);
    let tasks = world.start(vec![world.pinned(0, 0); 2]);
    world.run_ms(100);
    world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, 5).unwrap();
    world.settle();
    world.ran_ns.clear();
    world.run_ms(10_000);
    assert!(world.ran_ms(tasks[0]).abs_diff(7_535) <= 30, "{}", world.ran_ms(tasks[0]));
}

/// A task that changes its CPU keeps how far it is from the least of all there.
#[test]
fn virtual_time_moves_with_its_distance() {
    let mut world = World::new("cfs,start_debit=false", "node:1 core:2 pu:1", 1000);
    // 1 ms of nice 19 is worth 68, so it is far ahead of the hogs whenever it has run.
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

/// Beside two hogs of nice -20 one of nice 19 would wait for 50 s, and the kernel would eject the scheduler after 30.
#[test]
fn nobody_waits_for_thirty_seconds() {
    let mut world = alone("cfs", 250);
    world.start(vec![world.pinned(0, -20), world.pinned(0, -20)]);
    let attributes = world.pinned(0, 19);
    let light = world.spawn(0, attributes);
    world.run_ms(100_000);
    let began: Vec<u64> = world.began.iter().filter(|began| began.1 == light).map(|began| began.0).collect();
    assert!(began.len() >= 4, "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] < 18_000 * MS), "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] > 15_000 * MS), "not more often than it must: {began:?}");
}

/// Somebody who has waited for 16 s is looked for twice a second, from the first tick on: here 4 ms after the start.
#[test]
fn who_waits_is_looked_for_twice_a_second() {
    let mut world = alone("cfs,min_granularity_us=3000", 250);
    world.start(vec![world.pinned(0, -20), world.pinned(0, -20)]);
    world.run_until(20 * MS);
    let attributes = world.pinned(0, 19);
    let light = world.spawn(0, attributes);
    world.run_until(16_504 * MS - 1);
    assert!(world.began.iter().all(|began| began.1 != light));
    world.run_until(16_504 * MS);
    assert_eq!(world.running(0), light);
}

/// A task of a real-time class keeps how far it was ahead of the others: 1 ms of nice 19 is worth 68.
#[test]
fn another_class_keeps_the_distance() {
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

/// "queue.bpf.h" 4: the unit of time follows the CPUs that are there.
#[test]
fn the_unit_follows_cpus_that_come_and_go() {
    for preset in PRESETS {
        let mut world = World::new(&format!("cfs@{preset}"), "node:1 core:2 pu:1", 1000);
        world.start(vec![world.pinned(0, 0); 2]);
        for turn_ms in [7, 4, 7] {
            world.run_ms(100);
            world.began.clear();
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
