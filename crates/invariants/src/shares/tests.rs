// SPDX-License-Identifier: GPL-2.0-only
//! Windows: what makes one, what ends it, and who is found in it.

use super::*;

const MS: u64 = 1_000_000;

/// Two CPUs; tasks with these masks and weights, all awake.
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

/// Tasks take turns on a CPU: `turns` are milliseconds of each, again and again until the end.
fn turns(shares: &mut Shares, cpu: u32, turns: &[(u32, u64)], from_ms: u64, to_ms: u64) -> Vec<Unfair> {
    let (mut now, mut found) = (from_ms, shares.look(Nanos::from_ms(from_ms), CpuId(cpu)));
    'all: loop {
        for &(task, ms) in turns {
            shares.set_running(Nanos(now * MS), TaskId(task), true);
            now += ms;
            shares.set_running(Nanos(now * MS), TaskId(task), false);
            found.extend(shares.look(Nanos(now * MS), CpuId(cpu)));
            if now >= to_ms {
                break 'all;
            }
        }
    }
    found
}

fn who(found: &[Unfair]) -> Vec<(u32, u64, u64)> {
    found.iter().map(|it| (it.tasks[0].0, it.error.0 / MS, it.limit.0 / MS)).collect()
}

#[test]
fn half_a_cpu_for_each_of_two() {
    let fair = turns(&mut awake(&[1, 1], ONE_CPU), 0, &[(0, 20), (1, 20)], 0, 600);
    assert_eq!(who(&fair), []);
    // 500 ms: 300 and 200 where 250 are right, and 25 and a tick are allowed.
    let unfair = turns(&mut awake(&[1, 1], ONE_CPU), 0, &[(0, 30), (1, 20)], 0, 600);
    assert_eq!(who(&unfair), [(0, 50, 29), (1, 50, 29)]);
}

#[test]
fn nobody_is_judged_before_half_a_second_has_passed() {
    let mut shares = awake(&[1, 1], ONE_CPU);
    assert_eq!(who(&turns(&mut shares, 0, &[(0, 499)], 0, 499)), []);
    assert!(!shares.has_judged());
    assert_eq!(who(&turns(&mut shares, 0, &[(0, 1)], 499, 500)), [(0, 250, 29), (1, 250, 29)]);
    assert!(shares.has_judged());
    // Ten tasks: 600 ms.
    let mut shares = awake(&[1; 10], ONE_CPU);
    assert_eq!(who(&turns(&mut shares, 0, &[(0, 1)], 0, 599)), []);
    assert_eq!(turns(&mut shares, 0, &[(0, 1)], 599, 600).len(), 10);
}

/// The promise is for tasks that share one CPU.
#[test]
fn teams_with_more_cpus_than_promised_are_not_judged() {
    let mut shares = awake(&[3, 3, 3], ONE_CPU);
    turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
    assert!(!shares.has_judged());
    let mut shares = awake(&[3, 3, 3], ALL_CPUS);
    // On two CPUs each should have 333 of 500; one has all of the first, the others share the second.
    shares.set_running(Nanos(0), TaskId(0), true);
    let found = turns(&mut shares, 1, &[(1, 10), (2, 10)], 0, 500);
    assert_eq!(who(&found), [(0, 166, 29), (1, 83, 29), (2, 83, 29)]);
}

/// The promise may be for tasks that may use the whole machine: of two CPUs, or of the one that is left.
#[test]
fn a_part_of_the_machine_is_not_judged_if_only_the_whole_is_promised() {
    let whole = WeightedShare { whole: true, ..ALL_CPUS };
    for (mask, one_left, judged) in [(1, false, false), (3, false, true), (1, true, true)] {
        let mut shares = awake(&[mask, mask, mask], whole);
        if one_left {
            shares.set_online(Nanos::ZERO, CpuId(1), false);
        }
        turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
        assert_eq!(shares.has_judged(), judged, "{mask} {one_left}");
    }
}

/// Who is awake and may use the CPUs of a team has its share, which is not known.
#[test]
fn rivals_and_sleepers_end_a_window() {
    for (masks, judged) in [([1, 1, 2], true), ([1, 1, 3], false)] {
        let mut shares = awake(&masks, ONE_CPU);
        turns(&mut shares, 0, &[(0, 10)], 0, 1_000);
        assert_eq!(shares.has_judged(), judged, "{masks:?}");
    }
    let mut shares = awake(&[1, 1], ONE_CPU);
    turns(&mut shares, 0, &[(0, 10)], 0, 400);
    shares.set_runnable(Nanos::from_ms(400), TaskId(1), false);
    shares.set_runnable(Nanos::from_ms(401), TaskId(1), true);
    turns(&mut shares, 0, &[(0, 10)], 400, 890);
    assert!(!shares.has_judged(), "the window began anew");
    turns(&mut shares, 0, &[(0, 10)], 890, 1_000);
    assert!(shares.has_judged());
}

