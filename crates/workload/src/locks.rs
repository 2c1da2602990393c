// SPDX-License-Identifier: GPL-2.0-only
//! Locks in shared memory, and how tasks use them.
//!
//! What matters about a lock is how often it is acquired, how long it is held, and which kind it is. Therefore a
//! script contains no single lock and unlock steps: one [`CriticalSections`] operation describes a series of critical
//! sections, which can be run at the speed of the real program.

use ids::Nanos;

/// Index of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockId(pub u32);

/// Lock algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Test-and-set spinlock: all waiters spin on the lock word.
    TestAndSet,
    /// Ticket spinlock: waiters take a number and spin on the number being served (Linux 2.6.25 to 4.1).
    Ticket,
    /// Queued spinlock (MCS): each waiter spins on its own cache line (Linux since 4.2).
    Queued,
    /// Reader-writer spinlock.
    ReadWrite,
    /// Seqlock: readers write nothing and retry if a writer interfered.
    Sequence,
    /// RCU: readers write nothing and never wait; a writer waits for a grace period.
    Rcu,
    /// Mutex: waiters sleep.
    Mutex,
    /// No lock: each operation is one atomic instruction on the cache line.
    Atomic,
}

impl LockKind {
    /// All kinds, with their names in workload files.
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

    /// Returns whether the kind distinguishes readers and writers.
    pub fn has_readers(self) -> bool {
        matches!(self, LockKind::ReadWrite | LockKind::Sequence | LockKind::Rcu)
    }
}

/// A lock in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedLock {
    /// Name in the workload file.
    pub name: String,
    /// Lock algorithm.
    pub kind: LockKind,
    /// Number of lock instances, at least 1; each acquisition uses a random one.
    pub stripes: u32,
    /// Number of cache lines, besides the lock's own, that a holder writes.
    pub lines: u32,
    /// Whether the protected data shares the lock's cache line, so that waiters take the line from the holder.
    pub beside: bool,
}

/// A series of critical sections: the task works, acquires the lock, works, releases it, repeatedly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CriticalSections {
    /// The lock.
    pub lock: LockId,
    /// Whether the task acquires the lock as a reader.
    pub reads: bool,
    /// Work with the lock held, mean.
    pub hold: Nanos,
    /// Work before each acquisition, mean.
    pub between: Nanos,
    /// Number of repetitions, at least 1.
    pub times: u64,
    /// Whether both times are sampled from exponential distributions for each repetition; otherwise they are
    /// constant.
    pub exponential: bool,
}
