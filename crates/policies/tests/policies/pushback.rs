// SPDX-License-Identifier: GPL-2.0-only
//! `policies/pushback`: three kinds of queues, from near to far.

use crate::headers;
use crate::nix::{beside, sleepers_on};
use crate::world::{World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

const CPU_DSQ: u64 = 0x10000;
const PUSHED_DSQ: u64 = 0x20000;

/// 2 cells (NUMA nodes) of 4 CPUs.
fn cells(options: &str) -> World {
    World::new(&format!("pushback{options}"), "node:2 core:4 pu:1", 1000)
}

fn occupy(world: &mut World, cpus: impl IntoIterator<Item = u32>) -> Vec<TaskId> {
    let attributes = cpus.into_iter().map(|cpu| world.pinned(cpu, 0)).collect();
    world.start(attributes)
}

/// Creates a sleeping kthread that is bound to a CPU.
fn kernel_thread(world: &mut World, cpu: u32) -> TaskId {
    let attributes = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(cpu)), ..world.pinned(cpu, 0) };
    let task = world.start(vec![attributes])[0];
    world.block(task);
    task
}

/// Point 2 of `pushback.bpf.c`: a woken task goes to its last CPU if idle, else to an idle one of its cell, else to
/// any idle one.
#[test]
fn woken_task_goes_to_the_nearest_idle_cpu() {
    let mut world = cells("");
    let tasks = sleepers_on(&mut world, &[6; 6]);
    let mut used = vec![];
    for task in tasks {
        world.wake(0, task, false);
        used.push(world.cpu_of(task).unwrap());
    }
    assert_eq!(used[0], 6);
    assert!(used[1..4].iter().all(|cpu| *cpu >= 4), "{used:?}");
    assert!(used[4..].iter().all(|cpu| *cpu < 4), "{used:?}");
}

/// Point 2 of `pushback.bpf.c`: a task placed on a CPU is queued in that CPU's queue.
#[test]
fn placed_task_is_queued_on_its_cpu() {
    for cpu in [0, 5] {
        let mut world = cells("");
        let task = sleepers_on(&mut world, &[cpu])[0];
        world.wake(1, task, false);
        assert_eq!(world.last_queued(task).dsq, CPU_DSQ + u64::from(cpu));
    }
}

/// Point 3 of `pushback.bpf.c`: at most `depth` tasks wait at their busy last CPU, the others in the global queue;
/// pinned tasks always wait at their CPU.
#[test]
fn depth_limits_tasks_waiting_at_their_last_cpu() {
    for depth in 0..3 {
        let mut world = cells(&format!(",depth={depth}"));
        let tasks = sleepers_on(&mut world, &[6; 4]);
        occupy(&mut world, 0..8);
        tasks.iter().for_each(|task| world.wake(0, *task, false));
        let at_cpu = tasks.iter().filter(|task| world.last_queued(**task).dsq == CPU_DSQ + 6).count();
        let for_all = tasks.iter().filter(|task| world.last_queued(**task).dsq == 0).count();
        assert_eq!((at_cpu, for_all), (depth, 4 - depth));
        let bound = vec![world.pinned(6, 0)];
        let bound = beside(&mut world, bound)[0];
        assert_eq!(world.last_queued(bound).dsq, CPU_DSQ + 6);
    }
}

/// Point 4 of `pushback.bpf.c`: a CPU serves its own queue before the global one. No other CPU serves it.
#[test]
fn cpu_serves_its_own_queue_first() {
    let mut world = cells("");
    let tasks = sleepers_on(&mut world, &[6, 6, 6, 6]);
    let hogs = occupy(&mut world, 0..8);
    tasks[..3].iter().for_each(|task| world.wake(0, *task, false));
    world.block(hogs[6]);
    assert_eq!(world.running(6), tasks[0], "the first of its own queue");
    world.block(hogs[2]);
    assert_eq!(world.running(2), tasks[1], "the first of the global queue");
    world.block(hogs[3]);
    assert_eq!(world.running(3), tasks[2]);
    world.wake(0, tasks[3], false);
    world.block(hogs[5]);
    assert_eq!(
        (world.running(5), world.cpu_of(tasks[3])),
        (TaskId::NONE, None),
        "a task queued on a CPU is not seen by others"
    );
}

