// SPDX-License-Identifier: GPL-2.0-only
//! Locks in the memory of a workload, and how tasks pass through them.
//!
//! What matters of a lock in a program is how often tasks come to it, how long they hold it, and of which kind it is. So a
//! script does not take and give it back step by step: [`CriticalSections`] says it all, and whoever plays it can do so at the
//! speed of the real thing.

use ids::Nanos;

/// A lock by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockId(pub u32);

/// How a lock is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// A flag that all who wait try to set.
    TestAndSet,
    /// Who comes draws a number; all look at the number that is served (Linux 2.6.25 to 4.1).
    Ticket,
    /// Each waits at a place of its own (MCS; Linux since 4.2).
    Queued,
    /// Readers share it, a writer has it alone; who waits spins.
    ReadWrite,
    /// Readers write nothing, and begin again if a writer came between.
    Sequence,
    /// Readers write nothing and never wait; a writer waits for a grace period.
    Rcu,
    /// Who waits sleeps.
    Mutex,
    /// No lock: each passage is one atomic operation on the line.
    Atomic,
}

impl LockKind {
    /// All of them, by the names in files.
    pub const NAMES: [(&'static str, LockKind); 8] = [
        ("test-and-set", LockKind::TestAndSet),
        ("ticket", LockKind::Ticket),
        ("queued", LockKind::Queued),
        ("rwlock", LockKind::ReadWrite),
        ("seqlock", LockKind::Sequence),
        ("rcu", LockKind::Rcu),
        ("mutex", LockKind::Mutex),
        ("atomic", LockKind::Atomic),
    ];

    /// Whether readers and writers are told apart.
    pub fn has_readers(self) -> bool {
        matches!(self, LockKind::ReadWrite | LockKind::Sequence | LockKind::Rcu)
    }
}

/// A lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLock {
    /// Its name in the file.
    pub name: String,
    /// How it is made.
    pub kind: LockKind,
    /// So many locks in its place, of which each passage takes one by chance; at least 1.
    pub stripes: u32,
    /// Cache lines, besides the lock's own, that a holder writes.
    pub lines: u32,
    /// What it protects lies on the line of the lock itself, which those who wait take away from the holder.
    pub beside: bool,
}

/// A task passes through a lock, again and again: works, takes it, works, gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriticalSections {
    /// Which one.
    pub lock: LockId,
    /// As a reader.
    pub reads: bool,
    /// Work with the lock, on average.
    pub hold: Nanos,
    /// Work without it before each passage, on average.
    pub between: Nanos,
    /// How often; at least once.
    pub times: u64,
    /// Both are drawn anew for each passage, exponentially distributed; else they are always the same.
    pub exponential: bool,
}