/// A hundredth of the window: 5 of 500 ms. What it was is allowed twice.
#[test]
fn guests_may_come_for_a_while() {
    for (ms, expected) in [(5, vec![(0, 50, 39), (1, 50, 39)]), (6, vec![])] {
        let mut shares = awake(&[1, 1, 3], ONE_CPU);
        shares.set_runnable(Nanos::ZERO, TaskId(2), false);
        turns(&mut shares, 0, &[(0, 30), (1, 20)], 0, 200);
        shares.set_runnable(Nanos::from_ms(200), TaskId(2), true);
        shares.set_runnable(Nanos::from_ms(200 + ms), TaskId(2), false);
        assert_eq!(who(&turns(&mut shares, 0, &[(0, 30), (1, 20)], 200, 500)), expected, "{ms}");
    }
}

#[test]
fn another_weight_begins_a_window() {
    let mut shares = awake(&[1, 1], ONE_CPU);
    turns(&mut shares, 0, &[(0, 30), (1, 20)], 0, 400);
    shares.change(Nanos::from_ms(400), TaskId(0), None, Some(1536));
    // 60 and 40 % are right for 3 : 2.
    assert_eq!(who(&turns(&mut shares, 0, &[(0, 30), (1, 20)], 400, 900)), []);
    assert!(shares.has_judged());
}

/// Five seconds are nobody's: the first task has all of them, and half of what follows.
#[test]
fn who_converges_is_judged_after_that() {
    for (settles, expected) in [(0, vec![(0, 250, 29), (1, 250, 29)]), (5_000, vec![])] {
        let promise = WeightedShare { settles: Nanos::from_ms(settles), ..ONE_CPU };
        let mut shares = awake(&[1, 1], promise);
        shares.disturb(Nanos::ZERO);
        let mut found = turns(&mut shares, 0, &[(0, 10)], 0, 500);
        found.extend(turns(&mut shares, 0, &[(0, 20), (1, 20)], 5_000, 5_600));
        assert_eq!(who(&found), expected, "{settles}");
        assert!(shares.has_judged());
    }
}

/// Turns of 100 ms: four seconds for two tasks, and two where each has a CPU.
#[test]
fn slow_turns_need_long_windows() {
    for (masks, promise, judged_ms) in [([1, 1], ONE_CPU, 4_000), ([3, 3], ALL_CPUS, 2_000)] {
        let promise = WeightedShare { turn: Nanos::from_ms(100), ..promise };
        let mut shares = awake(&masks, promise);
        turns(&mut shares, 0, &[(0, 1)], 0, judged_ms - 1);
        assert!(!shares.has_judged(), "{judged_ms}");
        turns(&mut shares, 0, &[(0, 1)], judged_ms - 1, judged_ms);
        assert!(shares.has_judged(), "{judged_ms}");
    }
}

/// A group of weight 300 with one task, one of 100 with two, and a task of none: 3 : 1 : 1.
#[test]
fn groups_have_the_weights() {
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
    assert_eq!(who(&by_group), []);
    let by_task = turns(&mut group(), 0, &[(0, 5), (1, 5), (2, 5), (3, 5)], 0, 600);
    assert_eq!(who(&by_task), [(3, 25, 29), (0, 175, 29), (1, 150, 29)][1..]);
}

/// Three tasks on two CPUs; then one of these goes.
#[test]
fn a_cpu_that_is_gone_gives_nobody_a_share() {
    let mut shares = awake(&[3, 3, 3], ALL_CPUS);
    turns(&mut shares, 0, &[(0, 10), (1, 10), (2, 10)], 0, 300);
    shares.set_online(Nanos::from_ms(300), CpuId(1), false);
    assert_eq!(who(&turns(&mut shares, 0, &[(0, 10), (1, 10), (2, 10)], 300, 1_200)), []);
    assert!(shares.has_judged());
}

/// Two CPUs: a group of weight 300 with two tasks should have one and a half, one of 100 with one task half of one.
#[test]
fn a_group_can_use_as_many_cpus_as_it_has_tasks() {
    let promise = WeightedShare { by: Weights::Groups, ..ALL_CPUS };
    for (second, expected) in [(vec![(1, 10), (2, 10)], vec![]), (vec![(2, 10)], vec![(0, 250, 29), (2, 250, 29)])] {
        let mut shares = Shares::new(2, promise, Nanos::from_ms(4), vec![300, 100]);
        for (task, party) in (0..).zip([Some(0), Some(0), Some(1)]) {
            shares.announce(&CpuSet::from_words(&[3]), Some(1), party);
            shares.set_runnable(Nanos::ZERO, TaskId(task), true);
        }
        shares.set_running(Nanos::ZERO, TaskId(0), true);
        assert_eq!(who(&turns(&mut shares, 1, &second, 0, 500)), expected);
    }
}
