// SPDX-License-Identifier: GPL-2.0-only
//! The deadline class without a scheduler: constant bandwidth, throttling, admission, CPU selection, push and pull.

use crate::bench::{Bench, TICK, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId};
use kernel_model::{Leave, Refusal, TaskAttributes};

fn bench(cpus: u32) -> Bench {
    Bench::load(flat(cpus), &probe(&[])).expect("the probe loads")
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

/// A reservation of `runtime` in each `period` ms.
fn reservation(runtime: u64, period: u64) -> Policy {
    Policy::Deadline { runtime: ms(runtime), deadline: ms(period), period: ms(period) }
}

/// Creates and wakes a task.
fn start(bench: &mut Bench, name: &str, policy: Policy) -> TaskId {
    let task = bench.fork(name, "", policy, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

fn current(bench: &Bench, cpu: u32) -> TaskId {
    bench.kernel.current(CpuId(cpu))
}

/// Lets time pass in steps of 0.1 ms, with timers and with ticks on all CPUs; returns the time for which each task ran.
fn run(bench: &mut Bench, cpus: u32, time: Nanos, tasks: &[TaskId]) -> Vec<Nanos> {
    let step = Nanos::from_us(100);
    let mut ran = vec![Nanos::ZERO; tasks.len()];
    for number in 0..time.0 / step.0 {
        for cpu in 0..cpus {
            if let Some(at) = tasks.iter().position(|&task| task == current(bench, cpu)) {
                ran[at] += step;
            }
        }
        bench.pass_with_timers(step);
        if ((number + 1) * step.0).is_multiple_of(TICK.0) {
            for cpu in 0..cpus {
                bench.kernel.tick(CpuId(cpu));
                bench.settle();
            }
        }
        bench.kernel.check();
    }
    ran
}

#[test]
fn q1_task_that_never_sleeps_gets_its_runtime_in_each_period() {
    let mut bench = bench(1);
    let task = start(&mut bench, "d", reservation(10, 100));
    assert_eq!(run(&mut bench, 1, ms(5_000), &[task]), [ms(500)]);
    assert_eq!(current(&bench, 0), task, "its timer has just fired");
}

#[test]
fn q1_wakeup_keeps_runtime_and_deadline_only_within_the_bandwidth() {
    // 10 ms in 100 ms: after 4 ms of work, 6 ms are left. They fit as long as the deadline is 60 ms ahead.
    for (slept, left) in [(10, 6), (35, 6), (37, 10), (120, 10)] {
        let mut bench = bench(1);
        let task = start(&mut bench, "d", reservation(10, 100));
        bench.pass_with_timers(ms(4));
        bench.block(task);
        bench.pass_with_timers(ms(slept));
        bench.wake(task);
        bench.pass_with_timers(ms(left) - Nanos(1));
        assert_eq!(current(&bench, 0), task, "slept {slept} ms");
        bench.pass_with_timers(Nanos(1));
        assert_eq!(current(&bench, 0), TaskId::NONE, "slept {slept} ms");
    }
}

#[test]
fn q1_constrained_deadline_gets_less_runtime_instead_of_a_new_period() {
    let mut bench = bench(1);
    let policy = Policy::Deadline { runtime: ms(10), deadline: ms(20), period: ms(100) };
    let task = start(&mut bench, "d", policy);
    bench.pass_with_timers(ms(1));
    bench.block(task);
    bench.pass_with_timers(ms(9));
    // 9 ms are left in the 10 ms until the deadline, where the density of 1/2 allows 5 ms.
    bench.wake(task);
    let ran = run(&mut bench, 1, ms(90), &[task]);
    assert_eq!(ran, [ms(5)]);
    assert_eq!(current(&bench, 0), task, "the next period begins after 100 ms");
    bench.block(task);
    bench.pass_with_timers(ms(50));
    bench.wake(task);
    assert_eq!(current(&bench, 0), TaskId::NONE, "after its deadline it waits for the next period");
    bench.pass_with_timers(ms(50));
    assert_eq!(current(&bench, 0), task);
}

#[test]
fn q2_yield_gives_up_the_runtime_until_the_next_period() {
    let mut bench = bench(1);
    let task = start(&mut bench, "d", reservation(10, 100));
    bench.pass_with_timers(ms(2));
    bench.leave(task, Leave::Yield);
    assert_eq!(current(&bench, 0), TaskId::NONE);
    bench.pass_with_timers(ms(98) - Nanos(1));
    assert_eq!(current(&bench, 0), TaskId::NONE);
    bench.pass_with_timers(Nanos(1));
    assert_eq!(current(&bench, 0), task);
    assert_eq!(run(&mut bench, 1, ms(100), &[task]), [ms(10)]);
}

#[test]
fn q2_task_throttled_when_it_blocks_waits_for_the_timer() {
    let mut bench = bench(1);
    let task = start(&mut bench, "d", reservation(10, 100));
    bench.pass(ms(11));
    bench.block(task);
    bench.pass_with_timers(ms(20));
    bench.wake(task);
    assert_eq!(current(&bench, 0), TaskId::NONE);
    bench.kernel.check();
    assert_eq!(run(&mut bench, 1, ms(100), &[task]), [ms(9)], "the overrun of 1 ms is paid back");
}

#[test]
fn q3_earliest_deadline_runs_and_equal_deadlines_do_not_preempt() {
    let mut bench = bench(1);
    let late = start(&mut bench, "late", reservation(30, 100));
    let early = start(&mut bench, "early", reservation(10, 50));
    assert_eq!(current(&bench, 0), early);
    let equal = start(&mut bench, "equal", reservation(5, 50));
    assert_eq!(current(&bench, 0), early);
    let ran = run(&mut bench, 1, ms(50), &[late, early, equal]);
    assert_eq!(ran, [ms(30), ms(10), ms(5)]);
}

#[test]
fn q4_admission_limits_the_bandwidth_of_all_reservations() {
    let mut bench = bench(2);
    let attributes = |runtime, cpus: &str| TaskAttributes {
        name: "d".into(),
        policy: reservation(runtime, 100),
        nice: 0,
        allowed: cpus.parse().unwrap(),
        kernel_thread: false,
        own_cpu: None,
        thread: false,
        parent: None,
        identity: kernel_model::Identity::default(),
    };
    // 2 CPUs, each with a fair server of 5 %.
    start(&mut bench, "first", reservation(100, 100));
    assert_eq!(bench.kernel.admits(&attributes(90, "0-1")), Ok(()));
    let refused = Refusal::Bandwidth { wanted: 909_999, used: 1_099_998, limit: 2_000_000 };
    assert_eq!(bench.kernel.admits(&attributes(91, "0-1")), Err(refused));
    let other = bench.fork("other", "", Policy::Other, 0);
    assert_eq!(bench.kernel.set_policy(CpuId(0), other, reservation(91, 100), 0), Err(-16));
    assert_eq!(bench.kernel.set_policy(CpuId(0), other, reservation(90, 100), 0), Ok(()));
    assert_eq!(bench.kernel.admits(&attributes(1, "0-1")).map_err(Refusal::errno), Err(-16));
    // A task that leaves the class counts until its 0-lag time.
    bench.kernel.wake_new(CpuId(0), other);
    bench.settle();
    bench.kernel.set_policy(CpuId(0), other, Policy::Other, 0).unwrap();
    bench.settle();
    assert_eq!(bench.kernel.admits(&attributes(50, "0-1")).map_err(Refusal::errno), Ok(()), "runtime is untouched");
}

#[test]
fn q4_affinity_of_a_deadline_task_covers_all_cpus() {
    let mut bench = bench(2);
    let pinned = bench.task("pinned", "0");
    assert_eq!(bench.kernel.set_policy(CpuId(0), pinned, reservation(1, 100), 0), Err(-1));
    let task = start(&mut bench, "d", reservation(10, 100));
    assert_eq!(bench.kernel.set_affinity(CpuId(0), task, &"0".parse().unwrap()), Err(-16));
}

#[test]
fn q5_waking_tasks_spread_over_cpus_without_deadline_tasks() {
    let mut bench = bench(3);
    let tasks = ["a", "b", "c"].map(|name| start(&mut bench, name, reservation(10, 16)));
    for _ in 0..50 {
        let on: std::collections::BTreeSet<_> = tasks.iter().map(|&task| bench.kernel.task_cpu(task)).collect();
        assert_eq!(on.len(), 3);
        bench.pass_with_timers(ms(10));
        for task in tasks {
            let cpu = bench.kernel.task_cpu(task);
            if bench.kernel.current(cpu) == task {
                bench.block(task);
            }
        }
        bench.pass_with_timers(ms(6));
        tasks.iter().for_each(|&task| bench.wake(task));
        bench.kernel.check();
    }
}

#[test]
fn q5_later_deadline_is_pushed_to_the_cpu_with_the_latest_deadline() {
    let mut bench = bench(2);
    let [long, short] = [200, 100].map(|period| start(&mut bench, "d", reservation(50, period)));
    let (there, here) = (bench.kernel.task_cpu(long), bench.kernel.task_cpu(short));
    assert_ne!(there, here);
    let mid = start(&mut bench, "mid", reservation(10, 150));
    assert_eq!(bench.kernel.current(there), mid, "it preempts the latest deadline");
    assert_eq!(bench.kernel.current(here), short);
    bench.kernel.check();
    bench.block(short);
    assert_eq!(bench.kernel.current(here), long, "the CPU pulls the task that waits");
    bench.kernel.check();
}

#[test]
fn p9_fair_server_gives_50_ms_per_second_beside_a_real_time_hog() {
    let mut bench = bench(1);
    let hog = start(&mut bench, "hog", Policy::Fifo(40));
    let fair = start(&mut bench, "fair", Policy::Other);
    let first = run(&mut bench, 1, ms(950), &[hog, fair]);
    assert_eq!(first, [ms(950), Nanos::ZERO], "the server waits for its zero-laxity time");
    assert_eq!(current(&bench, 0), fair);
    let ran = run(&mut bench, 1, ms(10_000), &[hog, fair]);
    // The end of the runtime is noticed at a tick.
    assert!((ms(480)..=ms(540)).contains(&ran[1]), "{ran:?}");
    assert_eq!(ran[0] + ran[1], ms(10_000));
}

#[test]
fn p9_fair_task_that_sleeps_is_served_again_when_it_wakes() {
    let mut bench = bench(1);
    let hog = start(&mut bench, "hog", Policy::Fifo(40));
    let fair = start(&mut bench, "fair", Policy::Other);
    run(&mut bench, 1, ms(951), &[hog, fair]);
    for _ in 0..5 {
        assert_eq!(current(&bench, 0), fair);
        bench.block(fair);
        assert_eq!(current(&bench, 0), hog);
        run(&mut bench, 1, ms(1), &[hog, fair]);
        bench.wake(fair);
    }
    assert_eq!(current(&bench, 0), fair, "the server still has runtime and does not wait for zero laxity again");
}

#[test]
fn p9_fair_class_that_gets_its_runtime_by_itself_needs_no_server() {
    let mut bench = bench(1);
    let (hog, fair) = (bench.task_with("hog", "", Policy::Fifo(40), 0), start(&mut bench, "fair", Policy::Other));
    for _ in 0..50 {
        let ran = run(&mut bench, 1, ms(60), &[hog, fair]);
        assert_eq!(ran[1], ms(60));
        bench.wake(hog);
        let ran = run(&mut bench, 1, ms(900), &[hog, fair]);
        assert_eq!(ran[0], ms(900));
        bench.block(hog);
    }
}
