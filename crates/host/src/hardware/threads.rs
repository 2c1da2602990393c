// SPDX-License-Identifier: GPL-2.0-only
//! Cache lines, switches, wakeups and clocks, as observed by one or two pinned threads.

use super::{Quantiles, ROUNDS};
use crate::sys;
use ids::{CpuId, CpuSet};
use rustix::thread::{CpuSet as Affinity, sched_getaffinity, sched_setaffinity};
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Aligned so that the value shares neither its cache line nor an adjacent prefetched line.
#[repr(align(256))]
#[derive(Default)]
pub struct Padded<T>(pub T);

/// See [`super::usable`].
pub(super) fn usable() -> std::io::Result<CpuSet> {
    let affinity = sched_getaffinity(None)?;
    Ok((0..Affinity::MAX_CPU).filter(|&cpu| affinity.is_set(cpu)).map(|cpu| CpuId(cpu as u32)).collect())
}

/// Runs `work` pinned to this CPU, in a new thread. If the CPU has gone offline, it runs anywhere.
pub fn on<T: Send>(cpu: CpuId, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| pinned(cpu, work)).join().expect("the thread does not panic"))
}

/// Runs `work` pinned to this CPU, in the calling thread.
pub fn pinned<T>(cpu: CpuId, work: impl FnOnce() -> T) -> T {
    let mut affinity = Affinity::new();
    affinity.set(cpu.index());
    let _ = sched_setaffinity(None, &affinity);
    work()
}

fn each(duration: Duration, count: u64) -> f64 {
    duration.as_secs_f64() * 1e9 / count as f64
}

/// Cost of reading the clock.
pub(super) fn clock(cpu: CpuId) -> Quantiles {
    const READS: u64 = 10_000;
    let round = || {
        let start = Instant::now();
        for _ in 0..READS {
            black_box(Instant::now());
        }
        each(start.elapsed(), READS)
    };
    on(cpu, || Quantiles::of((0..ROUNDS).map(|_| round()).collect()))
}

/// Cost of a FUTEX_WAKE call without waiter, as made by the unlock of a contended mutex.
pub(super) fn futex(cpu: CpuId) -> Quantiles {
    const CALLS: u64 = 2_000;
    let word = Padded(AtomicU32::new(0));
    let round = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| sys::wake(&word.0, 1));
        each(start.elapsed(), CALLS)
    };
    on(cpu, || Quantiles::of((0..ROUNDS).map(|_| round()).collect()))
}

/// Gaps of 400 ns or more in a loop that reads the clock, and their number per second. Zero if there were none.
pub(super) fn gaps(cpu: CpuId) -> (Quantiles, Quantiles) {
    const ROUND: Duration = Duration::from_millis(20);
    const LEAST: Duration = Duration::from_nanos(400);
    on(cpu, || {
        let (mut gaps, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (before, start) = (gaps.len(), Instant::now());
            let mut last = start;
            while last - start < ROUND {
                let now = Instant::now();
                if now - last >= LEAST {
                    gaps.push((now - last).as_secs_f64() * 1e9);
                }
                last = now;
            }
            rates.push((gaps.len() - before) as f64 / ROUND.as_secs_f64());
        }
        gaps.is_empty().then(|| gaps.push(0.0));
        (Quantiles::of(gaps), Quantiles::of(rates))
    })
}

/// Transfer latency of a cache line: two CPUs write to it alternately.
pub(super) fn line(a: CpuId, b: CpuId) -> Quantiles {
    const TRIPS: u64 = 2_000;
    let turn = Padded(AtomicU64::new(0));
    let await_turn = |number: u64| {
        while turn.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pinned(b, || {
                for trip in 0..ROUNDS as u64 * TRIPS {
                    await_turn(2 * trip + 1);
                    turn.0.store(2 * trip + 2, Ordering::Release);
                }
            });
        });
        let round = |round: u64| {
            let start = Instant::now();
            for trip in round * TRIPS..(round + 1) * TRIPS {
                turn.0.store(2 * trip + 1, Ordering::Release);
                await_turn(2 * trip + 2);
            }
            each(start.elapsed(), 2 * TRIPS)
        };
        let rounds = scope.spawn(move || pinned(a, || (0..ROUNDS as u64).map(round).collect::<Vec<f64>>()));
        Quantiles::of(rounds.join().expect("the thread does not panic"))
    })
}

