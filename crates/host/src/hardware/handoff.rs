// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of threads for context switches, wakeups and ticks. Unlike elapsed time, it is hardly affected by other
//! tasks.
//!
//! Other virtual machines on the same core do affect it: for some tenths of a second everything takes a third to a
//! half longer. So short, repeatable quantities are measured in several visits with other measurements in between,
//! and the [`Fastest`] visit is used.

use super::Quantiles;
use super::threads::{Padded, on, pinned};
use ids::CpuId;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Work before a handoff to another CPU that should be halted by then; `bpf/idle.bpf.h` says after how long a CPU is.
pub const APART: Duration = Duration::from_micros(300);

/// Work before a handoff to another CPU that is idle but should not be halted.
pub const CLOSE: Duration = Duration::from_micros(20);

/// Runs `work` in the calling thread, pinned to this CPU and with nice value -20 if permitted. Otherwise a busy machine runs
/// another task for a whole slice at each `sched_yield()` and each handoff. The thread keeps its nice value.
fn favored<T>(cpu: CpuId, work: impl FnOnce() -> T) -> T {
    // Without the permission the measurement only takes longer. On Linux this is the nice value of one thread.
    let _ = rustix::process::setpriority_process(None, -20);
    pinned(cpu, work)
}

/// CPU time of the calling thread, in nanoseconds.
fn own_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The visit with the least median.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fastest(Option<Quantiles>);

impl Fastest {
    /// Adds a visit, keeping the faster one.
    pub fn visit(&mut self, found: Quantiles) {
        if self.0.is_none_or(|known| found.median < known.median) {
            self.0 = Some(found);
        }
    }

    /// Returns the fastest visit.
    ///
    /// # Panics
    /// If there was none.
    pub fn get(self) -> Quantiles {
        self.0.expect("measured at least once")
    }
}

/// Costs of switches and wakeups on one CPU.
#[derive(Default)]
pub struct OnOneCpu {
    /// CPU time of `sched_yield()` by a single thread, and by each of two alternating threads.
    alone: Fastest,
    in_turn: Fastest,
    /// CPU time of the system calls of a handoff when they neither wake nor sleep.
    calls: Fastest,
    handoff: Option<Handoffs>,
}

impl OnOneCpu {
    /// Measures everything once more: about 10 ms.
    pub fn visit(&mut self, cpu: CpuId) {
        self.visit_switches(cpu);
        self.visit_handoffs(cpu);
    }

    /// Measures switches by yields only.
    pub fn visit_switches(&mut self, cpu: CpuId) {
        self.alone.visit(yields(cpu, 1));
        self.in_turn.visit(yields(cpu, 2));
    }

    /// Measures handoffs only.
    pub fn visit_handoffs(&mut self, cpu: CpuId) {
        self.calls.visit(calls(cpu, BATCH));
        let found = handoffs(cpu, cpu, NEAR, BATCH, Duration::ZERO);
        if self.handoff.is_none_or(|known| found.took.median < known.took.median) {
            self.handoff = Some(found);
        }
    }

    /// Cost of a switch beyond the `sched_yield()` call.
    pub fn switch(&self) -> Quantiles {
        self.in_turn.get().less(self.alone.get().median)
    }

    /// Cost of waking another thread, and of the preceding sleep, beyond the system calls. If the scheduler lets the
    /// woken thread preempt, the waker is switched out instead of sleeping, and its next turn needs no wakeup.
    pub fn wake(&self) -> Quantiles {
        let Handoffs { took, switches, sleeps } = self.handoff.expect("measured at least once");
        took.less(self.calls.get().median + switches * self.switch().median).divided(sleeps.max(LEAST_SLEEPS))
    }

    /// Number of switches per sleep.
    pub fn switches_each_sleep(&self) -> f64 {
        let Handoffs { switches, sleeps, .. } = self.handoff.expect("measured at least once");
        switches / sleeps.max(LEAST_SLEEPS)
    }
}

/// Lower bound of sleeps per handoff, so that a thread that never slept does not cause a division by zero.
const LEAST_SLEEPS: f64 = 0.1;

/// Measured handoffs, with their system calls.
#[derive(Clone, Copy, Debug)]
struct Handoffs {
    /// CPU time of one handoff.
    took: Quantiles,
    /// Number of switches per handoff.
    switches: f64,
    /// Number of sleeps, and thus wakeups, per handoff.
    sleeps: f64,
}

/// Number of handoffs timed together. If the scheduler lets the woken thread preempt, one side is charged for both,
/// so only a batch has a typical time.
const BATCH: u32 = 50;

/// Batches per visit.
const NEAR: u32 = 20;

/// CPU time of both threads for a handoff to another CPU: waking the other thread, falling asleep, and being switched
/// in again, without the system calls themselves. `times` handoffs are measured, each after `work`.
pub fn handoff(a: CpuId, b: CpuId, times: u32, work: Duration) -> Quantiles {
    handoffs(a, b, times, 1, work).took.less(calls(a, 1).median)
}

