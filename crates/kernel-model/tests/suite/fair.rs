// SPDX-License-Identifier: GPL-2.0-only
//! The fair class without a scheduler: CPU shares, lag, preemption, CPU selection and balancing.

#[allow(dead_code)]
use crate::bench::{Bench, TICK, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};
use kernel_model::{Config, Leave};

fn bench(topology: Topology) -> Bench {
    bench_in((7, 2), topology)
}

/// A bench with a kernel without HRTICK, where slices end at ticks.
fn bench_of_ticks(topology: Topology) -> Bench {
    bench_in((6, 18), topology)
}

fn bench_in(version: (u16, u16), topology: Topology) -> Bench {
    Bench::load_in(version, topology, &probe(&[]), |_| ()).expect("the probe loads")
}

/// Creates and wakes a task that never sleeps.
fn hog(bench: &mut Bench, name: &str, cpus: &str, nice: i8) -> TaskId {
    let task = bench.fork(name, cpus, Policy::Other, nice);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

fn current(bench: &Bench, cpu: u32) -> TaskId {
    bench.kernel.current(CpuId(cpu))
}

/// Share of CPU 0 that a task gets in 10 s of ticks.
fn share_of(bench: &mut Bench, task: TaskId) -> f64 {
    let (step, ticks) = (Nanos::from_us(50), 2500);
    let mut steps = 0;
    for _ in 0..ticks {
        for _ in 0..TICK.0 / step.0 {
            steps += u64::from(current(bench, 0) == task);
            bench.pass_with_timers(step);
        }
        bench.kernel.tick(CpuId(0));
        bench.settle();
    }
    steps as f64 / (ticks * TICK.0 / step.0) as f64
}

#[test]
fn cpu_shares_are_proportional_to_nice_weights() {
    for (nices, expected) in [([0, 0], 0.5), ([0, 5], 1024.0 / 1359.0), ([-5, 10], 3121.0 / 3231.0)] {
        for version in [(6, 18), (7, 2)] {
            let mut bench = bench_in(version, flat(1));
            let tasks = nices.map(|nice| hog(&mut bench, "hog", "", nice));
            let share = share_of(&mut bench, tasks[0]);
            assert!((share - expected).abs() < 0.005, "{version:?}, nice {nices:?}: {share}, expected {expected}");
        }
    }
}

/// Wakes a new SCHED_BATCH task, which preempts no task.
fn batch(bench: &mut Bench) -> TaskId {
    let task = bench.fork("batch", "", Policy::Batch, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

/// `hrtick_update` and `entity_tick` of 7.2 (kernel/sched/fair.c): HRTICK is on by default since 7.1.
#[test]
fn hrtick_ends_the_slice_when_the_request_is_served_since_7_1() {
    for version in [(7, 1), (7, 2)] {
        let mut bench = bench_in(version, flat(1));
        let first = hog(&mut bench, "first", "", 0);
        bench.pass_with_timers(Nanos::from_ms(2));
        // The first task starts a new request of 0.7 ms, and its deadline arms the timer.
        let second = batch(&mut bench);
        bench.pass_with_timers(Nanos::from_us(699));
        assert_eq!(current(&bench, 0), first, "{version:?}");
        bench.pass_with_timers(Nanos::from_us(1));
        assert_eq!(current(&bench, 0), second, "{version:?}");
    }
    let mut bench = bench_of_ticks(flat(1));
    let first = hog(&mut bench, "first", "", 0);
    bench.pass_with_timers(Nanos::from_ms(2));
    let second = batch(&mut bench);
    bench.pass_with_timers(Nanos::from_ms(2));
    assert_eq!(current(&bench, 0), first, "no HRTICK before 7.1");
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), second);
}

/// `set_next_task_fair`: the timer is armed for each newly picked task.
#[test]
fn two_hogs_alternate_after_each_request_under_hrtick() {
    let mut bench = bench(flat(1));
    let (first, second) = (hog(&mut bench, "first", "", 0), batch(&mut bench));
    // The first requests have half a slice. A task that continues after its request, because the other one is not
    // eligible, waits for a tick.
    bench.run(&[0], Nanos::from_ms(40));
    let turn = current(&bench, 0);
    let ends = |bench: &mut Bench| {
        bench.pass_with_timers(Nanos::from_us(1));
        current(bench, 0) != turn
    };
    assert!((0..1_000).any(|_| ends(&mut bench)), "the slice ends within a request");
    for _ in 0..10 {
        let turn = current(&bench, 0);
        bench.pass_with_timers(Nanos::from_us(699));
        assert_eq!(current(&bench, 0), turn, "{first} and {second}");
        bench.pass_with_timers(Nanos::from_us(1));
        assert_ne!(current(&bench, 0), turn, "{first} and {second}");
    }
}

/// `hrtick_start`.
#[test]
fn hrtick_is_armed_for_at_least_10_us() {
    let mut bench = bench(flat(1));
    let first = hog(&mut bench, "first", "", 0);
    // Its first request is 350 us.
    bench.pass_with_timers(Nanos::from_us(345));
    let second = batch(&mut bench);
    bench.pass_with_timers(Nanos::from_us(9));
    assert_eq!(current(&bench, 0), first);
    bench.pass_with_timers(Nanos::from_us(1));
    assert_eq!(current(&bench, 0), second);
}

/// `hrtick`: the timer stays armed when a higher class takes the CPU, and then acts as a tick of that class.
#[test]
fn hrtick_that_fires_in_another_class_counts_as_a_tick() {
    let mut bench = bench(flat(1));
    hog(&mut bench, "first", "", 0);
    hog(&mut bench, "second", "", 0);
    let quanta = |bench: &mut Bench, name: &str| {
        let task = bench.fork(name, "", Policy::RoundRobin(1), 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        task
    };
    let [a, b] = ["a", "b"].map(|name| quanta(&mut bench, name));
    bench.pass_with_timers(Nanos::from_ms(3));
    // The SCHED_RR slice has 25 ticks, one of which was the timer.
    for _ in 0..23 {
        bench.run(&[0], TICK);
    }
    assert_eq!(current(&bench, 0), a);
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), b);
}

