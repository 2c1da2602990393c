// SPDX-License-Identifier: GPL-2.0-only
//! `policies/bfs`: deadlines, slices and how both are kept (theory 2, 4, 5, 7, 8), to the nanosecond. All are exact but for
//! what is marked.

use crate::world::{MS, World};
use ids::{Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// 1 ms and 1 us of slices and deadlines.
const MS_2: u64 = 1 << 20;
const US_2: u64 = 1 << 10;
/// Deadline of nice 0 at 6 ms.
const AWAY_NS: u64 = 836 * 6 * 8192;

/// One CPU with the slice of 6 ms, and ticks that come too late to matter.
fn alone() -> World {
    World::new("bfs", "node:1 core:1 pu:1", 50)
}

/// Theory 2: all 40 ratios, at 9 ms on 2 CPUs and at 12 on 4. A task that begins has a whole slice and counts from now.
#[test]
fn deadlines_follow_the_table_of_ratios() {
    for (cpus, rr_ms) in [(2, 9), (4, 12)] {
        let mut ratio = 128;
        for nice in -20..20 {
            let mut world = World::new("bfs", &format!("node:1 core:{cpus} pu:1"), 50);
            world.start((1..cpus).map(|cpu| world.pinned(cpu, -20)).collect());
            world.run_until(3_000_000);
            let task = world.start(vec![world.pinned(1, nice)])[0];
            let put = world.last_queued(task);
            assert_eq!((put.key, put.slice_ns), (3_000_000 + ratio * rr_ms * 8192, rr_ms * MS_2), "{cpus}, {nice}");
            ratio = ratio * 11 / 10;
        }
    }
}

/// Theory 2: a new slice comes with a new deadline, counted from now, by the nice value.
#[test]
fn a_task_that_used_its_slice_has_a_new_deadline() {
    for (nice, ratio) in [(-20, 128), (0, 836), (10, 2161), (19, 5089)] {
        let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, nice), world.pinned(0, nice)]);
        let first = world.running(0);
        world.inserted.clear();
        world.run_ms(6);
        assert!(tasks.contains(&first) && world.running(0) != first, "nice {nice}");
        let put = world.last_queued(first);
        assert_eq!((put.key, put.slice_ns), (6 * MS + ratio * 6 * 8192, 6 * MS_2), "nice {nice}");
    }
}

/// Theory 2: how many slices the better one of two tasks takes before the other has one: its deadline moves with each, and
/// the other's does not. By the table: ceil(difference of deadlines / slice).
#[test]
fn shares_follow_the_difference_of_deadlines() {
    for (nice, slices) in [(1, 1), (2, 2), (5, 5), (10, 11), (19, 35)] {
        let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, nice)]);
        world.run_ms(6 * (slices + 1) * 20);
        let ran = tasks.iter().map(|task| world.ran_ms(*task)).collect::<Vec<_>>();
        assert!(ran[1].abs_diff(120) <= 6 && ran[0].abs_diff(120 * slices) <= 6, "nice {nice}: {ran:?}");
    }
}

/// Theory 2 and 5: where slices end. 1 ms counts as 1.048576 ms, ticks are whole, and what a charge has below 1 us is
/// dropped. The task begins at a tick, in the first half of a period.
#[test]
fn slices_end_at_the_tick_of_the_sources() {
    for (spec, cpus, hz, ms) in [
        ("bfs", 1, 1000, 6),
        ("bfs", 2, 1000, 9),
        ("bfs", 4, 1000, 13),
        ("bfs", 8, 1000, 16),
        ("bfs", 16, 1000, 19),
        ("bfs", 512, 1000, 24),
        ("bfs", 4, 250, 12),
        ("bfs", 8, 250, 16),
        ("bfs", 16, 250, 20),
        ("bfs", 4, 100, 10),
        ("bfs", 16, 100, 20),
        ("bfs,rr_scaled=false", 16, 1000, 6),
        ("bfs,rr_interval_ms=3", 1, 1000, 3),
        ("bfs,rr_interval_ms=24", 16, 1000, 25),
        ("bfs@0.41x", 16, 1000, 6),
        ("bfs@0.357", 4, 1000, 13),
    ] {
        let mut world = World::new(spec, &format!("node:1 core:{cpus} pu:1"), hz);
        world.start(vec![world.pinned(0, 0); 2]);
        let first = world.running(0);
        world.run_until(ms * MS - 1);
        assert_eq!(world.running(0), first, "{spec} {cpus} {hz}");
        world.run_until(ms * MS);
        assert_ne!(world.running(0), first, "{spec} {cpus} {hz}");
    }
}

