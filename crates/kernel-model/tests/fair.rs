// SPDX-License-Identifier: GPL-2.0-only
//! The fair class, with no scheduler attached: shares, lag, and where tasks go.

#[allow(dead_code)]
mod bench;

use bench::{Bench, TICK, flat, probe};
use ids::{CpuId, Nanos, Policy, TaskId, Topology};
use kernel_model::{Config, Leave};

fn bench(topology: Topology) -> Bench {
    bench_in((7, 2), topology)
}

/// In a kernel that ends turns at ticks: without HRTICK.
fn bench_of_ticks(topology: Topology) -> Bench {
    bench_in((6, 18), topology)
}

fn bench_in(version: (u16, u16), topology: Topology) -> Bench {
    Bench::load_in(version, topology, &probe(&[]), |_| ()).expect("the probe loads")
}

/// Wakes a task, which has the CPU or waits for it.
fn hog(bench: &mut Bench, name: &str, cpus: &str, nice: i8) -> TaskId {
    let task = bench.fork(name, cpus, Policy::Other, nice);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

fn current(bench: &Bench, cpu: u32) -> TaskId {
    bench.kernel.current(CpuId(cpu))
}

#[test]
fn cpu_shares_follow_nice_weights() {
    let step = Nanos::from_us(50);
    for (nices, expected) in [([0, 0], 0.5), ([0, 5], 1024.0 / 1359.0), ([-5, 10], 3121.0 / 3231.0)] {
        for version in [(6, 18), (7, 2)] {
            let mut bench = bench_in(version, flat(1));
            let tasks = nices.map(|nice| hog(&mut bench, "hog", "", nice));
            let mut steps = 0;
            for _ in 0..2500 {
                for _ in 0..TICK.0 / step.0 {
                    steps += u64::from(current(&bench, 0) == tasks[0]);
                    bench.pass_with_timers(step);
                }
                bench.kernel.tick(CpuId(0));
                bench.settle();
            }
            let share = steps as f64 / (2500 * TICK.0 / step.0) as f64;
            assert!((share - expected).abs() < 0.005, "{version:?}, nice {nices:?}: {share}, expected {expected}");
        }
    }
}

/// A task of SCHED_BATCH comes: it preempts nobody.
fn batch(bench: &mut Bench) -> TaskId {
    let task = bench.fork("batch", "", Policy::Batch, 0);
    bench.kernel.wake_new(CpuId(0), task);
    bench.settle();
    task
}

/// `hrtick_update` and `entity_tick` of 7.2 (kernel/sched/fair.c): HRTICK is on by default since 7.1.
#[test]
fn a_turn_ends_with_the_request_if_others_compete() {
    for version in [(7, 1), (7, 2)] {
        let mut bench = bench_in(version, flat(1));
        let first = hog(&mut bench, "first", "", 0);
        bench.pass_with_timers(Nanos::from_ms(2));
        // It is asked for a request of 0.7 ms anew, and the timer is started for that.
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
    assert_eq!(current(&bench, 0), first, "there is no such timer");
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), second);
}

/// `set_next_task_fair`: who is picked anew has the timer, whoever had it before.
#[test]
fn each_of_two_runs_for_its_request() {
    let mut bench = bench(flat(1));
    let (first, second) = (hog(&mut bench, "first", "", 0), batch(&mut bench));
    // The first requests are of half a slice. Who goes on after one, as the other is not eligible, waits for a tick.
    bench.run(&[0], Nanos::from_ms(40));
    let turn = current(&bench, 0);
    let ends = |bench: &mut Bench| {
        bench.pass_with_timers(Nanos::from_us(1));
        current(bench, 0) != turn
    };
    assert!((0..1_000).any(|_| ends(&mut bench)), "a turn ends within a request");
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
fn what_is_left_of_a_turn_lasts_for_ten_microseconds_at_least() {
    let mut bench = bench(flat(1));
    let first = hog(&mut bench, "first", "", 0);
    // Its first request is of 350 us.
    bench.pass_with_timers(Nanos::from_us(345));
    let second = batch(&mut bench);
    bench.pass_with_timers(Nanos::from_us(9));
    assert_eq!(current(&bench, 0), first);
    bench.pass_with_timers(Nanos::from_us(1));
    assert_eq!(current(&bench, 0), second);
}

/// `hrtick`: the timer stays when somebody of another class takes the CPU, who gets a tick by it.
#[test]
fn a_turn_of_a_fair_task_may_end_in_that_of_another_class() {
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
    // A quantum is 25 ticks, of which the timer was one.
    for _ in 0..23 {
        bench.run(&[0], TICK);
    }
    assert_eq!(current(&bench, 0), a);
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), b);
}

