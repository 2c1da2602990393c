// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a critical section under each kind of lock, on one CPU and on two CPUs that contend for it.

use crate::Locks;
use host::hardware::{LOCK_ROUND, Quantiles, Quantity, ROUNDS, on, pinned};
use ids::{CpuId, Nanos, TaskId};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use workload::{CriticalSections, LockId, LockKind, SharedLock};

/// Hold times, in nanoseconds.
const HOLDS: [u64; 3] = [0, 100, 1_000];

/// Name of the measurement, kind of lock, whether acquired for reading.
const LOCKS: [(&str, LockKind, bool); 7] = [
    ("atomic", LockKind::Atomic, false),
    ("seqlock, readers", LockKind::Sequence, true),
    ("test-and-set", LockKind::TestAndSet, false),
    ("ticket", LockKind::Ticket, false),
    ("queued", LockKind::Queued, false),
    ("mutex", LockKind::Mutex, false),
    ("rwlock, readers", LockKind::ReadWrite, true),
];

/// Measures critical sections of all kinds of locks and several hold times, with one CPU and with both.
pub fn measure(a: CpuId, b: CpuId) -> Vec<Quantity> {
    let step = pinned_here(a, step_ns);
    let mut rows = Vec::new();
    for (name, kind, reads) in LOCKS {
        for hold in HOLDS {
            let steps = (hold as f64 / step).round() as u64;
            for cpus in [&[a][..], &[a, b][..]] {
                let contenders = if cpus.len() == 1 { "1 CPU" } else { "2 CPUs" };
                let what = format!("critical section, {name}, {hold} ns held, {contenders}");
                rows.push(Quantity { key: None, what, value: critical_section(kind, reads, steps, cpus) });
            }
        }
    }
    rows
}

fn pinned_here<T: Send>(cpu: CpuId, work: impl FnOnce() -> T + Send) -> T {
    on(cpu, work)
}

/// Executes steps of work that touch no memory.
fn spend(steps: u64) {
    let mut word = 1u64;
    (0..steps).for_each(|_| word = black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)));
}

/// Duration of one step in nanoseconds: the minimum over some rounds.
fn step_ns() -> f64 {
    const STEPS: u64 = 100_000;
    let round = |_| {
        let start = Instant::now();
        spend(STEPS);
        start.elapsed().as_secs_f64() * 1e9 / STEPS as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Time per critical section: from the first CPU's start of a round to the last CPU's end, divided by the total
/// number of acquisitions.
fn critical_section(kind: LockKind, reads: bool, steps: u64, cpus: &[CpuId]) -> Quantiles {
    /// Critical sections between two reads of the clock.
    const BATCH: u64 = 16;
    let locks = Locks::new(&[SharedLock { name: String::new(), kind, stripes: 1, lines: 0, beside: false }]);
    let (hold, between) = (Nanos(steps), Nanos::ZERO);
    let op = CriticalSections { lock: LockId(0), reads, hold, between, times: BATCH, exponential: false };
    // The script's times count steps of work here, not nanoseconds.
    let work = |steps: Nanos| spend(steps.0);
    let (barrier, acquisitions, epoch) = (Barrier::new(cpus.len()), AtomicU64::new(0), Instant::now());
    let (first, last) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let now = || epoch.elapsed().as_nanos() as u64;
    let task = |cpu: CpuId, number: u32| {
        pinned(cpu, || {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                barrier.wait();
                first.fetch_min(now(), Ordering::Relaxed);
                let start = Instant::now();
                let mut own = 0;
                while start.elapsed() < LOCK_ROUND {
                    own += locks.enter(TaskId(number), &op, work, || false);
                }
                last.fetch_max(now(), Ordering::Relaxed);
                acquisitions.fetch_add(own, Ordering::Relaxed);
                barrier.wait();
                if number == 0 {
                    let length = last.swap(0, Ordering::Relaxed) - first.swap(u64::MAX, Ordering::Relaxed);
                    rounds.push(length as f64 / acquisitions.swap(0, Ordering::Relaxed) as f64);
                }
            }
            rounds
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            cpus.iter().zip(0..).map(|(&cpu, number)| scope.spawn(move || task(cpu, number))).collect();
        let rounds = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("the measuring thread does not panic"))
            .collect();
        Quantiles::of(rounds)
    })
}
