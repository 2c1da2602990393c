// SPDX-License-Identifier: GPL-2.0-only
//! Deadlines and slices of `policies/bfs` to the nanosecond: how they are set and kept (theory 2, 4, 5, 7, 8). All
//! values are exact except where noted.

use crate::world::{MS, World};
use kernel_model::TaskAttributes;

/// Binary units of BFS: 1 ms of a deadline or slice is 2^20 ns, 1 us is 2^10 ns.
const MS_2: u64 = 1 << 20;
const US_2: u64 = 1 << 10;
/// Distance of a new nice-0 deadline from now, with a slice of 6 ms.
const AWAY_NS: u64 = 836 * 6 * 8192;

/// One CPU with a 6 ms slice and a tick period of 20 ms, longer than the slice.
fn alone() -> World {
    World::new("bfs", "node:1 core:1 pu:1", 50)
}

/// Point 2 of `bfs.bpf.c`: all 40 ratios, with 9 ms slices on 2 CPUs and 12 ms on 4. A new task gets a full slice and
/// a deadline counted from now.
#[test]
fn deadlines_follow_the_prio_ratio_table() {
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

/// Points 2 and 5 of `bfs.bpf.c`: the tick at which a slice ends. A binary millisecond is 1.048576 ms, slices end at
/// ticks, and fractions of a microsecond of CPU time are not charged. The task starts at a tick, in the first half of
/// a period.
#[test]
fn slices_end_at_the_tick_given_by_the_sources() {
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

/// Point 8 of `bfs.bpf.c`: if the parent has 200 us left, parent and child get half each. With less, both get a new
/// slice and deadline, and the parent must stop.
#[test]
fn fork_splits_the_parents_slice_or_ends_it() {
    // 6144 us minus 5944 us leaves 200 us.
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

/// Point 8 of `bfs.bpf.c`: the same for a thread, which does not preempt its parent by itself. If the slice was too
/// short to split, the parent must stop, and its new deadline is behind that of the waiting child.
#[test]
fn new_thread_runs_first_if_the_slice_was_too_short_to_split() {
    for (used_us, child_first) in [(5944, false), (5945, true)] {
        let mut world = alone();
        let parent = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(used_us * US_2);
        let thread = TaskAttributes { parent: Some(parent), thread: true, ..world.pinned(0, 0) };
        let child = world.spawn(0, thread);
        assert_eq!(world.running(0), if child_first { child } else { parent }, "{used_us}");
    }
}

/// Point 8 of `bfs.bpf.c`: repeated forks gain no CPU time: all slices together are as long as the first one.
#[test]
fn repeated_forks_share_one_slice() {
    let mut world = alone();
    let parent = world.start(vec![world.pinned(0, 0)])[0];
    world.inserted.clear();
    let mut tasks = vec![parent];
    for _ in 0..4 {
        let running = world.running(0);
        tasks.push(world.spawn(0, TaskAttributes { parent: Some(running), ..world.pinned(0, 0) }));
    }
    let left: u64 = tasks.iter().map(|task| world.last_queued(*task).slice_ns).sum();
    // `last_queued` has the current slice of the running task, too: the task was queued after its slice was split,
    // because it forked and stopped, or because it is the last child.
    assert_eq!(left, 6 * MS_2);
}

/// Point 8 of `bfs.bpf.c`: a child that shares its parent's memory does not run first; its deadline, the parent's
/// own, decides. From 0.41x on it runs first as well. Kthreads have no memory of their own and count as threads of
/// one process.
#[test]
fn new_thread_runs_before_its_parent_only_since_0_41x() {
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
