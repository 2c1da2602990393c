// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`: who is told of a task that waits, and what becomes of it if that CPU does not take it.

use crate::nix::{sleepers, sleepers_on};
use crate::world::{World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

const PRESETS: [&str; 2] = ["smp", "groups"];

/// Of these tasks, which sleep, each wakes before any CPU acts on it.
fn wake_at_once(world: &mut World, tasks: &[TaskId]) {
    for task in tasks {
        world.wake_without_settling(0, *task);
    }
    world.settle();
}

fn world(preset: &str, shape: &str) -> World {
    World::new(&format!("nix@{preset}"), shape, 100)
}

/// 2: the CPU that was told takes that task, though another one came meanwhile that ran there last and is higher.
#[test]
fn who_was_told_takes_for_whom() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers(&mut world, &[(0, 0), (1, -10), (2, 0)]);
        world.start(vec![world.pinned(0, 0)]);
        wake_at_once(&mut world, &tasks[..2]);
        assert_eq!([1, 2].map(|cpu| world.running(cpu)), [tasks[0], tasks[1]], "{preset}");
    }
}

/// The same across groups.
#[test]
fn who_was_told_of_another_group_s_task_takes_it() {
    let mut world = world("groups", "node:2 core:2 pu:1");
    let tasks = sleepers(&mut world, &[(0, 0), (2, -10)]);
    world.start(vec![world.pinned(0, 0), world.pinned(1, 0), world.pinned(3, 0)]);
    wake_at_once(&mut world, &tasks);
    assert_eq!((world.cpu_of(tasks[0]), world.cpu_of(tasks[1])), (Some(2), None));
}

/// `groups-2011`: who was told and finds that no longer too many wait there takes none of them.
#[test]
fn nix_s_thief_looks_again() {
    let mut world = world("groups-2011", "node:2 core:2 pu:1");
    let tasks = sleepers(&mut world, &[(0, 0), (0, 0), (0, 0)]);
    let hogs = world.start(vec![world.pinned(0, 0), world.pinned(1, 0)]);
    for task in &tasks {
        world.wake_without_settling(0, *task);
    }
    world.kernel.schedule(CpuId(0), kernel_model::Leave::Exit);
    world.settle();
    assert_eq!([0, 1, 2, 3].map(|cpu| world.running(cpu)), [tasks[2], hogs[1], TaskId::NONE, TaskId::NONE]);
}

/// 2: a higher class has the CPU that was told: another one is told.
#[test]
fn another_is_told_if_a_higher_class_was_faster() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let task = sleepers_on(&mut world, &[0])[0];
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(1, 0) };
        let fifo = world.start(vec![fifo])[0];
        world.block(fifo);
        world.start(vec![world.pinned(0, 0)]);
        wake_at_once(&mut world, &[task, fifo]);
        assert_eq!([1, 2].map(|cpu| world.running(cpu)), [fifo, task], "{preset}");
    }
}

/// No other one is told of somebody who was taken or sleeps again.
#[test]
fn nobody_is_told_in_vain() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let task = sleepers_on(&mut world, &[1])[0];
        world.told.clear();
        world.wake(0, task, false);
        assert_eq!((world.cpu_of(task), world.told.as_slice()), (Some(1), &[CpuId(1)][..]), "{preset}");
        world.block(task);
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(1, 0) };
        world.told.clear();
        world.start(vec![fifo]);
        assert_eq!(world.told.as_slice(), &[CpuId(1)][..], "{preset}");
    }
}

/// A CPU that goes offline has been told, and comes when the kernel lets nobody go there: another one gets the task.
#[test]
fn what_a_cpu_takes_in_vain_runs_elsewhere() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[1, 2]);
        world.start(vec![world.pinned(0, 0)]);
        world.wake_without_settling(0, tasks[0]);
        world.kernel.deactivate_cpu(CpuId(1));
        world.settle();
        assert_eq!((world.cpu_of(tasks[0]), world.running(1)), (Some(2), TaskId::NONE), "{preset}");
        // From now on it takes nobody, and nobody tells it.
        world.told.clear();
        world.wake(0, tasks[1], false);
        assert_eq!((world.cpu_of(tasks[1]), world.told.as_slice()), (None, &[][..]), "{preset}");
    }
}

/// If all are busy it waits in the kernel's own queue, where everybody looks at the next tick.
#[test]
fn what_a_cpu_took_in_vain_waits_for_a_tick() {
    let mut world = world("smp", "node:1 core:3 pu:1");
    let task = sleepers_on(&mut world, &[1])[0];
    world.start(vec![world.pinned(0, 0), world.pinned(2, 0)]);
    world.run_ms(2_005);
    world.wake_without_settling(0, task);
    world.kernel.deactivate_cpu(CpuId(1));
    world.settle();
    assert_eq!(world.cpu_of(task), None);
    world.run_ms(5);
    assert!(world.cpu_of(task).is_some());
}

