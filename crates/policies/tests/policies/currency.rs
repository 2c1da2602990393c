// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/currency`. An interval is 100 ms.

use crate::world::{MS, World};
use ids::{CpuId, TaskId};
use kernel_model::CgroupId;

/// A machine on which jobs with these weights and numbers of hogs run; their tasks.
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

/// CPUs that each job has in the next `ms`.
fn cpus(world: &mut World, jobs: &[Vec<TaskId>], ms: u64) -> Vec<f64> {
    let before: Vec<u64> = jobs.iter().map(|job| ran_ms(world, job)).collect();
    world.run_ms(ms);
    jobs.iter().zip(before).map(|(job, before)| (ran_ms(world, job) - before) as f64 / ms as f64).collect()
}

/// Theory 2: over 20 intervals jobs have what their weights say, however many tasks they have; within 2 points. What a job
/// cannot use is for the others.
#[test]
fn jobs_have_cpu_time_by_weight() {
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
            assert!((found - due).abs() < 0.02 * due.max(1.0), "{shape} {jobs:?}: {found:.3}, not {due:.3}");
        }
    }
}

/// Theory 2: a job of which one CPU is all that it can use is paid no more than that, and what is left is for the others by
/// weight. It waits for its turns all the same while others have credit, so it has a little less; whoever is over has that.
#[test]
fn what_a_job_cannot_use_is_for_others() {
    let (mut world, jobs) = world("node:1 core:4 pu:1", &[(900, 1), (200, 4), (100, 4)]);
    world.run_ms(1_000);
    let found = cpus(&mut world, &jobs, 4_000);
    assert!((0.8..=1.0).contains(&found[0]), "{found:?}");
    assert!((found[1] - 2.0).abs() < 0.04 && found[2] > 0.98, "{found:?}");
    assert!((found.iter().sum::<f64>() - 4.0).abs() < 0.001, "{found:?}");
}

/// Theory 2: who wanted nothing for ten intervals has no more than one interval's time to spend on top of its part.
#[test]
fn idle_jobs_do_not_save_up() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(100, 1), (100, 1)]);
    world.run_ms(500);
    while world.running(0) != jobs[0][0] {
        world.run_ms(1);
    }
    world.block(jobs[0][0]);
    world.run_ms(1_000);
    world.wake(0, jobs[0][0], false);
    let found = cpus(&mut world, &jobs, 1_000)[0];
    // A turn is 10 ms.
    assert!((0.49..0.5 + 0.1 + 0.01).contains(&found), "{found}");
}

/// Theory 5: a task of a job with credit interrupts one of a job without, and only that.
#[test]
fn who_is_under_interrupts_who_is_over() {
    let (mut world, jobs) = world("node:1 core:1 pu:1", &[(100, 1), (10, 1), (100, 1)]);
    let [rich, poor, other] = [0, 1, 2].map(|job| jobs[job][0]);
    world.run_ms(1_000);
    for sleeper in [rich, other] {
        while world.running(0) != sleeper {
            world.run_ms(1);
        }
        world.block(sleeper);
    }
    // The poor one is alone and was paid for ten: it is over once it has used what it had.
    assert_eq!(world.running(0), poor);
    world.run_ms(55);
    world.wake(0, rich, false);
    assert_eq!(world.running(0), rich, "under before over");
    world.run_ms(1);
    world.wake(0, other, false);
    assert_eq!(world.running(0), rich, "it is under, too: the other waits for its turn");
    world.run_ms(10);
    assert_eq!(world.running(0), other);
}

