// SPDX-License-Identifier: GPL-2.0-only
//! CPU selection and preemption, as far as `bfs`, `vrq` and `muqss` agree.

use crate::world::{MS, World, older, only, tested};
use event_log::{BlockCause, Waker};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, Operation, TaskAttributes};

/// Identifier of the local queue of CPU 0 (SCX_DSQ_LOCAL_ON); the CPU number is added.
const LOCAL_ON: u64 = 0xc000_0000_0000_0000;

/// Point 7 of `bfs.bpf.c`: two simultaneous wakeups preempt two CPUs, not one CPU twice.
#[test]
fn kicked_cpu_is_not_a_victim_again() {
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

/// Point 6 of `bfs.bpf.c`: two simultaneous wakeups go to two idle CPUs, even if both tasks last ran on the same one.
#[test]
fn claimed_idle_cpu_is_not_claimed_again() {
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

/// Point 7 of `bfs.bpf.c`: priority levels outrank deadlines: a running SCHED_IDLE task is the first victim, whatever
/// its deadline.
#[test]
fn running_sched_idle_task_is_the_first_victim() {
    for name in older() {
        // Later presets of vrq preempt the first CPU whose deadline is later.
        let name = if name == "vrq" { "vrq@0.4" } else { name };
        let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
        let woken = world.start(vec![TaskAttributes { nice: 19, ..world.attributes() }])[0];
        world.block(woken);
        world.run_until(MS);
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(1, -20) };
        world.start(vec![world.pinned(2, 19), idle, world.pinned(0, 19)]);
        world.rescheduled.clear();
        world.wake(0, woken, false);
        assert_eq!((world.cpu_of(woken), &world.rescheduled[..]), (Some(1), &[CpuId(1)][..]));
    }
}

/// Point 7 of `bfs.bpf.c`: a sync wakeup preempts no task, but still goes to an idle CPU.
#[test]
fn sync_wakeup_goes_to_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
        let woken = world.start(vec![world.attributes()])[0];
        world.block(woken);
        world.start(vec![world.pinned(1, 19), world.pinned(0, 19)]);
        world.wake(0, woken, true);
        assert_eq!(world.cpu_of(woken), Some(2));
    }
}

/// A queued task that gets a new affinity preempts or takes a CPU there; a running one whose CPU is no longer allowed
/// moves.
#[test]
fn affinity_change_takes_effect_at_once() {
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

/// A task that is rescheduled while no task is queued continues with its remaining slice.
#[test]
fn rescheduled_task_continues_if_no_task_is_queued() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 50);
        let task = world.start(vec![world.pinned(0, 0)])[0];
        world.run_until(1_024_000);
        world.inserted.clear();
        world.leave(0, Leave::Preempt);
        assert_eq!((world.running(0), world.inserted.len()), (task, 0), "the task does not go through the queue");
        world.block(task);
        world.wake(0, task, false);
        assert_eq!(world.last_insert(task).slice_ns, 6 * (1 << 20) - 1_024_000);
    }
}

/// Point 6 of `bfs.bpf.c`: a displaced task is inserted into the local queue of an idle CPU, whatever its number.
#[test]
fn displaced_task_is_inserted_on_an_idle_cpu() {
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
            world.rescheduled.clear();
            world.inserted.clear();
            world.wake(0, early, false);
            assert_eq!((world.running(from), world.running(to)), (early, hog));
            let put = world.inserted.iter().filter(|put| put.task == hog).map(|put| put.dsq);
            assert_eq!(put.collect::<Vec<_>>(), [LOCAL_ON + u64::from(to)], "the task does not go through the queue");
            assert_eq!(world.rescheduled, [from, to].map(CpuId));
        }
    }
}

/// Point 6 of `bfs.bpf.c`: a CPU that goes idle between the failed idle search and the enqueue is kicked, whatever
/// its number.
#[test]
fn cpu_that_goes_idle_before_the_enqueue_is_kicked() {
    for name in tested() {
        for idler in [0, 1] {
            let mut world = World::new(name, "node:1 core:3 pu:1", 1000);
            let woken = world.start(vec![world.pinned(2, 19)])[0];
            world.block(woken);
            world.kernel.set_affinity(CpuId(0), woken, &only(&[0, 1, 2])).unwrap();
            world.start(vec![world.pinned(2, -20), world.pinned(1, -20), world.pinned(0, -20)]);
            world.rescheduled.clear();
            // The wakeup has found no idle CPU and waits for the runqueue lock.
            world.kernel.begin(CpuId(2), Operation::Wake(woken, Waker::Interrupt));
            assert!(world.kernel.is_waiting(CpuId(2)));
            world.kernel.begin(CpuId(idler), Operation::Schedule(Leave::Block(BlockCause::Timer)));
            world.finish(idler);
            assert_eq!(world.running(idler), TaskId::NONE, "no task is queued yet");
            world.finish(2);
            world.settle();
            assert_eq!((world.running(idler), &world.rescheduled[..]), (woken, &[CpuId(idler)][..]), "{name}");
        }
    }
}

/// Point 6 of `bfs.bpf.c`: with no idle CPU, a displaced task waits and displaces no other.
#[test]
fn displaced_task_does_not_preempt() {
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

/// Point 7 of `bfs.bpf.c`: an equal deadline does not preempt; one that is earlier by a nanosecond does.
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
