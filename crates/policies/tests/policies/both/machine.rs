// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go, higher classes, and threads of the kernel that belong to one CPU.

use crate::world::{MS, World, only, tested};
use ids::{CpuId, TaskId};
use kernel_model::{Leave, TaskAttributes};

/// Queues of CPUs, for the kernel's threads that belong to them, begin here.
const PINNED_DSQ: u64 = 0x20000;

fn thread(world: &World, cpu: u32, nice: i8) -> TaskAttributes {
    TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(cpu)), ..world.pinned(cpu, nice) }
}

/// A CPU goes while its tasks wait in each of the queues: they run elsewhere, and it comes back to work.
#[test]
fn what_waits_at_a_cpu_that_goes_is_given_away() {
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

/// A CPU that left is not kicked for a task, nor chosen as a victim; and while it leaves it kicks nobody.
#[test]
fn a_cpu_that_left_is_no_victim() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:3 pu:1", 250);
        let sleeper = world.start(vec![world.attributes()])[0];
        world.block(sleeper);
        world.run_until(MS);
        world.start(vec![world.pinned(2, 19), world.pinned(1, 10), world.pinned(0, 5)]);
        world.offline(2);
        // What was given away goes before everybody else, once.
        world.run_ms(40);
        world.told.clear();
        world.wake(0, sleeper, false);
        assert!(world.cpu_of(sleeper).is_some());
        assert!(!world.told.contains(&CpuId(2)), "{:?}", world.told);
    }
}

/// A higher class takes the CPU: who ran there goes to another that idles.
#[test]
fn who_makes_way_for_a_higher_class_goes_on_elsewhere() {
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

/// Threads of one CPU stand in the order of deadlines with everybody else: they go before later ones and behind earlier.
#[test]
fn threads_of_a_cpu_wait_in_the_order_of_deadlines() {
    for name in tested() {
        for (cpu, nice, first) in [(1, 19, false), (1, -20, true), (0, 19, false), (0, -20, true)] {
            let mut world = World::new(name, "node:1 core:2 pu:1", 50);
            let hog = world.start(vec![world.pinned(cpu, -20)])[0];
            let other = 1 - cpu;
            let normal = world.spawn(other, world.pinned(cpu, 0));
            let thread = world.spawn(other, thread(&world, cpu, nice));
            assert_eq!(world.last_queued(thread).dsq, PINNED_DSQ + u64::from(cpu), "where no other CPU has to pass it");
            world.run_ms(1);
            world.block(hog);
            let (next, last) = if first { (thread, normal) } else { (normal, thread) };
            assert_eq!(world.running(cpu), next, "CPU {cpu}, nice {nice}");
            world.block(next);
            assert_eq!(world.running(cpu), last, "CPU {cpu}, nice {nice}");
        }
    }
}

/// Such a thread preempts a later deadline, and not an earlier or an equal one.
#[test]
fn a_thread_of_a_cpu_preempts_by_its_deadline() {
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

/// One whose deadline is as late as that of the task that runs has waited, and goes first when that one yields.
#[test]
fn a_thread_of_a_cpu_takes_turns_with_its_equals() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 50);
        let hog = world.start(vec![world.pinned(1, 0)])[0];
        let thread = world.start(vec![thread(&world, 1, 0)])[0];
        assert_eq!(world.running(1), hog, "{name}");
        world.leave(1, Leave::Yield);
        assert_eq!(world.running(1), thread, "{name}");
    }
}

/// And it wakes an idle CPU.
#[test]
fn a_thread_of_an_idle_cpu_runs_at_once() {
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

/// A thread of the kernel that belongs to one CPU preempts a later deadline there.
#[test]
fn kernel_threads_of_a_cpu_run_at_once() {
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

/// Only what is counted at the CPU that goes is given to the kernel's own queue, where it would pass everybody else: what
/// waits for other CPUs stays behind whoever is earlier.
#[test]
fn what_is_counted_elsewhere_stays_in_the_queue() {
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