/// Two hogs on CPU 1: the running one is in the last 0.1 ms of its 1.4 ms slice and ahead of the average. The
/// sleeping third task would be picked before both.
fn near_the_end_of_a_slice(topology: Topology) -> (Bench, TaskId, TaskId) {
    let mut bench = bench(topology);
    let woken = bench.task_with("woken", "1", Policy::Other, -10);
    for name in ["first", "second"] {
        hog(&mut bench, name, "1", 0);
    }
    bench.run(&[1], Nanos::from_ms(40));
    let turn = current(&bench, 1);
    let ends = |bench: &mut Bench| {
        bench.pass_with_timers(Nanos::from_us(1));
        current(bench, 1) != turn
    };
    assert!((0..2_000).any(|_| ends(&mut bench)), "the slice ends within a request");
    bench.pass_with_timers(Nanos::from_us(1_300));
    let running = current(&bench, 1);
    assert_ne!(running, turn);
    (bench, running, woken)
}

/// `resched_curr_lazy` of 7.2 (kernel/sched/core.c) sends no IPI.
#[test]
fn remote_wakeup_preempts_at_the_next_interrupt_since_7_0() {
    let interrupts: [fn(&mut Bench); 3] = [
        |bench| bench.pass_with_timers(Nanos::from_us(50)),
        |bench| bench.kernel.tick(CpuId(1)),
        |bench| {
            let other = bench.fork("other", "0", Policy::Other, 0);
            bench.kernel.wake_new(CpuId(1), other);
        },
    ];
    for (number, interrupt) in interrupts.into_iter().enumerate() {
        let (mut bench, running, woken) = near_the_end_of_a_slice(flat(2));
        bench.wake_from(0, woken, false);
        bench.pass_with_timers(Nanos::from_us(50));
        assert_eq!(current(&bench, 1), running);
        interrupt(&mut bench);
        bench.settle();
        assert_eq!(current(&bench, 1), woken, "interrupt {number}");
    }
}

/// `__resched_curr` on the CPU itself, and `ttwu_queue_cond` for a CPU with another LLC, which gets an IPI to wake
/// the task.
#[test]
fn wakeup_on_the_same_cpu_or_from_another_llc_preempts_at_once() {
    for (from, caches) in [(1, [0, 0]), (0, [0, 1])] {
        let (mut bench, running, woken) = near_the_end_of_a_slice(Topology::of_groups(&[0, 1], &caches, &[0; 2]));
        assert_eq!(current(&bench, 1), running);
        bench.wake_from(from, woken, false);
        assert_eq!(current(&bench, 1), woken, "from CPU {from}");
    }
}

