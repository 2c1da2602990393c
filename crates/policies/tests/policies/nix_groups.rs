// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`, preset `groups`: queues by node, steal, donate, and who was made ready runs next.

use crate::nix::{beside, priority, sleepers};
use crate::world::{World, only};
use ids::{CpuId, TaskId};
use kernel_model::TaskAttributes;

/// 4 groups of 4.
const SHAPE: &str = "node:4 core:4 pu:1";

fn groups(options: &str) -> World {
    World::new(&format!("nix@groups{options}"), SHAPE, 100)
}

/// Busy CPUs: each has a task of its own.
fn occupy(world: &mut World, cpus: std::ops::Range<u32>) -> Vec<TaskId> {
    let attributes = cpus.map(|cpu| world.pinned(cpu, 0)).collect();
    world.start(attributes)
}

/// Groups 1: a queue for each node, and a new task waits in its parent's.
#[test]
fn a_task_waits_in_the_queue_of_its_node() {
    let mut world = groups("");
    occupy(&mut world, 0..16);
    for cpu in 0..16 {
        let attributes = TaskAttributes { parent: None, ..world.attributes() };
        let task = world.spawn(cpu, attributes);
        assert_eq!(world.last_queued(task).dsq, u64::from(cpu / 4));
    }
}

/// With one queue there are no groups.
#[test]
fn smp_has_one_queue() {
    let mut world = World::new("nix@smp", SHAPE, 100);
    occupy(&mut world, 0..16);
    let attributes = TaskAttributes { parent: None, ..world.attributes() };
    let task = world.spawn(15, attributes);
    assert_eq!(world.last_queued(task).dsq, 0);
}

/// Groups 1: without stealing a task waits for its own group, whoever idles.
#[test]
fn who_does_not_steal_idles() {
    for (steal, runs) in [("true", true), ("false", false)] {
        let mut world = groups(&format!(",steal={steal}"));
        occupy(&mut world, 0..4);
        let attributes = vec![world.attributes()];
        let task = beside(&mut world, attributes)[0];
        assert_eq!(world.cpu_of(task).is_some(), runs, "steal={steal}");
        world.run_ms(90);
        assert_eq!(world.cpu_of(task).is_some(), runs, "steal={steal}");
    }
}

/// An idle CPU of its own group comes before one that would steal.
#[test]
fn the_own_group_comes_first() {
    for busy in [0..7, 4..7] {
        let mut world = groups("");
        occupy(&mut world, busy.clone());
        let attributes = TaskAttributes { parent: None, ..world.attributes() };
        let task = world.spawn(4, attributes);
        assert_eq!(world.cpu_of(task), Some(7), "{busy:?} work");
    }
}

/// Groups 2, 4: whoever idles begins to steal as soon as that is switched on, and stops when it is off again.
#[test]
fn stealing_is_switched_while_it_runs() {
    let mut world = groups(",steal=false");
    occupy(&mut world, 0..4);
    let attributes = vec![world.attributes(); 3];
    let tasks = beside(&mut world, attributes);
    assert!(tasks.iter().all(|task| world.cpu_of(*task).is_none()));
    world.call("switch_groups", &[1, 0]);
    let stolen: Vec<u32> = tasks.iter().filter_map(|task| world.cpu_of(*task)).collect();
    assert_eq!(stolen.len(), 3);
    assert!(stolen.iter().all(|cpu| *cpu >= 4), "{stolen:?}");
    world.call("switch_groups", &[0, 0]);
    let attributes = vec![world.attributes()];
    let late = beside(&mut world, attributes)[0];
    assert_eq!(world.cpu_of(late), None);
}

/// Groups 2: the thief goes round, from the group that was looked into last; and takes the highest that is not bound.
#[test]
fn a_thief_goes_round_the_groups() {
    let mut world = groups(",steal=false");
    occupy(&mut world, 0..16);
    let mut waiting = vec![];
    for group in 0..3 {
        for nice in [4, 0] {
            let attributes = TaskAttributes { nice, parent: None, ..world.attributes() };
            waiting.push(world.spawn(4 * group, attributes));
        }
    }
    world.call("switch_groups", &[1, 0]);
    let mut taken = vec![];
    for _ in 0..6 {
        let hog = world.running(13);
        world.block(hog);
        taken.push(world.running(13));
    }
    // Who was stolen sleeps next, so the search goes on where it found somebody: two of group 0, of 1, of 2.
    let order: Vec<TaskId> = [1, 0, 3, 2, 5, 4].map(|at| waiting[at]).to_vec();
    assert_eq!(taken, order);
    world.block(taken[5]);
    assert_eq!(world.running(13), TaskId::NONE);
}

