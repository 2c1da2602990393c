// SPDX-License-Identifier: GPL-2.0-only
//! CPU hotplug, higher scheduling classes and per-CPU kthreads.

use crate::world::{MS, World, only, tested};
use ids::{CpuId, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// ID of the dispatch queue for the per-CPU kthreads of CPU 0; that of CPU n is larger by n.
const PINNED_DSQ: u64 = 0x20000;

fn thread(world: &World, cpu: u32, nice: i8) -> TaskAttributes {
    TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(cpu)), ..world.pinned(cpu, nice) }
}

/// A CPU goes offline while tasks are queued on it in each of its queues: they run elsewhere, and the CPU is used
/// again once it is back.
#[test]
fn tasks_queued_on_an_offlined_cpu_run_elsewhere() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 250);
        let idle = TaskAttributes { policy: ids::Policy::Idle, ..world.attributes() };
        let mut all = vec![world.attributes(); 4];
        all.extend([idle.clone(), idle, TaskAttributes { allowed: only(&[1]), ..world.attributes() }]);
        let tasks = world.start(all);
        world.run_ms(50);
        world.offline(1);
        let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
        world.run_ms(20_000);
        for (task, before) in tasks.iter().zip(before) {
            assert!(world.ran_ms(*task) > before, "{task} runs on the other CPU");
        }
        assert_eq!(world.running(1), TaskId::NONE);
        world.online(1);
        world.run_ms(10);
        assert_ne!(world.running(1), TaskId::NONE, "it is used again");
    }
}

/// An offline CPU is neither kicked for a task nor chosen as a preemption victim, and a CPU going offline kicks no
/// other CPU.
#[test]
fn offline_cpu_is_neither_kicked_nor_a_victim() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 250);
        let sleeper = world.start(vec![world.attributes()])[0];
        world.block(sleeper);
        world.run_until(MS);
        world.start(vec![world.pinned(2, 19), world.pinned(1, 10), world.pinned(0, 5)]);
        world.offline(2);
        // Tasks moved off the CPU run once before all others.
        world.run_ms(40);
        world.rescheduled.clear();
        world.wake(0, sleeper, false);
        assert!(world.cpu_of(sleeper).is_some());
        assert!(!world.rescheduled.contains(&CpuId(2)), "{:?}", world.rescheduled);
    }
}

/// A higher class takes the CPU: the displaced task moves to an idle CPU.
#[test]
fn task_displaced_by_a_higher_class_moves_to_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 250);
        let fifo = TaskAttributes { policy: ids::Policy::Fifo(10), ..world.pinned(1, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        let task = world.start(vec![world.pinned(1, 0)])[0];
        world.kernel.set_affinity(CpuId(0), task, &only(&[0, 1])).unwrap();
        world.settle();
        world.wake(0, fifo, false);
        assert_eq!([0, 1].map(|cpu| world.running(cpu)), [task, fifo]);
    }
}

/// Per-CPU kthreads are ordered with all other tasks by deadline: before later deadlines and behind earlier ones.
#[test]
fn per_cpu_kthreads_are_ordered_by_deadline() {
    for name in tested() {
        for (cpu, nice, first) in [(1, 19, false), (1, -20, true), (0, 19, false), (0, -20, true)] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let hog = world.start(vec![world.pinned(cpu, -20)])[0];
            let other = 1 - cpu;
            let normal = world.spawn(other, world.pinned(cpu, 0));
            let thread = world.spawn(other, thread(&world, cpu, nice));
            assert_eq!(
                world.last_queued(thread).dsq,
                PINNED_DSQ + u64::from(cpu),
                "in the queue of its CPU, so that other CPUs need not skip it"
            );
            world.run_ms(1);
            world.block(hog);
            let (next, last) = if first { (thread, normal) } else { (normal, thread) };
            assert_eq!(world.running(cpu), next, "CPU {cpu}, nice {nice}");
            world.block(next);
            assert_eq!(world.running(cpu), last, "CPU {cpu}, nice {nice}");
        }
    }
}

/// A per-CPU kthread preempts a later deadline, but not an earlier or equal one.
#[test]
fn per_cpu_kthread_preempts_only_a_later_deadline() {
    for name in tested() {
        for (nice, preempts) in [(1, true), (0, false), (-1, false)] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let hog = world.start(vec![world.pinned(1, nice)])[0];
            let thread = world.start(vec![thread(&world, 1, 0)])[0];
            assert_eq!(world.running(1), if preempts { thread } else { hog }, "nice {nice}");
            world.leave(1, Leave::Preempt);
            assert_eq!(world.running(1), if preempts { thread } else { hog }, "nice {nice}: it stays so");
        }
    }
}

/// A per-CPU kthread with the same deadline as the running task has waited, and runs first when that task yields.
#[test]
fn per_cpu_kthread_runs_when_an_equal_deadline_yields() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 50);
        let hog = world.start(vec![world.pinned(1, 0)])[0];
        let thread = world.start(vec![thread(&world, 1, 0)])[0];
        assert_eq!(world.running(1), hog, "{name}");
        world.leave(1, Leave::Yield);
        assert_eq!(world.running(1), thread, "{name}");
    }
}

/// A per-CPU kthread wakes its idle CPU.
#[test]
fn per_cpu_kthread_wakes_its_idle_cpu() {
    for name in tested() {
        for cpu in [0, 1] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let thread = world.start(vec![thread(&world, cpu, 0)])[0];
            assert_eq!(world.running(cpu), thread);
            world.block(thread);
            world.wake(1 - cpu, thread, false);
            assert_eq!(world.running(cpu), thread);
        }
    }
}

/// A per-CPU kthread preempts a later deadline on its CPU at wakeup.
#[test]
fn woken_per_cpu_kthread_preempts_a_later_deadline() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let thread = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(1)), ..world.pinned(1, 0) };
        let thread = world.start(vec![thread])[0];
        world.run_ms(1);
        world.block(thread);
        let hogs = world.start(vec![world.pinned(1, 0), world.pinned(0, 0)]);
        world.run_ms(1);
        world.wake(0, thread, false);
        assert_eq!(world.running(1), thread);
        world.block(thread);
        assert_eq!(world.running(1), hogs[0]);
    }
}

/// When a CPU goes offline, only the tasks counted on it move to the global queue of the core, which is served before
/// all others. Tasks that wait for other CPUs stay behind earlier deadlines.
#[test]
fn tasks_waiting_for_other_cpus_stay_queued_when_a_cpu_goes_offline() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 50);
        let hogs = world.start(vec![world.pinned(2, -20), world.pinned(1, -20)]);
        let waits = world.start(vec![world.pinned(1, 0)])[0];
        world.start(vec![world.pinned(0, -20)]);
        world.offline(2);
        let earlier = world.spawn(0, world.pinned(1, -15));
        assert_eq!([world.cpu_of(waits), world.cpu_of(earlier)], [None, None], "{name}");
        world.block(hogs[1]);
        if world.running(1) == hogs[0] {
            world.block(hogs[0]);
        }
        assert_eq!(world.running(1), earlier, "{name}");
    }
}
