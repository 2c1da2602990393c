// SPDX-License-Identifier: GPL-2.0-only
//! What a passage through a lock takes, by one CPU and by two that want it all the time.

use super::threads::{Padded, pinned};
use super::{LOCK_ROUND, Quantiles, ROUNDS};
use ids::CpuId;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::time::Instant;

/// How long locks are held, in nanoseconds.
const HOLDS: [u64; 3] = [0, 100, 1_000];

/// A lock under test.
trait Lock: Sync {
    /// Does `work` with the lock held.
    fn with(&self, work: &dyn Fn());
}

/// A flag that whoever finds it clear sets.
#[derive(Default)]
struct TestAndSet(Padded<AtomicBool>);

impl Lock for TestAndSet {
    fn with(&self, work: &dyn Fn()) {
        while self.0.0.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        work();
        self.0.0.store(false, Ordering::Release);
    }
}

/// First come, first served: everybody draws a number and waits for it.
#[derive(Default)]
struct Ticket {
    next: Padded<AtomicU64>,
    served: Padded<AtomicU64>,
}

impl Lock for Ticket {
    fn with(&self, work: &dyn Fn()) {
        let number = self.next.0.fetch_add(1, Ordering::Relaxed);
        while self.served.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
        work();
        self.served.0.store(number + 1, Ordering::Release);
    }
}

/// A futex: who waits long sleeps.
impl Lock for Mutex<()> {
    fn with(&self, work: &dyn Fn()) {
        let held = self.lock().expect("nobody panics");
        work();
        drop(held);
    }
}

/// Readers only: they share it, but each writes to its line twice.
impl Lock for RwLock<()> {
    fn with(&self, work: &dyn Fn()) {
        let held = self.read().expect("nobody panics");
        work();
        drop(held);
    }
}

/// A row of the result.
pub(super) struct Row {
    pub what: String,
    pub value: Quantiles,
}

/// All locks, all holds, by one CPU and by both.
pub(super) fn all(a: CpuId, b: CpuId) -> Vec<Row> {
    let step = pinned_here(a, step_ns);
    let (set, ticket) = (TestAndSet::default(), Ticket::default());
    let (mutex, readers) = (Mutex::new(()), RwLock::new(()));
    let locks: [(&str, &dyn Lock); 4] =
        [("test-and-set", &set), ("ticket", &ticket), ("mutex", &mutex), ("rwlock, readers", &readers)];
    let mut rows = Vec::new();
    for (name, lock) in locks {
        for hold in HOLDS {
            let steps = (hold as f64 / step).round() as u64;
            for cpus in [&[a][..], &[a, b][..]] {
                let who = if cpus.len() == 1 { "1 CPU" } else { "2 CPUs" };
                let what = format!("passage, {name}, {hold} ns held, {who}");
                rows.push(Row { what, value: passage(lock, steps, cpus) });
            }
        }
    }
    rows
}

fn pinned_here<T: Send>(cpu: CpuId, work: impl FnOnce() -> T + Send) -> T {
    super::threads::on(cpu, work)
}

/// So many steps of work that touches no memory.
fn spend(steps: u64) {
    let mut word = 1u64;
    (0..steps).for_each(|_| word = black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)));
}

/// What one of these steps takes, by the fastest of some rounds.
fn step_ns() -> f64 {
    const STEPS: u64 = 100_000;
    let round = |_| {
        let start = Instant::now();
        spend(STEPS);
        start.elapsed().as_secs_f64() * 1e9 / STEPS as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Time of a passage: from the first CPU's start of a round to the last one's end, over the passages of all together.
fn passage(lock: &dyn Lock, steps: u64, cpus: &[CpuId]) -> Quantiles {
    /// Passages between two looks at the clock.
    const BATCH: u64 = 16;
    let (barrier, passages, epoch) = (Barrier::new(cpus.len()), AtomicU64::new(0), Instant::now());
    let (first, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let now = || epoch.elapsed().as_nanos() as u64;
    let work = |cpu: CpuId, counts: bool| {
        pinned(cpu, || {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                barrier.wait();
                first.fetch_min(now(), Ordering::Relaxed);
                let start = Instant::now();
                let mut own = 0;
                while start.elapsed() < LOCK_ROUND {
                    (0..BATCH).for_each(|_| lock.with(&|| spend(steps)));
                    own += BATCH;
                }
                last.fetch_max(now(), Ordering::Relaxed);
                passages.fetch_add(own, Ordering::Relaxed);
                barrier.wait();
                if counts {
                    let length = last.swap(0, Ordering::Relaxed) - first.swap(u64::MAX, Ordering::Relaxed);
                    rounds.push(length as f64 / passages.swap(0, Ordering::Relaxed) as f64);
                }
            }
            rounds
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            cpus.iter().zip(0..).map(|(&cpu, number)| scope.spawn(move || work(cpu, number == 0))).collect();
        let rounds = threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect();
        Quantiles::of(rounds)
    })
}
