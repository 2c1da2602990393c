// SPDX-License-Identifier: GPL-2.0-only
//! `policies/nix`, preset `groups`: a queue per node, stealing, donating, and running the last readied task next.

use crate::nix::{beside, priority, sleepers};
use crate::world::{World, only};
use ids::{CpuId, TaskId};
use kernel_model::TaskAttributes;

/// 4 groups of 4 CPUs.
const SHAPE: &str = "node:4 core:4 pu:1";

fn groups(options: &str) -> World {
    World::new(&format!("nix@groups{options}"), SHAPE, 100)
}

/// Starts a pinned task on each of these CPUs.
fn occupy(world: &mut World, cpus: std::ops::Range<u32>) -> Vec<TaskId> {
    let attributes = cpus.map(|cpu| world.pinned(cpu, 0)).collect();
    world.start(attributes)
}

/// Point 1 of `groups.bpf.h`: one queue per node; a new task is queued on its parent's node.
#[test]
fn task_is_queued_on_its_node() {
    let mut world = groups("");
    occupy(&mut world, 0..16);
    for cpu in 0..16 {
        let attributes = TaskAttributes { parent: None, ..world.attributes() };
        let task = world.spawn(cpu, attributes);
        assert_eq!(world.last_queued(task).dsq, u64::from(cpu / 4));
    }
}

/// With a single queue there are no groups.
#[test]
fn smp_preset_has_one_queue_for_all_nodes() {
    let mut world = World::new("nix@smp", SHAPE, 100);
    occupy(&mut world, 0..16);
    let attributes = TaskAttributes { parent: None, ..world.attributes() };
    let task = world.spawn(15, attributes);
    assert_eq!(world.last_queued(task).dsq, 0);
}

