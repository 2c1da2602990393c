// SPDX-License-Identifier: GPL-2.0-only
//! `policies/pushback`: three queues, from near to far.

use crate::headers;
use crate::nix::{beside, sleepers_on};
use crate::world::{World, only};
use ids::{CpuId, Policy, TaskId};
use kernel_model::{Leave, TaskAttributes};

const CPU_DSQ: u64 = 0x10000;
const PUSHED_DSQ: u64 = 0x20000;

/// 2 cells of 4 CPUs.
fn cells(options: &str) -> World {
    World::new(&format!("pushback{options}"), "node:2 core:4 pu:1", 1000)
}

fn occupy(world: &mut World, cpus: impl IntoIterator<Item = u32>) -> Vec<TaskId> {
    let attributes = cpus.into_iter().map(|cpu| world.pinned(cpu, 0)).collect();
    world.start(attributes)
}

/// A thread of the kernel that is bound to a CPU, asleep.
fn kernel_thread(world: &mut World, cpu: u32) -> TaskId {
    let attributes = TaskAttributes { kernel_thread: true, own_cpu: Some(CpuId(cpu)), ..world.pinned(cpu, 0) };
    let task = world.start(vec![attributes])[0];
    world.block(task);
    task
}

/// 2: the last CPU, one of its cell, any other.
#[test]
fn a_thread_that_wakes_goes_to_an_idle_cpu_near_its_last_one() {
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

/// 2: it is in the queue of the CPU that it is to run on.
#[test]
fn who_is_to_run_on_a_cpu_is_in_its_queue() {
    for cpu in [0, 5] {
        let mut world = cells("");
        let task = sleepers_on(&mut world, &[cpu])[0];
        world.wake(1, task, false);
        assert_eq!(world.last_queued(task).dsq, CPU_DSQ + u64::from(cpu));
    }
}

/// 3: `depth` wait at the last CPU, the others for all; who is bound waits there in any case.
#[test]
fn a_few_wait_at_their_last_cpu() {
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

/// 4: its own before those for all. Nobody else sees its own.
#[test]
fn a_cpu_takes_its_own_first() {
    let mut world = cells("");
    let tasks = sleepers_on(&mut world, &[6, 6, 6, 6]);
    let hogs = occupy(&mut world, 0..8);
    tasks[..3].iter().for_each(|task| world.wake(0, *task, false));
    world.block(hogs[6]);
    assert_eq!(world.running(6), tasks[0], "its own");
    world.block(hogs[2]);
    assert_eq!(world.running(2), tasks[1], "the first of all");
    world.block(hogs[3]);
    assert_eq!(world.running(3), tasks[2]);
    world.wake(0, tasks[3], false);
    world.block(hogs[5]);
    assert_eq!(
        (world.running(5), world.cpu_of(tasks[3])),
        (TaskId::NONE, None),
        "who waits at a CPU is seen by no other"
    );
}

/// A thread that waits at a busy CPU.
fn waits_at(world: &mut World, cpu: u32) -> TaskId {
    let attributes = vec![world.pinned(cpu, 0)];
    let task = beside(world, attributes)[0];
    assert_eq!(world.last_queued(task).dsq, CPU_DSQ + u64::from(cpu));
    task
}

/// 5: a thread of the kernel stops who runs, and that one goes on after it, with what is left, before who waits there.
#[test]
fn who_is_stopped_by_the_kernel_is_pushed_back() {
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
    assert_eq!(world.running(3), waiting, "its 20 ms are over");
}

/// 5: one thread of the kernel does not stop another.
#[test]
fn the_kernel_does_not_stop_itself() {
    let mut world = cells("");
    let threads = [kernel_thread(&mut world, 3), kernel_thread(&mut world, 3)];
    threads.iter().for_each(|thread| world.wake(0, *thread, false));
    world.run_ms(5);
    assert_eq!(world.running(3), threads[0]);
}

#[test]
fn threads_of_the_kernel_that_belong_to_their_one_cpu_are_bound() {
    headers::holds("kthread");
}

/// 5: where there is one CPU, all are bound to it, and a thread of the kernel that belongs to none waits like them.
#[test]
fn who_belongs_to_no_cpu_stops_nobody() {
    let mut world = World::new("pushback", "core:1 pu:1", 1000);
    let thread = TaskAttributes { kernel_thread: true, ..world.attributes() };
    let thread = world.start(vec![thread])[0];
    world.block(thread);
    let hogs = occupy(&mut world, [0, 0]);
    world.run_ms(5);
    world.wake(0, thread, false);
    assert_eq!(world.running(0), hogs[0]);
    world.run_ms(20);
    assert_eq!(world.running(0), hogs[1], "who waited before");
    world.run_ms(20);
    assert_eq!(world.running(0), thread);
}

/// 5: who goes on alone has another 20 ms, of which it can be pushed back with the rest.
#[test]
fn who_is_alone_has_one_slice_after_the_other() {
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

/// 1: whose 20 ms are over, and who yields, is not pushed back.
#[test]
fn who_had_its_time_is_not_pushed_back() {
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

/// 4: once the first in the queue for all has waited for a second, a CPU with threads of its own takes it in turn.
#[test]
fn the_queue_for_all_has_its_turn() {
    let mut world = cells("");
    // Each CPU has two of its own, which never leave it.
    let mut own = vec![];
    for cpu in 0..8 {
        own.extend([world.pinned(cpu, 0), world.pinned(cpu, 0)]);
    }
    let own = world.start(own);
    let attributes = vec![world.attributes(); 10];
    let others = beside(&mut world, attributes);
    world.run_ms(900);
    let ran = others.iter().filter(|task| world.ran_ms(**task) > 0).count();
    assert!(ran <= 1, "only who came when nobody else waited at CPU 0: {ran}");
    world.run_ms(4_000);
    assert!(others.iter().all(|task| world.ran_ms(*task) > 0));
    assert!(own.iter().all(|task| world.ran_ms(*task) > 0));
}

/// 4: whose turn ends then waits like all others at its CPU.
#[test]
fn who_gives_way_to_the_queue_for_all_has_had_its_turn() {
    let mut world = cells(",depth=0");
    let hogs = occupy(&mut world, (0..8).flat_map(|cpu| [cpu, cpu]));
    let attributes = vec![world.attributes()];
    let free = beside(&mut world, attributes)[0];
    assert_eq!(world.last_queued(free).dsq, 0);
    let cpu = (0..2_000).find_map(|_| {
        world.run_ms(1);
        world.cpu_of(free)
    });
    let cpu = cpu.expect("it has waited for a second");
    for hog in &hogs[2 * cpu as usize..][..2] {
        assert_eq!(world.last_queued(*hog).dsq, CPU_DSQ + u64::from(cpu));
    }
}

/// A higher class takes a CPU: what waits there is for whoever idles, or has had its turn.
#[test]
fn what_waits_at_a_taken_cpu_runs_elsewhere() {
    for idles in [true, false] {
        what_waits_at_a_taken_cpu_runs(idles);
    }
}

fn what_waits_at_a_taken_cpu_runs(idles: bool) {
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

/// A CPU goes while threads wait in each of its queues.
#[test]
fn what_waits_at_a_cpu_that_goes_runs_elsewhere() {
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

/// 6: a CPU on its way offline, where the kernel lets nobody go, though it calls it idle. Who was to go there goes elsewhere,
/// and so does the next one; when it is back it is used again.
#[test]
fn nobody_is_sent_where_the_kernel_lets_nobody_go() {
    for (goes, stays) in [(1, 0), (0, 1)] {
        let mut world = World::new("pushback", "node:1 core:3 pu:1", 100);
        let tasks = sleepers_on(&mut world, &[goes, goes]);
        occupy(&mut world, [stays]);
        world.kernel.deactivate_cpu(CpuId(goes));
        world.settle();
        world.wake(stays, tasks[0], false);
        assert_eq!((world.cpu_of(tasks[0]), world.running(goes)), (Some(2), TaskId::NONE));
        world.wake(stays, tasks[1], false);
        assert_eq!(world.last_queued(tasks[1]).dsq, CPU_DSQ + u64::from(stays), "where the kernel put it");
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

/// 6: those who were sent there from other CPUs before anybody knew are let go as soon as it is known.
#[test]
fn who_waits_at_a_closed_cpu_is_let_go() {
    let mut world = World::new("pushback", "node:1 core:2 pu:1", 100);
    let sleeper = sleepers_on(&mut world, &[1])[0];
    let thread = kernel_thread(&mut world, 1);
    world.wake(0, thread, false);
    let hogs = world.start(vec![world.attributes(), world.attributes()]);
    world.kernel.deactivate_cpu(CpuId(1));
    world.settle();
    world.block(thread);
    // Where a turn ends the CPU that goes counts as idle, and whose turn it was is sent there.
    world.run_ms(100);
    let at_closed = |hog: &&TaskId| world.cpu_of(**hog).is_none() && world.last_queued(**hog).dsq == CPU_DSQ + 1;
    let waiting = *hogs.iter().find(at_closed).expect("one of them, or this shows nothing");
    world.run_ms(500);
    assert_eq!(world.cpu_of(waiting), None, "nobody knows");
    world.wake(0, sleeper, false);
    let runs = (0..20).any(|_| {
        world.run_ms(10);
        world.cpu_of(waiting) == Some(0)
    });
    assert!(runs);
}

/// An idle CPU is told of who waits at a CPU that a higher class takes; nobody, if nobody waits.
#[test]
fn an_idle_cpu_is_told_of_who_waits_at_a_taken_one() {
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
            world.told.clear();
            world.wake(1, fifo, false);
            assert_eq!(world.cpu_of(sleeper), Some(idle).filter(|_| waits));
            // Who lost the CPU may use no other.
            let told = world.told.iter().filter(|cpu| **cpu == CpuId(idle)).count();
            assert_eq!(told > 0, waits, "CPU {idle}: {:?}", world.told);
        }
    }
}

/// 2: also at the end of a turn, a CPU that idles meanwhile is taken, were it CPU 0.
#[test]
fn whose_turn_ends_goes_to_an_idle_cpu() {
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
