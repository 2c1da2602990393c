// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte-range locks of all connections. They live in memory and end with their connection.

use crate::tree::Ino;

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The file.
    pub ino: Ino,
    /// Whether it excludes all others, not only exclusive ones.
    pub exclusive: bool,
    /// Offset of the first byte locked.
    pub start: u64,
    /// Offset behind the last byte locked.
    pub end: u64,
    /// Connection, process and client.
    pub owner: (u64, u32, Vec<u8>),
}

/// Most locks that a server keeps.
const MAX_LOCKS: usize = 100_000;

/// The locks that are held.
#[derive(Default)]
pub struct Locks(Vec<Held>);

impl Locks {
    /// A lock of another owner that excludes `wanted`.
    pub fn conflict(&self, wanted: &Held) -> Option<&Held> {
        self.0.iter().find(|held| {
            held.ino == wanted.ino
                && held.owner != wanted.owner
                && (held.exclusive || wanted.exclusive)
                && held.start < wanted.end
                && wanted.start < held.end
        })
    }

    /// Takes a lock; replaces what its owner holds of the range. False if another owner's lock excludes it.
    pub fn lock(&mut self, wanted: Held) -> bool {
        if self.conflict(&wanted).is_some() || self.0.len() >= MAX_LOCKS {
            return false;
        }
        self.unlock(&wanted);
        self.0.push(wanted);
        true
    }

    /// Gives up what an owner holds of a range.
    pub fn unlock(&mut self, range: &Held) {
        let mut kept = Vec::with_capacity(self.0.len());
        for held in self.0.drain(..) {
            let apart = held.ino != range.ino
                || held.owner != range.owner
                || held.end <= range.start
                || held.start >= range.end;
            if apart {
                kept.push(held);
                continue;
            }
            if held.start < range.start {
                kept.push(Held { end: range.start, ..held.clone() });
            }
            if held.end > range.end {
                kept.push(Held { start: range.end, ..held });
            }
        }
        self.0 = kept;
    }

    /// Gives up all locks of a connection.
    pub fn disconnect(&mut self, connection: u64) {
        self.0.retain(|held| held.owner.0 != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: u32, exclusive: bool, start: u64, end: u64) -> Held {
        Held { ino: 5, exclusive, start, end, owner: (1, owner, Vec::new()) }
    }

    #[test]
    fn unlock_in_the_middle_leaves_both_ends() {
        let mut locks = Locks::default();
        assert!(locks.lock(held(1, true, 0, 100)));
        assert!(!locks.lock(held(2, false, 99, 200)));
        locks.unlock(&held(1, true, 40, 60));
        assert!(locks.lock(held(2, true, 40, 60)));
        assert!(!locks.lock(held(2, true, 0, 1)));
        assert!(!locks.lock(held(2, true, 60, 61)));
        locks.disconnect(1);
        assert!(locks.lock(held(3, true, 0, u64::MAX)));
    }

    #[test]
    fn shared_locks_exclude_only_exclusive_ones() {
        let mut locks = Locks::default();
        assert!(locks.lock(held(1, false, 0, 10)) && locks.lock(held(2, false, 5, 15)));
        assert!(!locks.lock(held(3, true, 9, 11)));
        assert!(locks.lock(held(1, true, 0, 5)));
    }
}
