// SPDX-License-Identifier: GPL-2.0-only
//! SCHED_IDLE (theory 4 of `bfs`). Its lower priority is as in BFS; the starvation bound is a substitute.

use crate::world::{MS, World, older, tested};
use ids::{CpuId, Policy};
use kernel_model::{Leave, TaskAttributes};

fn idle(world: &World) -> TaskAttributes {
    TaskAttributes { policy: Policy::Idle, ..world.attributes() }
}

/// Normal tasks go before SCHED_IDLE tasks and preempt them, whatever the deadlines.
#[test]
fn normal_tasks_run_before_sched_idle_tasks() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let (idle, normal) = (idle(&world), world.pinned(0, 19));
        let tasks = world.start(vec![TaskAttributes { nice: -20, ..idle }, normal]);
        assert_eq!(world.running(0), tasks[1]);
        world.run_ms(100);
        world.block(tasks[1]);
        assert_eq!(world.running(0), tasks[0]);
        world.run_ms(1);
        world.wake(0, tasks[1], false);
        assert_eq!(world.running(0), tasks[1], "it preempts");
    }
}

/// SCHED_IDLE tasks run in order of deadlines and do not preempt each other.
#[test]
fn sched_idle_tasks_share_by_deadline_without_preemption() {
    for name in older() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let attributes = idle(&world);
        let tasks = world.start(vec![attributes.clone(), TaskAttributes { nice: 19, ..attributes.clone() }]);
        world.run_ms(6 * 36 * 10);
        assert_eq!((world.ran_ms(tasks[0]), world.ran_ms(tasks[1])), (6 * 350, 60));
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let early = world.start(vec![attributes.clone()])[0];
        world.block(early);
        world.run_ms(10);
        let late = world.start(vec![attributes])[0];
        world.wake(0, early, false);
        assert_eq!(world.running(0), late, "no preemption");
        world.leave(0, Leave::Yield);
        assert_eq!(world.running(0), early, "but it goes first");
    }
}

/// SCHED_IDLE tasks use idle CPUs as normal tasks do.
#[test]
fn sched_idle_task_runs_on_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(1, 0), idle(&world)]);
        assert_eq!([0, 1].map(|cpu| world.running(cpu)), [tasks[1], tasks[0]]);
    }
}

/// A task that leaves SCHED_IDLE is queued as a normal task at once, with its old deadline.
#[test]
fn leaving_sched_idle_requeues_the_task_as_normal() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), idle(&world)]);
        world.run_ms(100);
        assert_eq!(world.ran_ms(tasks[1]), 0);
        world.kernel.set_policy(CpuId(0), tasks[1], Policy::Other, 0).unwrap();
        world.settle();
        assert_eq!(world.running(0), tasks[1], "its deadline is old");
    }
}

/// When a promotion is due and the first SCHED_IDLE task may not run on this CPU, no other task overtakes it: the
/// next promotion is left to its CPU. Every task is promoted in time, including one pinned to the busiest CPU.
#[test]
fn pinned_sched_idle_task_is_not_overtaken_at_promotion() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let attributes = idle(&world);
        let bound = TaskAttributes { allowed: crate::world::only(&[1]), ..attributes.clone() };
        let mut all = vec![world.pinned(1, 0), world.pinned(1, 0), world.pinned(0, 0)];
        all.extend(vec![attributes; 5]);
        all.push(bound);
        let tasks = world.start(all);
        world.run_ms(17_000);
        for task in &tasks[3..] {
            assert!((1..=6).contains(&world.ran_ms(*task)), "{task}: {}", world.ran_ms(*task));
        }
    }
}

/// A promoted task runs briefly and can be preempted by any woken task; a preempted promotion counts too.
#[test]
fn promoted_sched_idle_task_is_preempted_by_a_wakeup() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let (attributes, late) = (idle(&world), world.pinned(0, 19));
        let sleeper = world.start(vec![late])[0];
        world.block(sleeper);
        let tasks = world.start(vec![world.pinned(0, 0), attributes.clone(), attributes]);
        let promoted = loop {
            world.run_until(world.now_ns + MS / 4);
            if world.running(0) != tasks[0] {
                break world.running(0);
            }
            assert!(world.now_ns < 9_000 * MS);
        };
        world.run_until(world.now_ns + MS / 2);
        world.wake(0, sleeper, false);
        assert_eq!(world.running(0), sleeper);
        world.block(sleeper);
        assert_eq!(world.running(0), tasks[0]);
        // The other SCHED_IDLE task is promoted next: the preempted promotion counts as one.
        world.run_ms(4_100);
        let other = tasks[1..].iter().copied().find(|task| *task != promoted).unwrap();
        assert_eq!(world.ran_ms(other), 2);
        // The switch was noticed within a quarter of a millisecond, and the task was preempted half a millisecond
        // later.
        assert!((MS / 2..MS * 3 / 4).contains(&world.ran_ns[promoted.0 as usize]));
    }
}

/// Promotions are spaced by at least their own length, however many SCHED_IDLE tasks there are: normal tasks keep
/// more than half of the CPU.
#[test]
fn thousands_of_sched_idle_tasks_leave_most_of_the_cpu_to_a_normal_task() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let mut all = vec![world.pinned(0, 0)];
        all.extend(vec![idle(&world); 6_000]);
        let tasks = world.start(all);
        world.run_ms(8_000);
        let before = world.ran_ms(tasks[0]);
        world.run_ms(1_000);
        let share = world.ran_ms(tasks[0]) - before;
        assert!((600..=900).contains(&share), "{share} ms of 1000");
    }
}

