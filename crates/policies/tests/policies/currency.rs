// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/currency`. An accounting interval is 100 ms.

use crate::world::{MS, World};
use ids::{CpuId, TaskId};
use kernel_model::CgroupId;

/// Returns a machine running jobs with these weights and numbers of hogs, and the tasks of each job.
fn world(shape: &str, jobs: &[(u32, usize)]) -> (World, Vec<Vec<TaskId>>) {
    let mut world = World::new("currency", shape, 1000);
    let count = jobs.iter().map(|(_, tasks)| tasks).sum();
    let attributes = vec![world.attributes(); count];
    let mut tasks = world.start(attributes);
    let jobs = (0..).zip(jobs).map(|(number, (weight, count))| {
        let group = world.group(CgroupId::ROOT, &format!("j{number}"), *weight);
        let of_job: Vec<TaskId> = tasks.drain(..*count).collect();
        world.place(&of_job, group);
        of_job
    });
    let jobs = jobs.collect();
    (world, jobs)
}

fn ran_ms(world: &World, job: &[TaskId]) -> u64 {
    job.iter().map(|task| world.ran_ms(*task)).sum()
}

/// Returns the number of CPUs each job uses in the next `ms`.
fn cpus(world: &mut World, jobs: &[Vec<TaskId>], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = jobs.iter().map(|job| ran_ms(world, job)).collect();
    world.run_ms(ms);
    jobs.iter().zip(before).map(|(job, before)| (ran_ms(world, job) - before) as f64 / ms as f64).collect()
}

/// Point 2 of `currency.bpf.c`: over 20 intervals jobs get CPU time by their weights, however many tasks they have,
/// within 2 %; an unusable part goes to the others.
#[test]
fn jobs_get_cpu_time_by_weight() {
    for (shape, jobs, due) in [
        ("node:1 core:1 pu:1", &[(200, 1), (100, 4)][..], &[2.0 / 3.0, 1.0 / 3.0][..]),
        ("node:1 core:1 pu:1", &[(100, 1), (100, 9)], &[0.5, 0.5]),
        ("node:1 core:4 pu:1", &[(100, 4), (100, 16)], &[2.0, 2.0]),
        ("node:1 core:4 pu:1", &[(300, 8), (100, 8)], &[3.0, 1.0]),
        ("node:2 l3:1 core:2 pu:1", &[(300, 8), (100, 8)], &[3.0, 1.0]),
    ] {
        let (mut world, tasks) = world(shape, jobs);
        world.run_ms(1_000);
        let found = cpus(&mut world, &tasks, 2_000);
        for (found, due) in found.iter().zip(due) {
            assert!((found - due).abs() < 0.02 * due.max(1.0), "{shape} {jobs:?}: {found:.3}, expected {due:.3}");
        }
    }
}

/// Point 2 of `currency.bpf.c`: a job that can use only one CPU is credited for no more, and the rest goes to the
/// others by weight. It still waits for its next slice while others have credit, so it gets slightly less; jobs that
/// are over get that.
#[test]
fn unusable_share_of_a_job_goes_to_others_by_weight() {
    let (mut world, jobs) = world("node:1 core:4 pu:1", &[(900, 1), (200, 4), (100, 4)]);
    world.run_ms(1_000);
    let found = cpus(&mut world, &jobs, 4_000);
    assert!((0.8..=1.0).contains(&found[0]), "{found:?}");
    assert!((found[1] - 2.0).abs() < 0.04 && found[2] > 0.98, "{found:?}");
    assert!((found.iter().sum::<f64>() - 4.0).abs() < 0.001, "{found:?}");
}

/// Point 2 of `currency.bpf.c`: after ten intervals without demand a job has saved at most one interval's time on top
/// of its share.
#[test]
fn idle_job_saves_at_most_one_interval() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(100, 1), (100, 1)]);
    world.run_ms(500);
    while world.running(0) != jobs[0][0] {
        world.run_ms(1);
    }
    world.block(jobs[0][0]);
    world.run_ms(1_000);
    world.wake(0, jobs[0][0], false);
    let found = cpus(&mut world, &jobs, 1_000)[0];
    // A run lasts 10 ms.
    assert!((0.49..0.5 + 0.1 + 0.01).contains(&found), "{found}");
}

/// Point 5 of `currency.bpf.c`: a task of a job with credit preempts one of a job without credit, but no other.
#[test]
fn job_with_credit_preempts_one_without() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(100, 1), (10, 1), (100, 1)]);
    let [rich, poor, other] = [0, 1, 2].map(|job| jobs[job][0]);
    world.run_ms(1_000);
    for sleeper in [rich, other] {
        while world.running(0) != sleeper {
            world.run_ms(1);
        }
        world.block(sleeper);
    }
    // The task of weight 10 runs alone for longer than the credit of its job lasts.
    assert_eq!(world.running(0), poor);
    world.run_ms(55);
    world.wake(0, rich, false);
    assert_eq!(world.running(0), rich, "a job with credit preempts one without");
    world.run_ms(1);
    world.wake(0, other, false);
    assert_eq!(world.running(0), rich, "both have credit: the other task waits for its turn");
    world.run_ms(10);
    assert_eq!(world.running(0), other);
}