/// `hrtick_start` interrupts the CPU whose timer it arms, and on its way out that CPU honors the lazy reschedule.
#[test]
fn ipi_that_arms_hrtick_triggers_the_lazy_reschedule() {
    let mut bench = bench(flat(2));
    let woken = bench.task_with("woken", "1", Policy::Other, -10);
    let alone = hog(&mut bench, "alone", "1", 0);
    bench.run(&[1], Nanos::from_ms(40));
    assert_eq!(current(&bench, 1), alone);
    bench.wake_from(0, woken, false);
    assert_eq!(current(&bench, 1), woken);
}

#[test]
fn ineligible_current_task_is_preempted_before_its_deadline() {
    let mut bench = bench_of_ticks(flat(1));
    let (hog, task) = (hog(&mut bench, "hog", "", 0), hog(&mut bench, "task", "", 0));
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), task, "the hog has used up its slice");
    bench.block(task);
    // The hog was just picked, and its request ends in 0.7 ms. But it is 4 ms ahead of the task.
    bench.pass(Nanos::from_us(100));
    assert_eq!(current(&bench, 0), hog);
    bench.wake(task);
    assert_eq!(current(&bench, 0), task);
}

#[test]
fn eligible_current_task_is_protected_until_its_deadline() {
    let mut bench = bench(flat(1));
    let [behind, heavy] = [("behind", 0), ("heavy", -20)].map(|(name, nice)| {
        let task = bench.task_with(name, "", Policy::Other, nice);
        assert_eq!(current(&bench, 0), TaskId::NONE);
        task
    });
    let hog = hog(&mut bench, "hog", "", 0);
    bench.run(&[0], Nanos::from_ms(40));
    bench.pass(Nanos::from_us(100));
    bench.wake(behind);
    assert_eq!(current(&bench, 0), hog, "both are at the average, and the hog's deadline is 0.1 ms earlier");
    bench.pass(Nanos::from_ms(1));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), behind, "the hog is 1 ms ahead");
    // The heavy task starts at the average, 0.5 ms ahead. Its request is 8 us, so its deadline is the earlier one.
    bench.pass(Nanos::from_us(100));
    bench.wake(heavy);
    assert_eq!(current(&bench, 0), behind, "it has run 0.1 ms of its 0.7 ms");
    bench.pass(Nanos::from_us(700));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), heavy);
}

#[test]
fn woken_task_with_zero_lag_competes_by_deadline() {
    for (pass_us, preempts) in [(100, false), (0, true)] {
        let mut bench = bench(flat(1));
        let task = bench.task("task", "");
        let hog = hog(&mut bench, "hog", "", 0);
        bench.run(&[0], Nanos::from_ms(40));
        bench.pass(Nanos::from_us(pass_us));
        bench.wake(task);
        // Both deadlines are one slice after the start of the request. Of equal deadlines, that of the waiting task
        // wins.
        let expected = if preempts { task } else { hog };
        assert_eq!(current(&bench, 0), expected, "{pass_us} us after the hog's request began");
        bench.run(&[0], TICK);
        assert_eq!(current(&bench, 0), if preempts { hog } else { task });
    }
}

#[test]
fn task_that_sleeps_with_negative_lag_stays_queued_until_picked() {
    let mut bench = bench(flat(2));
    let task = hog(&mut bench, "task", "0-1", 0);
    let other = hog(&mut bench, "other", "1", 0);
    let stay = hog(&mut bench, "stay", "0", 0);
    assert_eq!((current(&bench, 0), current(&bench, 1)), (task, other));
    bench.pass(Nanos::from_ms(2));
    bench.block(task);
    bench.block(other);
    assert_eq!(current(&bench, 0), stay);
    // CPU 1 is idle now, but the task is still on the queue of CPU 0, where it is 2 ms ahead (delayed dequeue).
    bench.wake(task);
    assert_eq!((bench.kernel.task_cpu(task), current(&bench, 1)), (CpuId(0), TaskId::NONE));
    // No tick is delivered: at one, CPU 1 would pull one of the two tasks.
    bench.pass(TICK);
    bench.leave(stay, Leave::Preempt);
    assert_eq!(current(&bench, 0), task, "the other has caught up");
    bench.block(task);
    bench.wake(task);
    assert_eq!(
        (current(&bench, 0), current(&bench, 1)),
        (stay, task),
        "with zero lag the task searches for an idle CPU"
    );
}