/// On CPU 1 one of two hogs is in the last 0.1 of the 1.4 ms of its turn and ahead of the average. The third task, which is
/// asleep, comes before both.
fn late_in_a_turn(topology: Topology) -> (Bench, TaskId, TaskId) {
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
    assert!((0..2_000).any(|_| ends(&mut bench)), "a turn ends within a request");
    bench.pass_with_timers(Nanos::from_us(1_300));
    let running = current(&bench, 1);
    assert_ne!(running, turn);
    (bench, running, woken)
}

/// `resched_curr_lazy` of 7.2 (kernel/sched/core.c): it sends no interrupt.
#[test]
fn a_wakeup_from_another_cpu_waits_for_the_next_interrupt() {
    let interrupts: [fn(&mut Bench); 3] = [
        |bench| bench.pass_with_timers(Nanos::from_us(50)),
        |bench| bench.kernel.tick(CpuId(1)),
        |bench| {
            let other = bench.fork("other", "0", Policy::Other, 0);
            bench.kernel.wake_new(CpuId(1), other);
        },
    ];
    for (number, interrupt) in interrupts.into_iter().enumerate() {
        let (mut bench, running, woken) = late_in_a_turn(flat(2));
        bench.wake_from(0, woken, false);
        bench.pass_with_timers(Nanos::from_us(50));
        assert_eq!(current(&bench, 1), running);
        interrupt(&mut bench);
        bench.settle();
        assert_eq!(current(&bench, 1), woken, "interrupt {number}");
    }
}

/// `__resched_curr` on the CPU itself, and `ttwu_queue_cond` of one below another cache, which is interrupted to wake the
/// task.
#[test]
fn a_wakeup_by_an_interrupt_of_the_cpu_itself_preempts_at_once() {
    for (from, caches) in [(1, [0, 0]), (0, [0, 1])] {
        let (mut bench, running, woken) = late_in_a_turn(Topology::of_groups(&[0, 1], &caches, &[0; 2]));
        assert_eq!(current(&bench, 1), running);
        bench.wake_from(from, woken, false);
        assert_eq!(current(&bench, 1), woken, "from CPU {from}");
    }
}

/// `hrtick_start` interrupts the CPU whose timer it is, and on its way out that CPU sees that it is to reschedule.
#[test]
fn the_interrupt_that_starts_the_timer_is_one() {
    let mut bench = bench(flat(2));
    let woken = bench.task_with("woken", "1", Policy::Other, -10);
    let alone = hog(&mut bench, "alone", "1", 0);
    bench.run(&[1], Nanos::from_ms(40));
    assert_eq!(current(&bench, 1), alone);
    bench.wake_from(0, woken, false);
    assert_eq!(current(&bench, 1), woken);
}

#[test]
fn who_is_ahead_of_the_average_is_not_safe_however_short_its_turn() {
    let mut bench = bench_of_ticks(flat(1));
    let (hog, task) = (hog(&mut bench, "hog", "", 0), hog(&mut bench, "task", "", 0));
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), task, "the hog has had more than its slice");
    bench.block(task);
    // The hog has been picked anew, and its request ends 0.7 ms later. But it is 4 ms ahead of the task.
    bench.pass(Nanos::from_us(100));
    assert_eq!(current(&bench, 0), hog);
    bench.wake(task);
    assert_eq!(current(&bench, 0), task);
}

