// SPDX-License-Identifier: GPL-2.0-only
//! The rules of `policies/fifo`.

use crate::world::World;
use ids::TaskId;

/// For how much of the time all tasks of the first of two jobs run, in percent: each of so many CPUs has a task of either, and
/// gives them turns for itself, which begin at any time.
fn whole_by_chance(cpus: u32, draws: u64) -> f64 {
    const SLICE_MS: u64 = 20;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) % below
    };
    let mut whole = 0;
    for _ in 0..draws {
        let mut world = World::new("fifo", &format!("node:1 core:{cpus} pu:1"), 1000);
        // Both tasks of a CPU come at its time within two slices, and which of them comes first is drawn as well.
        let phases: Vec<(u64, bool)> = (0..cpus).map(|_| (draw(2 * SLICE_MS), draw(2) == 0)).collect();
        let mut first = vec![];
        for ms in 0..2 * SLICE_MS {
            for (cpu, (_, is_first)) in (0..cpus).zip(&phases).filter(|(_, (phase, _))| *phase == ms) {
                let attributes = [world.pinned(cpu, 0), world.pinned(cpu, 0)];
                let tasks = attributes.map(|attributes| {
                    let task = world.kernel.fork(ids::CpuId(cpu), attributes).unwrap();
                    world.kernel.wake_new(ids::CpuId(cpu), task);
                    world.settle();
                    task
                });
                first.push(tasks[usize::from(!is_first)]);
            }
            world.run_ms(1);
        }
        for _ in 0..2 * SLICE_MS {
            whole += u64::from(first.iter().all(|task| world.cpu_of(*task).is_some()));
            world.run_ms(1);
        }
    }
    100.0 * whole as f64 / (draws * 2 * SLICE_MS) as f64
}

/// What `gang` is for: where each CPU takes turns for itself a job of P tasks is whole for 2^-P of the time, 6.25 % on 4 CPUs
/// and 0.39 % on 8. `gang` has them together in all of their row's time (`a_job_runs_as_a_whole_or_not_at_all`).
#[test]
fn without_rows_a_job_is_whole_by_chance() {
    for (cpus, draws, within) in [(2, 400, 3.0), (4, 600, 1.4), (8, 600, 0.3)] {
        let (found, due) = (whole_by_chance(cpus, draws), 100.0 / f64::from(1 << cpus));
        assert!((found - due).abs() < within, "{cpus} CPUs: {found:.2} %, not {due:.2}");
    }
}

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
