// SPDX-License-Identifier: GPL-2.0-only
//! Lookups in one page cache, as in the AIM7 measurement of Chubb's lecture: one thread for each CPU finds and locks pages
//! of one tree. The tree's lock is the lock of each name: a spin lock, a reader-writer lock, RCU, or 64 spin locks.
//!
//! Times follow from the lock table of the lecture: 50,542,055 acquisitions of 0.5 us each held the lock for 72.3 % of
//! the time, so it measured for 37.5 s (all its columns agree for 36.9 to 38.4 s); the waits took 42.5 % of 12 CPUs. A CPU
//! thus took the lock once in 8.9 us, of which it waited for 3.8 us and held the lock for 0.54 us: 4.6 us are left between
//! two lookups. Kernels before 2.6.25 had test-and-set spin locks. That lookups come at random (exponential times) and
//! that the fourth lock has 64 stripes are guesses.

use super::task;
use crate::{CriticalSections, LockId, LockKind, Op, SharedLock, Workload};
use ids::Nanos;

/// Mean hold time, and mean time between two lookups.
const HOLD: Nanos = Nanos(540);
const BETWEEN: Nanos = Nanos(4_600);

/// Number of lookups after which a thread repeats itself.
const LOOKUPS: u64 = 10_000;

/// Generates the workload of this name; `None` if it is not one of these.
pub(super) fn generate(name: &str, cpus: u32) -> Option<Workload> {
    let (kind, reads, stripes) = match name {
        "pages-spin" => (LockKind::TestAndSet, false, 1),
        "pages-rwlock" => (LockKind::ReadWrite, true, 1),
        "pages-rcu" => (LockKind::Rcu, true, 1),
        "pages-striped" => (LockKind::TestAndSet, false, 64),
        _ => return None,
    };
    let lookups =
        CriticalSections { lock: LockId(0), reads, hold: HOLD, between: BETWEEN, times: LOOKUPS, exponential: true };
    let script = vec![Op::CriticalSections(Box::new(lookups)), Op::Repeat { from: 0, times: None }];
    let thread = |number: u32| task(format!("find_lock_page-{number}"), script.clone());
    let lock = SharedLock { name: "tree_lock".to_owned(), kind, stripes, lines: 0, beside: false };
    Some(Workload {
        tasks: (0..cpus).map(thread).collect(),
        locks: vec![lock],
        duration: Some(Nanos::from_ms(200)),
        ..Workload::default()
    })
}
