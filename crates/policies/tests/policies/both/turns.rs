// SPDX-License-Identifier: GPL-2.0-only
//! Deadlines and slices to the nanosecond: how they are set and kept. The same for `bfs`, `vrq` and, apart from
//! ticks, `muqss`. All values are exact.

use crate::world::{MS, World, older, tested};
use ids::{CpuId, Policy};
use kernel_model::{Leave, TaskAttributes};

/// Binary units of BFS: 1 ms of a deadline or slice is 2^20 ns, 1 us is 2^10 ns.
const MS_2: u64 = 1 << 20;
const US_2: u64 = 1 << 10;
/// Distance of a new nice-0 deadline from now, with a slice of 6 ms.
const AWAY_NS: u64 = 836 * 6 * 8192;

/// One CPU with a 6 ms slice and a tick period of 20 ms, longer than the slice.
fn alone(policy: &str) -> World {
    World::new(policy, "node:1 core:1 pu:1", 50)
}

/// Returns the slice on two CPUs in ms; only that of `bfs` grows with the number of CPUs.
fn two_cpus_ms(policy: &str) -> u64 {
    if policy == "bfs" { 9 } else { 6 }
}

/// Point 2 of `bfs.bpf.c`: a new slice comes with a new deadline, counted from now by the nice value.
#[test]
fn expired_slice_is_refilled_with_a_new_deadline() {
    for name in older() {
        for (nice, ratio) in [(-20, 128), (0, 836), (10, 2161), (19, 5089)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let tasks = world.start(vec![world.pinned(0, nice), world.pinned(0, nice)]);
            let first = world.running(0);
            world.inserted.clear();
            world.run_ms(6);
            assert!(tasks.contains(&first) && world.running(0) != first, "nice {nice}");
            let put = world.last_queued(first);
            assert_eq!((put.key, put.slice_ns), (6 * MS + ratio * 6 * 8192, 6 * MS_2), "nice {nice}");
        }
    }
}

/// Point 2 of `bfs.bpf.c`: number of slices that the task with the lower nice value runs for each slice of the other:
/// its deadline moves with each, the other's does not. By the table: ceil(difference of deadlines / slice).
#[test]
fn cpu_shares_follow_the_difference_of_deadlines() {
    for name in older() {
        for (nice, slices) in [(1, 1), (2, 2), (5, 5), (10, 11), (19, 35)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, nice)]);
            world.run_ms(6 * (slices + 1) * 20);
            let ran = tasks.iter().map(|task| world.ran_ms(*task)).collect::<Vec<_>>();
            assert!(ran[1].abs_diff(120) <= 6 && ran[0].abs_diff(120 * slices) <= 6, "nice {nice}: {ran:?}");
        }
    }
}

/// Point 5 of `bfs.bpf.c`: a task that starts in the second half of a tick period runs until less than 100 us are
/// left.
#[test]
fn slice_started_late_in_a_tick_period_ends_a_tick_later() {
    for name in older() {
        for (offset_us, ends_ms) in [(0, 16), (200, 16), (250, 17), (600, 17), (900, 18)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
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
}

/// The middle of the period, 512 us, belongs to the first half. After 16 ticks of a 15 ms slice 241 us are left.
#[test]
fn middle_of_a_tick_period_counts_as_its_first_half() {
    for name in older() {
        for (offset_ns, ends_ms) in [(512_000, 26), (512_001, 27)] {
            let mut world = World::new(&format!("{name},rr_interval_ms=15"), "node:1 core:1 pu:1", 1000);
            let early = world.start(vec![world.pinned(0, 0)])[0];
            world.run_until(10 * MS + offset_ns);
            world.block(early);
            let first = world.start(vec![world.pinned(0, 0); 2])[0];
            let first = if world.running(0) == first { first } else { world.running(0) };
            world.run_until(ends_ms * MS - 1);
            assert_eq!(world.running(0), first, "{name} {offset_ns}");
            world.run_until(ends_ms * MS);
            assert_ne!(world.running(0), first, "{name} {offset_ns}");
        }
    }
}

/// Point 2 of `bfs.bpf.c`: deadline and slice are kept across sleep of any length, to the microsecond.
#[test]
fn slice_and_deadline_are_kept_across_sleep() {
    for name in tested() {
        let mut world = alone(name);
        let task = world.start(vec![world.pinned(0, 19)])[0];
        world.run_until(2_000_500);
        world.block(task);
        world.run_until(900 * MS);
        let hog = world.start(vec![world.pinned(0, -20)])[0];
        world.inserted.clear();
        world.wake(0, task, false);
        // 2,000,500 ns are 1953 units of 1024 ns, which count as microseconds.
        let put = world.last_queued(task);
        assert_eq!((put.key, put.slice_ns), (5089 * 6 * 8192, 6 * MS_2 - 1953 * US_2));
        assert_eq!(world.running(0), task, "deadline 250 ms is before 906 ms");
        assert_eq!(world.last_queued(hog).slice_ns, 6 * MS_2, "the displaced hog keeps its full slice");
    }
}

/// Point 2 of `bfs.bpf.c`: a remainder of 100 us is kept, a shorter one is replaced by a new slice. 6144 us minus
/// 6044 us leaves 100 us.
#[test]
fn slice_below_100_us_is_refilled() {
    for name in tested() {
        for (used_us, kept) in [(6044, true), (6045, false)] {
            let mut world = alone(name);
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
}

/// Point 4 of `bfs.bpf.c`: SCHED_BATCH tasks get a new slice and deadline whenever they stop running, also if they
/// wake to an idle CPU.
#[test]
fn sched_batch_task_gets_a_new_slice_each_time_it_stops_running() {
    for name in tested() {
        for (policy, renewed) in [(Policy::Other, false), (Policy::Batch, true)] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let task = world.start(vec![TaskAttributes { policy, ..world.attributes() }])[0];
            world.run_until(1000 * US_2);
            world.block(task);
            world.inserted.clear();
            world.wake(0, task, false);
            let rr_ms = two_cpus_ms(name);
            let slice = if renewed { rr_ms * MS_2 } else { (rr_ms * 1024 - 1000) * US_2 };
            assert_eq!(world.last_insert(task).slice_ns, slice, "{policy:?}");
        }
    }
}

/// Point 8 of `bfs.bpf.c`: a child does not wait for its parent while a CPU is idle.
#[test]
fn forked_child_goes_to_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 50);
        let parent = world.start(vec![world.attributes()])[0];
        world.run_until(MS);
        let child = world.spawn(0, TaskAttributes { parent: Some(parent), ..world.attributes() });
        assert_eq!((world.running(0), world.running(1)), (parent, child));
        assert_eq!(world.last_insert(child).slice_ns, (two_cpus_ms(name) * MS_2 - 976 * US_2) / 2);
    }
}