/// Theory 6: with enough to do below each cache nobody leaves it.
#[test]
fn tasks_stay_near() {
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

/// Theory 2, 3: an interval is 100 ms, and a turn 10 ms.
#[test]
fn intervals_and_turns_are_as_long_as_they_should_be() {
    let (mut world, _) = world("node:1 core:1 pu:1", &[(100, 2)]);
    world.run_ms(1_000);
    let before = world.armed;
    world.began.clear();
    world.run_ms(10_000);
    // Ten times somebody was looked for who is overdue.
    assert_eq!(world.armed - before, 110);
    let stints: Vec<u64> = world.began.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(stints.len() >= 990 && stints.iter().all(|stint| *stint == 10 * MS), "{stints:?}");
}

/// Theory 6: a cache that has nothing to do takes from others, and so does a node. No CPU idles while somebody waits.
#[test]
fn who_has_nothing_near_takes_from_others() {
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
        // All tasks of this cache sleep, and then all of its node.
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

/// Theory 1: tasks of no cgroup are a job of weight 100. A turn is 10 ms.
#[test]
fn tasks_of_the_root_are_a_job() {
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

/// Theory 5: the one that is over makes way, wherever it runs, though it has been interrupted before for others who may not
/// run there.
#[test]
fn each_cpu_is_known_by_itself() {
    for over_at in 0..2 {
        let mut world = World::new("currency", "node:1 core:2 pu:1", 1000);
        let mut attributes = vec![world.attributes(), world.pinned(over_at, 0)];
        attributes.extend(vec![world.pinned(1 - over_at, 0); 4]);
        let tasks = world.start(attributes);
        for (number, (weight, job)) in (0..).zip([(10_000, &tasks[..1]), (100, &tasks[1..2]), (10_000, &tasks[2..])]) {
            let group = world.group(CgroupId::ROOT, &format!("j{number}"), weight);
            world.place(job, group);
        }
        // It is paid for three intervals of which it sleeps most.
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

/// Theory 5: a task whose job is over interrupts nobody.
#[test]
fn who_is_over_waits() {
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
    assert_eq!(world.running(0), tasks[1], "both are of the job that is over");
}

/// Theory 2: who wants nothing is paid nothing, whatever its weight; the others have all there is, by theirs.
#[test]
fn who_sleeps_is_not_paid() {
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

/// Theory 5: a CPU that idles runs no job that is over, whoever ran there last: nobody interrupts it.
#[test]
fn who_idles_is_not_interrupted() {
    let mut world = World::new("currency", "node:1 core:2 pu:1", 1000);
    let attributes = vec![world.pinned(1, 0), world.pinned(0, 0), world.pinned(0, 0)];
    let tasks = world.start(attributes);
    let group = world.group(CgroupId::ROOT, "under", 100);
    world.place(&tasks[1..], group);
    world.run_ms(50);
    world.block(tasks[0]);
    // The job of the others has pay for two CPUs and uses one: somebody who is under waits at each interval.
    world.told.clear();
    world.run_ms(1_000);
    assert!(!world.told.contains(&CpuId(1)), "{:?}", world.told);
}

/// Theory 4: who waits in the queue of any cache goes to the band of its job when that is paid.
#[test]
fn the_queues_of_all_caches_are_sorted() {
    for cpu in 0..4 {
        let mut world = World::new("currency", "node:2 l3:2 core:1 pu:1", 1000);
        let attributes = vec![world.pinned(cpu, 0); 2];
        let tasks = world.start(attributes);
        world.run_ms(99);
        let waiting = tasks.iter().find(|task| world.cpu_of(**task).is_none()).copied().unwrap();
        let over = world.last_queued(waiting).dsq;
        assert_eq!(over / 2, u64::from(cpu), "a cache has the number of its first place");
        world.inserted.clear();
        world.run_ms(1);
        assert_eq!(world.last_queued(waiting).dsq, over - 1, "CPU {cpu}");
    }
}

/// Theory 2: what is charged is time and not ticks. A task that sleeps whenever a tick comes would be charged nothing by ticks,
/// and have all that it wants: this one, which wants nine tenths, has its half beside a hog of another job.
#[test]
fn who_dodges_the_tick_pays_all_the_same() {
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
