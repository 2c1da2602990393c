// SPDX-License-Identifier: GPL-2.0-only
//! SCHED_IDLE (theory 4 of `bfs`). That it waits is exact; that it does not wait for ever is a substitute.

use crate::world::{MS, World, older, tested};
use ids::{CpuId, Policy};
use kernel_model::{Leave, TaskAttributes};

fn idle(world: &World) -> TaskAttributes {
    TaskAttributes { policy: Policy::Idle, ..world.attributes() }
}

/// Whatever their deadlines are, normal tasks go first, and preempt.
#[test]
fn any_normal_task_goes_before_any_idle_one() {
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

/// Among themselves they go by deadline, and do not preempt each other.
#[test]
fn idle_tasks_share_by_deadline_and_are_patient() {
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

/// They use idle CPUs as everybody does.
#[test]
fn an_idle_task_takes_an_idle_cpu() {
    for name in tested() {
        let mut world = World::new(name, "node:1 core:2 pu:1", 1000);
        let tasks = world.start(vec![world.pinned(1, 0), idle(&world)]);
        assert_eq!([0, 1].map(|cpu| world.running(cpu)), [tasks[1], tasks[0]]);
    }
}

/// One that exits is not of that level: others may wait for what it holds.
#[test]
fn a_change_of_policy_changes_the_queue() {
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

/// When it is time and the first of them may not run here, nobody passes it: the CPU where it may run is the next to
/// promote. Each has its turn, also one that is bound to the busiest CPU.
#[test]
fn a_bound_idle_task_is_not_passed_by() {
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

/// A turn before others is short, can be ended by any task that wakes, and counts as a turn.
#[test]
fn a_promoted_task_makes_way() {
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
        // The next one is the other: the first has had its turn.
        world.run_ms(4_100);
        let other = tasks[1..].iter().copied().find(|task| *task != promoted).unwrap();
        assert_eq!(world.ran_ms(other), 2);
        // It was seen within a quarter of a millisecond.
        assert!((MS / 2..MS * 3 / 4).contains(&world.ran_ns[promoted.0 as usize]));
    }
}

/// However many there are, turns before others come one after another with as much time between: the others keep more than
/// half of the CPU.
#[test]
fn a_crowd_of_idle_tasks_leaves_the_cpu_to_others() {
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

/// The same for one that asks at every tick who is next: with 3,000 of them a turn is due every 2.7 ms, but comes after 4.2 ms,
/// which is the fifth tick; with 1,500 it is due after 5.3 ms, which is the sixth. A turn is of 2.1 ms, or of two ticks where
/// they end it.
#[test]
fn a_crowd_of_idle_tasks_leaves_more_than_half_to_one_that_yields() {
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

/// A periodic task, 1 ms of 20, among hogs: how long it waited at most, in ms, and the longest time between two turns of
/// each SCHED_IDLE task.
fn play(name: &str, idle_tasks: usize, hogs: usize, seconds: u64) -> (u64, u64) {
    let mut world = World::new(name, "node:1 core:4 pu:1", 1000);
    let mut all = vec![world.attributes(); hogs + 1];
    all.extend(vec![idle(&world); idle_tasks]);
    let tasks = world.start(all);
    let (periodic, idle) = (tasks[0], &tasks[hogs + 1..]);
    let (mut released, mut waited_ms) = (0, 0);
    let mut last_turn = vec![0; tasks.len()];
    let mut longest_gap_ms = 0;
    world.began.clear();
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
        for (at, task) in world.began.drain(..) {
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

/// 256 SCHED_IDLE tasks beside 4 hogs for 120 s: a periodic task waits no longer than without them plus one slice, each of
/// them runs at least every 20 s, and the watchdog has nothing to say.
#[test]
fn hundreds_of_idle_tasks_disturb_nobody_and_all_have_turns() {
    for name in tested() {
        let (without, _) = play(name, 0, 4, 120);
        let (with, gap) = play(name, 256, 4, 120);
        assert!(with <= without + 13, "{with} ms instead of {without}");
        assert!(gap <= 20_000, "{gap} ms without a turn");
    }
}

/// Theory 4, substitute: BFS lets a SCHED_IDLE task starve beside others; here the first one has 2 ms after 8 s, and then
/// every 8 s.
#[test]
fn idle_tasks_wait_but_not_for_ever() {
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

/// The first that comes to an empty queue waits for 8 s, to the nanosecond.
#[test]
fn the_first_idle_task_is_promoted_after_8_s() {
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

/// Theory 4: a long sleeper of that level has an old deadline and still does not pass normal tasks.
#[test]
fn an_idle_task_that_wakes_does_not_preempt() {
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