#[test]
fn who_was_picked_and_is_owed_time_is_safe_until_its_deadline() {
    let mut bench = bench(flat(1));
    let [owed, heavy] = [("owed", 0), ("heavy", -20)].map(|(name, nice)| {
        let task = bench.task_with(name, "", Policy::Other, nice);
        assert_eq!(current(&bench, 0), TaskId::NONE);
        task
    });
    let hog = hog(&mut bench, "hog", "", 0);
    bench.run(&[0], Nanos::from_ms(40));
    bench.pass(Nanos::from_us(100));
    bench.wake(owed);
    assert_eq!(current(&bench, 0), hog, "both are at the average, and the deadline of the hog is 0.1 ms earlier");
    bench.pass(Nanos::from_ms(1));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), owed, "the hog is 1 ms ahead of it");
    // The heavy one comes at the average, 0.5 ms ahead; its request is 8 us long, so its deadline is the earlier one.
    bench.pass(Nanos::from_us(100));
    bench.wake(heavy);
    assert_eq!(current(&bench, 0), owed, "it has had 0.1 of its 0.7 ms");
    bench.pass(Nanos::from_us(700));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), heavy);
}

#[test]
fn who_is_owed_nothing_waits_for_a_deadline() {
    for (pass_us, preempts) in [(100, false), (0, true)] {
        let mut bench = bench(flat(1));
        let task = bench.task("task", "");
        let hog = hog(&mut bench, "hog", "", 0);
        bench.run(&[0], Nanos::from_ms(40));
        bench.pass(Nanos::from_us(pass_us));
        bench.wake(task);
        // Both deadlines are one slice after their begin. Of equal ones, that of the task that waits wins.
        let expected = if preempts { task } else { hog };
        assert_eq!(current(&bench, 0), expected, "{pass_us} us after the hog's request began");
        bench.run(&[0], TICK);
        assert_eq!(current(&bench, 0), if preempts { hog } else { task });
    }
}

#[test]
fn who_sleeps_ahead_of_the_others_stays_with_them_until_they_caught_up() {
    let mut bench = bench(flat(2));
    let task = hog(&mut bench, "task", "0-1", 0);
    let other = hog(&mut bench, "other", "1", 0);
    let stay = hog(&mut bench, "stay", "0", 0);
    assert_eq!((current(&bench, 0), current(&bench, 1)), (task, other));
    bench.pass(Nanos::from_ms(2));
    bench.block(task);
    bench.block(other);
    assert_eq!(current(&bench, 0), stay);
    // CPU 1 is idle now, but the task has not left the queue of CPU 0: it is 2 ms ahead there.
    bench.wake(task);
    assert_eq!((bench.kernel.task_cpu(task), current(&bench, 1)), (CpuId(0), TaskId::NONE));
    // At its tick CPU 0 would give one of the two away.
    bench.pass(TICK);
    bench.leave(stay, Leave::Preempt);
    assert_eq!(current(&bench, 0), task, "the other has caught up");
    bench.block(task);
    bench.wake(task);
    assert_eq!((current(&bench, 0), current(&bench, 1)), (stay, task), "it owes nothing, and looks for an idle CPU");
}

#[test]
fn a_debt_is_paid_by_waiting() {
    let mut bench = bench(flat(1));
    let (first, second) = (hog(&mut bench, "first", "", 0), hog(&mut bench, "second", "", 0));
    bench.pass(Nanos::from_ms(3));
    bench.block(first);
    // The second has caught up when it has run for 3 ms: only then does a wakeup forget what the first had too much.
    bench.pass(Nanos::from_ms(1));
    bench.wake(first);
    assert_eq!(current(&bench, 0), second);
    bench.pass(Nanos::from_ms(1));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), second, "its slice is over, but the first is not eligible yet");
    bench.pass(Nanos::from_ms(2));
    bench.kernel.tick(CpuId(0));
    bench.settle();
    assert_eq!(current(&bench, 0), first);
}

