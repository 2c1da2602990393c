// SPDX-License-Identifier: GPL-2.0-only
//! Deadlines, slices and how both are kept, to the nanosecond: the same for `bfs`, `vrq` and, but for ticks, `muqss`. All are
//! exact.

use crate::world::{MS, World, older, tested};
use ids::{CpuId, Policy};
use kernel_model::{Leave, TaskAttributes};

/// 1 ms and 1 us of slices and deadlines.
const MS_2: u64 = 1 << 20;
const US_2: u64 = 1 << 10;
/// Deadline of nice 0 at 6 ms.
const AWAY_NS: u64 = 836 * 6 * 8192;

/// One CPU with the slice of 6 ms, and ticks that come too late to matter.
fn alone(policy: &str) -> World {
    World::new(policy, "node:1 core:1 pu:1", 50)
}

/// The slice on two CPUs, in ms: only that of `bfs` grows with them.
fn two_cpus_ms(policy: &str) -> u64 {
    if policy == "bfs" { 9 } else { 6 }
}

/// Theory 2: a new slice comes with a new deadline, counted from now, by the nice value.
#[test]
fn a_task_that_used_its_slice_has_a_new_deadline() {
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

/// Theory 2: how many slices the better one of two tasks takes before the other has one: its deadline moves with each, and
/// the other's does not. By the table: ceil(difference of deadlines / slice).
#[test]
fn shares_follow_the_difference_of_deadlines() {
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

/// Theory 5: one that began in the second half of a period goes on until less than 100 us are left.
#[test]
fn who_began_late_in_a_period_ends_late() {
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

/// Half a period is 512 us, and who began just then is early: 241 us are left after 16 ticks of a slice of 15 ms.
#[test]
fn who_began_in_the_middle_of_a_period_is_early() {
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

/// Theory 2: both are kept across sleep, to the microsecond, and however long it was.
#[test]
fn a_sleeper_comes_back_with_what_it_had() {
    for name in tested() {
        let mut world = alone(name);
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
}

/// Theory 2: 100 us are a slice, less is none. 6144 us less 6044 us are 100.
#[test]
fn less_than_100_us_are_renewed() {
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

/// Theory 4: SCHED_BATCH has both renewed whenever it stops, also if it wakes to an idle CPU.
#[test]
fn a_batch_task_is_renewed_at_every_stop() {
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

/// Theory 8: no child waits for its parent while a CPU idles.
#[test]
fn a_child_goes_to_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 50);
        let parent = world.start(vec![world.attributes()])[0];
        world.run_until(MS);
        let child = world.spawn(0, TaskAttributes { parent: Some(parent), ..world.attributes() });
        assert_eq!((world.running(0), world.running(1)), (parent, child));
        assert_eq!(world.last_insert(child).slice_ns, (two_cpus_ms(name) * MS_2 - 976 * US_2) / 2);
    }
}

/// Theory 9: a yield changes neither.
#[test]
fn a_yield_keeps_slice_and_deadline() {
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

/// Theory 2: the deadline of nice 19 is 209 ms behind that of nice 0, so there are 35 slices of 6 ms between.
#[test]
fn nice_19_gets_one_slice_in_36() {
    for name in older() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 19)]);
        world.run_ms(6 * 36 * 100);
        assert_eq!(world.ran_ms(tasks[1]), 600);
        assert_eq!(world.ran_ms(tasks[0]), 600 * 35);
        assert_eq!(world.kernel.event_count("SCX_EV_REFILL_SLICE_DFL"), 0, "every slice is ours");
    }
}

#[test]
fn equals_share_equally() {
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

/// Theory 4: a SCHED_BATCH task has a new deadline whenever it stops, so it is behind a normal one that stopped before.
#[test]
fn a_batch_task_has_a_new_deadline_after_every_sleep() {
    for name in tested() {
        for (policy, preempts) in [(Policy::Other, true), (Policy::Batch, false)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
            let batch = TaskAttributes { policy, ..world.pinned(0, 0) };
            let tasks = world.start(vec![world.pinned(0, 1), batch]);
            let [hog, task] = tasks[..] else { unreachable!() };
            // Deadlines are 45.2 and 41.1 ms; a new one for the task is 46.1.
            world.run_ms(5);
            assert_eq!(world.running(0), task);
            world.block(task);
            world.wake(0, task, false);
            assert_eq!(world.running(0), if preempts { task } else { hog }, "{policy:?}");
        }
    }
}

/// Theory 9: after a yield the earlier deadline runs.
#[test]
fn a_yield_lets_the_deadlines_decide() {
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

/// Theory 9, exact: the deadline of a task that waits moves by the difference; then it preempts if it is earlier.
#[test]
fn a_nice_value_moves_the_deadline_of_a_task_that_waits() {
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

/// Theory 9, exact: a task that runs keeps its deadline until it is renewed; a worse value makes it pick again.
#[test]
fn a_nice_value_does_not_move_the_deadline_of_a_task_that_runs() {
    for name in older() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
        world.run_ms(1);
        world.told.clear();
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, 19).unwrap();
        world.settle();
        assert_eq!(world.running(0), tasks[0], "41 ms are still before 65");
        assert!(!world.told.is_empty(), "it picks again");
        // At the end of its slice it is renewed by the new value: 250 ms are behind.
        world.run_ms(6);
        assert_eq!(world.running(0), tasks[1]);
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), world.pinned(0, 5)]);
        world.run_ms(1);
        world.told.clear();
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Other, -5).unwrap();
        world.settle();
        assert_eq!((world.running(0), world.told.len()), (tasks[0], 0), "a better value changes nothing now");
        // The kernel tells the weight anew with every policy.
        world.kernel.set_policy(CpuId(0), tasks[0], Policy::Batch, -5).unwrap();
        world.settle();
        assert_eq!((world.running(0), world.told.len()), (tasks[0], 0), "nor does the same value");
    }
}
