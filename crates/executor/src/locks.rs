// SPDX-License-Identifier: GPL-2.0-only
//! Real locks in shared memory, and tasks that execute critical sections at full speed.
//!
//! A critical section makes no system call and reads no clock, so that hold times of 100 ns are meaningful. The end
//! of the execution is checked every few acquisitions.

use host::hardware::Padded;
use host::sys;
use ids::{Nanos, TaskId};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use workload::{CriticalSections, LockKind, SharedLock};

/// Number of queue nodes for queued locks, more than a kernel has CPUs. Two tasks share a node only if there are more
/// tasks than nodes.
const NODES: usize = 1 << 14;

/// Bits of a readers-writer lock; the reader count is above them.
const WRITER: u64 = 1;
const WANTED: u64 = 2;
const READER: u64 = 4;

/// Number of random intervals generated in advance, so that critical sections generate none.
const SAMPLES: usize = 1 << 10;

/// Words of a lock, or of one stripe of it.
#[derive(Default)]
struct Word {
    /// Depending on the kind: flag, next ticket, tail of the queue, reader count, or version.
    state: AtomicU64,
    served: AtomicU64,
    futex: AtomicU32,
    /// Data in the same cache line as the lock.
    beside: AtomicU64,
}

/// Queue node of a waiting thread.
#[derive(Default)]
struct QueueNode {
    /// 1 while it waits.
    waits: AtomicU32,
    /// Index of the next waiter's node, plus one.
    next: AtomicU32,
}

struct Lock {
    kind: LockKind,
    beside: bool,
    words: Vec<Padded<Word>>,
    lines: Vec<Padded<AtomicU64>>,
}

/// All locks of an execution.
pub struct Locks {
    locks: Vec<Lock>,
    nodes: Vec<Padded<QueueNode>>,
}

impl Locks {
    /// Creates the locks of a workload.
    pub fn new(locks: &[SharedLock]) -> Locks {
        let queued = locks.iter().any(|lock| lock.kind == LockKind::Queued);
        let make = |lock: &SharedLock| Lock {
            kind: lock.kind,
            beside: lock.beside,
            words: (0..lock.stripes).map(|_| Padded::default()).collect(),
            lines: (0..lock.lines).map(|_| Padded::default()).collect(),
        };
        let nodes = (0..if queued { NODES } else { 0 }).map(|_| Padded::default()).collect();
        Locks { locks: locks.iter().map(make).collect(), nodes }
    }

    /// Executes critical sections of `task` until done or `over`; `work` is called for time outside and inside the
    /// lock. Returns the number of acquisitions.
    pub fn enter(&self, task: TaskId, op: &CriticalSections, work: impl Fn(Nanos), over: impl Fn() -> bool) -> u64 {
        const BATCH: u64 = 16;
        let lock = &self.locks[op.lock.0 as usize];
        let node = task.index() % NODES;
        let mut random = (u64::from(task.0) << 32) | 0x9e37_79b9;
        let samples = if op.exponential { samples(&mut random) } else { vec![1.0; 1] };
        let length = |mean: Nanos, index: u64| Nanos((mean.0 as f64 * samples[index as usize % samples.len()]) as u64);
        for index in 0..op.times {
            if index.is_multiple_of(BATCH) && over() {
                return index;
            }
            work(length(op.between, 2 * index));
            let stripe = if lock.words.len() > 1 { next(&mut random) as usize % lock.words.len() } else { 0 };
            let hold = || {
                lock.lines.iter().for_each(|line| line.0.store(index, Ordering::Relaxed));
                work(length(op.hold, 2 * index + 1));
                if lock.beside {
                    lock.words[stripe].0.beside.store(index, Ordering::Relaxed);
                }
            };
            self.enter_once(lock, stripe, node, op.reads, &hold);
        }
        op.times
    }

