// SPDX-License-Identifier: GPL-2.0-only
//! Waits for the end of a child, whichever ends first.
//!
//! A builder of several jobs waits until one of them has ended, and any will do. Another scheduler lets another one end first.
//! So a sleep that the end of a child ended becomes a wait for so many ends of children, not for this child's, unless
//! the sleeper's system call named it (`waitpid(2)` with a number) or no other child lived.

use crate::event::Slept;
use crate::life::Life;
use ids::Nanos;

/// When the children of a task were born, and when they ended; both in the order of time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Children {
    births: Vec<Nanos>,
    ends: Vec<Nanos>,
}

impl Children {
    /// One is born.
    pub fn born(&mut self, time: Nanos) {
        insert(&mut self.births, time);
    }

    /// One has ended.
    pub fn ended(&mut self, time: Nanos) {
        insert(&mut self.ends, time);
    }

    /// How many lived at a time at which one was about to end: without that one.
    pub fn others_at(&self, time: Nanos) -> u32 {
        let until = |times: &[Nanos]| times.partition_point(|event| *event <= time);
        until(&self.births).saturating_sub(until(&self.ends) + 1) as u32
    }
}

/// How many children lived whose ends would have ended this sleep of a task as well as that of `waker` did; `None` if that
/// is no end of a child, or of the only one that would do.
pub(crate) fn others_that_would_do(lives: &[Life], sleeper: usize, waker: usize, slept: &Slept) -> Option<u32> {
    let (parent, child) = (&lives[sleeper], &lives[waker]);
    let is_process = child.parent == Some(sleeper) && child.tgid != parent.tgid;
    let ends = is_process && child.exited.is_some_and(|time| time <= slept.wake);
    let others = parent.children.others_at(slept.wake);
    (ends && !slept.names_child && others > 0).then_some(others)
}

/// Most events come in the order of time.
fn insert(times: &mut Vec<Nanos>, time: Nanos) {
    let place = times.partition_point(|before| *before <= time);
    times.insert(place, time);
}

#[cfg(test)]
mod tests {
    use crate::convert::tests::{birth, by, end, exit, scripts, sleep};
    use crate::event::{Event, Kind};

    /// A shell of three children. Number 2 wakes it at 90 by its end, number 1 is gone before, 3 lives on.
    fn family(changes: impl Fn(&mut Event)) -> Vec<Event> {
        let mut events = vec![
            birth(0, 0, None, 0),
            birth(10, 1, Some(0), 10),
            birth(20, 2, Some(0), 20),
            birth(30, 3, Some(0), 30),
            exit(50, 1, 40, "a", 1),
            end(60, 1, 50),
            exit(85, 2, 60, "b", 1),
            sleep(40, 0, 40, 90, by(2, 65)),
            end(95, 2, 70),
            exit(190, 3, 100, "c", 1),
            sleep(100, 0, 50, 195, by(3, 105)),
            end(200, 3, 110),
            end(210, 0, 60),
        ];
        events.iter_mut().for_each(changes);
        events
    }

    #[test]
    fn whichever_child_ends_first_will_do() {
        assert_eq!(scripts(&family(|_| ()))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 Children(1) 10 await(1) 10");
    }

    #[test]
    fn a_child_that_was_named_is_waited_for() {
        let named = |event: &mut Event| {
            if let Kind::Sleep(slept) = &mut event.kind {
                slept.names_child = true;
            }
        };
        assert_eq!(scripts(&family(named))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 await(0) 10 await(1) 10");
    }

    #[test]
    fn a_thread_is_no_child_and_who_does_something_else_is_waited_for() {
        let threads = |event: &mut Event| {
            if let Kind::Birth { tgid, .. } = &mut event.kind {
                *tgid = 100;
            }
        };
        assert_eq!(scripts(&family(threads))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 await(0) 10 await(1) 10");
        let early = |event: &mut Event| {
            if let (Kind::Sleep(slept), 40_000) = (&mut event.kind, event.time.0) {
                slept.wake = ids::Nanos::from_us(80);
            }
        };
        assert_eq!(scripts(&family(early))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 await(0) 10 await(1) 10");
    }
}
