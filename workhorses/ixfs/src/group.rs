// SPDX-License-Identifier: MIT OR Apache-2.0
//! Group commit: requests that arrive while a commit is written share the next one, and a commit waits for requests that
//! are about to arrive.
//!
//! With several writers, those that the last commit answered come back shortly after it. A commit that begins at once
//! finds only the others, so two halves of the writers take turns and each commit serves one half. [`Group::gather`]
//! therefore waits until as many requests are there as the last commit answered and left waiting. It waits at most for
//! the mean duration of a commit, counted from the end of the last one: then waiting never costs more than the commit
//! that it may save (the argument of the ski-rental problem). A single writer never waits.

use crate::server::{Level, lock};
use rustix::io::Errno;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a request gets: the level that its changes have reached, or why the store could not be written.
pub type Answer = Box<dyn FnOnce(Result<Level, Errno>) + Send>;

/// A request that waits for a commit.
pub(crate) struct Waiter {
    /// Version of the tree that must be logged.
    pub wanted: u64,
    /// When the request arrived.
    pub begin: Instant,
    pub answer: Answer,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiter>,
    /// Whether a thread leads: it gathers requests, writes commits, and answers.
    led: bool,
    /// Whether that thread waits for requests.
    gathering: bool,
    /// Number of requests that the next commit can expect.
    expected: usize,
    /// When the last commit ended.
    ended: Option<Instant>,
    /// Moving mean of the duration of commits.
    mean: Duration,
}

/// Requests that wait for commits.
#[derive(Default)]
pub(crate) struct Group {
    state: Mutex<State>,
    arrived: Condvar,
}

impl Group {
    /// Adds a request. Returns whether no thread leads: the caller must then lead, or start a thread that does.
    pub fn join(&self, waiter: Waiter) -> bool {
        let mut state = lock(&self.state);
        state.waiting.push(waiter);
        if state.gathering && state.waiting.len() >= state.expected {
            self.arrived.notify_one();
        }
        !std::mem::replace(&mut state.led, true)
    }

    /// Takes the requests for the next commit, after a wait for those that are expected.
    pub fn gather(&self) -> Vec<Waiter> {
        let mut state = lock(&self.state);
        let deadline = state.ended.map(|ended| ended + state.mean);
        state.gathering = true;
        while state.waiting.len() < state.expected {
            let left = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.gathering = false;
        std::mem::take(&mut state.waiting)
    }

    /// Notes that a commit for `answered` requests took this long. To be called before they are answered.
    pub fn committed(&self, answered: usize, took: Duration) {
        let mut state = lock(&self.state);
        state.expected = answered + state.waiting.len();
        state.mean = if state.ended.is_none() { took } else { (state.mean * 7 + took) / 8 };
        state.ended = Some(Instant::now());
    }

    /// Whether the last commit ended at least this long ago and no request waits.
    pub fn is_quiet(&self, time: Duration) -> bool {
        let state = lock(&self.state);
        !state.led && state.ended.is_none_or(|ended| ended.elapsed() >= time)
    }

    /// Ends the caller's lead, unless requests are waiting. Returns whether it has ended.
    pub fn retire(&self) -> bool {
        let mut state = lock(&self.state);
        state.led = !state.waiting.is_empty();
        !state.led
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn waiter() -> Waiter {
        Waiter { wanted: 0, begin: Instant::now(), answer: Box::new(|_| {}) }
    }

    /// Far longer than a test may take.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn single_writer_never_waits_for_others() {
        let group = Group::default();
        for _ in 0..3 {
            assert!(group.join(waiter()), "nobody else leads");
            assert_eq!(group.gather().len(), 1);
            group.committed(1, LONG);
            assert!(group.retire());
        }
    }

    #[test]
    fn commit_waits_for_writers_that_the_last_one_answered() {
        let group = Arc::new(Group::default());
        group.join(waiter());
        assert_eq!(group.gather().len(), 1);
        assert!(!group.join(waiter()), "the first writer leads");
        // One was answered and one waits, so two are expected. The wait ends when the second is there.
        group.committed(1, LONG);
        let late = group.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            late.join(waiter())
        });
        assert_eq!(group.gather().len(), 2);
        assert!(!writer.join().unwrap());
    }

    #[test]
    fn commit_gives_up_waiting_after_the_duration_of_a_commit_and_expects_fewer_then() {
        let group = Group::default();
        group.join(waiter());
        group.join(waiter());
        assert_eq!(group.gather().len(), 2);
        group.committed(2, Duration::from_millis(1));
        group.join(waiter());
        assert_eq!(group.gather().len(), 1, "one of two came back");
        group.committed(1, LONG);
        group.join(waiter());
        assert_eq!(group.gather().len(), 1, "with one expected there is no wait");
    }

    #[test]
    fn lead_ends_only_when_no_request_waits() {
        let group = Group::default();
        assert!(group.join(waiter()));
        assert!(!group.retire());
        group.gather();
        assert!(group.retire() && group.join(waiter()));
    }
}