/// Queues a pinned task on a busy CPU.
fn waits_at(world: &mut World, cpu: u32) -> TaskId {
    let attributes = vec![world.pinned(cpu, 0)];
    let task = beside(world, attributes)[0];
    assert_eq!(world.last_queued(task).dsq, CPU_DSQ + u64::from(cpu));
    task
}

/// Point 5 of `pushback.bpf.c`: a task preempted by a kthread continues after it with the rest of its slice, before
/// tasks queued on that CPU.
#[test]
fn task_preempted_by_a_kthread_is_pushed_back() {
    let mut world = cells("");
    world.run_ms(100);
    let thread = kernel_thread(&mut world, 3);
    let hog = occupy(&mut world, [3])[0];
    let waiting = waits_at(&mut world, 3);
    world.run_ms(5);
    assert_eq!(world.running(3), hog);
    world.wake(0, thread, false);
    assert_eq!(world.running(3), thread);
    let pushed = world.last_queued(hog);
    assert_eq!((pushed.dsq, pushed.slice_ns), (PUSHED_DSQ + 3, 15_000_000));
    world.run_ms(1);
    world.block(thread);
    assert_eq!(world.running(3), hog);
    world.run_ms(14);
    assert_eq!(world.running(3), hog);
    world.run_ms(2);
    assert_eq!(world.running(3), waiting, "the slice of 20 ms is over");
}

/// Point 5 of `pushback.bpf.c`: a kthread does not preempt another one.
#[test]
fn kthread_does_not_preempt_a_kthread() {
    let mut world = cells("");
    let threads = [kernel_thread(&mut world, 3), kernel_thread(&mut world, 3)];
    threads.iter().for_each(|thread| world.wake(0, *thread, false));
    world.run_ms(5);
    assert_eq!(world.running(3), threads[0]);
}

#[test]
fn per_cpu_kthreads_are_recognized() {
    headers::run_header_test("kthread");
}

/// Point 5 of `pushback.bpf.c`: with one CPU all tasks are bound to it, and an unbound kthread waits like them.
#[test]
fn unbound_kthread_does_not_preempt() {
    let mut world = World::new("pushback", "core:1 pu:1", 1000);
    let thread = TaskAttributes { kernel_thread: true, ..world.attributes() };
    let thread = world.start(vec![thread])[0];
    world.block(thread);
    let hogs = occupy(&mut world, [0, 0]);
    world.run_ms(5);
    world.wake(0, thread, false);
    assert_eq!(world.running(0), hogs[0]);
    world.run_ms(20);
    assert_eq!(world.running(0), hogs[1], "the hog has waited longer");
    world.run_ms(20);
    assert_eq!(world.running(0), thread);
}

/// Point 5 of `pushback.bpf.c`: a lone task gets one 20 ms slice after the other, and can be pushed back with the
/// rest of the current one.
#[test]
fn lone_task_gets_new_slices() {
    let mut world = cells("");
    world.run_ms(100);
    let thread = kernel_thread(&mut world, 3);
    let hog = occupy(&mut world, [3])[0];
    world.run_ms(25);
    world.wake(0, thread, false);
    assert_eq!(world.running(3), thread);
    let pushed = world.last_queued(hog);
    assert_eq!((pushed.dsq, pushed.slice_ns), (PUSHED_DSQ + 3, 15_000_000));
}

/// Point 1 of `pushback.bpf.c`: a task whose slice is over, or that yields, is not pushed back.
#[test]
fn expired_or_yielding_task_is_not_pushed_back() {
    for yields in [true, false] {
        let mut world = cells("");
        let tasks = occupy(&mut world, [3, 3]);
        assert_eq!(world.running(3), tasks[0]);
        if yields {
            world.leave(3, Leave::Yield);
        } else {
            world.run_ms(20);
        }
        assert_eq!(world.running(3), tasks[1]);
        assert_eq!(world.last_queued(tasks[0]).dsq, CPU_DSQ + 3);
    }
}

