// SPDX-License-Identifier: GPL-2.0-only
//! Starvation bound of the policies that include `overdue.bpf.h`: every task runs, however small its share. The
//! watchdog is active and ends a test in which a task has waited for 30 s.

use crate::headers;
use crate::world::{MS, World, among, only};
use ids::TaskId;
use kernel_model::{CgroupId, TaskAttributes};

const MACHINES: [(u64, &str); 2] = [(1, "node:1 core:1 pu:1"), (4, "node:2 core:2 pu:1")];

fn overdue() -> Vec<&'static str> {
    among(&["currency", "entitlement", "lottery", "stride", "stride@hierarchical"])
}

/// Starts one heavy task per CPU and the light ones. The tasks differ in their own weights and in those of their
/// cgroups.
fn beside_heavy_ones(spec: &str, cpus: u64, shape: &str, light: Vec<TaskAttributes>) -> (World, Vec<TaskId>) {
    let mut world = World::new(spec, shape, 1000);
    let heavy = TaskAttributes { nice: -20, ..world.attributes() };
    let mut attributes = vec![heavy; cpus as usize];
    attributes.extend(light);
    let tasks = world.start(attributes);
    let groups = [10_000, 1].map(|weight| world.group(CgroupId::ROOT, &format!("w{weight}"), weight));
    let (heavy, light) = tasks.split_at(cpus as usize);
    world.place(heavy, groups[0]);
    world.place(light, groups[1]);
    (world, light.to_vec())
}

fn light(world: &World) -> TaskAttributes {
    TaskAttributes { nice: 19, ..world.attributes() }
}

/// Returns the longest wait of each task in the next `ms`, in milliseconds.
fn longest_waits(world: &mut World, tasks: &[TaskId], ms: u64) -> Vec<u64> {
    let mut last: Vec<(u64, u64)> = tasks.iter().map(|task| (world.ran_ms(*task), world.now_ns)).collect();
    let mut longest = vec![0; tasks.len()];
    for _ in 0..ms {
        world.run_ms(1);
        for ((task, last), longest) in tasks.iter().zip(&mut last).zip(&mut longest) {
            let ran = world.ran_ms(*task);
            if ran != last.0 {
                *last = (ran, world.now_ns);
            }
            *longest = (*longest).max((world.now_ns - last.1) / MS);
        }
    }
    longest
}

/// Point 2 of `overdue.bpf.h`: a task that has waited for 10 s runs within another second plus a quantum. Its slice
/// comes soon after one of the periodic scans, so at the tenth scan after that slice its wait is still slightly below
/// 10 s; the next scan finds it overdue.
#[test]
fn light_tasks_run_every_11_s_beside_heavy_tasks() {
    for spec in overdue() {
        for (cpus, shape) in MACHINES {
            let none = World::new(spec, shape, 1000);
            let (mut world, light) = beside_heavy_ones(spec, cpus, shape, vec![light(&none); 3]);
            for waited in longest_waits(&mut world, &light, 70_000) {
                assert!((10_500..=11_200).contains(&waited), "{spec} on {cpus}: {waited} ms");
            }
        }
    }
}

/// Point 3 of `overdue.bpf.h`: the slice of an overdue task is 1 ms long and comes once in 10 or 11 s, so it leaves
/// the shares unchanged. Now and then a light task also wins a regular slice. (A slice is 100 ms long in
/// `entitlement`, where no share is smaller than that of nice 19, 1 of 420.)
#[test]
fn overdue_task_gets_a_short_slice() {
    for spec in overdue().into_iter().filter(|spec| *spec != "entitlement") {
        for (cpus, shape) in MACHINES {
            let none = World::new(spec, shape, 1000);
            let (mut world, light) = beside_heavy_ones(spec, cpus, shape, vec![light(&none); 3]);
            world.run_ms(20_000);
            let before: Vec<u64> = light.iter().map(|task| world.ran_ms(*task)).collect();
            world.run_ms(60_000);
            for (task, before) in light.iter().zip(before) {
                let ran = world.ran_ms(*task) - before;
                assert!((5..=30).contains(&ran), "{spec} on {cpus}: {ran} ms");
            }
        }
    }
}

/// Point 2 of `overdue.bpf.h`: an overdue task that is pinned waits for its CPU only and does not hold up the tasks
/// queued behind it.
#[test]
fn overdue_task_runs_on_its_allowed_cpu() {
    // One cache per CPU, and therefore one queue per CPU in the policies that have a queue per cache.
    let shape = "node:2 l3:2 core:1 pu:1";
    for spec in overdue() {
        let none = World::new(spec, shape, 1000);
        let bound = (0..4).rev().map(|cpu| TaskAttributes { allowed: only(&[cpu]), ..light(&none) });
        let (mut world, light) = beside_heavy_ones(spec, 4, shape, bound.collect());
        for waited in longest_waits(&mut world, &light, 40_000) {
            assert!((9_000..=11_200).contains(&waited), "{spec}: {waited} ms");
        }
    }
}

/// Point 2 of `overdue.bpf.h`: tasks of the root cgroup are scanned as well, beside heavier tasks of the root and a
/// cgroup of the highest weight.
#[test]
fn root_cgroup_task_runs_every_11_s_beside_heavy_tasks() {
    for spec in overdue() {
        let mut world = World::new(spec, "node:1 core:1 pu:1", 1000);
        let heavy = TaskAttributes { nice: -20, ..world.attributes() };
        let attributes = vec![light(&world), heavy.clone(), heavy.clone(), heavy];
        let tasks = world.start(attributes);
        let group = world.group(CgroupId::ROOT, "heavy", 10_000);
        world.place(&tasks[3..], group);
        let waited = longest_waits(&mut world, &tasks[..1], 60_000)[0];
        assert!(waited <= 11_200, "{spec}: {waited} ms");
    }
}

/// Unit test of the header: which tasks are overdue and which CPU takes them, to the nanosecond.
#[test]
fn overdue_header_finds_tasks_after_10_s() {
    headers::run_header_test("overdue");
}