#[test]
fn negative_lag_survives_a_short_sleep() {
    let mut bench = bench(flat(1));
    let (first, second) = (hog(&mut bench, "first", "", 0), hog(&mut bench, "second", "", 0));
    bench.pass(Nanos::from_ms(3));
    bench.block(first);
    // A wakeup would clear the first task's negative lag only after the second one has run for 3 ms.
    bench.pass(Nanos::from_ms(1));
    bench.wake(first);
    assert_eq!(current(&bench, 0), second);
    bench.pass(Nanos::from_ms(1));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), second, "the slice is over, but the first task is not eligible yet");
    bench.pass(Nanos::from_ms(2));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), first);
}

#[test]
fn woken_task_searches_its_llc_and_new_task_the_machine() {
    let two_caches = || Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0; 4]);
    let mut bench = bench(two_caches());
    let task = bench.task("task", "");
    assert_eq!(bench.kernel.task_cpu(task), CpuId(0));
    let first = hog(&mut bench, "first", "0", 0);
    bench.wake(task);
    assert_eq!(current(&bench, 1), task, "the idle CPU in the same LLC");
    bench.block(task);
    let second = hog(&mut bench, "second", "1", 0);
    assert_eq!([current(&bench, 0), current(&bench, 1)], [first, second]);
    bench.wake(task);
    assert!(bench.kernel.task_cpu(task).0 < 2, "not an idle CPU of the other LLC");
    let new = hog(&mut bench, "new", "", 0);
    assert_eq!(current(&bench, 2), new);
}

/// CPU 0 is held by an unmodelled context, which keeps running.
#[test]
fn new_task_avoids_a_cpu_held_by_an_unmodelled_context() {
    for policy in [Policy::Other, Policy::Fifo(1)] {
        let mut bench = bench(flat(2));
        let task = bench.fork("new", "", policy, 0);
        bench.kernel.occupy(CpuId(0));
        bench.kernel.wake_new(CpuId(0), task);
        assert_eq!(bench.kernel.task_cpu(task), CpuId(1), "{policy:?}");
    }
}

#[test]
fn newidle_cpu_pulls_from_the_cpu_with_most_waiting_tasks() {
    let mut bench = bench(flat(3));
    let [a, b, c] = ["a", "b", "c"].map(|name| hog(&mut bench, name, "", 0));
    assert_eq!([0, 1, 2].map(|cpu| current(&bench, cpu)), [a, b, c]);
    let alone = hog(&mut bench, "alone", "0,2", 0);
    let waits = hog(&mut bench, "waits", "1,2", 0);
    hog(&mut bench, "pinned", "1", 0);
    assert_eq!([alone, waits].map(|task| bench.kernel.task_cpu(task)), [CpuId(0), CpuId(1)]);
    bench.block(c);
    // Two tasks wait for CPU 1, but one of them is pinned there.
    assert_eq!(current(&bench, 2), waits);
    bench.block(waits);
    assert_eq!(current(&bench, 2), alone);
    bench.block(alone);
    assert_eq!(current(&bench, 2), TaskId::NONE);
}

/// A task that waits on CPU 0 behind its running task and may also run on the idle CPU 1.
fn waits_on_cpu_0(bench: &mut Bench, name: &str) -> TaskId {
    let task = hog(bench, name, "0", 0);
    bench.kernel.set_affinity(CpuId(0), task, &"0-1".parse().unwrap()).unwrap();
    bench.settle();
    task
}

#[test]
fn busy_cpu_kicks_an_idle_cpu_to_balance_at_its_tick() {
    let mut bench = bench_of_ticks(flat(2));
    let here = hog(&mut bench, "here", "0", 0);
    let [first, second] = ["first", "second"].map(|name| waits_on_cpu_0(&mut bench, name));
    assert_eq!([0, 1].map(|cpu| current(&bench, cpu)), [here, TaskId::NONE]);
    // The tick switches CPU 0 to the first task before CPU 1 balances.
    bench.run(&[0], TICK);
    assert_eq!([0, 1].map(|cpu| current(&bench, cpu)), [first, second]);
}