/// Point 4 of `pushback.bpf.c`: once the first task of the global queue has waited for a second, CPUs with tasks of
/// their own serve it alternately.
#[test]
fn global_queue_is_served_alternately_after_1_s() {
    let mut world = cells("");
    // Each CPU has two pinned tasks.
    let mut own = vec![];
    for cpu in 0..8 {
        own.extend([world.pinned(cpu, 0), world.pinned(cpu, 0)]);
    }
    let own = world.start(own);
    let attributes = vec![world.attributes(); 10];
    let others = beside(&mut world, attributes);
    world.run_ms(900);
    let ran = others.iter().filter(|task| world.ran_ms(**task) > 0).count();
    assert!(ran <= 1, "at most the one queued while CPU 0 had no other: {ran}");
    world.run_ms(4_000);
    assert!(others.iter().all(|task| world.ran_ms(*task) > 0));
    assert!(own.iter().all(|task| world.ran_ms(*task) > 0));
}

/// Point 4 of `pushback.bpf.c`: a task displaced by the global queue is queued at its CPU like all others.
#[test]
fn task_displaced_by_the_global_queue_is_queued_on_its_cpu() {
    let mut world = cells(",depth=0");
    let hogs = occupy(&mut world, (0..8).flat_map(|cpu| [cpu, cpu]));
    let attributes = vec![world.attributes()];
    let free = beside(&mut world, attributes)[0];
    assert_eq!(world.last_queued(free).dsq, 0);
    let cpu = (0..2_000).find_map(|_| {
        world.run_ms(1);
        world.cpu_of(free)
    });
    let cpu = cpu.expect("the task runs after a second");
    for hog in &hogs[2 * cpu as usize..][..2] {
        assert_eq!(world.last_queued(*hog).dsq, CPU_DSQ + u64::from(cpu));
    }
}

/// A higher class takes a CPU: tasks queued there run on a CPU that goes idle or whose slice ends.
#[test]
fn tasks_of_a_cpu_taken_by_a_higher_class_run_elsewhere() {
    for idles in [true, false] {
        check_taken_cpu(idles);
    }
}

fn check_taken_cpu(idles: bool) {
    let mut world = cells("");
    let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(5, 0) };
    let fifo = world.start(vec![fifo])[0];
    world.block(fifo);
    let hog = occupy(&mut world, [5])[0];
    let sleeper = sleepers_on(&mut world, &[4])[0];
    world.kernel.set_affinity(CpuId(0), sleeper, &only(&[5, 6])).unwrap();
    let busy = occupy(&mut world, [6])[0];
    world.wake(0, sleeper, false);
    assert_eq!(world.cpu_of(sleeper), None);
    world.wake(0, fifo, false);
    assert_eq!((world.running(5), world.cpu_of(hog)), (fifo, None));
    if idles {
        world.block(busy);
    } else {
        world.run_ms(20);
        assert_eq!(world.last_queued(busy).dsq, CPU_DSQ + 6);
    }
    assert_eq!(world.cpu_of(sleeper), Some(6));
}

/// A CPU goes offline while tasks wait in each of its queues.
#[test]
fn tasks_queued_for_an_offlined_cpu_run_elsewhere() {
    let mut world = cells("");
    let mut all = vec![world.attributes(); 20];
    all.push(TaskAttributes { allowed: only(&[5]), ..world.attributes() });
    let tasks = world.start(all);
    world.run_ms(50);
    world.offline(5);
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(5_000);
    assert!(tasks.iter().zip(before).all(|(task, before)| world.ran_ms(*task) > before));
    world.online(5);
    world.run_ms(100);
    assert_ne!(world.running(5), TaskId::NONE);
}