/// Point 6 of `currency.bpf.c`: with enough tasks in each cache, no task migrates between caches.
#[test]
fn tasks_stay_in_their_cache() {
    let (mut world, jobs) = world("node:2 l3:1 core:2 pu:1", &[(100, 4), (100, 4)]);
    world.run_ms(500);
    let near = |world: &World| -> Vec<Option<u32>> {
        jobs.iter().flatten().map(|task| world.cpu_of(*task).map(|cpu| cpu / 2)).collect()
    };
    let mut seen = [[false; 2]; 8];
    for _ in 0..200 {
        world.run_ms(10);
        for (task, node) in near(&world).into_iter().enumerate() {
            if let Some(node) = node {
                seen[task][node as usize] = true;
            }
        }
    }
    let both = seen.iter().filter(|nodes| nodes[0] && nodes[1]).count();
    assert_eq!(both, 0, "{seen:?}");
}

/// Points 2, 3 of `currency.bpf.c`: an interval is 100 ms, and a run 10 ms.
#[test]
fn accounting_interval_is_100_ms_and_run_10_ms() {
    let (mut world, _) = world("node:1 core:1 pu:1", &[(100, 2)]);
    world.run_ms(1_000);
    let before = world.armed;
    world.switches.clear();
    world.run_ms(10_000);
    // Ten of the timer expiries are searches for overdue tasks.
    assert_eq!(world.armed - before, 110);
    let intervals: Vec<u64> = world.switches.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(intervals.len() >= 990 && intervals.iter().all(|interval| *interval == 10 * MS), "{intervals:?}");
}

/// Point 6 of `currency.bpf.c`: a cache without runnable tasks pulls from others, and so does a node. No CPU is idle
/// while a task is queued.
#[test]
fn idle_cache_or_node_pulls_from_others() {
    for cache in 0..4 {
        let (mut world, jobs) = world("node:2 l3:2 core:2 pu:1", &[(100, 16)]);
        world.run_ms(500);
        let mut home = vec![0; 16];
        for _ in 0..100 {
            world.run_ms(1);
            for (task, home) in jobs[0].iter().zip(&mut home) {
                *home = world.cpu_of(*task).map_or(*home, |cpu| cpu / 2);
            }
        }
        // All tasks of this cache sleep, then all of its node.
        let sleep = |world: &mut World, caches: &[u32]| {
            for (task, _) in jobs[0].iter().zip(&home).filter(|(_, home)| caches.contains(home)) {
                while world.cpu_of(*task).is_none() {
                    world.run_ms(1);
                }
                world.block(*task);
            }
        };
        sleep(&mut world, &[cache]);
        for _ in 0..100 {
            world.run_ms(1);
            assert!((0..8).all(|cpu| world.running(cpu) != TaskId::NONE), "cache {cache}");
        }
        sleep(&mut world, &[cache ^ 1]);
        for _ in 0..100 {
            world.run_ms(1);
            assert!((0..8).all(|cpu| world.running(cpu) != TaskId::NONE), "node {}", cache / 2);
        }
    }
}

/// Point 1 of `currency.bpf.c`: tasks of the root cgroup are a job of weight 100. A run lasts 10 ms.
#[test]
fn root_cgroup_tasks_form_a_job_of_weight_100() {
    let mut world = World::new("currency", "node:1 core:1 pu:1", 1000);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    assert_eq!(world.last_queued(tasks[2]).slice_ns, 10 * MS);
    let group = world.group(CgroupId::ROOT, "a", 100);
    world.place(&tasks[..1], group);
    world.run_ms(1_000);
    let found = cpus(&mut world, &[tasks[..1].to_vec(), tasks[1..].to_vec()], 2_000);
    assert!((found[0] - 0.5).abs() < 0.02 && (found[1] - 0.5).abs() < 0.02, "{found:?}");
}

/// Point 5 of `currency.bpf.c`: the task of the job without credit is preempted on whichever CPU it runs, though it
/// was preempted before for tasks that may not run there.
#[test]
fn job_without_credit_is_preempted_on_any_cpu() {
    for over_at in 0..2 {
        let mut world = World::new("currency", "node:1 core:2 pu:1", 1000);
        let mut attributes = vec![world.attributes(), world.pinned(over_at, 0)];
        attributes.extend(vec![world.pinned(1 - over_at, 0); 4]);
        let tasks = world.start(attributes);
        for (number, (weight, job)) in (0..).zip([(10_000, &tasks[..1]), (100, &tasks[1..2]), (10_000, &tasks[2..])]) {
            let group = world.group(CgroupId::ROOT, &format!("j{number}"), weight);
            world.place(job, group);
        }
        // The job is credited for three intervals, most of which its task sleeps.
        for _ in 0..3 {
            while world.cpu_of(tasks[0]).is_none() {
                world.run_ms(1);
            }
            world.block(tasks[0]);
            world.run_ms(197 - world.now_ns / MS % 100);
            world.wake(over_at, tasks[0], false);
            world.run_ms(5);
        }
        while world.cpu_of(tasks[0]).is_none() {
            world.run_ms(1);
        }
        world.block(tasks[0]);
        world.run_ms(1_000);
        assert_eq!(world.cpu_of(tasks[1]), Some(over_at));
        world.wake(over_at, tasks[0], false);
        assert_eq!((world.cpu_of(tasks[0]), world.cpu_of(tasks[1])), (Some(over_at), None));
    }
}

