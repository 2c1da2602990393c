// SPDX-License-Identifier: GPL-2.0-only
//! Cost of handing off a spin lock, by lock implementation.

use ids::Nanos;

/// How CPUs wait for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spinning {
    /// All CPUs try to set one flag.
    TestAndSet,
    /// All CPUs poll the number that is served.
    Ticket,
    /// Each CPU polls a cache line of its own.
    #[default]
    Queued,
}

impl Spinning {
    /// Duration of a handoff to the next CPU, if a cache-line transfer takes `line`, while `waiting` CPUs wait,
    /// including the next one.
    ///
    /// - Test-and-set: each other CPU that polls takes the line away now and then, and so increases the duration by
    ///   `slowdown` percent.
    /// - Ticket: all waiters fetch the line again one after another, and the next one is at a random position among
    ///   them. With k CPUs holding or waiting that is k/2 transfers on average (Boyd-Wickizer, Kaashoek, Morris and
    ///   Zeldovich, OLS 2012).
    /// - Queued: one transfer of the lock word, and one of the line that the next CPU polls, independent of the
    ///   number of waiters.
    pub fn handover(self, line: u64, waiting: u64, slowdown: u64) -> Nanos {
        Nanos(match self {
            Spinning::TestAndSet => line + line * slowdown * (waiting - 1) / 100,
            Spinning::Ticket => line * (waiting + 1) / 2,
            Spinning::Queued => 2 * line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handoff_of_a_queued_lock_is_independent_of_the_number_of_waiters() {
        let ways = |kind: Spinning| [1, 2, 11].map(|waiting| kind.handover(100, waiting, 50).0);
        assert_eq!(ways(Spinning::TestAndSet), [100, 150, 600]);
        assert_eq!(ways(Spinning::Ticket), [100, 150, 600]);
        assert_eq!(ways(Spinning::Queued), [200, 200, 200]);
    }
}
