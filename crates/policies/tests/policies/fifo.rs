// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/fifo`.

use crate::world::World;
use ids::TaskId;

/// Theory 1 and 2: tasks take turns of 20 ms in the order in which they came.
#[test]
fn tasks_take_turns_of_20_ms() {
    let mut world = World::new("fifo", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.attributes(); 3]);
    for turn in 0..9 {
        assert_eq!(world.running(0), tasks[turn % 3], "turn {turn}");
        world.run_ms(20);
    }
}

/// Theory 3: straight to an idle CPU, the last one first.
#[test]
fn a_wakeup_goes_to_the_last_cpu_if_it_is_idle() {
    let mut world = World::new("fifo", "node:1 core:4 pu:1", 1000);
    let task = world.start(vec![world.pinned(2, 0)])[0];
    world.block(task);
    world.kernel.set_affinity(ids::CpuId(0), task, &ids::CpuSet::first_n(4)).unwrap();
    world.wake(0, task, false);
    assert_eq!(world.cpu_of(task), Some(2));
}

/// Theory 4: a task that wakes does not interrupt, whatever its nice value; it waits for the slice to end.
#[test]
fn a_wakeup_waits_for_the_slice_to_end() {
    let mut world = World::new("fifo", "node:1 core:1 pu:1", 1000);
    let urgent = world.start(vec![world.pinned(0, -20)])[0];
    world.block(urgent);
    let hog = world.start(vec![world.pinned(0, 19)])[0];
    world.run_ms(5);
    world.wake(0, urgent, false);
    assert_eq!(world.running(0), hog);
    world.run_ms(15);
    assert_eq!(world.running(0), urgent);
    assert_ne!(urgent, TaskId::NONE);
}