#[test]
fn cache_hot_task_is_moved_after_two_failed_balance_attempts() {
    let mut bench = bench_of_ticks(flat(2));
    waits_on_cpu_0(&mut bench, "a");
    waits_on_cpu_0(&mut bench, "b");
    // The first task got CPU 0 when it was alone, and has lost it at the tick.
    for (tick, comes) in [(1, false), (2, false), (3, true)] {
        bench.run(&[0], TICK);
        assert_eq!(current(&bench, 1) != TaskId::NONE, comes, "tick {tick}");
    }
}

/// After an idle balance the kernel waits 16 intervals of 4 ms, unless a CPU becomes idle meanwhile.
#[test]
fn newly_idle_cpu_is_noticed_at_one_tick_and_gets_a_task_at_the_next() {
    for ticked in [true, false] {
        let mut bench = bench_with_newidle_ratio(flat(2), 0);
        hog(&mut bench, "here", "0", 0);
        let tasks = ["a", "b", "c", "d", "e"].map(|name| waits_on_cpu_0(&mut bench, name));
        bench.run(&[0], TICK);
        let there = |bench: &Bench| tasks.iter().filter(|&&task| bench.kernel.task_cpu(task) == CpuId(1)).count();
        let moved = there(&bench);
        assert_eq!(moved, 3, "half of the six tasks");
        if ticked {
            bench.run(&[1], TICK);
            assert_eq!(there(&bench), moved);
        }
        for _ in 0..moved {
            let next = current(&bench, 1);
            bench.block(next);
        }
        assert_eq!(current(&bench, 1), TaskId::NONE, "no newidle search with a ratio of 0");
        for (tick, comes) in [(1, false), (2, ticked), (3, ticked)] {
            bench.run(&[0], TICK);
            assert_eq!(current(&bench, 1) != TaskId::NONE, comes, "ticked: {ticked}, tick {tick}");
        }
    }
}

/// A tick during which no task waited, before the first idle balance, also makes the CPU count as newly idle.
#[test]
fn cpu_that_ticked_before_the_first_idle_balance_counts_as_newly_idle() {
    for ticked in [true, false] {
        let mut bench = bench_with_newidle_ratio(flat(3), 0);
        let there = hog(&mut bench, "there", "1", 0);
        if ticked {
            bench.run(&[1], TICK);
        }
        hog(&mut bench, "here", "0", 0);
        for name in ["a", "b", "c", "d", "e"] {
            let task = hog(&mut bench, name, "0", 0);
            bench.kernel.set_affinity(CpuId(0), task, &"0-2".parse().unwrap()).unwrap();
            bench.settle();
        }
        // Three CPUs balance every 6 ms, which is the second tick.
        (0..2).for_each(|_| bench.run(&[0], TICK));
        assert_ne!(current(&bench, 2), TaskId::NONE, "idle balancing moved a task to CPU 2");
        bench.block(there);
        assert_eq!(current(&bench, 1), TaskId::NONE, "no newidle search with a ratio of 0");
        (0..2).for_each(|_| bench.run(&[0], TICK));
        assert_eq!(current(&bench, 1) != TaskId::NONE, ticked, "ticked: {ticked}");
    }
}

/// A 6.18 kernel with this initial newidle ratio (of 1024).
fn bench_with_newidle_ratio(topology: Topology, newidle_ratio: u32) -> Bench {
    let config = Config {
        topology,
        hz: 250,
        version: (6, 18),
        budget: 1_000_000,
        seed: 1,
        newidle_ratio: Some(newidle_ratio),
        autogroup: false,
        types: None,
    };
    Bench::load_as(config, &probe(&[]), |_| ()).expect("the probe loads")
}

#[test]
fn newidle_search_probability_is_the_newidle_ratio() {
    // The bounds are three standard deviations; after 512 calls the ratio would change.
    for (ratio, least, most) in [(0, 0, 3), (512, 79, 121), (1024, 200, 200)] {
        let mut bench = bench_with_newidle_ratio(flat(2), ratio);
        hog(&mut bench, "here", "0", 0);
        let there = bench.task("there", "1");
        let waits = waits_on_cpu_0(&mut bench, "waits");
        let mut pulled = 0;
        for _ in 0..200 {
            bench.wake(there);
            bench.block(there);
            if bench.kernel.task_cpu(waits) == CpuId(1) {
                pulled += 1;
                for cpus in ["0", "0-1"] {
                    bench.kernel.set_affinity(CpuId(0), waits, &cpus.parse().unwrap()).unwrap();
                    bench.settle();
                }
            }
        }
        assert!((least..=most).contains(&pulled), "{pulled} of 200 with a ratio of {ratio}");
    }
}