/// Groups 2: who is bound stays.
#[test]
fn nobody_steals_who_is_bound() {
    let mut world = groups("");
    occupy(&mut world, 0..4);
    let attributes = vec![world.pinned(2, -20), TaskAttributes { allowed: only(&[1, 2]), ..world.attributes() }];
    let tasks = beside(&mut world, attributes);
    assert!(tasks.iter().all(|task| world.cpu_of(*task).is_none()));
    let attributes = vec![TaskAttributes { allowed: only(&[1, 6]), ..world.attributes() }];
    let task = beside(&mut world, attributes)[0];
    assert_eq!(world.cpu_of(task), Some(6), "two CPUs, one of another group");
}

/// `groups-2011`: only from a group in which more wait than it has CPUs. This is why it is not work-conserving.
#[test]
fn nix_stole_from_overloaded_groups_only() {
    let mut world = World::new("nix@groups-2011", SHAPE, 100);
    occupy(&mut world, 0..4);
    let attributes = vec![world.attributes(); 4];
    let tasks = beside(&mut world, attributes);
    world.run_ms(5);
    assert!(tasks.iter().all(|task| world.cpu_of(*task).is_none()), "4 wait, and 12 CPUs idle");
    let attributes = vec![world.attributes()];
    beside(&mut world, attributes);
    let running = tasks.iter().filter(|task| world.cpu_of(**task).is_some()).count();
    assert_eq!(running, 1, "the fifth makes it overloaded, until one is stolen");
}

/// `groups-2011`: nothing of a kernel process's priority is stolen, and what is below it is.
#[test]
fn nix_did_not_steal_from_the_kernel() {
    for (preset, stolen) in [("groups-2011", false), ("groups", true)] {
        let mut world = World::new(&format!("nix@{preset}"), SHAPE, 100);
        occupy(&mut world, 0..4);
        let thread = TaskAttributes { kernel_thread: true, ..world.attributes() };
        let tasks = beside(&mut world, vec![thread; 6]);
        assert_eq!(priority(&world, tasks[0]), 13);
        assert_eq!(tasks.iter().any(|task| world.cpu_of(*task).is_some()), stolen, "{preset}");
    }
}

/// A process that whoever runs on `cpu` forks, or a thread of it.
fn fork(world: &mut World, cpu: u32, thread: bool) -> TaskId {
    let attributes = TaskAttributes { thread, parent: Some(world.running(cpu)), ..world.attributes() };
    world.spawn(cpu, attributes)
}

/// Groups 3, 4: new processes go to other groups in which no more wait, in turn; threads stay.
#[test]
fn processes_are_donated() {
    let mut world = groups(",steal=false");
    occupy(&mut world, 0..16);
    let queue = |world: &World, task| world.last_queued(task).dsq;
    let stays = fork(&mut world, 0, false);
    assert_eq!(queue(&world, stays), 0, "as long as that is not switched on");
    world.call("switch_groups", &[0, 1]);
    let thread = fork(&mut world, 0, true);
    assert_eq!(queue(&world, thread), 0);
    let forked: Vec<TaskId> = (0..6).map(|_| fork(&mut world, 0, false)).collect();
    let gone: Vec<u64> = forked.into_iter().map(|task| queue(&world, task)).collect();
    // Two wait in group 0, so each of the others takes three, one CPU of it after the other.
    assert_eq!(gone, [1, 1, 1, 2, 2, 2]);
    world.call("switch_groups", &[0, 0]);
    let stays = fork(&mut world, 0, false);
    assert_eq!(queue(&world, stays), 0);
}

/// `donate_from_first`: every search begins at CPU 0, so group 1 gets all that it may get before the next one.
#[test]
fn nix_donated_to_the_first_group() {
    for (from_first, expected) in [("true", [1, 1, 1]), ("false", [1, 1, 2])] {
        let mut world = groups(&format!(",steal=false,donate=true,donate_from_first={from_first}"));
        occupy(&mut world, 0..16);
        let attributes = vec![world.pinned(0, 0); 4];
        beside(&mut world, attributes);
        let mut gone = vec![];
        for round in 0..3 {
            // What was donated goes away, so that nobody's queue tells groups 1 to 3 apart.
            let task = fork(&mut world, 0, false);
            gone.push(world.last_queued(task).dsq);
            for _ in 0..if round == 1 { 2 } else { 0 } {
                fork(&mut world, 0, false);
            }
        }
        assert_eq!(gone, expected, "{from_first}");
    }
}

