// SPDX-License-Identifier: GPL-2.0-only
//! Groups with caps, made up: who is found to have too much.

use super::*;
use crate::demands::Group;

const MS: u64 = 1_000_000;

/// A group with 50 % of a CPU, one within it with a cap of 30 %, and one without any.
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

/// Each of these tasks runs for so long, all from the beginning on; what is found after a second.
fn found(ran: &[(u32, u64)]) -> Vec<(Vec<TaskId>, u64, u64)> {
    let mut caps = caps();
    ran.iter().for_each(|&(task, _)| caps.set_running(Nanos::ZERO, TaskId(task), true));
    let mut ends = ran.to_vec();
    ends.sort_by_key(|end| end.1);
    ends.iter().for_each(|&(task, ms)| caps.set_running(Nanos(ms * MS), TaskId(task), false));
    assert_eq!(caps.look(Nanos(999 * MS)), []);
    let found = caps.look(Nanos(1_000 * MS));
    assert!(caps.has_judged());
    found.into_iter().map(|it| (it.tasks, it.value.0 / MS, it.limit.0 / MS)).collect()
}

#[test]
fn a_cap_and_two_hundredths() {
    let both = vec![TaskId(0), TaskId(1)];
    assert_eq!(found(&[(0, 520)]), []);
    assert_eq!(found(&[(0, 521)]), [(both.clone(), 521, 520)]);
    assert_eq!(found(&[(1, 320)]), []);
    assert_eq!(found(&[(1, 330)]), [(vec![TaskId(1)], 330, 320)], "the group around it has not too much");
    assert_eq!(found(&[(0, 300), (1, 300)]), [(both, 600, 520)], "what is within counts");
    assert_eq!(found(&[(2, 900), (3, 900)]), [], "no cap");
}

#[test]
fn windows_follow_one_another() {
    let mut caps = caps();
    assert_eq!(caps.look(Nanos(1_000 * MS)), []);
    caps.set_running(Nanos(1_200 * MS), TaskId(1), true);
    caps.set_running(Nanos(1_600 * MS), TaskId(1), false);
    caps.disturb(Nanos(1_700 * MS));
    assert_eq!(caps.look(Nanos(2_700 * MS)), [], "a disturbance begins anew");
    caps.set_running(Nanos(2_800 * MS), TaskId(1), true);
    let found = caps.look(Nanos(3_700 * MS));
    assert_eq!(found[0].value, Nanos(900 * MS), "one that runs still");
}

#[test]
fn who_gets_a_name_is_of_its_group_from_then_on() {
    let mut caps = caps();
    let task = TaskId(3);
    caps.set_running(Nanos::ZERO, task, true);
    caps.rename(Nanos(600 * MS), task, Some(0), true);
    assert_eq!(caps.look(Nanos(1_000 * MS)), [], "400 ms of it");
    caps.rename(Nanos(1_600 * MS), task, Some(2), true);
    let found = caps.look(Nanos(2_000 * MS));
    assert_eq!((found.len(), found[0].value), (1, Nanos(600 * MS)));
    caps.set_running(Nanos(2_100 * MS), task, false);
    assert_eq!(caps.look(Nanos(3_000 * MS)), []);
}

/// In milliseconds, to the tenth.
fn tenths(time: Nanos) -> f64 {
    (time.0 as f64 / 1e5).round() / 10.0
}

/// 2^-x of whole numbers, of halves, and of what has no root.
#[test]
fn powers_of_two() {
    assert_eq!([0.0, 1.0, 3.0, 0.5].map(half_to), [1.0, 0.5, 0.125, f64::sqrt(0.5)]);
    for x in [0.001, 0.3, 1.7, 12.34] {
        assert!((half_to(x) / f64::powf(2.0, -x) - 1.0).abs() < 1e-12, "{x}");
    }
    assert_eq!(half_to(1e9), 0.0);
}