/// Point 1 of `groups.bpf.h`: without stealing, a task waits for its own group, though CPUs of other groups are idle.
#[test]
fn without_stealing_other_groups_stay_idle() {
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

/// An idle CPU of the task's own group is preferred to one that would steal.
#[test]
fn idle_cpu_of_the_own_group_is_preferred() {
    for busy in [0..7, 4..7] {
        let mut world = groups("");
        occupy(&mut world, busy.clone());
        let attributes = TaskAttributes { parent: None, ..world.attributes() };
        let task = world.spawn(4, attributes);
        assert_eq!(world.cpu_of(task), Some(7), "{busy:?} are busy");
    }
}

/// Points 2, 4 of `groups.bpf.h`: idle CPUs start to steal as soon as stealing is switched on, and stop when it is
/// switched off.
#[test]
fn stealing_can_be_switched_at_run_time() {
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

/// Point 2 of `groups.bpf.h`: a thief scans the groups round robin, starting with the group it looked into last, and
/// takes the highest-priority task that is not pinned.
#[test]
fn thief_scans_groups_round_robin() {
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
    // Each stolen task is blocked next, so the search continues in the group where it found one: two tasks of group
    // 0, of 1, of 2.
    let order: Vec<TaskId> = [1, 0, 3, 2, 5, 4].map(|at| waiting[at]).to_vec();
    assert_eq!(taken, order);
    world.block(taken[5]);
    assert_eq!(world.running(13), TaskId::NONE);
}

/// Point 2 of `groups.bpf.h`: pinned tasks are not stolen.
#[test]
fn pinned_tasks_are_not_stolen() {
    let mut world = groups("");
    occupy(&mut world, 0..4);
    let attributes = vec![world.pinned(2, -20), TaskAttributes { allowed: only(&[1, 2]), ..world.attributes() }];
    let tasks = beside(&mut world, attributes);
    assert!(tasks.iter().all(|task| world.cpu_of(*task).is_none()));
    let attributes = vec![TaskAttributes { allowed: only(&[1, 6]), ..world.attributes() }];
    let task = beside(&mut world, attributes)[0];
    assert_eq!(world.cpu_of(task), Some(6), "allowed on two CPUs, one of another group");
}

/// `groups-2011` steals only from a group with more waiting tasks than CPUs, so it is not work-conserving.
#[test]
fn groups_2011_steals_only_from_overloaded_groups() {
    let mut world = World::new("nix@groups-2011", SHAPE, 100);
    occupy(&mut world, 0..4);
    let attributes = vec![world.attributes(); 4];
    let tasks = beside(&mut world, attributes);
    world.run_ms(5);
    assert!(tasks.iter().all(|task| world.cpu_of(*task).is_none()), "4 tasks wait, and 12 CPUs are idle");
    let attributes = vec![world.attributes()];
    beside(&mut world, attributes);
    let running = tasks.iter().filter(|task| world.cpu_of(**task).is_some()).count();
    assert_eq!(running, 1, "the fifth makes it overloaded, until one is stolen");
}

/// `groups-2011` does not steal tasks of a kernel process's priority.
#[test]
fn groups_2011_does_not_steal_kernel_priority() {
    for (preset, stolen) in [("groups-2011", false), ("groups", true)] {
        let mut world = World::new(&format!("nix@{preset}"), SHAPE, 100);
        occupy(&mut world, 0..4);
        let thread = TaskAttributes { kernel_thread: true, ..world.attributes() };
        let tasks = beside(&mut world, vec![thread; 6]);
        assert_eq!(priority(&world, tasks[0]), 13);
        assert_eq!(tasks.iter().any(|task| world.cpu_of(*task).is_some()), stolen, "{preset}");
    }
}

/// Forks a process, or a thread, of the task that runs on `cpu`.
fn fork(world: &mut World, cpu: u32, thread: bool) -> TaskId {
    let attributes = TaskAttributes { thread, parent: Some(world.running(cpu)), ..world.attributes() };
    world.spawn(cpu, attributes)
}

/// Points 3, 4 of `groups.bpf.h`: new processes are donated round robin to other groups that have no longer queues;
/// threads stay.
#[test]
fn new_processes_are_donated_round_robin() {
    let mut world = groups(",steal=false");
    occupy(&mut world, 0..16);
    let queue = |world: &World, task| world.last_queued(task).dsq;
    let stays = fork(&mut world, 0, false);
    assert_eq!(queue(&world, stays), 0, "donating is switched off");
    world.call("switch_groups", &[0, 1]);
    let thread = fork(&mut world, 0, true);
    assert_eq!(queue(&world, thread), 0);
    let forked: Vec<TaskId> = (0..6).map(|_| fork(&mut world, 0, false)).collect();
    let gone: Vec<u64> = forked.into_iter().map(|task| queue(&world, task)).collect();
    // Two tasks wait in group 0, so each of the next groups gets three, on one CPU after the other.
    assert_eq!(gone, [1, 1, 1, 2, 2, 2]);
    world.call("switch_groups", &[0, 0]);
    let stays = fork(&mut world, 0, false);
    assert_eq!(queue(&world, stays), 0);
}

/// `donate_from_first`: every search for a group to donate to starts at CPU 0, so group 2 receives a task only when
/// group 1 may receive no more.
#[test]
fn donate_from_first_fills_the_first_group() {
    for (from_first, expected) in [("true", [1, 1, 1]), ("false", [1, 1, 2])] {
        let mut world = groups(&format!(",steal=false,donate=true,donate_from_first={from_first}"));
        occupy(&mut world, 0..16);
        let attributes = vec![world.pinned(0, 0); 4];
        beside(&mut world, attributes);
        let mut gone = vec![];
        for round in 0..3 {
            // Two more tasks are forked after the second one, so that the rest depends on where the search starts.
            let task = fork(&mut world, 0, false);
            gone.push(world.last_queued(task).dsq);
            for _ in 0..if round == 1 { 2 } else { 0 } {
                fork(&mut world, 0, false);
            }
        }
        assert_eq!(gone, expected, "{from_first}");
    }
}

/// A pinned process is not donated.
#[test]
fn pinned_process_is_not_donated() {
    let mut world = groups(",steal=false,donate=true");
    occupy(&mut world, 0..16);
    let attributes = TaskAttributes { parent: Some(world.running(0)), ..world.pinned(1, 0) };
    let task = world.spawn(0, attributes);
    assert_eq!(world.last_queued(task).dsq, 0);
}

/// Point 5 of `nix.bpf.c`: the last task readied by a task that then sleeps runs next on its CPU, before higher
/// priorities, for the rest of the 100 ms.
#[test]
fn last_readied_task_runs_next() {
    for (preset, follows) in [("groups", true), ("smp", false)] {
        let mut world = World::new(&format!("nix@{preset}"), "node:1 core:1 pu:1", 100);
        let tasks = sleepers(&mut world, &[(0, 0), (0, -10), (0, 0)]);
        let hog = world.start(vec![world.pinned(0, 0)])[0];
        world.run_ms(5);
        // CPU 0 runs the hog, which makes each of these tasks runnable.
        for task in &tasks {
            world.wake(0, *task, false);
        }
        world.run_ms(1);
        world.block(hog);
        assert_eq!(world.running(0), tasks[if follows { 2 } else { 1 }], "{preset}");
    }
}

/// Point 5 of `nix.bpf.c`: it inherits the remaining quantum of the task it follows.
#[test]
fn readied_task_inherits_the_remaining_quantum() {
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

/// Point 5 of `nix.bpf.c`: if the task is stopped at a tick, the readied task loses its precedence.
#[test]
fn readied_task_loses_precedence_at_a_tick() {
    let mut world = World::new("nix@groups", "node:1 core:1 pu:1", 100);
    let tasks = sleepers(&mut world, &[(0, 0), (0, 0)]);
    world.start(vec![world.pinned(0, 0)]);
    world.wake(0, tasks[0], false);
    world.run_ms(1);
    world.wake(0, tasks[1], false);
    world.run_ms(100);
    assert_eq!(world.running(0), tasks[0]);
}

/// A node whose CPUs go offline leaves no task behind.
#[test]
fn tasks_survive_an_offline_node() {
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

/// Point 2 of `groups.bpf.h`: a group with only pinned tasks waiting does not stop a thief.
#[test]
fn thief_skips_groups_with_only_pinned_tasks() {
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

/// `donate_from_first`: the search starts with CPU 0 itself.
#[test]
fn donate_from_first_starts_at_cpu_0() {
    let mut world = groups(",donate=true,donate_from_first=true");
    occupy(&mut world, 4..8);
    let task = fork(&mut world, 4, false);
    assert_eq!(world.cpu_of(task), Some(0));
}

/// No process is donated to an offline CPU: the next one gets it.
#[test]
fn no_process_is_donated_to_an_offline_cpu() {
    let mut world = groups(",steal=false,donate=true");
    occupy(&mut world, 0..4);
    world.offline(4);
    let task = fork(&mut world, 0, false);
    assert_eq!(world.cpu_of(task), Some(5));
}
