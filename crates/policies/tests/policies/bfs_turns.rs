// SPDX-License-Identifier: GPL-2.0-only
//! `policies/bfs`: deadlines, slices and how both are kept (theory 2, 4, 5, 7, 8), to the nanosecond. All are exact but for
//! what is marked.

use crate::world::{MS, World};
use kernel_model::TaskAttributes;

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

/// Theory 8: the same for a thread, whose child does not go first by itself: the parent has to stop, and its new deadline is
/// behind that of its child, which waits.
#[test]
fn a_thread_that_takes_the_rest_of_a_slice_runs_at_once() {
    for (used_us, child_first) in [(5944, false), (5945, true)] {
        let mut world = alone();
        let parent = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(used_us * US_2);
        let thread = TaskAttributes { parent: Some(parent), thread: true, ..world.pinned(0, 0) };
        let child = world.spawn(0, thread);
        assert_eq!(world.running(0), if child_first { child } else { parent }, "{used_us}");
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