#[test]
fn cache_hot_task_is_not_pulled_within_500_us() {
    for (pass_us, pulled) in [(400, false), (600, true)] {
        let mut bench = bench_of_ticks(flat(2));
        let [a, b] = ["a", "b"].map(|name| hog(&mut bench, name, "0", 0));
        let there = hog(&mut bench, "there", "1", 0);
        bench.run(&[0, 1], TICK);
        assert_eq!(current(&bench, 0), b, "b has replaced a at the tick");
        for task in [a, b] {
            bench.kernel.set_affinity(CpuId(0), task, &"0-1".parse().unwrap()).unwrap();
            bench.settle();
        }
        bench.pass(Nanos::from_us(pass_us));
        bench.block(there);
        assert_eq!(current(&bench, 1), if pulled { a } else { TaskId::NONE }, "{pass_us} us after it ran");
    }
}

/// The less loaded of two busy CPUs pulls every 28 ms, and a task heavier than the imbalance only at the second
/// attempt.
#[test]
fn three_hogs_share_two_cpus_equally() {
    let mut bench = bench_of_ticks(flat(2));
    let hogs = ["a", "b", "c"].map(|name| hog(&mut bench, name, "", 0));
    let mut ticks = [0; 3];
    for _ in 0..2500 {
        for cpu in 0..2 {
            ticks[hogs.iter().position(|&hog| hog == current(&bench, cpu)).expect("a hog runs")] += 1;
        }
        bench.run(&[0, 1], TICK);
    }
    assert!(ticks.iter().all(|ticks| (1500..1850).contains(ticks)), "{ticks:?} of 5000");
}

#[test]
fn fully_idle_core_is_preferred() {
    // CPUs 0 and 1 share a core, CPUs 2 and 3 another.
    let mut bench = bench(Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]));
    let task = bench.task("task", "");
    let first = hog(&mut bench, "first", "0", 0);
    bench.wake(task);
    assert_eq!(
        [0, 1, 2].map(|cpu| current(&bench, cpu)),
        [first, TaskId::NONE, task],
        "CPU 1 is idle, but its sibling is busy"
    );
    let new = hog(&mut bench, "new", "", 0);
    assert_eq!(current(&bench, 1), new, "all cores are busy, and CPU 1 is nearest");
}

#[test]
fn yield_gives_up_the_rest_of_the_request() {
    let mut bench = bench(flat(1));
    let tasks = [hog(&mut bench, "a", "", 0), hog(&mut bench, "b", "", 0)];
    for turn in 0..6 {
        assert_eq!(current(&bench, 0), tasks[turn % 2], "turn {turn}");
        bench.leave(tasks[turn % 2], Leave::Yield);
    }
}

#[test]
fn ineligible_task_waits_despite_the_earliest_deadline() {
    let mut bench = bench_of_ticks(flat(1));
    let (heavy, light) = (hog(&mut bench, "heavy", "", -10), hog(&mut bench, "light", "", 10));
    assert_eq!(current(&bench, 0), heavy);
    // 4 ms are 0.43 ms in the heavy task's virtual time. Its next request ends 0.08 ms later, that of the light task
    // at 3.26 ms.
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), light);
}

#[test]
fn first_request_of_a_new_task_is_half_a_slice() {
    for (version, pass_us, preempts) in [((6, 18), 200, true), ((6, 18), 500, false), ((7, 2), 200, false)] {
        let mut bench = bench_in(version, flat(1));
        let hog = hog(&mut bench, "hog", "", 0);
        (0..10).for_each(|_| bench.run(&[0], TICK));
        bench.pass(Nanos::from_us(pass_us));
        // The request of the hog ends at 700 us, that of the new task 350 us from now. Since 7.0 a new task waits
        // anyway.
        let new = self::hog(&mut bench, "new", "", 0);
        assert_eq!(current(&bench, 0), if preempts { new } else { hog }, "{version:?} after {pass_us} us");
    }
}