/// From 0 on it takes log2(1 / (1 - u)) half-lives to come to u: 0.5208 is two hundredths above the cap and what two CPUs
/// do in a tick, 0.48 is two below it.
#[test]
fn by_usage_a_group_has_too_much_when_its_average_is_above() {
    let mut caps = caps_by(Some(Nanos::from_ms(1_000)));
    caps.set_running(Nanos::ZERO, TaskId(0), true);
    assert_eq!(caps.pass(Nanos(943 * MS)), []);
    assert!(!caps.is_held(TaskId(0)) && !caps.has_judged());
    let turns = caps.pass(Nanos(990 * MS));
    let shown: Vec<_> = turns.iter().map(|turn| (turn.task.0, tenths(turn.at), turn.is_held)).collect();
    assert_eq!(shown, [(0, 943.4, true), (1, 943.4, true)], "those of the group within, too");
    assert!(caps.is_held(TaskId(1)) && !caps.is_held(TaskId(2)) && !caps.has_judged(), "it is not at its cap yet");
    assert_eq!((caps.pass(Nanos(1_063 * MS)), caps.look(Nanos(1_063 * MS))), (vec![], vec![]));
    assert!(caps.has_judged());
    caps.pass(Nanos(1_200 * MS));
    let found = caps.look(Nanos(1_200 * MS)).remove(0);
    assert_eq!((tenths(found.from), tenths(found.value), tenths(found.limit)), (1063.1, 564.7, 521.4));
    assert_eq!(found.tasks, [TaskId(0), TaskId(1)]);
    caps.pass(Nanos(1_300 * MS));
    assert_eq!(caps.look(Nanos(1_300 * MS)), [], "it is told once");
    caps.set_running(Nanos(1_300 * MS), TaskId(0), false);
    let turns = caps.pass(Nanos(3_000 * MS));
    let expected = 1300.0 + 1000.0 * ((1.0 - f64::powf(2.0, -1.3)) / 0.48).log2();
    assert_eq!(turns.iter().map(|turn| (turn.task.0, turn.is_held)).collect::<Vec<_>>(), [(0, false), (1, false)]);
    assert!((tenths(turns[0].at) - expected).abs() <= 0.1, "{turns:?} {expected}");
    assert_eq!(caps.held_until(TaskId(1)), turns[0].at);
    caps.set_running(Nanos(3_000 * MS), TaskId(0), true);
    caps.pass(Nanos(5_000 * MS));
    assert_eq!(caps.look(Nanos(5_000 * MS)).len(), 1, "it is above again");
    caps.forget();
    assert!(caps.pass(Nanos(5_001 * MS)).iter().all(|turn| !turn.is_held));
}

/// Two CPUs count twice; a task that two caps hold waits again when neither does.
#[test]
fn by_usage_all_that_is_within_counts() {
    let mut caps = caps_by(Some(Nanos::from_ms(1_000)));
    caps.set_running(Nanos::ZERO, TaskId(1), true);
    caps.set_running(Nanos::ZERO, TaskId(0), true);
    caps.pass(Nanos(380 * MS));
    assert!(!caps.is_held(TaskId(0)) && !caps.is_held(TaskId(1)));
    caps.pass(Nanos(400 * MS));
    assert!(caps.is_held(TaskId(0)), "2 CPUs come to 0.48 after 396 ms");
    caps.pass(Nanos(500 * MS));
    caps.set_running(Nanos(500 * MS), TaskId(0), false);
    caps.set_running(Nanos(500 * MS), TaskId(1), false);
    let turns = caps.pass(Nanos(3_000 * MS));
    let shown: Vec<_> = turns.iter().map(|turn| (turn.task.0, turn.is_held)).collect();
    assert_eq!(shown, [(0, false), (1, false)]);
    assert!(turns[0].at < turns[1].at || turns[1].at > Nanos(500 * MS));
}

#[test]
fn by_seconds_those_with_a_cap_are_always_held() {
    let caps = caps();
    assert_eq!([0, 1, 2, 3].map(|task| caps.is_held(TaskId(task))), [true, true, false, false]);
}
