// SPDX-License-Identifier: GPL-2.0-only
//! Waits for the exit of any child.
//!
//! A parallel build waits until one of its jobs exits, whichever it is. Under another scheduler another job may exit
//! first. So a sleep that was ended by the exit of a child becomes a wait for a number of child exits, not for this
//! child, unless the system call named the child (`waitpid(2)` with a PID) or no other child was alive.

use crate::event::Slept;
use crate::life::Life;
use ids::Nanos;

/// Birth and exit times of a task's children, both in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Children {
    births: Vec<Nanos>,
    ends: Vec<Nanos>,
}

impl Children {
    /// Adds the birth of a child.
    pub fn born(&mut self, time: Nanos) {
        insert(&mut self.births, time);
    }

    /// Adds the exit of a child.
    pub fn ended(&mut self, time: Nanos) {
        insert(&mut self.ends, time);
    }

    /// Number of children alive at the exit of one child, that child excluded.
    pub fn others_at(&self, time: Nanos) -> u32 {
        let until = |times: &[Nanos]| times.partition_point(|event| *event <= time);
        until(&self.births).saturating_sub(until(&self.ends) + 1) as u32
    }
}

/// Number of other children whose exit would also have ended this sleep. `None` if `waker` is not an exiting child,
/// or is the only child that would do.
pub(crate) fn others_that_would_do(lives: &[Life], sleeper: usize, waker: usize, slept: &Slept) -> Option<u32> {
    let (parent, child) = (&lives[sleeper], &lives[waker]);
    let is_process = child.parent == Some(sleeper) && child.tgid != parent.tgid;
    let ends = is_process && child.exited.is_some_and(|time| time <= slept.wake);
    let others = parent.children.others_at(slept.wake);
    (ends && !slept.names_child && others > 0).then_some(others)
}

/// Inserts a time into a sorted list. Most times arrive in order and are appended.
fn insert(times: &mut Vec<Nanos>, time: Nanos) {
    let place = times.partition_point(|before| *before <= time);
    times.insert(place, time);
}

#[cfg(test)]
mod tests {
    use crate::convert::tests::{birth, by, end, exit, scripts, sleep};
    use crate::event::{Event, Kind};

    /// A shell with three children. Number 2 wakes it at 90 by exiting, number 1 has exited before, number 3 lives
    /// on.
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
    fn wait_for_any_child_counts_exits() {
        assert_eq!(scripts(&family(|_| ()))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 Children(1) 10 await(1) 10");
    }

    #[test]
    fn wait_for_a_specific_child_awaits_its_exit() {
        let named = |event: &mut Event| {
            if let Kind::Sleep(slept) = &mut event.kind {
                slept.names_child = true;
            }
        };
        assert_eq!(scripts(&family(named))[0], "10 fork(1) 10 fork(2) 10 fork(3) 10 await(0) 10 await(1) 10");
    }

    #[test]
    fn wakeup_by_a_thread_or_by_a_living_child_is_awaited_directly() {
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