#[test]
fn a_task_that_wakes_looks_below_its_cache_and_a_new_one_everywhere() {
    let two_caches = || Topology::of_groups(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0; 4]);
    let mut bench = bench(two_caches());
    let task = bench.task("task", "");
    assert_eq!(bench.kernel.task_cpu(task), CpuId(0));
    let first = hog(&mut bench, "first", "0", 0);
    bench.wake(task);
    assert_eq!(current(&bench, 1), task, "the idle CPU below the same cache");
    bench.block(task);
    let second = hog(&mut bench, "second", "1", 0);
    assert_eq!([current(&bench, 0), current(&bench, 1)], [first, second]);
    bench.wake(task);
    assert!(bench.kernel.task_cpu(task).0 < 2, "no CPU of the other cache, though idle");
    let new = hog(&mut bench, "new", "", 0);
    assert_eq!(current(&bench, 2), new);
}

/// Somebody who is no task here has CPU 0, and runs on.
#[test]
fn a_new_task_goes_where_nobody_is() {
    for policy in [Policy::Other, Policy::Fifo(1)] {
        let mut bench = bench(flat(2));
        let task = bench.fork("new", "", policy, 0);
        bench.kernel.occupy(CpuId(0));
        bench.kernel.wake_new(CpuId(0), task);
        assert_eq!(bench.kernel.task_cpu(task), CpuId(1), "{policy:?}");
    }
}

#[test]
fn a_cpu_that_goes_idle_pulls_from_where_most_wait() {
    let mut bench = bench(flat(3));
    let [a, b, c] = ["a", "b", "c"].map(|name| hog(&mut bench, name, "", 0));
    assert_eq!([0, 1, 2].map(|cpu| current(&bench, cpu)), [a, b, c]);
    let alone = hog(&mut bench, "alone", "0,2", 0);
    let waits = hog(&mut bench, "waits", "1,2", 0);
    hog(&mut bench, "pinned", "1", 0);
    assert_eq!([alone, waits].map(|task| bench.kernel.task_cpu(task)), [CpuId(0), CpuId(1)]);
    bench.block(c);
    // Two wait for CPU 1, but the one that is pinned stays.
    assert_eq!(current(&bench, 2), waits);
    bench.block(waits);
    assert_eq!(current(&bench, 2), alone);
    bench.block(alone);
    assert_eq!(current(&bench, 2), TaskId::NONE);
}

/// Waits on CPU 0 beside whoever runs there, and may run on CPU 1, which idles.
fn waits_on_cpu_0(bench: &mut Bench, name: &str) -> TaskId {
    let task = hog(bench, name, "0", 0);
    bench.kernel.set_affinity(CpuId(0), task, &"0-1".parse().unwrap()).unwrap();
    bench.settle();
    task
}

#[test]
fn a_cpu_with_too_much_to_do_wakes_an_idle_one_at_its_tick() {
    let mut bench = bench_of_ticks(flat(2));
    let here = hog(&mut bench, "here", "0", 0);
    let [first, second] = ["first", "second"].map(|name| waits_on_cpu_0(&mut bench, name));
    assert_eq!([0, 1].map(|cpu| current(&bench, cpu)), [here, TaskId::NONE]);
    // The tick gives CPU 0 to the first one before CPU 1 comes to look.
    bench.run(&[0], TICK);
    assert_eq!([0, 1].map(|cpu| current(&bench, cpu)), [first, second]);
}

#[test]
fn who_lost_its_cpu_at_the_tick_stays_until_two_attempts_were_in_vain() {
    let mut bench = bench_of_ticks(flat(2));
    waits_on_cpu_0(&mut bench, "a");
    waits_on_cpu_0(&mut bench, "b");
    // The first one has come to a CPU without others, and has left it again.
    for (tick, comes) in [(1, false), (2, false), (3, true)] {
        bench.run(&[0], TICK);
        assert_eq!(current(&bench, 1) != TaskId::NONE, comes, "tick {tick}");
    }
}