/// The kernel chose another CPU than the last one, which goes offline: nobody is sent there. What is bound to it still runs.
#[test]
fn nobody_is_sent_where_the_kernel_lets_nobody_go() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[1, 1]);
        let thread = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(1)), ..world.pinned(1, 0) };
        let thread = world.start(vec![thread])[0];
        world.block(thread);
        world.start(vec![world.pinned(0, 0)]);
        world.kernel.deactivate_cpu(CpuId(1));
        world.settle();
        world.told.clear();
        world.wake(0, tasks[0], false);
        assert_eq!((world.cpu_of(tasks[0]), world.told.as_slice()), (Some(2), &[CpuId(2)][..]), "{preset}");
        world.wake(0, thread, false);
        assert_eq!(world.running(1), thread, "{preset}");
        // It takes nobody else when that is done.
        world.wake(0, tasks[1], false);
        world.block(thread);
        assert_eq!(world.running(1), TaskId::NONE, "{preset}");
        // Nor when the kernel has said that it goes; its own threads still run.
        world.kernel.offline_cpu(CpuId(1));
        world.settle();
        world.wake(0, thread, false);
        assert_eq!(world.running(1), thread, "{preset}");
        world.block(thread);
        // When it comes back it is used again: by who has waited, and by who is made when that one sleeps.
        world.kernel.kill_cpu(CpuId(1));
        assert_eq!(world.cpu_of(tasks[1]), None, "{preset}");
        world.online(1);
        assert_eq!(world.running(1), tasks[1], "{preset}");
        world.block(tasks[1]);
        let more = TaskAttributes { allowed: only(&[0, 1]), parent: None, ..world.attributes() };
        let more = world.spawn(0, more);
        assert_eq!(world.cpu_of(more), Some(1), "{preset}");
    }
}

/// CPU 0 goes like any other: the kernel answers with another one, and from then on nobody tells it.
#[test]
fn nobody_is_sent_to_cpu_0_when_it_goes() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[0, 1]);
        world.start(vec![world.pinned(1, 0)]);
        world.kernel.deactivate_cpu(CpuId(0));
        world.settle();
        world.wake(1, tasks[0], false);
        assert_eq!(world.cpu_of(tasks[0]), Some(2), "{preset}");
        world.block(tasks[0]);
        world.told.clear();
        world.wake(1, tasks[1], false);
        assert_eq!((world.cpu_of(tasks[1]), world.told.as_slice()), (Some(2), &[CpuId(2)][..]), "{preset}");
    }
}

/// The kernel calls CPUs idle that went, each until it is picked. However many that are, somebody is told.
#[test]
fn cpus_that_went_hide_no_idle_one() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:14 pu:1");
        let task = sleepers_on(&mut world, &[0])[0];
        world.start(vec![world.pinned(0, 0)]);
        (1..12).for_each(|cpu| world.offline(cpu));
        world.wake(0, task, false);
        assert!(world.cpu_of(task) >= Some(12), "{preset}");
    }
}

/// A thread that is bound to a CPU on its way offline, and waited in the queue before, still runs there.
#[test]
fn who_is_bound_to_a_cpu_that_goes_still_runs() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let sleeper = sleepers_on(&mut world, &[1])[0];
        let thread = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(1)), ..world.pinned(1, 0) };
        let threads = world.start(vec![thread.clone(), thread]);
        assert_eq!(world.running(1), threads[0]);
        world.kernel.deactivate_cpu(CpuId(1));
        world.settle();
        world.wake(0, sleeper, false);
        assert_ne!(world.cpu_of(sleeper), Some(1));
        world.block(threads[0]);
        assert_eq!(world.running(1), threads[1], "{preset}");
    }
}

/// `groups-2011`, where a CPU that was told looks for itself: if it takes another task, somebody else is told of that one.
#[test]
fn whom_a_cpu_passes_by_another_is_told_of() {
    let mut world = world("groups-2011", "node:1 core:4 pu:1");
    let tasks = sleepers(&mut world, &[(1, 0), (1, -10)]);
    world.start(vec![world.pinned(0, 0)]);
    world.kernel.set_affinity(CpuId(0), tasks[0], &only(&[1, 3])).unwrap();
    world.settle();
    wake_at_once(&mut world, &tasks);
    assert_eq!([1, 2, 3].map(|cpu| world.running(cpu)), [tasks[1], TaskId::NONE, tasks[0]]);
}
