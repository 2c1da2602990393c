// SPDX-License-Identifier: GPL-2.0-only
//! A worker pool that does not scale, and three repairs: the example of `docs/how-to/mend-a-program.md`.
//!
//! `pool MODE THREADS` hashes 4,000 items with this number of threads and prints the items for each second. The modes:
//! - `held`: a worker keeps the queue locked while it works on an item.
//! - `short`: it locks the queue only to take the item.
//! - `shared`: as `short`, and each worker counts its rounds in a counter beside those of the others.
//! - `apart`: the same counters, a cache line apart.
//! - `storm`: nothing but locking and unlocking, for measuring what a meter costs.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Number of items.
const ITEMS: u64 = 4_000;
/// Rounds of hashing for an item: some tens of microseconds.
const ROUNDS: u64 = 40_000;
/// Acquisitions of a storm.
const ACQUISITIONS: u64 = 1_000_000;

/// Counters of the workers, `SPREAD` words apart.
struct Counters<const SPREAD: usize>(Vec<AtomicU64>);

impl<const SPREAD: usize> Counters<SPREAD> {
    fn new(threads: usize) -> Self {
        Counters((0..threads * SPREAD).map(|_| AtomicU64::new(0)).collect())
    }

    fn of(&self, worker: usize) -> &AtomicU64 {
        &self.0[worker * SPREAD]
    }
}

fn hash(item: u64, mut each: impl FnMut()) -> u64 {
    let mut state = item;
    for round in 0..ROUNDS {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 29) ^ round;
        each();
    }
    state
}

/// Takes an item and works on it while the queue is locked.
#[inline(never)]
fn work_under_lock(queue: &Mutex<u64>) -> bool {
    let mut left = queue.lock().expect("no worker panics");
    let Some(item) = left.checked_sub(1) else { return false };
    *left = item;
    black_box(hash(item, || ()));
    true
}

/// Takes an item.
#[inline(never)]
fn take_item(queue: &Mutex<u64>) -> Option<u64> {
    let mut left = queue.lock().expect("no worker panics");
    *left = left.checked_sub(1)?;
    Some(*left)
}

fn run(threads: usize, worker: impl Fn(usize) + Sync) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..threads {
            let worker = &worker;
            scope.spawn(move || worker(number));
        }
    });
    began.elapsed().as_secs_f64()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let threads = arguments.next().and_then(|text| text.parse().ok()).filter(|threads| (1..=64).contains(threads));
    let Some(threads) = threads else {
        eprintln!("pool: expected held, short, shared, apart or storm, and a number of threads from 1 to 64");
        std::process::exit(2);
    };
    let queue = Mutex::new(ITEMS);
    let (near, far) = (Counters::<1>::new(threads), Counters::<16>::new(threads));
    let count = |counter: &AtomicU64| counter.store(counter.load(Relaxed) + 1, Relaxed);
    let seconds = match mode.as_str() {
        "held" => run(threads, |_| while work_under_lock(&queue) {}),
        "short" => run(threads, |_| {
            while let Some(item) = take_item(&queue) {
                black_box(hash(item, || ()));
            }
        }),
        "shared" => run(threads, |worker| {
            while let Some(item) = take_item(&queue) {
                black_box(hash(item, || count(near.of(worker))));
            }
        }),
        "apart" => run(threads, |worker| {
            while let Some(item) = take_item(&queue) {
                black_box(hash(item, || count(far.of(worker))));
            }
        }),
        "storm" => run(threads, |_| {
            for _ in 0..ACQUISITIONS / threads as u64 {
                *queue.lock().expect("no worker panics") += 1;
            }
        }),
        _ => {
            eprintln!("pool: there is no mode {mode:?}; expected held, short, shared, apart or storm");
            std::process::exit(2);
        }
    };
    let done = if mode == "storm" { ACQUISITIONS } else { ITEMS };
    println!("items per second: {:.0}", done as f64 / seconds);
}
