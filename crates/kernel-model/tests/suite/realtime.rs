// SPDX-License-Identifier: GPL-2.0-only
//! The real-time class without a scheduler: order of tasks, and the SCHED_RR time slice.

#[allow(dead_code)]
use crate::bench::{Bench, TICK, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::Leave;

/// SCHED_RR time slice of 100 ms, in ticks.
const QUANTUM_TICKS: u32 = 25;

fn bench(cpus: u32) -> Bench {
    Bench::load(flat(cpus), &probe(&[])).expect("the probe loads")
}

/// Creates and wakes a task.
fn start(bench: &mut Bench, name: &str, policy: Policy) -> TaskId {
    let task = bench.fork(name, "", policy, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

fn ticks(bench: &mut Bench, count: u32) {
    (0..count).for_each(|_| bench.run(&[0], TICK));
}

fn current(bench: &Bench) -> TaskId {
    bench.kernel.current(CpuId(0))
}

#[test]
fn sched_rr_tasks_alternate_every_100_ms() {
    let mut bench = bench(1);
    let tasks = ["a", "b", "c"].map(|name| start(&mut bench, name, Policy::RoundRobin(5)));
    for turn in 0..9 {
        assert_eq!(current(&bench), tasks[turn % 3], "turn {turn}");
        ticks(&mut bench, QUANTUM_TICKS - 1);
        assert_eq!(current(&bench), tasks[turn % 3], "turn {turn}, before its end");
        ticks(&mut bench, 1);
    }
}

#[test]
fn rest_of_sched_rr_slice_survives_preemption() {
    let mut bench = bench(1);
    let higher = bench.task_with("higher", "", Policy::Fifo(9), 0);
    let [a, b] = ["a", "b"].map(|name| start(&mut bench, name, Policy::RoundRobin(5)));
    // The higher task runs 0.1 ms every 28 ms. Over 3 s each of the two gets half.
    let mut ran = [0_u32; 2];
    for _ in 0..107 {
        for _ in 0..7 {
            ran[usize::from(current(&bench) == b)] += 1;
            assert!([a, b].contains(&current(&bench)));
            ticks(&mut bench, 1);
        }
        bench.wake(higher);
        assert_eq!(current(&bench), higher);
        bench.pass(Nanos::from_us(100));
        bench.block(higher);
    }
    assert!(ran[0].abs_diff(ran[1]) <= QUANTUM_TICKS, "ticks: {ran:?}");
}

#[test]
fn rest_of_sched_rr_slice_survives_sleep() {
    let mut bench = bench(1);
    let [a, b] = ["a", "b"].map(|name| start(&mut bench, name, Policy::RoundRobin(5)));
    ticks(&mut bench, QUANTUM_TICKS - 1);
    bench.block(a);
    assert_eq!(current(&bench), b);
    bench.wake(a);
    assert_eq!(current(&bench), b, "the woken task waits behind its equal");
    ticks(&mut bench, QUANTUM_TICKS);
    assert_eq!(current(&bench), a);
    ticks(&mut bench, 1);
    assert_eq!(current(&bench), b, "one tick of its slice was left");
}

#[test]
fn preempted_rt_task_queues_at_the_head_and_yielding_one_at_the_tail() {
    for policy in [Policy::Fifo(5), Policy::RoundRobin(5)] {
        let mut bench = bench(1);
        let [a, b, c] = ["a", "b", "c"].map(|name| start(&mut bench, name, policy));
        let higher = start(&mut bench, "higher", Policy::Fifo(6));
        let highest = start(&mut bench, "highest", Policy::Fifo(7));
        assert_eq!(current(&bench), highest);
        bench.block(highest);
        assert_eq!(current(&bench), higher);
        bench.block(higher);
        assert_eq!(current(&bench), a, "{policy:?}: the preempted task runs first");
        for next in [b, c, a, b] {
            let yields = current(&bench);
            bench.leave(yields, Leave::Yield);
            assert_eq!(current(&bench), next, "{policy:?}");
        }
    }
}

#[test]
fn rt_task_with_lowered_priority_queues_at_the_head_and_raised_one_at_the_tail() {
    let mut bench = bench(1);
    let top = start(&mut bench, "top", Policy::Fifo(50));
    let [_, b, c] = ["a", "b", "c"].map(|name| start(&mut bench, name, Policy::Fifo(5)));
    let high = start(&mut bench, "high", Policy::Fifo(8));
    let low = start(&mut bench, "low", Policy::Fifo(3));
    for task in [high, low, b] {
        // b changes to its own priority, so it keeps its position.
        let policy = if task == b { Policy::RoundRobin(5) } else { Policy::Fifo(5) };
        bench.kernel.set_policy(CpuId(0), task, policy, 0).unwrap();
        bench.settle();
    }
    assert_eq!(current(&bench), top);
    let mut order = Vec::new();
    for _ in 0..6 {
        let task = current(&bench);
        order.push(task);
        bench.block(task);
    }
    assert_eq!(order, [top, high, TaskId(1), b, c, low]);
}

#[test]
fn sched_rr_slice_restarts_for_a_lone_task() {
    let mut bench = bench(1);
    let alone = start(&mut bench, "alone", Policy::RoundRobin(5));
    ticks(&mut bench, QUANTUM_TICKS + 5);
    let other = start(&mut bench, "other", Policy::RoundRobin(5));
    ticks(&mut bench, QUANTUM_TICKS - 6);
    assert_eq!(current(&bench), alone);
    ticks(&mut bench, 1);
    assert_eq!(current(&bench), other);
}
