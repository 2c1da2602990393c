// SPDX-License-Identifier: GPL-2.0-only
//! What passing a spin lock on takes, by how it is made.

use ids::Nanos;

/// How CPUs wait for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spinning {
    /// All try to set one flag.
    TestAndSet,
    /// All look at the number that is served.
    Ticket,
    /// Each looks at a line of its own.
    #[default]
    Queued,
}

impl Spinning {
    /// From one CPU to the next, between which a line takes `line`, while `waiting` CPUs, the next one among them, look on.
    ///
    /// - Test-and-set: each other CPU that polls takes the line away now and then, and that makes the way longer by a
    ///   share of `storm` percent.
    /// - Ticket: all who wait fetch the line again one after the other, and the next one has its turn somewhere among them.
    ///   With k CPUs using or queued that is k/2 ways (Boyd-Wickizer, Kaashoek, Morris and Zeldovich, OLS 2012).
    /// - Queued: a way of the lock word, and one of the line on which the next CPU spins, however many wait.
    pub fn handover(self, line: u64, waiting: u64, storm: u64) -> Nanos {
        Nanos(match self {
            Spinning::TestAndSet => line + line * storm * (waiting - 1) / 100,
            Spinning::Ticket => line * (waiting + 1) / 2,
            Spinning::Queued => 2 * line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_queued_lock_does_not_care_how_many_wait() {
        let ways = |kind: Spinning| [1, 2, 11].map(|waiting| kind.handover(100, waiting, 50).0);
        assert_eq!(ways(Spinning::TestAndSet), [100, 150, 600]);
        assert_eq!(ways(Spinning::Ticket), [100, 150, 600]);
        assert_eq!(ways(Spinning::Queued), [200, 200, 200]);
    }
}
