// SPDX-License-Identifier: GPL-2.0-only
//! What switches, wakeups and ticks take of the CPU time of threads. That is what others on the machine disturb least: the
//! clock on the wall goes on while they have the CPU, this one does not.
//!
//! What shares a core with this virtual machine disturbs it nevertheless: for some tenths of a second everything takes a third
//! to a half longer. So what is short and the same each time is measured in several visits, with other things between, and the
//! [`Fastest`] counts.

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

/// How long a thread works before it hands over to another CPU that is to be halted by then: `bpf/idle.bpf.h` says after how
/// long a CPU is.
pub const APART: Duration = Duration::from_micros(300);

/// And to one that idles and is not.
pub const CLOSE: Duration = Duration::from_micros(20);

/// CPU time of the calling thread, in nanoseconds.
fn own_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Of several visits the one whose median is least.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fastest(Option<Quantiles>);

impl Fastest {
    /// Keeps the fastest of all visits.
    pub fn visit(&mut self, found: Quantiles) {
        if self.0.is_none_or(|known| found.median < known.median) {
            self.0 = Some(found);
        }
    }

    /// Returns the fastest visit; 0 if there was none.
    pub fn get(self) -> Quantiles {
        self.0.expect("visited before")
    }
}

/// Switches and wakeups on one CPU.
#[derive(Default)]
pub struct OnOneCpu {
    /// CPU time of `sched_yield()` by one thread, and by each of two that take turns.
    alone: Fastest,
    in_turn: Fastest,
    /// Of the system calls of a hand-over where they neither wake nor sleep.
    calls: Fastest,
    handover: Option<Handovers>,
}

impl OnOneCpu {
    /// Measures all of it once more: some 10 ms.
    pub fn visit(&mut self, cpu: CpuId) {
        self.visit_switches(cpu);
        self.visit_handovers(cpu);
    }

    /// Only switches that are no sleeps.
    pub fn visit_switches(&mut self, cpu: CpuId) {
        self.alone.visit(yields(cpu, 1));
        self.in_turn.visit(yields(cpu, 2));
    }

    /// Only hand-overs.
    pub fn visit_handovers(&mut self, cpu: CpuId) {
        self.calls.visit(calls(cpu, BATCH));
        let found = handovers(cpu, cpu, NEAR, BATCH, Duration::ZERO);
        if self.handover.is_none_or(|known| found.took.median < known.took.median) {
            self.handover = Some(found);
        }
    }

    /// What a switch adds to a call of `sched_yield()`.
    pub fn switch(&self) -> Quantiles {
        self.in_turn.get().less(self.alone.get().median)
    }

    /// What waking another thread, and having slept before that, add to the system calls. Where the scheduler lets the woken
    /// thread run at once, the other one loses its CPU in place of sleeping, and its turn is a hand-over that needs no wakeup.
    pub fn wake(&self) -> Quantiles {
        let Handovers { took, switches, sleeps } = self.handover.expect("visited before");
        took.less(self.calls.get().median + switches * self.switch().median).divided(sleeps.max(LEAST_SLEEPS))
    }

    /// How many switches went with each sleep.
    pub fn switches_each_sleep(&self) -> f64 {
        let Handovers { switches, sleeps, .. } = self.handover.expect("visited before");
        switches / sleeps.max(LEAST_SLEEPS)
    }
}

/// Of hand-overs on one CPU at least a part needs a sleep. So many of each, lest a thread that never slept divides by nothing.
const LEAST_SLEEPS: f64 = 0.1;

/// Hand-overs with their system calls.
#[derive(Clone, Copy, Debug)]
struct Handovers {
    /// CPU time of one.
    took: Quantiles,
    /// How often a thread lost its CPU for one.
    switches: f64,
    /// How often since it slept, and had to be woken.
    sleeps: f64,
}

/// Hand-overs that are timed together. Where the scheduler lets the woken thread run at once, one side pays for what both do,
/// so only many of them have a typical time.
const BATCH: u32 = 50;

/// Batches of a visit.
const NEAR: u32 = 20;

/// CPU time that both threads need for a hand-over to another CPU, of which there are so many, each after so much work: waking
/// the other, falling asleep, and running again. Without the time of the system calls that neither wake nor sleep.
pub fn handover(a: CpuId, b: CpuId, times: u32, work: Duration) -> Quantiles {
    handovers(a, b, times, 1, work).took.less(calls(a, 1).median)
}