/// Promotions also leave most of the CPU to a task that yields at every tick. With 3,000 SCHED_IDLE tasks a promotion
/// is due every 2.7 ms, but comes only after 4.2 ms, at the fifth tick; with 1,500 it is due after 5.3 ms, at the
/// sixth. A promotion lasts 2.1 ms, or two ticks where slices end at ticks.
#[test]
fn thousands_of_sched_idle_tasks_leave_most_of_the_cpu_to_a_yielding_task() {
    for (name, (crowd, least, most)) in
        tested().into_iter().flat_map(|name| [(3_000, 290, 300), (1_500, 322, 336)].map(|crowd| (name, crowd)))
    {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let mut all = vec![world.pinned(0, 0)];
        all.extend(vec![idle(&world); crowd]);
        let tasks = world.start(all);
        world.run_ms(8_100);
        let before = world.ran_ms(tasks[0]);
        for _ in 0..500 {
            world.run_ms(1);
            if world.running(0) == tasks[0] {
                world.leave(0, Leave::Yield);
            }
        }
        let share = world.ran_ms(tasks[0]) - before;
        assert!((least..=most).contains(&share), "{name}: {share} ms of 500 beside {crowd}");
    }
}

/// Runs a periodic task (1 ms of work every 20 ms) beside hogs and SCHED_IDLE tasks on 4 CPUs. Returns, in ms, the
/// longest wait of the periodic task and the longest time between two runs of a SCHED_IDLE task.
fn measure_waits(name: &str, idle_tasks: usize, hogs: usize, seconds: u64) -> (u64, u64) {
    let mut world = World::new(name, "node:1 core:4 pu:1", 1000);
    let mut all = vec![world.attributes(); hogs + 1];
    all.extend(vec![idle(&world); idle_tasks]);
    let tasks = world.start(all);
    let (periodic, idle) = (tasks[0], &tasks[hogs + 1..]);
    let (mut released, mut waited_ms) = (0, 0);
    let mut last_turn = vec![0; tasks.len()];
    let mut longest_gap_ms = 0;
    world.switches.clear();
    world.ran_ns.resize(tasks.len(), 0);
    let (mut done, mut asleep) = (0, false);
    for ms in 1..=seconds * 1000 {
        world.run_ms(1);
        if !asleep && world.ran_ms(periodic) > done && world.cpu_of(periodic).is_some() {
            done = world.ran_ms(periodic);
            waited_ms = waited_ms.max(ms - released - 1);
            world.block(periodic);
            asleep = true;
        }
        if asleep && ms >= released + 20 {
            released = ms;
            world.wake(0, periodic, false);
            asleep = false;
        }
        for (at, task) in world.switches.drain(..) {
            let gap = at / MS - last_turn[task.0 as usize];
            if idle.contains(&task) {
                longest_gap_ms = longest_gap_ms.max(gap);
            }
            last_turn[task.0 as usize] = at / MS;
        }
    }
    for task in idle {
        longest_gap_ms = longest_gap_ms.max(seconds * 1000 - last_turn[task.0 as usize]);
    }
    (waited_ms, longest_gap_ms)
}

/// 256 SCHED_IDLE tasks beside 4 hogs for 120 s: the periodic task waits at most one slice longer than without them,
/// each of them runs at least every 20 s, and the watchdog does not fire.
#[test]
fn hundreds_of_sched_idle_tasks_delay_no_normal_task_and_none_starves() {
    for name in tested() {
        let (without, _) = measure_waits(name, 0, 4, 120);
        let (with, gap) = measure_waits(name, 256, 4, 120);
        assert!(with <= without + 13, "{with} ms instead of {without}");
        assert!(gap <= 20_000, "{gap} ms without a turn");
    }
}

/// Point 4 of `bfs.bpf.c`, substitute: BFS lets a SCHED_IDLE task starve beside normal tasks. Here the first one runs
/// for 2 ms after 8 s, and then every 8 s.
#[test]
fn sched_idle_task_runs_2_ms_every_8_s() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
        let tasks = world.start(vec![world.pinned(0, 0), idle]);
        world.run_ms(8_000);
        assert_eq!(world.ran_ms(tasks[1]), 0);
        world.run_ms(8_000);
        assert_eq!(world.ran_ms(tasks[1]), 2);
        world.run_ms(80_000);
        assert_eq!(world.ran_ms(tasks[1]), 22);
    }
}

/// The first SCHED_IDLE task in an empty queue waits for 8 s, to the nanosecond.
#[test]
fn first_sched_idle_task_is_promoted_after_exactly_8_s() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(0, 0), idle(&world)]);
        for (at, running) in [(7_999_999_999, tasks[0]), (8_000_000_000, tasks[1])] {
            world.run_until(at);
            world.leave(0, Leave::Yield);
            assert_eq!(world.running(0), running, "{name} at {at} ns");
        }
    }
}

/// Point 4 of `bfs.bpf.c`: a SCHED_IDLE task has an old deadline after a long sleep and still does not preempt a
/// normal task.
#[test]
fn woken_sched_idle_task_does_not_preempt_a_normal_task() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:1 pu:1", 1000);
        let idle = TaskAttributes { policy: Policy::Idle, ..world.pinned(0, 0) };
        let idle = world.start(vec![idle])[0];
        world.block(idle);
        world.run_ms(20_000);
        let hog = world.start(vec![world.pinned(0, 19)])[0];
        world.wake(0, idle, false);
        world.run_ms(1_000);
        assert_eq!((world.running(0), world.ran_ms(idle)), (hog, 0));
    }
}
