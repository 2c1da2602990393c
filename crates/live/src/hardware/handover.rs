// SPDX-License-Identifier: GPL-2.0-only
//! What switches, wakeups and ticks take of the CPU time of threads. That is what others on the machine disturb least: the
//! clock on the wall goes on while they have the CPU, this one does not.

use super::Quantiles;
use super::threads::{Padded, on, pinned};
use ids::CpuId;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a thread works before it hands over to another CPU that is to be halted by then: `bpf/idle.bpf.h` says after how
/// long a CPU is.
pub(crate) const APART: Duration = Duration::from_micros(300);

/// And to one that idles and is not.
pub(crate) const CLOSE: Duration = Duration::from_micros(20);

/// CPU time of the calling thread, in nanoseconds.
fn own_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// CPU time that both threads need for a hand-over, of which there are so many, each after so much work: waking the other,
/// falling asleep, and running again. Without the time of the system calls that neither wake nor sleep.
pub(crate) fn handover(a: CpuId, b: CpuId, times: u32, work: Duration) -> Quantiles {
    let turn = Padded(AtomicU32::new(0));
    let side = |own: u32, cpu: CpuId| {
        pinned(cpu, || {
            let mut took = Vec::with_capacity(times as usize);
            let mut turn_of = own;
            sleep_until(&turn.0, turn_of);
            for _ in 0..times {
                let start = Instant::now();
                while start.elapsed() < work {
                    spin_loop();
                }
                let before = own_ns();
                turn.0.store(turn_of + 1, Ordering::Release);
                let _ = futex::wake(&turn.0, futex::Flags::PRIVATE, 1);
                turn_of += 2;
                sleep_until(&turn.0, turn_of);
                took.push(own_ns() - before);
            }
            turn.0.store(turn_of + 1, Ordering::Release);
            let _ = futex::wake(&turn.0, futex::Flags::PRIVATE, 1);
            took
        })
    };
    let took = std::thread::scope(|scope| {
        let sides = [scope.spawn(|| side(0, a)), scope.spawn(|| side(1, b))];
        sides.into_iter().flat_map(|side| side.join().expect("it does not panic")).collect()
    });
    Quantiles::of(took).less(pinned_calls(a, times))
}

/// What a switch adds to a call of `sched_yield()`: with another thread on the CPU that does the same, and without.
pub(crate) fn switch(cpu: CpuId) -> Quantiles {
    yields(cpu, 2).less(yields(cpu, 1).median)
}

/// CPU time of a call of `sched_yield()` by so many threads on one CPU.
pub(super) fn yields(cpu: CpuId, threads: usize) -> Quantiles {
    const YIELDS: u32 = 100;
    const ROUNDS: usize = 100;
    let barrier = Barrier::new(threads);
    let side = || {
        pinned(cpu, || {
            barrier.wait();
            let round = |_| {
                let before = own_ns();
                (0..YIELDS).for_each(|_| std::thread::yield_now());
                (own_ns() - before) / f64::from(YIELDS)
            };
            (0..ROUNDS).map(round).collect::<Vec<f64>>()
        })
    };
    std::thread::scope(|scope| {
        let sides: Vec<_> = (0..threads).map(|_| scope.spawn(side)).collect();
        Quantiles::of(sides.into_iter().flat_map(|side| side.join().expect("it does not panic")).collect())
    })
}

/// Writing a byte to a pipe, or reading one that is there: half of what both take.
///
/// # Errors
/// If there can be no pipe.
pub(crate) fn pass(cpu: CpuId) -> io::Result<Quantiles> {
    const PASSES: u32 = 100;
    const ROUNDS: usize = 50;
    let (mut reader, mut writer) = io::pipe()?;
    on(cpu, || {
        let mut round = || -> io::Result<f64> {
            let before = own_ns();
            for _ in 0..PASSES {
                writer.write_all(&[0])?;
                reader.read_exact(&mut [0])?;
            }
            Ok((own_ns() - before) / f64::from(2 * PASSES))
        };
        let rounds = (0..ROUNDS).map(|_| round()).collect::<io::Result<Vec<f64>>>()?;
        Ok(Quantiles::of(rounds))
    })
}

/// Gaps in the CPU time of a thread that looks at it all the time, and how many there are in a second of that time: ticks, and
/// other interrupts that a task cannot help.
pub(crate) fn ticks(cpu: CpuId) -> (Quantiles, f64) {
    /// Shorter ones are the processor's own matter.
    const LEAST_NS: f64 = 400.0;
    const LENGTH_NS: f64 = 100e6;
    on(cpu, || {
        let (mut gaps, start) = (Vec::new(), own_ns());
        let usual = Quantiles::of((0..101).map(|_| own_ns()).map(|at| own_ns() - at).collect()).median;
        let mut last = start;
        while last - start < LENGTH_NS {
            let now = own_ns();
            if now - last - usual >= LEAST_NS {
                gaps.push(now - last - usual);
            }
            last = now;
        }
        let rate = gaps.len() as f64 / ((last - start) / 1e9);
        gaps.is_empty().then(|| gaps.push(0.0));
        (Quantiles::of(gaps), rate)
    })
}

fn sleep_until(turn: &AtomicU32, own: u32) {
    loop {
        let now = turn.load(Ordering::Acquire);
        if now >= own {
            return;
        }
        let _ = futex::wait(turn, futex::Flags::PRIVATE, now, None);
    }
}

/// The median of what both calls and a look at the clock take when nobody sleeps.
fn pinned_calls(cpu: CpuId, times: u32) -> f64 {
    let word = AtomicU32::new(1);
    on(cpu, || {
        let round = |_| {
            let before = own_ns();
            let _ = futex::wake(&word, futex::Flags::PRIVATE, 1);
            let _ = futex::wait(&word, futex::Flags::PRIVATE, 0, None);
            own_ns() - before
        };
        Quantiles::of((0..times).map(round).collect()).median
    })
}
