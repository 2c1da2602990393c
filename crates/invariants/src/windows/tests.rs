// SPDX-License-Identifier: GPL-2.0-only
//! Constructed requests, and the windows that have too many late ones.

use super::*;

const TASK: TaskId = TaskId(0);

/// Runs requests of these lengths, one every 100 ns, of a task that may have one late request of three, with a
/// deadline of 10 ns each.
fn requests(lengths: &[u64]) -> (Windows, Vec<Missed>) {
    let mut windows = Windows::default();
    windows.announce(Some(Window { late: 1, of: 3, request: Nanos(10) }));
    windows.announce(None);
    let mut missed = Vec::new();
    for (begun, length) in (0..).step_by(100).zip(lengths) {
        windows.begin(Nanos(begun), TASK);
        missed.extend(windows.end(Nanos(begun + length), TASK));
        windows.begin(Nanos(begun), TaskId(1));
        assert_eq!(windows.end(Nanos(begun + 99), TaskId(1)), None, "the task has no window");
    }
    (windows, missed)
}

#[test]
fn window_allows_one_late_request_of_three() {
    assert_eq!(requests(&[10, 11, 10, 11, 1, 1]).1, []);
    let missed = |from| Missed { from: Nanos(from), late: 2, limit: 1 };
    assert_eq!(requests(&[11, 1, 11]).1, [missed(0)]);
    assert_eq!(requests(&[1, 1, 1, 50, 50, 1]).1, [missed(300)]);
    assert_eq!(requests(&[1, 1, 11, 11, 1, 1]).1, [], "two late requests in a row, of two windows");
}

#[test]
fn open_window_is_checked_with_the_requests_that_are_late_already() {
    let (mut windows, missed) = requests(&[11]);
    assert_eq!((missed, windows.open(Nanos(150))), (vec![], vec![]));
    windows.begin(Nanos(200), TASK);
    assert_eq!(windows.open(Nanos(210)), [], "the deadline has not passed");
    assert_eq!(windows.open(Nanos(211)), [(TASK, Missed { from: Nanos(0), late: 2, limit: 1 })]);
    windows.reset_windows();
    assert_eq!((windows.open(Nanos(300)), windows.end(Nanos(300), TASK)), (vec![], None));
}

#[test]
fn second_wakeup_does_not_start_a_second_request() {
    let (mut windows, _) = requests(&[11, 1]);
    windows.begin(Nanos(500), TASK);
    windows.begin(Nanos(509), TASK);
    assert_eq!(windows.end(Nanos(511), TASK).map(|missed| missed.late), Some(2));
    assert!(windows.has_checked() && !Windows::default().has_checked());
}

#[test]
fn renamed_task_uses_the_window_of_its_new_name() {
    let (mut windows, _) = requests(&[11]);
    let window = Window { late: 1, of: 3, request: Nanos(10) };
    let late = |windows: &mut Windows, task| {
        [500, 600].map(|begun| {
            windows.begin(Nanos(begun), task);
            windows.end(Nanos(begun + 11), task).map(|missed| missed.late)
        })
    };
    windows.rename(TASK, Some(window));
    assert_eq!(late(&mut windows, TASK), [None, Some(3)], "earlier late requests count, as the window is the same");
    windows.rename(TASK, None);
    assert_eq!(late(&mut windows, TASK), [None, None]);
    windows.rename(TaskId(1), Some(Window { of: 2, ..window }));
    assert_eq!(late(&mut windows, TaskId(1)), [None, Some(2)], "the task had no window before");
}