/// Theory 5: one that began in the second half of a period goes on until less than 100 us are left.
#[test]
fn who_began_late_in_a_period_ends_late() {
    for (offset_us, ends_ms) in [(0, 16), (200, 16), (250, 17), (600, 17), (900, 18)] {
        let mut world = World::new("bfs", "node:1 core:1 pu:1", 1000);
        let early = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(10 * MS + offset_us * 1000);
        world.block(early);
        let tasks = world.start(vec![world.pinned(0, 0); 2]);
        let first = world.running(0);
        assert!(tasks.contains(&first));
        world.run_until(ends_ms * MS - 1);
        assert_eq!(world.running(0), first, "{offset_us}");
        world.run_until(ends_ms * MS);
        assert_ne!(world.running(0), first, "{offset_us}");
    }
}

/// Theory 2: both are kept across sleep, to the microsecond, and however long it was.
#[test]
fn a_sleeper_comes_back_with_what_it_had() {
    let mut world = alone();
    let task = world.start(vec![world.pinned(0, 19)])[0];
    world.run_until(2_000_500);
    world.block(task);
    world.run_until(900 * MS);
    let hog = world.start(vec![world.pinned(0, -20)])[0];
    world.inserted.clear();
    world.wake(0, task, false);
    // 2,000,500 ns are 1953 us.
    let put = world.last_queued(task);
    assert_eq!((put.key, put.slice_ns), (5089 * 6 * 8192, 6 * MS_2 - 1953 * US_2));
    assert_eq!(world.running(0), task, "250 ms are before 906");
    assert_eq!(world.last_queued(hog).slice_ns, 6 * MS_2, "the hog is displaced with all it had");
}

/// Theory 2: 100 us are a slice, less is none. 6144 us less 6044 us are 100.
#[test]
fn less_than_100_us_are_renewed() {
    for (used_us, kept) in [(6044, true), (6045, false)] {
        let mut world = alone();
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(used_us * US_2);
        world.block(task);
        let hog = world.start(vec![world.pinned(0, -20)])[0];
        world.inserted.clear();
        world.wake(0, task, false);
        let put = world.last_queued(task);
        let expected = if kept { (AWAY_NS, 100 * US_2) } else { (used_us * US_2 + AWAY_NS, 6 * MS_2) };
        assert_eq!((put.key, put.slice_ns), expected, "{used_us}");
        assert_ne!(hog, task);
    }
}

/// Theory 4: SCHED_BATCH has both renewed whenever it stops, also if it wakes to an idle CPU.
#[test]
fn a_batch_task_is_renewed_at_every_stop() {
    for (policy, renewed) in [(Policy::Other, false), (Policy::Batch, true)] {
        let mut world = World::new("bfs", "node:1 core:2 pu:1", 50);
        let task = world.start(vec![TaskAttributes { policy, ..world.attributes() }])[0];
        world.run_until(1000 * US_2);
        world.block(task);
        world.inserted.clear();
        world.wake(0, task, false);
        let slice = if renewed { 9 * MS_2 } else { (9 * 1024 - 1000) * US_2 };
        assert_eq!(world.last_insert(task).slice_ns, slice, "{policy:?}");
    }
}

/// Theory 8: 200 us are shared, less is not: then the child has a turn of its own and the parent has to stop.
#[test]
fn a_fork_shares_the_slice_or_ends_it() {
    // 6144 us less 5944 us are 200.
    for (used_us, shared) in [(5944, true), (5945, false)] {
        let mut world = alone();
        let parent = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(used_us * US_2);
        world.inserted.clear();
        let child = world.spawn(0, TaskAttributes { parent: Some(parent), ..world.pinned(0, 0) });
        let (child_put, parent_put) = (world.last_queued(child), world.last_queued(parent));
        assert_eq!(world.running(0), child, "{used_us}");
        if shared {
            assert_eq!((child_put.key, child_put.slice_ns), (AWAY_NS, 100 * US_2));
            assert_eq!((parent_put.key, parent_put.slice_ns), (AWAY_NS, 100 * US_2));
        } else {
            let fresh = (used_us * US_2 + AWAY_NS, 6 * MS_2);
            assert_eq!((child_put.key, child_put.slice_ns), fresh);
            assert_eq!((parent_put.key, parent_put.slice_ns), fresh);
        }
    }
}

