// SPDX-License-Identifier: GPL-2.0-only
//! A cache as the working sets that were used in it last.
//!
//! A line of a set is displaced when enough other lines have been used since. So a cache keeps the sets in the order of
//! their last use, each with a stamp: the count of streamed bytes when the set left. The bytes used by others since then
//! are those of the sets that are ahead of it or in use now, each counted once, plus the difference of the stamps. The
//! number of sets is bounded; a set that is not among them has lost everything.

use crate::loss::{lost, part};
use ids::Nanos;

/// A working set: that of a task, or of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SetId(pub u32);

/// A working set in a cache.
#[derive(Clone, Copy, Debug)]
struct Entry {
    set: SetId,
    /// Number of tasks that use it now.
    users: u32,
    /// Bytes of it for which the cache is of use.
    bytes: u64,
    /// Bytes of it that were not reloaded when it was left.
    missing: u64,
    /// Stamp: the count of streamed bytes when it was left, in thousandths.
    streamed: u64,
}

/// A cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// Size in bytes.
    capacity: u64,
    /// Largest number of sets kept.
    most: usize,
    /// Sets, the one used last at the end.
    sets: Vec<Entry>,
    /// Bytes ever streamed through it, in thousandths: a stream of 1 MB/s has a thousandth of a byte in a nanosecond.
    streamed: u64,
    /// Sum of the streams of the tasks that run now, in MB/s.
    stream: u64,
    /// Time up to which `streamed` includes the streams.
    at: Nanos,
}

impl Cache {
    /// Creates an empty cache of this size in bytes, which keeps up to `most` sets, including those in use, which are
    /// never dropped.
    pub fn new(capacity: u64, most: usize) -> Cache {
        Cache { capacity, most, sets: Vec::new(), streamed: 0, stream: 0, at: Nanos::ZERO }
    }

    /// Size in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Accounts the streams up to `now`.
    pub fn advance(&mut self, now: Nanos) {
        if self.stream > 0 {
            self.streamed += self.stream * (now - self.at).0;
        }
        self.at = now;
    }

    /// Changes the sum of the streams at `now`.
    pub fn change_stream(&mut self, now: Nanos, from: u64, to: u64) {
        self.advance(now);
        self.stream = self.stream + to - from;
    }

    /// Bytes of `size` bytes of a set that the cache has lost; the account covers the streams up to now.
    pub fn lost(&self, set: SetId, size: u64) -> u64 {
        let Some((used, missing)) = self.used_since(set) else { return size };
        (part(size, lost(size, used, self.capacity)) + missing).min(size)
    }

    /// Bytes that others have used since this set was left, each counted once, and the bytes of the set that were
    /// missing then; `None` if the cache does not know the set.
    pub fn used_since(&self, set: SetId) -> Option<(u64, u64)> {
        let at = self.sets.iter().rposition(|entry| entry.set == set)?;
        let entry = self.sets[at];
        if entry.users > 0 {
            return Some((0, 0));
        }
        let is_later = |&(index, other): &(usize, &Entry)| index > at || other.users > 0;
        let sets: u64 = self.sets.iter().enumerate().filter(is_later).map(|(_, other)| other.bytes).sum();
        Some((sets + (self.streamed - entry.streamed) / 1_000, entry.missing))
    }

    /// A task begins to use `bytes` bytes of a set.
    pub fn enter(&mut self, set: SetId, bytes: u64) {
        let mut entry = match self.sets.iter().rposition(|entry| entry.set == set) {
            Some(at) => self.sets.remove(at),
            None => Entry { set, users: 0, bytes, missing: 0, streamed: 0 },
        };
        (entry.users, entry.bytes, entry.missing) = (entry.users + 1, bytes, 0);
        if self.sets.len() >= self.most
            && let Some(oldest) = self.sets.iter().position(|entry| entry.users == 0)
        {
            self.sets.remove(oldest);
        }
        self.sets.push(entry);
    }

    /// A task that used the set leaves the cache, and had not reloaded `missing` bytes; the account covers the streams
    /// up to now.
    pub fn leave(&mut self, set: SetId, missing: u64) {
        let at = self.sets.iter().rposition(|entry| entry.set == set).expect("a set in use is kept");
        let mut entry = self.sets.remove(at);
        entry.users -= 1;
        (entry.missing, entry.streamed) = (missing, self.streamed);
        self.sets.push(entry);
    }

    /// The cache is emptied.
    pub fn flush(&mut self) {
        self.sets.retain(|entry| entry.users > 0);
    }
}
