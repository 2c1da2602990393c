// SPDX-License-Identifier: GPL-2.0-only
//! Starts and ends of share windows, and the tasks that are reported.

use super::*;

const MS: u64 = 1_000_000;

/// Creates runnable tasks of equal weight with these masks on two CPUs.
fn awake(masks: &[u64], promise: WeightedShare) -> Shares {
    let mut shares = Shares::new(2, promise, Nanos::from_ms(4), vec![]);
    for (task, &mask) in (0..).zip(masks) {
        shares.announce(&CpuSet::from_words(&[mask]), Some(1024), None);
        shares.set_runnable(Nanos::ZERO, TaskId(task), true);
    }
    shares
}

const ONE_CPU: WeightedShare = WeightedShare {
    percent: 5,
    cpus: 1,
    whole: false,
    turn: Nanos::from_ms(3),
    settles: Nanos::ZERO,
    by: Weights::Nice,
};
const ALL_CPUS: WeightedShare = WeightedShare { cpus: 2, ..ONE_CPU };

/// Lets tasks take turns on a CPU for the given number of milliseconds each, repeatedly until `to_ms`.
fn turns(shares: &mut Shares, cpu: u32, turns: &[(u32, u64)], from_ms: u64, to_ms: u64) -> Vec<Unfair> {
    let (mut now, mut found) = (from_ms, shares.check_cpu(Nanos::from_ms(from_ms), CpuId(cpu)));
    'all: loop {
        for &(task, ms) in turns {
            shares.set_running(Nanos(now * MS), TaskId(task), true);
            now += ms;
            shares.set_running(Nanos(now * MS), TaskId(task), false);
            found.extend(shares.check_cpu(Nanos(now * MS), CpuId(cpu)));
            if now >= to_ms {
                break 'all;
            }
        }
    }
    found
}

fn errors(found: &[Unfair]) -> Vec<(u32, u64, u64)> {
    found.iter().map(|it| (it.tasks[0].0, it.error.0 / MS, it.limit.0 / MS)).collect()
}

#[test]
fn two_equal_tasks_should_get_half_a_cpu_each() {
    let fair = turns(&mut awake(&[1, 1], ONE_CPU), 0, &[(0, 20), (1, 20)], 0, 600);
    assert_eq!(errors(&fair), []);
    // In 500 ms the tasks get 300 and 200 ms instead of 250 ms each; 25 ms and a tick are tolerated.
    let unfair = turns(&mut awake(&[1, 1], ONE_CPU), 0, &[(0, 30), (1, 20)], 0, 600);
    assert_eq!(errors(&unfair), [(0, 50, 29), (1, 50, 29)]);
}

#[test]
fn share_windows_last_half_a_second_or_twenty_rounds() {
    let mut shares = awake(&[1, 1], ONE_CPU);
    assert_eq!(errors(&turns(&mut shares, 0, &[(0, 499)], 0, 499)), []);
    assert!(!shares.has_checked());
    assert_eq!(errors(&turns(&mut shares, 0, &[(0, 1)], 499, 500)), [(0, 250, 29), (1, 250, 29)]);
    assert!(shares.has_checked());
    // Ten tasks need a window of 600 ms.
    let mut shares = awake(&[1; 10], ONE_CPU);
    assert_eq!(errors(&turns(&mut shares, 0, &[(0, 1)], 0, 599)), []);
    assert_eq!(turns(&mut shares, 0, &[(0, 1)], 599, 600).len(), 10);
}

/// The promise covers tasks that share one CPU.
#[test]
fn shares_are_not_checked_on_more_cpus_than_promised() {
    let mut shares = awake(&[3, 3, 3], ONE_CPU);
    turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
    assert!(!shares.has_checked());
    let mut shares = awake(&[3, 3, 3], ALL_CPUS);
    // On two CPUs each task should get 333 ms of 500 ms. One has the first CPU to itself, the others share the
    // second.
    shares.set_running(Nanos(0), TaskId(0), true);
    let found = turns(&mut shares, 1, &[(1, 10), (2, 10)], 0, 500);
    assert_eq!(errors(&found), [(0, 166, 29), (1, 83, 29), (2, 83, 29)]);
}

/// The promise covers only tasks that may use the whole machine, which has two CPUs, or one if the other is offline.
#[test]
fn shares_on_some_cpus_are_not_checked_if_promised_for_all_cpus() {
    let whole = WeightedShare { whole: true, ..ALL_CPUS };
    for (mask, one_left, checked) in [(1, false, false), (3, false, true), (1, true, true)] {
        let mut shares = awake(&[mask, mask, mask], whole);
        if one_left {
            shares.set_online(Nanos::ZERO, CpuId(1), false);
        }
        turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
        assert_eq!(shares.has_checked(), checked, "{mask} {one_left}");
    }
}

/// A runnable task that shares some of the team's CPUs receives an unknown share.
#[test]
fn share_window_ends_when_other_tasks_run_or_a_member_sleeps() {
    for (masks, checked) in [([1, 1, 2], true), ([1, 1, 3], false)] {
        let mut shares = awake(&masks, ONE_CPU);
        turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
        assert_eq!(shares.has_checked(), checked, "{masks:?}");
    }
    let mut shares = awake(&[1, 1], ONE_CPU);
    turns(&mut shares, 0, &[(0, 10)], 0, 400);
    shares.set_runnable(Nanos::from_ms(400), TaskId(1), false);
    shares.set_runnable(Nanos::from_ms(401), TaskId(1), true);
    turns(&mut shares, 0, &[(0, 10)], 400, 890);
    assert!(!shares.has_checked(), "the sleep started a new window");
    turns(&mut shares, 0, &[(0, 10)], 890, 1_000);
    assert!(shares.has_checked());
}