/// Measures `times` batches of `batch` handoffs. Each batch begins with `work`.
fn handoffs(a: CpuId, b: CpuId, times: u32, batch: u32, work: Duration) -> Handoffs {
    let turn = Padded(AtomicU32::new(0));
    let side = |own: u32, cpu: CpuId| {
        favored(cpu, || {
            let mut took = Vec::with_capacity(times as usize);
            let mut turn_of = own;
            sleep_until(&turn.0, turn_of);
            let [sleeps, preemptions] = switches();
            for _ in 0..times {
                let start = Instant::now();
                while start.elapsed() < work {
                    spin_loop();
                }
                let before = own_ns();
                for _ in 0..batch {
                    turn.0.store(turn_of + 1, Ordering::Release);
                    let _ = futex::wake(&turn.0, futex::Flags::PRIVATE, 1);
                    turn_of += 2;
                    sleep_until(&turn.0, turn_of);
                }
                took.push((own_ns() - before) / f64::from(batch));
            }
            let more = switches();
            turn.0.store(turn_of + 1, Ordering::Release);
            let _ = futex::wake(&turn.0, futex::Flags::PRIVATE, 1);
            (took, more[0] - sleeps, more[1] - preemptions)
        })
    };
    let sides = std::thread::scope(|scope| {
        [scope.spawn(|| side(0, a)), scope.spawn(|| side(1, b))]
            .map(|side| side.join().expect("the thread does not panic"))
    });
    let of_each = |count: i64| count as f64 / f64::from(2 * times * batch);
    let (sleeps, preemptions) = sides.iter().fold((0, 0), |sum, (_, sleeps, more)| (sum.0 + sleeps, sum.1 + more));
    let took = sides.into_iter().flat_map(|(took, ..)| took).collect();
    Handoffs { took: Quantiles::of(took), switches: of_each(sleeps + preemptions), sleeps: of_each(sleeps) }
}

/// Voluntary and involuntary context switches of the calling thread.
fn switches() -> [i64; 2] {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("Linux has it since 2.6.26");
    [usage.voluntary_context_switches(), usage.involuntary_context_switches()]
}

/// CPU time of a `sched_yield()` call by this many threads on one CPU.
pub fn yields(cpu: CpuId, threads: usize) -> Quantiles {
    const YIELDS: u32 = 100;
    const ROUNDS: usize = 40;
    let barrier = Barrier::new(threads);
    let side = || {
        favored(cpu, || {
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
        Quantiles::of(sides.into_iter().flat_map(|side| side.join().expect("the thread does not panic")).collect())
    })
}

/// Cost of writing a byte to a pipe or reading an available one: half of the sum.
///
/// # Errors
/// If no pipe can be created.
pub fn pass(cpu: CpuId) -> io::Result<Quantiles> {
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

/// Gaps in the CPU time observed by a spinning thread, and their number per second: ticks and other interrupts.
pub fn ticks(cpu: CpuId) -> (Quantiles, f64) {
    /// Minimum gap; shorter ones are caused by the processor itself.
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

/// Cost of both system calls when neither thread sleeps, and of reading the clock once per batch.
fn calls(cpu: CpuId, batch: u32) -> Quantiles {
    const TIMES: u32 = 100;
    let word = AtomicU32::new(1);
    on(cpu, || {
        let round = |_| {
            let before = own_ns();
            for _ in 0..batch {
                let _ = futex::wake(&word, futex::Flags::PRIVATE, 1);
                let _ = futex::wait(&word, futex::Flags::PRIVATE, 0, None);
            }
            (own_ns() - before) / f64::from(batch)
        };
        Quantiles::of((0..TIMES).map(round).collect())
    })
}

impl Fastest {
    /// For tests: the result of a single visit.
    pub fn of(found: Quantiles) -> Fastest {
        Fastest(Some(found))
    }
}

impl OnOneCpu {
    /// For tests: given costs of switches and wakeups, and number of switches per sleep.
    pub fn of(switch: Fastest, wake: Fastest, switches_each_sleep: f64) -> OnOneCpu {
        let nothing = Fastest::of(Quantiles { p10: 0.0, median: 0.0, p90: 0.0 });
        let all = wake.get().median + switches_each_sleep * switch.get().median;
        let handoff = Handoffs {
            took: Quantiles { p10: all, median: all, p90: all },
            switches: switches_each_sleep,
            sleeps: 1.0,
        };
        OnOneCpu { alone: nothing, in_turn: switch, calls: nothing, handoff: Some(handoff) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_keeps_the_visit_with_the_least_median() {
        let mut fastest = Fastest::default();
        for median in [3.0, 2.0, 4.0] {
            fastest.visit(Quantiles { p10: 0.0, median, p90: 9.0 });
        }
        assert_eq!(fastest.get().median, 2.0);
    }

    #[test]
    fn wakeup_cost_is_handoff_less_calls_and_switches_per_sleep() {
        let fastest = |median| Fastest(Some(Quantiles { p10: median, median, p90: median }));
        let took = Quantiles { p10: 900.0, median: 1_000.0, p90: 1_100.0 };
        let near = OnOneCpu {
            alone: fastest(200.0),
            in_turn: fastest(600.0),
            calls: fastest(300.0),
            handoff: Some(Handoffs { took, switches: 1.0, sleeps: 0.5 }),
        };
        assert_eq!(near.switch().median, 400.0);
        // 1000 ns, less 300 for the calls and 400 for a switch, are 300 ns a handoff. Only every second handoff has a
        // wakeup, so a wakeup costs 600 ns.
        assert_eq!(near.wake(), Quantiles { p10: 400.0, median: 600.0, p90: 800.0 });
    }

    /// A handoff on one CPU switches; not every one sleeps.
    #[test]
    fn handoffs_on_one_cpu_switch_and_sleep() {
        let usable = crate::hardware::usable().unwrap();
        let here = usable.first().unwrap();
        let near = handoffs(here, here, 10, 20, Duration::ZERO);
        assert!(near.switches >= 0.9, "{near:?}");
        assert!(near.sleeps >= LEAST_SLEEPS && near.sleeps <= near.switches, "{near:?}");
    }
}