#[test]
fn longest_waiting_task_is_pulled_first() {
    let mut bench = bench(flat(2));
    hog(&mut bench, "here", "0", 0);
    let there = ["b", "c"].map(|name| hog(&mut bench, name, "1", 0));
    let [first, second] = ["first", "second"].map(|name| hog(&mut bench, name, "0", 0));
    for task in [first, second] {
        bench.kernel.set_affinity(CpuId(0), task, &"0-1".parse().unwrap()).unwrap();
    }
    there.into_iter().for_each(|task| bench.block(task));
    assert_eq!(current(&bench, 1), first);
    bench.block(first);
    assert_eq!(current(&bench, 1), second);
}

#[test]
fn lag_moves_with_a_migrated_task() {
    let mut bench = bench(flat(2));
    hog(&mut bench, "here", "0", 0);
    let there = hog(&mut bench, "there", "1", 0);
    let task = hog(&mut bench, "task", "0", 0);
    bench.pass(Nanos::from_ms(3));
    bench.kernel.tick(CpuId(1));
    bench.settle();
    assert_eq!(current(&bench, 1), there);
    bench.kernel.set_affinity(CpuId(0), task, &"1".parse().unwrap()).unwrap();
    bench.settle();
    assert_eq!(current(&bench, 1), task, "the task has 3 ms of lag, and the other's slice is over");
}

#[test]
fn sched_batch_does_not_preempt_and_sched_idle_is_always_preempted() {
    let mut bench = bench_of_ticks(flat(1));
    let idle = bench.fork("idle", "", Policy::Idle, 0);
    bench.kernel.wake_new(CpuId(0), idle);
    bench.settle();
    assert_eq!(current(&bench, 0), idle);
    let hog = hog(&mut bench, "hog", "", 0);
    assert_eq!(current(&bench, 0), hog, "a SCHED_IDLE task is always preempted");
    (0..10).for_each(|_| bench.run(&[0], TICK));
    let [batch, other] = [("batch", Policy::Batch), ("other", Policy::Other)].map(|(name, policy)| {
        let task = bench.fork(name, "", policy, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        task
    });
    // All three tasks run alternately, until two of them go to sleep at the average virtual time.
    (0..30).for_each(|_| bench.run(&[0], TICK));
    for task in [batch, other] {
        while current(&bench, 0) != task {
            bench.run(&[0], TICK);
        }
        bench.block(task);
    }
    (0..10).for_each(|_| bench.run(&[0], TICK));
    bench.wake(batch);
    assert_eq!(current(&bench, 0), hog, "a SCHED_BATCH task does not preempt");
    bench.wake(other);
    assert_eq!(current(&bench, 0), other);
}

#[test]
fn renicing_the_running_task_rescales_its_request() {
    let mut bench = bench(flat(1));
    let task = bench.task("task", "");
    let hog = hog(&mut bench, "hog", "", 0);
    bench.run(&[0], Nanos::from_ms(40));
    bench.kernel.set_policy(CpuId(0), hog, Policy::Other, 19).unwrap();
    bench.settle();
    bench.wake(task);
    assert_eq!(current(&bench, 0), task, "the hog's slice is now 48 ms in its virtual time");
}

/// `sched_autogroup`: with autogroups, each of two sessions gets half of the CPU, whatever the number of its tasks.
#[test]
fn autogroups_divide_the_cpu_by_session() {
    for (autogroup, expected) in [(false, 0.25), (true, 0.5)] {
        let config = Config {
            topology: flat(1),
            hz: 250,
            version: (7, 2),
            budget: 1_000_000,
            seed: 1,
            newidle_ratio: None,
            autogroup,
            types: None,
        };
        let mut bench = Bench::load_as(config, &probe(&[]), |_| ()).expect("the probe loads");
        let tasks = [7, 8, 8, 8].map(|session| {
            let task = bench.fork_in("hog", "", Policy::Other, 0, Some(session));
            bench.kernel.wake_new(CpuId(0), task);
            bench.settle();
            task
        });
        let share = share_of(&mut bench, tasks[0]);
        assert!((share - expected).abs() < 0.01, "autogroups {autogroup}: {share}, expected {expected}");
    }
}