/// Point 5 of `currency.bpf.c`: a task of a job without credit preempts no other.
#[test]
fn task_of_a_job_without_credit_does_not_preempt() {
    let mut world = World::new("currency", "node:1 core:1 pu:1", 1000);
    let attributes = vec![world.attributes(); 3];
    let tasks = world.start(attributes);
    let groups = [100, 10_000].map(|weight| world.group(CgroupId::ROOT, &format!("w{weight}"), weight));
    world.place(&tasks[..2], groups[0]);
    world.place(&tasks[2..], groups[1]);
    world.run_ms(1_000);
    while world.running(0) != tasks[0] {
        world.run_ms(1);
    }
    world.block(tasks[0]);
    while world.running(0) != tasks[1] {
        world.run_ms(1);
    }
    world.wake(0, tasks[0], false);
    assert_eq!(world.running(0), tasks[1], "both belong to the job without credit");
}

/// Point 2 of `currency.bpf.c`: a job without demand gets no credit, whatever its weight; the others share all CPU
/// time by weight.
#[test]
fn sleeping_job_gets_no_credit() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(10_000, 1), (300, 1), (100, 1)]);
    world.run_ms(500);
    while world.running(0) != jobs[0][0] {
        world.run_ms(1);
    }
    world.block(jobs[0][0]);
    world.run_ms(3_000);
    let found = cpus(&mut world, &jobs, 4_000);
    assert!((found[1] - 0.75).abs() < 0.02 && (found[2] - 0.25).abs() < 0.02, "{found:?}");
}

/// Point 5 of `currency.bpf.c`: an idle CPU runs no job, whichever ran there last, so it is not preempted.
#[test]
fn idle_cpu_is_not_preempted() {
    let mut world = World::new("currency", "node:1 core:2 pu:1", 1000);
    let attributes = vec![world.pinned(1, 0), world.pinned(0, 0), world.pinned(0, 0)];
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "under", 100);
    world.place(&tasks[1..], group);
    world.run_ms(50);
    world.block(tasks[0]);
    // The other job has credit for two CPUs and uses one: in each interval a task with credit is queued.
    world.rescheduled.clear();
    world.run_ms(1_000);
    assert!(!world.rescheduled.contains(&CpuId(1)), "{:?}", world.rescheduled);
}

/// Point 4 of `currency.bpf.c`: when a job is credited, its queued tasks move to the UNDER queue, in every cache.
#[test]
fn credited_job_moves_to_the_under_queue_in_every_cache() {
    for cpu in 0..4 {
        let mut world = World::new("currency", "node:2 l3:2 core:1 pu:1", 1000);
        let attributes = vec![world.pinned(cpu, 0); 2];
        let tasks = world.start(attributes);
        world.run_ms(99);
        let waiting = tasks.iter().find(|task| world.cpu_of(**task).is_none()).copied().unwrap();
        let over = world.last_queued(waiting).dsq;
        assert_eq!(over / 2, u64::from(cpu), "a cache has the number of its first CPU");
        world.inserted.clear();
        world.run_ms(1);
        assert_eq!(world.last_queued(waiting).dsq, over - 1, "CPU {cpu}");
    }
}

/// Point 2 of `currency.bpf.c`: CPU time is charged, not ticks. With tick accounting a task that sleeps at every tick
/// would be charged nothing and get all it wants. This task wants nine tenths and gets its half beside a hog of
/// another job.
#[test]
fn tick_dodging_task_is_charged_its_cpu_time() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(100, 1), (100, 1)]);
    let dodger = jobs[0][0];
    world.run_ms(1_000);
    let part = |world: &mut World, dodges: bool| {
        let before = world.ran_ns[dodger.0 as usize];
        for _ in 0..6_000 {
            let tick_ns = (world.now_ns / MS + 1) * MS;
            world.run_until(tick_ns - MS / 20);
            let asleep = dodges && world.cpu_of(dodger).is_some();
            if asleep {
                world.block(dodger);
            }
            world.run_until(tick_ns + MS / 20);
            if asleep {
                world.wake(0, dodger, false);
            }
        }
        (world.ran_ns[dodger.0 as usize] - before) as f64 / (6_000 * MS) as f64
    };
    assert!((part(&mut world, false) - 0.5).abs() < 0.02);
    let found = part(&mut world, true);
    assert!((0.4..0.52).contains(&found), "{found}");
}
