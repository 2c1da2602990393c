// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the rules of `policies/fifo`.

use crate::world::World;
use ids::TaskId;

/// Returns the percentage of time in which all tasks of the first of two jobs run at once. Each CPU has one task of
/// each job and alternates between them on its own, with a random phase.
fn co_run_percent(cpus: u32, draws: u64) -> f64 {
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
        // Both tasks of a CPU start at a random time within two slices; which of them is first is random as well.
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

/// Baseline for `gang`: with independent CPUs, all P tasks of a job run together for 2^-P of the time, 6.25 % on 4
/// CPUs and 0.39 % on 8. Under `gang` they run together all the time of their row
/// (`job_runs_as_a_whole_or_not_at_all`).
#[test]
fn independent_cpus_co_run_a_job_by_chance() {
    for (cpus, draws, within) in [(2, 400, 3.0), (4, 600, 1.4), (8, 600, 0.3)] {
        let (found, due) = (co_run_percent(cpus, draws), 100.0 / f64::from(1 << cpus));
        assert!((found - due).abs() < within, "{cpus} CPUs: {found:.2} %, expected {due:.2}");
    }
}

/// Points 1 and 2 of `fifo.bpf.c`: tasks run in 20 ms slices in order of arrival.
#[test]
fn tasks_run_in_20_ms_slices_in_order_of_arrival() {
    let mut world = World::new("fifo", "node:1 core:1 pu:1", 1000);
    let tasks = world.start(vec![world.attributes(); 3]);
    for turn in 0..9 {
        assert_eq!(world.running(0), tasks[turn % 3], "turn {turn}");
        world.run_ms(20);
    }
}

/// Point 3 of `fifo.bpf.c`: a wakeup goes straight to an idle CPU, the task's last one first.
#[test]
fn wakeup_goes_to_the_last_cpu_if_it_is_idle() {
    let mut world = World::new("fifo", "node:1 core:4 pu:1", 1000);
    let task = world.start(vec![world.pinned(2, 0)])[0];
    world.block(task);
    world.kernel.set_affinity(ids::CpuId(0), task, &ids::CpuSet::first_n(4)).unwrap();
    world.wake(0, task, false);
    assert_eq!(world.cpu_of(task), Some(2));
}

/// Point 4 of `fifo.bpf.c`: a wakeup does not preempt, whatever the nice values; the woken task waits for the end of
/// the slice.
#[test]
fn wakeup_does_not_preempt_within_a_slice() {
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
