// SPDX-License-Identifier: GPL-2.0-only
//! Constructed usage of groups with caps, and the groups that are reported.

use super::*;
use crate::demands::Group;

const MS: u64 = 1_000_000;

/// A group with a cap of 50 % of a CPU, a group nested in it with a cap of 30 %, and a group without a cap.
fn caps_by(half_life: Option<Nanos>) -> Caps {
    let group = |hard_cap_percent, within| Group { hard_cap_percent, within, ..Group::default() };
    let groups = vec![group(Some(50), vec![]), group(Some(30), vec![0]), group(None, vec![])];
    let mut caps = Caps::new(&Demands { groups, ..Demands::default() }, half_life, 2, Nanos(MS));
    [Some(0), Some(1), Some(2), None].iter().zip(0..).for_each(|(group, task)| caps.announce(TaskId(task), *group));
    caps
}

fn caps() -> Caps {
    caps_by(None)
}

/// Lets each of these tasks run from time 0 for the given number of milliseconds and returns what is reported after
/// one second.
fn found(ran: &[(u32, u64)]) -> Vec<(Vec<TaskId>, u64, u64)> {
    let mut caps = caps();
    ran.iter().for_each(|&(task, _)| caps.set_running(Nanos::ZERO, TaskId(task), true));
    let mut ends = ran.to_vec();
    ends.sort_by_key(|end| end.1);
    ends.iter().for_each(|&(task, ms)| caps.set_running(Nanos(ms * MS), TaskId(task), false));
    assert_eq!(caps.check(Nanos(999 * MS)), []);
    let found = caps.check(Nanos(1_000 * MS));
    assert!(caps.has_checked());
    found.into_iter().map(|it| (it.tasks, it.value.0 / MS, it.limit.0 / MS)).collect()
}

#[test]
fn groups_may_exceed_their_cap_by_two_percent_of_a_cpu() {
    let both = vec![TaskId(0), TaskId(1)];
    assert_eq!(found(&[(0, 520)]), []);
    assert_eq!(found(&[(0, 521)]), [(both.clone(), 521, 520)]);
    assert_eq!(found(&[(1, 320)]), []);
    assert_eq!(found(&[(1, 330)]), [(vec![TaskId(1)], 330, 320)], "the enclosing group is below its cap");
    assert_eq!(found(&[(0, 300), (1, 300)]), [(both, 600, 520)], "tasks of the nested group count");
    assert_eq!(found(&[(2, 900), (3, 900)]), [], "a group without a cap, and no group");
}

#[test]
fn cap_windows_follow_each_other_and_restart_on_reset() {
    let mut caps = caps();
    assert_eq!(caps.check(Nanos(1_000 * MS)), []);
    caps.set_running(Nanos(1_200 * MS), TaskId(1), true);
    caps.set_running(Nanos(1_600 * MS), TaskId(1), false);
    caps.reset_windows(Nanos(1_700 * MS));
    assert_eq!(caps.check(Nanos(2_700 * MS)), [], "the reset started a new window");
    caps.set_running(Nanos(2_800 * MS), TaskId(1), true);
    let found = caps.check(Nanos(3_700 * MS));
    assert_eq!(found[0].value, Nanos(900 * MS), "the task is still running");
}

#[test]
fn renamed_task_is_charged_to_its_new_group_from_then_on() {
    let mut caps = caps();
    let task = TaskId(3);
    caps.set_running(Nanos::ZERO, task, true);
    caps.rename(Nanos(600 * MS), task, Some(0), true);
    assert_eq!(caps.check(Nanos(1_000 * MS)), [], "400 ms count for the group");
    caps.rename(Nanos(1_600 * MS), task, Some(2), true);
    let found = caps.check(Nanos(2_000 * MS));
    assert_eq!((found.len(), found[0].value), (1, Nanos(600 * MS)));
    caps.set_running(Nanos(2_100 * MS), task, false);
    assert_eq!(caps.check(Nanos(3_000 * MS)), []);
}

/// Milliseconds, rounded to a tenth.
fn tenths(time: Nanos) -> f64 {
    (time.0 as f64 / 1e5).round() / 10.0
}

/// 2^-x for integers, halves and values without an exact result.
#[test]
fn power_of_one_half_matches_powf() {
    assert_eq!([0.0, 1.0, 3.0, 0.5].map(half_to), [1.0, 0.5, 0.125, f64::sqrt(0.5)]);
    for x in [0.001, 0.3, 1.7, 12.34] {
        assert!((half_to(x) / f64::powf(2.0, -x) - 1.0).abs() < 1e-12, "{x}");
    }
    assert_eq!(half_to(1e9), 0.0);
}

