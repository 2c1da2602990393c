// SPDX-License-Identifier: GPL-2.0-only
//! Properties of every policy: it loads in all supported kernels, on machines of every size, and schedules all tasks.

use crate::world::World;
use ids::TaskId;
use kernel_model::CgroupId;
use machine_model::Machine;

#[test]
fn every_policy_loads_and_schedules_in_6_12_and_7_2() {
    for policy in policies::all() {
        for version in [(6, 12), (7, 2)] {
            let mut world = World::on(policy.name, Machine::from_synthetic("node:1 core:2 pu:2").unwrap(), version);
            let tasks = world.start(vec![world.attributes(); 6]);
            world.run_ms(1_000);
            for task in tasks {
                assert!(world.ran_ms(task) > 400, "{} {version:?}: {}", policy.name, world.ran_ms(task));
            }
        }
    }
}

/// Running, queued and sleeping tasks may be moved to another cgroup. Each policy decides what a cgroup's weight
/// means.
#[test]
fn every_policy_schedules_on_while_tasks_move_between_cgroups() {
    for policy in policies::all() {
        let mut world = World::new(policy.name, "node:1 core:2 pu:1", 250);
        let outer = world.group(CgroupId::ROOT, "outer", 300);
        let groups = [CgroupId::ROOT, outer, world.group(outer, "inner", 50)];
        let tasks = world.start(vec![world.attributes(); 5]);
        world.run_ms(50);
        let sleeper = world.running(0);
        world.block(sleeper);
        for turn in 0..30 {
            world.place(&tasks, groups[turn % 3]);
            world.run_ms(20);
        }
        world.wake(1, sleeper, false);
        // The run is long enough for the lottery policies, whose quantum is 100 ms.
        world.run_ms(10_000);
        for task in &tasks {
            assert!(world.ran_ms(*task) > 2_000, "{}: {}", policy.name, world.ran_ms(*task));
        }
    }
}

#[test]
fn every_policy_leaves_no_cpu_idle_with_one_task_per_cpu() {
    for policy in policies::all() {
        for shape in ["node:1 core:1 pu:1", "node:2 l3:4 core:8 pu:2", "node:8 core:32 pu:2"] {
            let mut world = World::new(policy.name, shape, 250);
            let cpus = world.cpus();
            world.start(vec![world.attributes(); cpus as usize]);
            let idle = (0..cpus).find(|cpu| world.running(*cpu) == TaskId::NONE);
            assert_eq!(idle, None, "{} on {shape}", policy.name);
        }
    }
}

#[test]
fn every_policy_runs_pinned_tasks_on_the_last_of_4096_cpus() {
    for policy in policies::all() {
        let mut world = World::new(policy.name, "node:8 core:256 pu:2", 250);
        let tasks = world.start(vec![world.pinned(4095, 0), world.pinned(4094, 0)]);
        let cpus: Vec<_> = tasks.iter().map(|task| world.cpu_of(*task)).collect();
        assert_eq!(cpus, [Some(4095), Some(4094)], "{}", policy.name);
    }
}