/// Point 6 of `pushback.bpf.c`: the kernel no longer allows tasks on a CPU going offline, but still reports it as
/// idle. The task placed there goes elsewhere, and so does the next one; once back, the CPU is used again.
#[test]
fn offlining_cpu_gets_no_unbound_tasks() {
    for (goes, stays) in [(1, 0), (0, 1)] {
        let mut world = World::new("pushback", "node:1 core:3 pu:1", 100);
        let tasks = sleepers_on(&mut world, &[goes, goes]);
        occupy(&mut world, [stays]);
        world.kernel.deactivate_cpu(CpuId(goes));
        world.settle();
        world.wake(stays, tasks[0], false);
        assert_eq!((world.cpu_of(tasks[0]), world.running(goes)), (Some(2), TaskId::NONE));
        world.wake(stays, tasks[1], false);
        assert_eq!(world.last_queued(tasks[1]).dsq, CPU_DSQ + u64::from(stays), "queued where the kernel put it");
        world.block(tasks[0]);
        world.kernel.offline_cpu(CpuId(goes));
        world.settle();
        world.kernel.kill_cpu(CpuId(goes));
        world.online(goes);
        let more = TaskAttributes { allowed: only(&[0, 1]), parent: None, ..world.attributes() };
        let more = world.spawn(stays, more);
        assert_eq!(world.cpu_of(more), Some(goes));
    }
}

/// Point 6 of `pushback.bpf.c`: tasks placed on a closed CPU before that was noticed are released as soon as it is
/// noticed.
#[test]
fn tasks_on_a_closed_cpu_are_released() {
    let mut world = World::new("pushback", "node:1 core:2 pu:1", 100);
    let sleeper = sleepers_on(&mut world, &[1])[0];
    let thread = kernel_thread(&mut world, 1);
    world.wake(0, thread, false);
    let hogs = world.start(vec![world.attributes(), world.attributes()]);
    world.kernel.deactivate_cpu(CpuId(1));
    world.settle();
    world.block(thread);
    // At the end of its slice a task is placed on the CPU going offline, because that counts as idle.
    world.run_ms(100);
    let at_closed = |hog: &&TaskId| world.cpu_of(**hog).is_none() && world.last_queued(**hog).dsq == CPU_DSQ + 1;
    let waiting = *hogs.iter().find(at_closed).expect("the test needs a task queued on the closed CPU");
    world.run_ms(500);
    assert_eq!(world.cpu_of(waiting), None, "not noticed yet");
    world.wake(0, sleeper, false);
    let runs = (0..20).any(|_| {
        world.run_ms(10);
        world.cpu_of(waiting) == Some(0)
    });
    assert!(runs);
}

/// An idle CPU is kicked for tasks queued on a CPU that a higher class takes, but not if there are none.
#[test]
fn idle_cpu_is_kicked_for_tasks_of_a_taken_cpu() {
    for (taken, idle) in [(5, 0), (5, 6), (0, 6)] {
        for waits in [true, false] {
            let mut world = cells("");
            let fifo = TaskAttributes { policy: Policy::Fifo(10), ..world.pinned(taken, 0) };
            let fifo = world.start(vec![fifo])[0];
            world.block(fifo);
            let sleeper = sleepers_on(&mut world, &[taken])[0];
            world.kernel.set_affinity(CpuId(1), sleeper, &only(&[taken, idle])).unwrap();
            let hogs = occupy(&mut world, [taken, idle]);
            if waits {
                world.wake(1, sleeper, false);
            }
            world.block(hogs[1]);
            assert_eq!(world.cpu_of(sleeper), None);
            world.rescheduled.clear();
            world.wake(1, fifo, false);
            assert_eq!(world.cpu_of(sleeper), Some(idle).filter(|_| waits));
            // The displaced task itself may run on no other CPU.
            let kicks = world.rescheduled.iter().filter(|cpu| **cpu == CpuId(idle)).count();
            assert_eq!(kicks > 0, waits, "CPU {idle}: {:?}", world.rescheduled);
        }
    }
}

/// Point 2 of `pushback.bpf.c`: at the end of a slice, too, a task moves to a CPU that has gone idle, including CPU
/// 0.
#[test]
fn expired_task_moves_to_an_idle_cpu() {
    for idle in [0, 2] {
        let mut world = cells("");
        let task = sleepers_on(&mut world, &[1])[0];
        world.kernel.set_affinity(CpuId(0), task, &only(&[1, idle])).unwrap();
        let hogs = occupy(&mut world, [idle]);
        world.wake(0, task, false);
        let waiting = waits_at(&mut world, 1);
        world.block(hogs[0]);
        assert_eq!((world.running(1), world.running(idle)), (task, TaskId::NONE));
        world.run_ms(20);
        assert_eq!((world.running(1), world.running(idle)), (waiting, task));
    }
}