/// Theory 8: a storm of forks gains nothing: all slices together are what the first one had.
#[test]
fn a_storm_of_forks_has_one_slice() {
    let mut world = alone();
    let parent = world.start(vec![world.pinned(0, 0)])[0];
    world.inserted.clear();
    let mut tasks = vec![parent];
    for _ in 0..4 {
        let running = world.running(0);
        tasks.push(world.spawn(0, TaskAttributes { parent: Some(running), ..world.pinned(0, 0) }));
    }
    let left: u64 = tasks.iter().map(|task| world.last_queued(*task).slice_ns).sum();
    // The one that runs was put with what it shared afterwards: it forked and stopped, or is the last child.
    assert_eq!(left, 6 * MS_2);
}

/// Theory 8: who shares its parent's memory does not go first, but by its deadline, and that is its parent's. Since 0.41x
/// it goes first as well. Threads of the kernel share none, so they are as threads of one process.
#[test]
fn a_thread_goes_first_only_in_later_versions() {
    for (spec, first) in [("bfs", false), ("bfs@0.357", false), ("bfs@0.41x", true), ("bfs@0.467-interactive", true)] {
        for kernel_thread in [false, true] {
            let mut world = World::new(spec, "node:1 core:2 pu:1", 50);
            let own = TaskAttributes { kernel_thread, ..world.attributes() };
            let parent = world.start(vec![world.pinned(1, 0), own.clone()])[1];
            world.run_until(MS);
            assert_eq!(world.running(0), parent);
            let child = world.spawn(0, TaskAttributes { parent: Some(parent), thread: !kernel_thread, ..own });
            assert_eq!(world.running(0) == child, first, "{spec} {kernel_thread}");
        }
    }
}

/// Theory 8: no child waits for its parent while a CPU idles.
#[test]
fn a_child_goes_to_an_idle_cpu() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 50);
    let parent = world.start(vec![world.attributes()])[0];
    world.run_until(MS);
    let child = world.spawn(0, TaskAttributes { parent: Some(parent), ..world.attributes() });
    assert_eq!((world.running(0), world.running(1)), (parent, child));
    assert_eq!(world.last_insert(child).slice_ns, (9 * MS_2 - 976 * US_2) / 2);
}

/// Theory 9: a yield changes neither.
#[test]
fn a_yield_keeps_slice_and_deadline() {
    let mut world = alone();
    let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 0)]);
    let first = world.running(0);
    world.run_until(500 * US_2);
    world.inserted.clear();
    world.leave(0, Leave::Yield);
    let put = world.last_queued(first);
    assert!(tasks.contains(&first) && world.running(0) != first);
    assert_eq!((put.key, put.slice_ns), (AWAY_NS, (6144 - 500) * US_2));
}

/// Theory 7: a deadline that is as late does not preempt, one that is earlier by a nanosecond does.
#[test]
fn only_a_strictly_earlier_deadline_preempts() {
    for (later_ns, preempts) in [(0, false), (1, true)] {
        let mut world = alone();
        let sleeper = world.start(vec![world.pinned(0, 0)])[0];
        world.block(sleeper);
        world.run_until(later_ns);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0) == sleeper, preempts, "{later_ns}");
        assert_ne!(hog, TaskId::NONE);
    }
}

/// Theory 6: who was displaced looks for an idle CPU, and preempts nobody.
#[test]
fn a_displaced_task_moves_to_an_idle_cpu_and_displaces_nobody() {
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 50);
    let early = world.start(vec![world.pinned(0, -20)])[0];
    world.block(early);
    world.run_until(100 * MS);
    let hog = world.start(vec![world.attributes()])[0];
    assert_eq!(world.running(0), hog);
    world.wake(0, early, false);
    assert_eq!((world.running(0), world.running(1)), (early, hog));

    // Now CPU 1 has somebody with a later deadline: he stays.
    world.block(early);
    let last = world.start(vec![world.pinned(1, 19)])[0];
    let other = world.running(1);
    assert!(other == hog || world.cpu_of(hog) == Some(0), "{last}");
    let mut world = World::new("bfs", "node:1 core:2 pu:1", 50);
    let early = world.start(vec![world.pinned(0, -20)])[0];
    world.block(early);
    world.run_until(100 * MS);
    let late = world.start(vec![world.pinned(1, 19), world.attributes()])[0];
    world.wake(0, early, false);
    assert_eq!((world.running(0), world.running(1)), (early, late), "a displaced task waits");
}