/// A bound process is not donated.
#[test]
fn who_is_bound_is_not_donated() {
    let mut world = groups(",steal=false,donate=true");
    occupy(&mut world, 0..16);
    let attributes = TaskAttributes { parent: Some(world.running(0)), ..world.pinned(1, 0) };
    let task = world.spawn(0, attributes);
    assert_eq!(world.last_queued(task).dsq, 0);
}

/// 5: who was made ready by a task that then sleeps is next on its CPU, before higher ones, and has what is left of 100 ms.
#[test]
fn who_was_made_ready_is_next() {
    for (preset, follows) in [("groups", true), ("smp", false)] {
        let mut world = World::new(&format!("nix@{preset}"), "node:1 core:1 pu:1", 100);
        let tasks = sleepers(&mut world, &[(0, 0), (0, -10), (0, 0)]);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.run_ms(5);
        // CPU 0 is busy with the hog, and each of these is made ready by it.
        for task in &tasks {
            world.wake(0, *task, false);
        }
        world.run_ms(1);
        world.block(hog);
        assert_eq!(world.running(0), tasks[if follows { 2 } else { 1 }], "{preset}");
    }
}

/// 5: its 100 ms are those of whom it follows.
#[test]
fn who_follows_has_what_is_left() {
    let mut world = World::new("nix@groups", "node:1 core:1 pu:1", 100);
    let tasks = sleepers(&mut world, &[(0, 0), (0, 0)]);
    let hog = world.start(vec![world.pinned(0, 0)])[0];
    world.run_ms(65);
    world.wake(0, tasks[0], false);
    world.wake(0, tasks[1], false);
    world.block(hog);
    assert_eq!(world.running(0), tasks[1]);
    world.run_ms(30);
    assert_eq!(world.running(0), tasks[1]);
    world.run_ms(10);
    assert_eq!(world.running(0), tasks[0]);
}

/// 5: a tick at which it has to stop ends the claim.
#[test]
fn who_stops_at_a_tick_is_followed_by_the_first() {
    let mut world = World::new("nix@groups", "node:1 core:1 pu:1", 100);
    let tasks = sleepers(&mut world, &[(0, 0), (0, 0)]);
    world.start(vec![world.pinned(0, 0)]);
    world.wake(0, tasks[0], false);
    world.run_ms(1);
    world.wake(0, tasks[1], false);
    world.run_ms(100);
    assert_eq!(world.running(0), tasks[0]);
}

/// A CPU of another group that goes offline takes nobody with it.
#[test]
fn groups_survive_a_node_that_goes() {
    let mut world = groups("");
    let attributes = vec![world.attributes(); 40];
    let tasks = world.start(attributes);
    world.run_ms(20);
    for cpu in 12..16 {
        world.offline(cpu);
    }
    let before: Vec<u64> = tasks.iter().map(|task| world.ran_ms(*task)).collect();
    world.run_ms(12_000);
    assert!(tasks.iter().zip(before).all(|(task, before)| world.ran_ms(*task) > before));
    assert_eq!(world.kernel.current(CpuId(13)), TaskId::NONE);
}

/// Groups 2: a group in which everybody who waits is bound stops no thief.
#[test]
fn a_thief_passes_those_who_are_bound() {
    let mut world = groups(",steal=false");
    occupy(&mut world, 0..16);
    let bound = TaskAttributes { parent: None, ..world.pinned(1, 0) };
    let bound = world.spawn(1, bound);
    let free = TaskAttributes { parent: None, allowed: only(&[4, 13]), ..world.attributes() };
    let free = world.spawn(4, free);
    assert_eq!([bound, free].map(|task| world.last_queued(task).dsq), [0, 1]);
    world.call("switch_groups", &[1, 0]);
    world.block(world.running(13));
    assert_eq!(world.running(13), free);
}

/// `donate_from_first`: CPU 0 itself is the first.
#[test]
fn nix_donated_to_cpu_0() {
    let mut world = groups(",donate=true,donate_from_first=true");
    occupy(&mut world, 4..8);
    let task = fork(&mut world, 4, false);
    assert_eq!(world.cpu_of(task), Some(0));
}

/// Nobody is donated to a CPU that went: the next one gets it.
#[test]
fn no_process_is_donated_to_a_cpu_that_went() {
    let mut world = groups(",steal=false,donate=true");
    occupy(&mut world, 0..4);
    world.offline(4);
    let task = fork(&mut world, 0, false);
    assert_eq!(world.cpu_of(task), Some(5));
}
