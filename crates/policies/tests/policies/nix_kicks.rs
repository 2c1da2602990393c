// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`: the CPU that is kicked for a queued task, and what happens to the task if that CPU does not take
//! it.

use crate::nix::{sleepers, sleepers_on};
use crate::world::{World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::TaskAttributes;

const PRESETS: [&str; 2] = ["smp", "groups"];

/// Wakes all of these sleeping tasks before any CPU reschedules.
fn wake_at_once(world: &mut World, tasks: &[TaskId]) {
    for task in tasks {
        world.wake_without_settling(0, *task);
    }
    world.settle();
}

fn world(preset: &str, shape: &str) -> World {
    World::new(&format!("nix@{preset}"), shape, 100)
}

/// Point 2 of `nix.bpf.c`: the kicked CPU takes the task it was kicked for, even if a higher-priority one that last
/// ran there has come meanwhile.
#[test]
fn kicked_cpu_takes_the_task_it_was_kicked_for() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers(&mut world, &[(0, 0), (1, -10), (2, 0)]);
        world.start(vec![world.pinned(0, 0)]);
        wake_at_once(&mut world, &tasks[..2]);
        assert_eq!([1, 2].map(|cpu| world.running(cpu)), [tasks[0], tasks[1]], "{preset}");
    }
}

/// Point 2 of `nix.bpf.c`: the kicked CPU takes the task it was kicked for, also from the queue of another group.
#[test]
fn kicked_cpu_takes_another_groups_task() {
    let mut world = world("groups", "node:2 core:2 pu:1");
    let tasks = sleepers(&mut world, &[(0, 0), (2, -10)]);
    world.start(vec![world.pinned(0, 0), world.pinned(1, 0), world.pinned(3, 0)]);
    wake_at_once(&mut world, &tasks);
    assert_eq!((world.cpu_of(tasks[0]), world.cpu_of(tasks[1])), (Some(2), None));
}

/// `groups-2011`: a kicked CPU that finds the other group no longer overloaded steals no task.
#[test]
fn groups_2011_thief_checks_again_before_stealing() {
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

/// Point 2 of `nix.bpf.c`: if a higher class takes the kicked CPU first, another CPU is kicked.
#[test]
fn another_cpu_is_kicked_if_a_higher_class_was_faster() {
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

/// No second CPU is kicked for a task that already runs or sleeps again.
#[test]
fn no_cpu_is_kicked_for_a_running_or_sleeping_task() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let task = sleepers_on(&mut world, &[1])[0];
        world.rescheduled.clear();
        world.wake(0, task, false);
        assert_eq!((world.cpu_of(task), world.rescheduled.as_slice()), (Some(1), &[CpuId(1)][..]), "{preset}");
        world.block(task);
        let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(1, 0) };
        world.rescheduled.clear();
        world.start(vec![fifo]);
        assert_eq!(world.rescheduled.as_slice(), &[CpuId(1)][..], "{preset}");
    }
}

/// The kicked CPU goes offline and dispatches when the kernel no longer allows tasks there: another CPU gets the
/// task.
#[test]
fn task_kicked_to_an_offlining_cpu_runs_elsewhere() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[1, 2]);
        world.start(vec![world.pinned(0, 0)]);
        world.wake_without_settling(0, tasks[0]);
        world.kernel.deactivate_cpu(CpuId(1));
        world.settle();
        assert_eq!((world.cpu_of(tasks[0]), world.running(1)), (Some(2), TaskId::NONE), "{preset}");
        // CPU 1 is closed from now on: it takes no task and is not kicked.
        world.rescheduled.clear();
        world.wake(0, tasks[1], false);
        assert_eq!((world.cpu_of(tasks[1]), world.rescheduled.as_slice()), (None, &[][..]), "{preset}");
    }
}

/// If all CPUs are busy the task waits in the core's global queue, which every CPU serves at its next tick.
#[test]
fn task_kicked_to_an_offlining_cpu_runs_at_the_next_tick_if_all_are_busy() {
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

/// The kernel chose a CPU other than the task's last one, which is going offline: no unbound task is sent there.
/// Tasks bound to it still run.
#[test]
fn offlining_cpu_gets_no_unbound_tasks() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[1, 1]);
        let thread = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(1)), ..world.pinned(1, 0) };
        let thread = world.start(vec![thread])[0];
        world.block(thread);
        world.start(vec![world.pinned(0, 0)]);
        world.kernel.deactivate_cpu(CpuId(1));
        world.settle();
        world.rescheduled.clear();
        world.wake(0, tasks[0], false);
        assert_eq!((world.cpu_of(tasks[0]), world.rescheduled.as_slice()), (Some(2), &[CpuId(2)][..]), "{preset}");
        world.wake(0, thread, false);
        assert_eq!(world.running(1), thread, "{preset}");
        // The CPU takes no other task once the kthread sleeps.
        world.wake(0, tasks[1], false);
        world.block(thread);
        assert_eq!(world.running(1), TaskId::NONE, "{preset}");
        // The CPU stays closed after ops.cpu_offline(), but still runs its own kthreads.
        world.kernel.offline_cpu(CpuId(1));
        world.settle();
        world.wake(0, thread, false);
        assert_eq!(world.running(1), thread, "{preset}");
        world.block(thread);
        // When the CPU is online again it is used: first by the waiting task, then by a new one when the first one
        // sleeps.
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

/// CPU 0 can go offline like any other: the kernel chooses another CPU, and from then on CPU 0 is not kicked.
#[test]
fn cpu_0_going_offline_gets_no_tasks() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:3 pu:1");
        let tasks = sleepers_on(&mut world, &[0, 1]);
        world.start(vec![world.pinned(1, 0)]);
        world.kernel.deactivate_cpu(CpuId(0));
        world.settle();
        world.wake(1, tasks[0], false);
        assert_eq!(world.cpu_of(tasks[0]), Some(2), "{preset}");
        world.block(tasks[0]);
        world.rescheduled.clear();
        world.wake(1, tasks[1], false);
        assert_eq!((world.cpu_of(tasks[1]), world.rescheduled.as_slice()), (Some(2), &[CpuId(2)][..]), "{preset}");
    }
}

/// The kernel reports offline CPUs as idle until each of them is picked. However many there are, an idle online CPU
/// is kicked.
#[test]
fn offline_cpus_do_not_hide_an_idle_one() {
    for preset in PRESETS {
        let mut world = world(preset, "node:1 core:14 pu:1");
        let task = sleepers_on(&mut world, &[0])[0];
        world.start(vec![world.pinned(0, 0)]);
        (1..12).for_each(|cpu| world.offline(cpu));
        world.wake(0, task, false);
        assert!(world.cpu_of(task) >= Some(12), "{preset}");
    }
}

/// A kthread that is bound to a CPU going offline and was already queued still runs there.
#[test]
fn bound_kthread_still_runs_on_an_offlining_cpu() {
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

/// `groups-2011`, where a kicked CPU chooses for itself: if it takes another task, a further CPU is kicked for the
/// first one.
#[test]
fn another_cpu_is_kicked_for_a_skipped_task() {
    let mut world = world("groups-2011", "node:1 core:4 pu:1");
    let tasks = sleepers(&mut world, &[(1, 0), (1, -10)]);
    world.start(vec![world.pinned(0, 0)]);
    world.kernel.set_affinity(CpuId(0), tasks[0], &only(&[1, 3])).unwrap();
    world.settle();
    wake_at_once(&mut world, &tasks);
    assert_eq!([1, 2, 3].map(|cpu| world.running(cpu)), [tasks[1], TaskId::NONE, tasks[0]]);
}