/// Number of additions that one of two contending CPUs makes before the other one gets the line: each detects by the
/// value whether the other has added. This measures how long the hardware keeps a contended line in one cache.
pub(super) fn residency(a: CpuId, b: CpuId) -> Quantiles {
    const ADDITIONS: u64 = 20_000;
    let (number, barrier) = (Padded(AtomicU64::new(0)), Barrier::new(2));
    let add = |cpu: CpuId| {
        pinned(cpu, || {
            let round = |_| {
                barrier.wait();
                let (mut turns, mut next) = (0, u64::MAX);
                for _ in 0..ADDITIONS {
                    let seen = number.0.fetch_add(1, Ordering::Relaxed);
                    turns += u64::from(seen != next);
                    next = seen.wrapping_add(1);
                }
                barrier.wait();
                ADDITIONS as f64 / turns as f64
            };
            (0..ROUNDS).map(round).collect::<Vec<f64>>()
        })
    };
    std::thread::scope(|scope| {
        let add = &add;
        let both = [a, b].map(|cpu| scope.spawn(move || add(cpu)));
        Quantiles::of(both.into_iter().flat_map(|thread| thread.join().expect("the thread does not panic")).collect())
    })
}

/// Latency from waking a sleeping thread on another CPU to its first instruction.
pub(super) fn wakeup(a: CpuId, b: CpuId) -> Quantiles {
    const WAKEUPS: usize = 200;
    const APART: Duration = Duration::from_micros(300);
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (sent, done) = (Padded(AtomicU64::new(0)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pinned(b, || {
                let mut took = Vec::new();
                while !done.load(Ordering::Acquire) {
                    std::thread::park();
                    // Spurious wakeup: no time was sent.
                    match sent.0.swap(0, Ordering::AcqRel) {
                        0 => {}
                        at => took.push((now() - at) as f64),
                    }
                }
                took
            })
        });
        let (waked, sent, done) = (sleeper.thread().clone(), &sent, &done);
        scope.spawn(move || {
            pinned(a, || {
                for _ in 0..WAKEUPS {
                    std::thread::sleep(APART);
                    sent.0.store(now(), Ordering::Release);
                    waked.unpark();
                }
                std::thread::sleep(APART);
                done.store(true, Ordering::Release);
                waked.unpark();
            });
        });
        let mut took = sleeper.join().expect("the thread does not panic");
        took.is_empty().then(|| took.push(0.0));
        Quantiles::of(took)
    })
}

/// Slowdown of a CPU in the first millisecond after idling, compared to the end of 60 ms of work, in percent. The
/// median of the rounds is 0 if the frequency does not change observably.
pub(super) fn ramp(cpu: CpuId) -> Quantiles {
    const IDLE: Duration = Duration::from_millis(300);
    const FIRST: Duration = Duration::from_millis(1);
    const WORK: Duration = Duration::from_millis(60);
    const RAMPS: usize = 5;
    let steps = |length: Duration| {
        let (start, mut steps, mut word) = (Instant::now(), 0u64, 1u64);
        while start.elapsed() < length {
            (0..100).for_each(|_| word = black_box(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)));
            steps += 1;
        }
        steps as f64 / length.as_secs_f64()
    };
    let round = || {
        std::thread::sleep(IDLE);
        let first = steps(FIRST);
        steps(WORK);
        (100.0 * (steps(FIRST) / first - 1.0)).max(0.0)
    };
    on(cpu, || Quantiles::of((0..RAMPS).map(|_| round()).collect()))
}
