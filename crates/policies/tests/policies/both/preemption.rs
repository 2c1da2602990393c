// SPDX-License-Identifier: GPL-2.0-only
//! Who goes where and who makes way, as far as it is the same for `bfs`, `vrq` and `muqss`.

use crate::world::{MS, World, older, only, tested};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, Operation, TaskAttributes};

/// A CPU's own queue, by its number.
const LOCAL_ON: u64 = 0xc000_0000_0000_0000;

/// Theory 7: two tasks that wake at the same instant preempt two CPUs, not one CPU twice.
#[test]
fn a_cpu_that_was_told_is_not_told_again() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let sleepers = world.start(vec![world.attributes(); 2]);
        for task in &sleepers {
            world.block(*task);
        }
        world.start(vec![world.pinned(1, 19), world.pinned(0, 19)]);
        for task in &sleepers {
            world.wake_without_settling(0, *task);
        }
        world.settle();
        assert!(sleepers.iter().all(|task| world.cpu_of(*task).is_some()));
    }
}

/// Theory 6: two tasks that wake at the same instant go to two idle CPUs, even if one of them ran on both.
#[test]
fn an_idle_cpu_that_was_claimed_is_not_claimed_again() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let sleepers = world.start(vec![world.pinned(0, 0); 2]);
        for _ in 0..2 {
            let task = world.running(0);
            world.block(task);
        }
        for task in &sleepers {
            world.kernel.set_affinity(CpuId(0), *task, &only(&[0, 1])).unwrap();
            world.wake_without_settling(0, *task);
        }
        world.settle();
        assert_eq!([0, 1].map(|cpu| world.running(cpu)), sleepers[..]);
    }
}

/// Theory 7: levels before deadlines. Of the running tasks one of SCHED_IDLE is the worst, whatever its deadline is.
#[test]
fn a_running_idle_task_is_the_first_victim() {
    for name in older() {
        // Later versions of vrq take the first that is later.
        let name = if name == "vrq" { "vrq@0.4" } else { name };
        let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
        let woken = world.start(vec![TaskAttributes { nice: 19, ..world.attributes() }])[0];
        world.block(woken);
        world.run_until(MS);
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(1, -20) };
        world.start(vec![world.pinned(2, 19), idle, world.pinned(0, 19)]);
        world.told.clear();
        world.wake(0, woken, false);
        assert_eq!((world.cpu_of(woken), &world.told[..]), (Some(1), &[CpuId(1)][..]));
    }
}

/// Theory 7: the waker's word that it is about to sleep spares others, but not a CPU that idles.
#[test]
fn a_sync_wakeup_goes_to_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
        let woken = world.start(vec![world.attributes()])[0];
        world.block(woken);
        world.start(vec![world.pinned(1, 19), world.pinned(0, 19)]);
        world.wake(0, woken, true);
        assert_eq!(world.cpu_of(woken), Some(2));
    }
}

/// A task that waits and may run elsewhere from now on preempts there; one that runs where it may not any more moves.
#[test]
fn a_new_affinity_is_acted_on_at_once() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
        world.start(vec![world.pinned(2, 19), world.pinned(1, -20)]);
        let waits = world.start(vec![world.pinned(1, 0)])[0];
        assert_eq!(world.cpu_of(waits), None);
        world.kernel.set_affinity(CpuId(0), waits, &only(&[1, 2])).unwrap();
        world.settle();
        assert_eq!(world.cpu_of(waits), Some(2));
        world.kernel.set_affinity(CpuId(0), waits, &only(&[0, 1])).unwrap();
        world.settle();
        assert_eq!(world.cpu_of(waits), Some(0));
    }
}

/// A task that has to stop while nobody waits goes on with what it had.
#[test]
fn who_is_told_to_stop_while_nobody_waits_goes_on() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 50);
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(1_024_000);
        world.inserted.clear();
        world.leave(0, Leave::Preempt);
        assert_eq!((world.running(0), world.inserted.len()), (task, 0), "it does not go through the queue");
        world.block(task);
        world.wake(0, task, false);
        assert_eq!(world.last_insert(task).slice_ns, 6 * (1 << 20) - 1_024_000);
    }
}

/// Theory 6: who was displaced looks for an idle CPU, whichever that is, and is given to it.
#[test]
fn a_displaced_task_moves_to_an_idle_cpu() {
    for name in tested() {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let early = world.start(vec![world.pinned(from, -20)])[0];
            world.block(early);
            world.run_until(100 * MS);
            let hog = world.start(vec![world.pinned(from, 0)])[0];
            world.block(hog);
            world.kernel.set_affinity(CpuId(0), hog, &only(&[0, 1])).unwrap();
            world.wake(to, hog, false);
            assert_eq!(world.running(from), hog);
            world.told.clear();
            world.inserted.clear();
            world.wake(0, early, false);
            assert_eq!((world.running(from), world.running(to)), (early, hog));
            let put = world.inserted.iter().filter(|put| put.task == hog).map(|put| put.dsq);
            assert_eq!(put.collect::<Vec<_>>(), [LOCAL_ON + u64::from(to)], "it does not go through the queue");
            assert_eq!(world.told, [from, to].map(CpuId));
        }
    }
}

/// Theory 6: a CPU that begins to idle after a task has found none, and before it is queued, is told, whichever that is.
#[test]
fn a_cpu_that_begins_to_idle_meanwhile_is_told() {
    for name in tested() {
        for idler in [0, 1] {
            let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
            let woken = world.start(vec![world.pinned(2, 19)])[0];
            world.block(woken);
            world.kernel.set_affinity(CpuId(0), woken, &only(&[0, 1, 2])).unwrap();
            world.start(vec![world.pinned(2, -20), world.pinned(1, -20), world.pinned(0, -20)]);
            world.told.clear();
            // It has found no idle CPU, and waits for the lock of the runqueue.
            world.kernel.begin(CpuId(2), Operation::Wake(woken, Waker::Interrupt));
            assert!(world.kernel.is_waiting(CpuId(2)));
            world.kernel.begin(CpuId(idler), Operation::Schedule(Leave::Block(BlockCause::Timer)));
            world.finish(idler);
            assert_eq!(world.running(idler), TaskId::NONE, "nobody waits yet");
            world.finish(2);
            world.settle();
            assert_eq!((world.running(idler), &world.told[..]), (woken, &[CpuId(idler)][..]), "{name}");
        }
    }
}

/// Theory 6: and if there is none, it displaces nobody.
#[test]
fn a_displaced_task_displaces_nobody() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 50);
        let early = world.start(vec![world.pinned(0, -20)])[0];
        world.block(early);
        world.run_until(100 * MS);
        let late = world.start(vec![world.pinned(1, 19), world.attributes()])[0];
        world.wake(0, early, false);
        assert_eq!((world.running(0), world.running(1)), (early, late), "a displaced task waits");
    }
}

/// Theory 7: a deadline that is as late does not preempt, one that is earlier by a nanosecond does.
#[test]
fn only_a_strictly_earlier_deadline_preempts() {
    for name in tested() {
        for (later_ns, preempts) in [(0, false), (1, true)] {
            let mut world = World::new(name, "node:1 core:1 pu:1", 50);
            let sleeper = world.start(vec![world.pinned(0, 0)])[0];
            world.block(sleeper);
            world.run_until(later_ns);
            let hog = world.start(vec![world.pinned(0, 0)])[0];
            world.wake(0, sleeper, false);
            assert_eq!(world.running(0) == sleeper, preempts, "{later_ns}");
            assert_ne!(hog, TaskId::NONE);
        }
    }
}