/// Once an idle CPU has been helped, the kernel means to do that again only after 16 intervals of 4 ms.
#[test]
fn a_cpu_that_idles_again_after_a_tick_is_noticed_at_one_tick_and_helped_at_the_next() {
    for ticked in [true, false] {
        let mut bench = bench_that_looks(flat(2), 0);
        hog(&mut bench, "here", "0", 0);
        let tasks = ["a", "b", "c", "d", "e"].map(|name| waits_on_cpu_0(&mut bench, name));
        bench.run(&[0], TICK);
        let there = |bench: &Bench| tasks.iter().filter(|&&task| bench.kernel.task_cpu(task) == CpuId(1)).count();
        let moved = there(&bench);
        assert_eq!(moved, 3, "half of the difference: six were there");
        if ticked {
            bench.run(&[1], TICK);
            assert_eq!(there(&bench), moved);
        }
        for _ in 0..moved {
            let next = current(&bench, 1);
            bench.block(next);
        }
        assert_eq!(current(&bench, 1), TaskId::NONE, "the dice do not let it look");
        for (tick, comes) in [(1, false), (2, ticked), (3, ticked)] {
            bench.run(&[0], TICK);
            assert_eq!(current(&bench, 1) != TaskId::NONE, comes, "ticked: {ticked}, tick {tick}");
        }
    }
}

/// A tick of a time in which nothing waited anywhere, and no CPU had been helped, counts as well.
#[test]
fn a_cpu_that_idles_first_after_others_were_helped_is_noticed_by_its_earlier_tick() {
    for ticked in [true, false] {
        let mut bench = bench_that_looks(flat(3), 0);
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
        // Three CPUs balance every six milliseconds, which is the second tick.
        (0..2).for_each(|_| bench.run(&[0], TICK));
        assert_ne!(current(&bench, 2), TaskId::NONE, "it was helped");
        bench.block(there);
        assert_eq!(current(&bench, 1), TaskId::NONE, "the dice do not let it look");
        (0..2).for_each(|_| bench.run(&[0], TICK));
        assert_eq!(current(&bench, 1) != TaskId::NONE, ticked, "ticked: {ticked}");
    }
}

/// Newidle balancing that has been worth while so often, of 1024 times.
fn bench_that_looks(topology: Topology, newidle_ratio: u32) -> Bench {
    let config =
        Config { topology, hz: 250, version: (6, 18), budget: 1_000_000, seed: 1, newidle_ratio: Some(newidle_ratio) };
    Bench::load_as(config, &probe(&[]), |_| ()).expect("the probe loads")
}