/// Tasks outside the team (guests) may be runnable for 1 % of the window, here 5 of 500 ms; twice that time is added
/// to the tolerance.
#[test]
fn task_outside_a_share_window_may_be_runnable_for_one_percent_of_it() {
    for (ms, expected) in [(5, vec![(0, 50, 39), (1, 50, 39)]), (6, vec![])] {
        let mut shares = awake(&[1, 1, 3], ONE_CPU);
        shares.set_runnable(Nanos::ZERO, TaskId(2), false);
        turns(&mut shares, 0, &[(0, 30), (1, 20)], 0, 200);
        shares.set_runnable(Nanos::from_ms(200), TaskId(2), true);
        shares.set_runnable(Nanos::from_ms(200 + ms), TaskId(2), false);
        assert_eq!(errors(&turns(&mut shares, 0, &[(0, 30), (1, 20)], 200, 500)), expected, "{ms}");
    }
}

#[test]
fn changed_weight_starts_a_new_share_window() {
    let mut shares = awake(&[1, 1], ONE_CPU);
    turns(&mut shares, 0, &[(0, 30), (1, 20)], 0, 400);
    shares.change(Nanos::from_ms(400), TaskId(0), None, Some(1536));
    // With weights 3 : 2, shares of 60 % and 40 % are ideal.
    assert_eq!(errors(&turns(&mut shares, 0, &[(0, 30), (1, 20)], 400, 900)), []);
    assert!(shares.has_checked());
}

/// The first 5 s do not count: one task has the CPU all the time, then each has half.
#[test]
fn share_windows_start_after_the_settling_time() {
    for (settles, expected) in [(0, vec![(0, 250, 29), (1, 250, 29)]), (5_000, vec![])] {
        let promise = WeightedShare { settles: Nanos::from_ms(settles), ..ONE_CPU };
        let mut shares = awake(&[1, 1], promise);
        shares.reset_windows(Nanos::ZERO);
        let mut found = turns(&mut shares, 0, &[(0, 10)], 0, 500);
        found.extend(turns(&mut shares, 0, &[(0, 20), (1, 20)], 5_000, 5_600));
        assert_eq!(errors(&found), expected, "{settles}");
        assert!(shares.has_checked());
    }
}

/// With slices of 100 ms, two tasks need a window of 4 s, or of 2 s if each has a CPU.
#[test]
fn longer_slices_need_longer_share_windows() {
    for (masks, promise, checked_ms) in [([1, 1], ONE_CPU, 4_000), ([3, 3], ALL_CPUS, 2_000)] {
        let promise = WeightedShare { turn: Nanos::from_ms(100), ..promise };
        let mut shares = awake(&masks, promise);
        turns(&mut shares, 0, &[(0, 1)], 0, checked_ms - 1);
        assert!(!shares.has_checked(), "{checked_ms}");
        turns(&mut shares, 0, &[(0, 1)], checked_ms - 1, checked_ms);
        assert!(shares.has_checked(), "{checked_ms}");
    }
}

/// A group of weight 300 with one task, a group of weight 100 with two tasks, and a task without a group: shares of 3
/// : 1 : 1.
#[test]
fn shares_by_group_weight_sum_the_tasks_of_a_group() {
    let promise = WeightedShare { by: Weights::Groups, ..ONE_CPU };
    let group = || {
        let mut shares = Shares::new(2, promise, Nanos::from_ms(4), vec![300, 100]);
        for (task, party) in (0..).zip([Some(0), Some(1), Some(1), None]) {
            shares.announce(&CpuSet::from_words(&[1]), Some(1), party);
            shares.set_runnable(Nanos::ZERO, TaskId(task), true);
        }
        shares
    };
    let by_group = turns(&mut group(), 0, &[(0, 6), (1, 1), (2, 1), (3, 2)], 0, 600);
    assert_eq!(errors(&by_group), []);
    let by_task = turns(&mut group(), 0, &[(0, 5), (1, 5), (2, 5), (3, 5)], 0, 600);
    assert_eq!(errors(&by_task), [(3, 25, 29), (0, 175, 29), (1, 150, 29)][1..]);
}

/// Three tasks on two CPUs, one of which then goes offline.
#[test]
fn offline_cpu_adds_to_no_share() {
    let mut shares = awake(&[3, 3, 3], ALL_CPUS);
    turns(&mut shares, 0, &[(0, 10), (1, 10), (2, 10)], 0, 300);
    shares.set_online(Nanos::from_ms(300), CpuId(1), false);
    assert_eq!(errors(&turns(&mut shares, 0, &[(0, 10), (1, 10), (2, 10)], 300, 1_200)), []);
    assert!(shares.has_checked());
}

/// On two CPUs, a group of weight 300 with two tasks should get 1.5 CPUs, and a group of weight 100 with one task
/// 0.5.
#[test]
fn group_share_is_limited_to_one_cpu_per_task() {
    let promise = WeightedShare { by: Weights::Groups, ..ALL_CPUS };
    for (second, expected) in [(vec![(1, 10), (2, 10)], vec![]), (vec![(2, 10)], vec![(0, 250, 29), (2, 250, 29)])] {
        let mut shares = Shares::new(2, promise, Nanos::from_ms(4), vec![300, 100]);
        for (task, party) in (0..).zip([Some(0), Some(0), Some(1)]) {
            shares.announce(&CpuSet::from_words(&[3]), Some(1), party);
            shares.set_runnable(Nanos::ZERO, TaskId(task), true);
        }
        shares.set_running(Nanos::ZERO, TaskId(0), true);
        assert_eq!(errors(&turns(&mut shares, 1, &second, 0, 500)), expected);
    }
}