/// Usage rises from 0 to u in log2(1 / (1 - u)) half-lives. 0.5208 is the cap plus 0.02 plus what two CPUs add within
/// a tick; 0.48 is the cap minus 0.02.
#[test]
fn group_exceeds_its_cap_when_its_average_usage_is_above_the_limit() {
    let mut caps = caps_by(Some(Nanos::from_ms(1_000)));
    caps.set_running(Nanos::ZERO, TaskId(0), true);
    assert_eq!(caps.advance(Nanos(943 * MS)), []);
    assert!(!caps.is_throttled(TaskId(0)) && !caps.has_checked());
    let changes = caps.advance(Nanos(990 * MS));
    let shown: Vec<_> = changes.iter().map(|change| (change.task.0, tenths(change.at), change.is_throttled)).collect();
    assert_eq!(shown, [(0, 943.4, true), (1, 943.4, true)], "tasks of the nested group, too");
    assert!(
        caps.is_throttled(TaskId(1)) && !caps.is_throttled(TaskId(2)) && !caps.has_checked(),
        "the group is not at its cap yet"
    );
    assert_eq!((caps.advance(Nanos(1_063 * MS)), caps.check(Nanos(1_063 * MS))), (vec![], vec![]));
    assert!(caps.has_checked());
    caps.advance(Nanos(1_200 * MS));
    let found = caps.check(Nanos(1_200 * MS)).remove(0);
    assert_eq!((tenths(found.from), tenths(found.value), tenths(found.limit)), (1063.1, 564.7, 521.4));
    assert_eq!(found.tasks, [TaskId(0), TaskId(1)]);
    caps.advance(Nanos(1_300 * MS));
    assert_eq!(caps.check(Nanos(1_300 * MS)), [], "a violation is reported once");
    caps.set_running(Nanos(1_300 * MS), TaskId(0), false);
    let changes = caps.advance(Nanos(3_000 * MS));
    let expected = 1300.0 + 1000.0 * ((1.0 - f64::powf(2.0, -1.3)) / 0.48).log2();
    assert_eq!(
        changes.iter().map(|change| (change.task.0, change.is_throttled)).collect::<Vec<_>>(),
        [(0, false), (1, false)]
    );
    assert!((tenths(changes[0].at) - expected).abs() <= 0.1, "{changes:?} {expected}");
    assert_eq!(caps.throttled_until(TaskId(1)), changes[0].at);
    caps.set_running(Nanos(3_000 * MS), TaskId(0), true);
    caps.advance(Nanos(5_000 * MS));
    assert_eq!(caps.check(Nanos(5_000 * MS)).len(), 1, "usage is above the limit again");
    caps.forget();
    assert!(caps.advance(Nanos(5_001 * MS)).iter().all(|change| !change.is_throttled));
}

/// Two running tasks count as two CPUs. A task in two throttled groups waits again when neither is throttled any
/// more.
#[test]
fn average_usage_includes_tasks_of_nested_groups() {
    let mut caps = caps_by(Some(Nanos::from_ms(1_000)));
    caps.set_running(Nanos::ZERO, TaskId(1), true);
    caps.set_running(Nanos::ZERO, TaskId(0), true);
    caps.advance(Nanos(380 * MS));
    assert!(!caps.is_throttled(TaskId(0)) && !caps.is_throttled(TaskId(1)));
    caps.advance(Nanos(400 * MS));
    assert!(caps.is_throttled(TaskId(0)), "2 CPUs reach 0.48 after 396 ms");
    caps.advance(Nanos(500 * MS));
    caps.set_running(Nanos(500 * MS), TaskId(0), false);
    caps.set_running(Nanos(500 * MS), TaskId(1), false);
    let changes = caps.advance(Nanos(3_000 * MS));
    let shown: Vec<_> = changes.iter().map(|change| (change.task.0, change.is_throttled)).collect();
    assert_eq!(shown, [(0, false), (1, false)]);
    assert!(changes[0].at < changes[1].at || changes[1].at > Nanos(500 * MS));
}

#[test]
fn tasks_with_a_hard_cap_always_count_as_throttled_without_a_half_life() {
    let caps = caps();
    assert_eq!([0, 1, 2, 3].map(|task| caps.is_throttled(TaskId(task))), [true, true, false, false]);
}