    fn enter_once(&self, lock: &Lock, stripe: usize, node: usize, reads: bool, hold: &dyn Fn()) {
        let word = &lock.words[stripe].0;
        match (lock.kind, reads) {
            (LockKind::Atomic, _) => {
                word.state.fetch_add(1, Ordering::AcqRel);
                hold();
            }
            (LockKind::Ticket, _) => {
                let number = word.state.fetch_add(1, Ordering::Relaxed);
                spin_while(|| word.served.load(Ordering::Acquire) != number);
                hold();
                word.served.store(number + 1, Ordering::Release);
            }
            (LockKind::Queued, _) => self.enter_queued(word, node, hold),
            (LockKind::Mutex, _) => enter_mutex(&word.futex, hold),
            (LockKind::ReadWrite, true) => {
                while word.state.fetch_add(READER, Ordering::Acquire) & (WRITER | WANTED) != 0 {
                    word.state.fetch_sub(READER, Ordering::Relaxed);
                    spin_while(|| word.state.load(Ordering::Relaxed) & (WRITER | WANTED) != 0);
                }
                hold();
                word.state.fetch_sub(READER, Ordering::Release);
            }
            (LockKind::ReadWrite, false) => {
                // One writer at a time blocks new readers, then waits for the current ones.
                let want = |state: u64| (state & (WRITER | WANTED) == 0).then_some(state | WANTED);
                spin_while(|| word.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, want).is_err());
                spin_while(|| word.state.load(Ordering::Acquire) >= READER);
                word.state.fetch_xor(WANTED | WRITER, Ordering::Acquire);
                hold();
                word.state.fetch_and(!WRITER, Ordering::Release);
            }
            (LockKind::Sequence, true) => loop {
                let before = word.state.load(Ordering::Acquire);
                if before.is_multiple_of(2) {
                    hold();
                    if word.state.load(Ordering::Acquire) == before {
                        return;
                    }
                }
                spin_loop();
            },
            // The version is odd while a writer is active, so it also serves as the writers' lock.
            (LockKind::Sequence, false) => {
                let mut before = word.state.load(Ordering::Relaxed);
                let enter = |before: u64| {
                    let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                    before.is_multiple_of(2)
                        && word.state.compare_exchange(before, before + 1, success, failure).is_ok()
                };
                while !enter(before) {
                    spin_loop();
                    before = word.state.load(Ordering::Relaxed);
                }
                hold();
                word.state.store(before + 2, Ordering::Release);
            }
            (LockKind::TestAndSet, _) => {
                spin_while(|| word.state.swap(1, Ordering::Acquire) != 0);
                hold();
                word.state.store(0, Ordering::Release);
            }
            (LockKind::Rcu, _) => unreachable!("rejected during preparation"),
        }
    }

    fn enter_queued(&self, word: &Word, node: usize, hold: &dyn Fn()) {
        let own = &self.nodes[node].0;
        let name = node as u32 + 1;
        own.next.store(0, Ordering::Relaxed);
        own.waits.store(1, Ordering::Relaxed);
        let before = word.state.swap(u64::from(name), Ordering::AcqRel);
        if before != 0 {
            self.nodes[before as usize - 1].0.next.store(name, Ordering::Release);
            spin_while(|| own.waits.load(Ordering::Acquire) != 0);
        }
        hold();
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if word.state.compare_exchange(u64::from(name), 0, success, failure).is_err() {
            spin_while(|| own.next.load(Ordering::Acquire) == 0);
            let next = own.next.load(Ordering::Acquire) as usize - 1;
            self.nodes[next].0.waits.store(0, Ordering::Release);
        }
    }
}

fn spin_while(mut waits: impl FnMut() -> bool) {
    while waits() {
        spin_loop();
    }
}

/// Mutex states: 0 free; 1 held; 2 held, and a waiter may sleep. A contender sleeps at once.
fn enter_mutex(word: &AtomicU32, hold: &dyn Fn()) {
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while word.swap(2, Ordering::Acquire) != 0 {
            sys::wait(word, 2, sys::NEVER);
        }
    }
    hold();
    if word.swap(0, Ordering::Release) == 2 {
        sys::wake(word, 1);
    }
}

/// xorshift (Marsaglia, 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Exponentially distributed numbers with mean 1.
fn samples(state: &mut u64) -> Vec<f64> {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (0..SAMPLES).map(|_| -unit(next(state)).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use workload::LockId;

    /// Threads that update two variables together never see them differ. Few acquisitions: a fair lock is handed to
    /// threads that are not running, which costs a slice each time.
    #[test]
    fn locks_provide_mutual_exclusion() {
        for (_, kind) in LockKind::NAMES {
            if matches!(kind, LockKind::Rcu | LockKind::Atomic) {
                continue;
            }
            let lock = SharedLock { name: "l".into(), kind, stripes: 1, lines: 1, beside: true };
            let locks = Locks::new(&[lock]);
            let (one, two, torn) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
            let pass = |task: u32, reads: bool| {
                let op = CriticalSections {
                    lock: LockId(0),
                    reads,
                    hold: Nanos(1),
                    between: Nanos::ZERO,
                    times: 200,
                    exponential: false,
                };
                let work = |time: Nanos| {
                    if time == Nanos::ZERO || reads {
                        return;
                    }
                    // Load and store are separate, so only the lock keeps other threads out, also while this thread
                    // does not run.
                    let value = one.load(Ordering::Relaxed) + 1;
                    one.store(value, Ordering::Relaxed);
                    if value.is_multiple_of(16) {
                        std::thread::yield_now();
                    }
                    let other = two.load(Ordering::Relaxed) + 1;
                    two.store(other, Ordering::Relaxed);
                    torn.fetch_or(value != other, Ordering::Relaxed);
                };
                assert_eq!(locks.enter(TaskId(task), &op, work, || false), 200);
            };
            std::thread::scope(|scope| {
                let readers = u32::from(kind.has_readers());
                (0..2 + readers).for_each(|task| {
                    let pass = &pass;
                    scope.spawn(move || pass(task, task >= 2));
                });
            });
            assert_eq!((one.into_inner(), torn.into_inner()), (400, false), "{kind:?}");
        }
    }

    #[test]
    fn exponential_samples_have_mean_one() {
        let mean = samples(&mut 7).iter().sum::<f64>() / SAMPLES as f64;
        assert!((0.9..1.1).contains(&mean), "{mean}");
    }
}
