// SPDX-License-Identifier: GPL-2.0-only
//! Groups with caps, made up: who is found to have too much.

use super::*;
use crate::demands::Group;

const MS: u64 = 1_000_000;

/// A group with 50 % of a CPU, one within it with a cap of 30 %, and one without any.
fn caps() -> Caps {
    let group = |hard_cap_percent, within| Group { hard_cap_percent, within, ..Group::default() };
    let groups = vec![group(Some(50), vec![]), group(Some(30), vec![0]), group(None, vec![])];
    let mut caps = Caps::new(&Demands { groups, ..Demands::default() });
    [Some(0), Some(1), Some(2), None].iter().zip(0..).for_each(|(group, task)| caps.announce(TaskId(task), *group));
    caps
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
