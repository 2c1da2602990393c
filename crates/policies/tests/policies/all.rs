// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every policy: it loads in the kernels that Weir supports, on machines of every size, and schedules.

use crate::world::World;
use ids::TaskId;
use kernel_model::CgroupId;
use machine_model::Machine;

#[test]
fn every_policy_runs_in_old_and_new_kernels() {
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

/// Who runs, who waits and who sleeps may come to another cgroup; what its weight means is for each policy to say.
#[test]
fn every_policy_goes_on_while_tasks_move_between_cgroups() {
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
        // Some draw lots for quanta of 100 ms.
        world.run_ms(10_000);
        for task in &tasks {
            assert!(world.ran_ms(*task) > 2_000, "{}: {}", policy.name, world.ran_ms(*task));
        }
    }
}

#[test]
fn every_policy_uses_every_cpu_of_every_machine() {
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
fn every_policy_reaches_the_last_of_4096_cpus() {
    for policy in policies::all() {
        let mut world = World::new(policy.name, "node:8 core:256 pu:2", 250);
        let tasks = world.start(vec![world.pinned(4095, 0), world.pinned(4094, 0)]);
        let cpus: Vec<_> = tasks.iter().map(|task| world.cpu_of(*task)).collect();
        assert_eq!(cpus, [Some(4095), Some(4094)], "{}", policy.name);
    }
}