#[test]
fn a_cpu_that_goes_idle_looks_as_often_as_that_was_worth_while() {
    // Three standard deviations to either side; after 512 calls the ratio would change.
    for (ratio, least, most) in [(0, 0, 3), (512, 79, 121), (1024, 200, 200)] {
        let mut bench = bench_that_looks(flat(2), ratio);
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
fn who_has_just_run_is_not_pulled() {
    for (pass_us, pulled) in [(400, false), (600, true)] {
        let mut bench = bench_of_ticks(flat(2));
        let [a, b] = ["a", "b"].map(|name| hog(&mut bench, name, "0", 0));
        let there = hog(&mut bench, "there", "1", 0);
        bench.run(&[0, 1], TICK);
        assert_eq!(current(&bench, 0), b, "its turn");
        for task in [a, b] {
            bench.kernel.set_affinity(CpuId(0), task, &"0-1".parse().unwrap()).unwrap();
            bench.settle();
        }
        bench.pass(Nanos::from_us(pass_us));
        bench.block(there);
        assert_eq!(current(&bench, 1), if pulled { a } else { TaskId::NONE }, "{pass_us} us after it ran");
    }
}

/// The lighter of two busy CPUs pulls every 28 ms, and a task that is heavier than the difference only at the second try.
#[test]
fn three_hogs_on_two_cpus_take_turns() {
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
fn whole_cores_are_preferred() {
    // Threads 0 and 1 share a core, 2 and 3 another.
    let mut bench = bench(Topology::of_groups(&[0, 0, 1, 1], &[0; 4], &[0; 4]));
    let task = bench.task("task", "");
    let first = hog(&mut bench, "first", "0", 0);
    bench.wake(task);
    assert_eq!([0, 1, 2].map(|cpu| current(&bench, cpu)), [first, TaskId::NONE, task], "its sibling is busy");
    let new = hog(&mut bench, "new", "", 0);
    assert_eq!(current(&bench, 1), new, "all cores are busy, and this one is nearest");
}

#[test]
fn a_task_that_yields_gives_its_request_up() {
    let mut bench = bench(flat(1));
    let tasks = [hog(&mut bench, "a", "", 0), hog(&mut bench, "b", "", 0)];
    for turn in 0..6 {
        assert_eq!(current(&bench, 0), tasks[turn % 2], "turn {turn}");
        bench.leave(tasks[turn % 2], Leave::Yield);
    }
}

#[test]
fn who_is_ahead_of_the_average_waits_even_with_the_earliest_deadline() {
    let mut bench = bench_of_ticks(flat(1));
    let (heavy, light) = (hog(&mut bench, "heavy", "", -10), hog(&mut bench, "light", "", 10));
    assert_eq!(current(&bench, 0), heavy);
    // 4 ms are 0.43 ms of the heavy one's time. Its next request ends 0.08 ms later, that of the light one at 3.26 ms.
    bench.run(&[0], TICK);
    assert_eq!(current(&bench, 0), light);
}

#[test]
fn a_new_task_asks_for_half_a_slice_first() {
    for (version, pass_us, preempts) in [((6, 18), 200, true), ((6, 18), 500, false), ((7, 2), 200, false)] {
        let mut bench = bench_in(version, flat(1));
        let hog = hog(&mut bench, "hog", "", 0);
        (0..10).for_each(|_| bench.run(&[0], TICK));
        bench.pass(Nanos::from_us(pass_us));
        // The request of the hog ends at 700 us, the new one's 350 us from now. From 7.x on it waits all the same.
        let new = self::hog(&mut bench, "new", "", 0);
        assert_eq!(current(&bench, 0), if preempts { new } else { hog }, "{version:?} after {pass_us} us");
    }
}

#[test]
fn of_several_the_one_that_waited_longest_is_pulled() {
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
fn what_a_task_is_owed_goes_along_to_another_cpu() {
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
    assert_eq!(current(&bench, 1), task, "it waited for 3 ms, and the turn of the other is over");
}

#[test]
fn policies_decide_who_may_preempt() {
    let mut bench = bench_of_ticks(flat(1));
    let idle = bench.fork("idle", "", Policy::Idle, 0);
    bench.kernel.wake_new(CpuId(0), idle);
    bench.settle();
    assert_eq!(current(&bench, 0), idle);
    let hog = hog(&mut bench, "hog", "", 0);
    assert_eq!(current(&bench, 0), hog, "nobody is safe from it in the idle policy");
    (0..10).for_each(|_| bench.run(&[0], TICK));
    let [batch, other] = [("batch", Policy::Batch), ("other", Policy::Other)].map(|(name, policy)| {
        let task = bench.fork(name, "", policy, 0);
        bench.kernel.wake_new(CpuId(0), task);
        bench.settle();
        task
    });
    // All three get their turns, and the two go to sleep at the average.
    (0..30).for_each(|_| bench.run(&[0], TICK));
    for task in [batch, other] {
        while current(&bench, 0) != task {
            bench.run(&[0], TICK);
        }
        bench.block(task);
    }
    (0..10).for_each(|_| bench.run(&[0], TICK));
    bench.wake(batch);
    assert_eq!(current(&bench, 0), hog, "a batch task waits for its turn");
    bench.wake(other);
    assert_eq!(current(&bench, 0), other);
}

#[test]
fn who_becomes_lighter_while_it_runs_asks_anew() {
    let mut bench = bench(flat(1));
    let task = bench.task("task", "");
    let hog = hog(&mut bench, "hog", "", 0);
    bench.run(&[0], Nanos::from_ms(40));
    bench.kernel.set_policy(CpuId(0), hog, Policy::Other, 19).unwrap();
    bench.settle();
    bench.wake(task);
    assert_eq!(current(&bench, 0), task, "its slice is now 48 ms of its own time");
}