/// Point 9 of `bfs.bpf.c`: a yield changes neither slice nor deadline.
#[test]
fn yield_keeps_slice_and_deadline() {
    for name in tested() {
        let mut world = alone(name);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 0)]);
        let first = world.running(0);
        world.run_until(500 * US_2);
        world.inserted.clear();
        world.leave(0, Leave::Yield);
        let put = world.last_queued(first);
        assert!(tasks.contains(&first) && world.running(0) != first);
        assert_eq!((put.key, put.slice_ns), (AWAY_NS, (6144 - 500) * US_2));
    }
}

/// Point 2 of `bfs.bpf.c`: the deadline of nice 19 is 209 ms behind that of nice 0, which is 35 slices of 6 ms.
#[test]
fn nice_19_gets_one_slice_in_36() {
    for name in older() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
        world.run_ms(6 * 36 * 100);
        assert_eq!(world.ran_ms(tasks[1]), 600);
        assert_eq!(world.ran_ms(tasks[0]), 600 * 35);
        assert_eq!(world.kernel.event_count("SCX_EV_REFILL_SLICE_DFL"), 0, "the policy sets every slice");
    }
}

#[test]
fn equal_tasks_share_equally() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 250);
        let tasks = world.start(vec![world.pinned(0, 0); 3]);
        world.run_ms(30_000);
        for task in tasks {
            let ran_ms = world.ran_ms(task);
            assert!((9_980..=10_020).contains(&ran_ms), "{ran_ms}");
        }
    }
}

/// Point 4 of `bfs.bpf.c`: a SCHED_BATCH task gets a new deadline whenever it stops running, so it is behind a normal
/// task that was queued before.
#[test]
fn sched_batch_task_gets_a_new_deadline_after_every_sleep() {
    for name in tested() {
        for (policy, preempts) in [(Policy::Other, true), (Policy::Batch, false)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let batch = TaskAttributes { policy, ..world.pinned(0, 0) };
            let tasks = world.start(vec![world.pinned(0, 1), batch]);
            let [hog, task] = tasks[..] else { unreachable!() };
            // The deadlines are 45.2 ms (hog) and 41.1 ms (task); a new one for the task is 46.1 ms.
            world.run_ms(5);
            assert_eq!(world.running(0), task);
            world.block(task);
            world.wake(0, task, false);
            assert_eq!(world.running(0), if preempts { task } else { hog }, "{policy:?}");
        }
    }
}

/// Point 9 of `bfs.bpf.c`: after a yield the earliest deadline runs.
#[test]
fn yield_runs_the_earliest_deadline() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
        world.run_ms(1);
        assert_eq!(world.running(0), tasks[0]);
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0), tasks[0], "the other's deadline is later");
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0); 2]);
        world.run_ms(1);
        let first = world.running(0);
        world.leave(0, Leave::Yield);
        assert!(tasks.contains(&first) && world.running(0) != first, "equals take turns");
    }
}

/// Point 9 of `bfs.bpf.c`, exact: a nice change moves the deadline of a queued task by the difference; the task then
/// preempts if its deadline is earlier.
#[test]
fn nice_change_moves_the_deadline_of_a_queued_task() {
    for name in tested() {
        for (nice, preempts) in [(-1, false), (-10, true)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let tasks = world.start(vec![world.pinned(0, -5), world.pinned(0, 0)]);
            world.run_ms(1);
            world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, nice).unwrap();
            world.settle();
            assert_eq!(world.running(0) == tasks[1], preempts, "nice {nice}");
        }
    }
}

/// Point 9 of `bfs.bpf.c`, exact: a running task keeps its deadline until the next refill; a higher nice value makes
/// its CPU reschedule.
#[test]
fn nice_change_does_not_move_the_deadline_of_a_running_task() {
    for name in older() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
        world.run_ms(1);
        world.rescheduled.clear();
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, 19).unwrap();
        world.settle();
        assert_eq!(world.running(0), tasks[0], "deadline 41 ms is still before 65 ms");
        assert!(!world.rescheduled.is_empty(), "the CPU reschedules");
        // At the end of its slice the task gets a deadline by the new value, 250 ms away.
        world.run_ms(6);
        assert_eq!(world.running(0), tasks[1]);
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
        world.run_ms(1);
        world.rescheduled.clear();
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, -5).unwrap();
        world.settle();
        assert_eq!(
            (world.running(0), world.rescheduled.len()),
            (tasks[0], 0),
            "a lower nice value changes nothing at once"
        );
        // The kernel calls ops.set_weight() at every policy change.
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Batch, -5).unwrap();
        world.settle();
        assert_eq!((world.running(0), world.rescheduled.len()), (tasks[0], 0), "nor does the same value");
    }
}