/// So many batches of so many hand-overs. Each batch begins with so much work.
fn handovers(a: CpuId, b: CpuId, times: u32, batch: u32, work: Duration) -> Handovers {
    let turn = Padded(AtomicU32::new(0));
    let side = |own: u32, cpu: CpuId| {
        pinned(cpu, || {
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
        [scope.spawn(|| side(0, a)), scope.spawn(|| side(1, b))].map(|side| side.join().expect("it does not panic"))
    });
    let of_each = |count: i64| count as f64 / f64::from(2 * times * batch);
    let (sleeps, preemptions) = sides.iter().fold((0, 0), |sum, (_, sleeps, more)| (sum.0 + sleeps, sum.1 + more));
    let took = sides.into_iter().flat_map(|(took, ..)| took).collect();
    Handovers { took: Quantiles::of(took), switches: of_each(sleeps + preemptions), sleeps: of_each(sleeps) }
}

/// How often the calling thread has slept, and how often it lost its CPU otherwise.
fn switches() -> [i64; 2] {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("Linux has it since 2.6.26");
    [usage.voluntary_context_switches(), usage.involuntary_context_switches()]
}

/// CPU time of a call of `sched_yield()` by so many threads on one CPU.
pub fn yields(cpu: CpuId, threads: usize) -> Quantiles {
    const YIELDS: u32 = 100;
    const ROUNDS: usize = 40;
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

/// Gaps in the CPU time of a thread that looks at it all the time, and how many there are in a second of that time: ticks, and
/// other interrupts that a task cannot help.
pub fn ticks(cpu: CpuId) -> (Quantiles, f64) {
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

/// What both calls take when nobody sleeps, and a look at the clock for each batch.
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
    /// Returns the result of a single visit.
    pub fn of(found: Quantiles) -> Fastest {
        Fastest(Some(found))
    }
}

impl OnOneCpu {
    /// Where switches and wakeups take that, and there are so many switches for each sleep.
    pub fn of(switch: Fastest, wake: Fastest, switches_each_sleep: f64) -> OnOneCpu {
        let nothing = Fastest::of(Quantiles { p10: 0.0, median: 0.0, p90: 0.0 });
        let all = wake.get().median + switches_each_sleep * switch.get().median;
        let handover = Handovers {
            took: Quantiles { p10: all, median: all, p90: all },
            switches: switches_each_sleep,
            sleeps: 1.0,
        };
        OnOneCpu { alone: nothing, in_turn: switch, calls: nothing, handover: Some(handover) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visit_with_the_least_median_counts() {
        let mut fastest = Fastest::default();
        for median in [3.0, 2.0, 4.0] {
            fastest.visit(Quantiles { p10: 0.0, median, p90: 9.0 });
        }
        assert_eq!(fastest.get().median, 2.0);
    }

    #[test]
    fn a_wakeup_is_what_is_left_of_hand_overs_for_each_sleep() {
        let fastest = |median| Fastest(Some(Quantiles { p10: median, median, p90: median }));
        let took = Quantiles { p10: 900.0, median: 1_000.0, p90: 1_100.0 };
        let near = OnOneCpu {
            alone: fastest(200.0),
            in_turn: fastest(600.0),
            calls: fastest(300.0),
            handover: Some(Handovers { took, switches: 1.0, sleeps: 0.5 }),
        };
        assert_eq!(near.switch().median, 400.0);
        // 1000 less the calls' 300 and a switch of 400 is 300 for every second hand-over.
        assert_eq!(near.wake(), Quantiles { p10: 400.0, median: 600.0, p90: 800.0 });
    }

    /// Whoever hands over on one CPU loses it then, and does not stay awake each time.
    #[test]
    fn hand_overs_are_counted() {
        let usable = crate::hardware::usable().unwrap();
        let here = usable.first().unwrap();
        let near = handovers(here, here, 10, 20, Duration::ZERO);
        assert!(near.switches >= 0.9, "{near:?}");
        assert!(near.sleeps >= LEAST_SLEEPS && near.sleeps <= near.switches, "{near:?}");
    }
}
