// SPDX-License-Identifier: GPL-2.0-only
//! Latencies, reloads and bandwidth of this machine's caches and memory.
//!
//! 1. Latency: dependent loads that visit all lines of a buffer in random order, so that neither prefetching nor
//!    parallel misses hide it.
//! 2. Reload: a thread makes a buffer warm on one CPU, moves to another one and visits all lines; the time of its second
//!    visit there is subtracted.
//! 3. Bandwidth: threads that read a buffer larger than their share of the last-level cache in ascending order.

use super::threads::{on, pinned};
use super::{Quantiles, ROUNDS};
use crate::sys;
use ids::CpuId;
use std::hint::black_box;
use std::sync::Barrier;

/// Bytes of a line.
pub const LINE: usize = 64;
/// Buffer of the latency of memory; larger than what a virtual machine keeps of a shared last-level cache.
pub const MEMORY: usize = 256 << 20;
/// Buffer of a bandwidth measurement, for each thread.
const STREAM: usize = 128 << 20;
/// Number of rounds of measurements that need tenths of a second each.
const LONG_ROUNDS: usize = 9;
/// Number of dependent loads of a latency measurement.
const LOADS: usize = 200_000;

/// A buffer whose lines are linked in a random cycle.
#[derive(Debug)]
pub struct Chase {
    /// The first word of a line is the number of the next one; the second is written.
    lines: Vec<[u32; LINE / 4]>,
    at: u32,
}

impl Chase {
    /// Creates a buffer of this many bytes, at least one line.
    ///
    /// # Panics
    /// If it has more than 2^32 lines.
    pub fn new(bytes: usize) -> Chase {
        let count = (bytes / LINE).max(1);
        let mut order: Vec<u32> = (0..u32::try_from(count).expect("at most 2^32 lines")).collect();
        let mut word = 0x2545_f491_4f6c_dd1d_u64;
        for last in (1..count).rev() {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, ((u128::from(word) * (last as u128 + 1)) >> 64) as usize);
        }
        let mut lines = vec![[0; LINE / 4]; count];
        for (index, &line) in order.iter().enumerate() {
            lines[line as usize][0] = order[(index + 1) % count];
        }
        Chase { lines, at: 0 }
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether it has no line, which is never so.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Visits the next `count` lines of the cycle; writes to a line if `dirty_percent` of its number says so.
    pub fn visit(&mut self, count: usize, dirty_percent: u32) {
        let mut at = self.at as usize;
        if dirty_percent == 0 {
            for _ in 0..count {
                at = self.lines[at][0] as usize;
            }
        } else {
            for _ in 0..count {
                let line = &mut self.lines[at];
                if (at as u32).wrapping_mul(37) % 100 < dirty_percent {
                    line[1] = line[1].wrapping_add(1);
                }
                at = line[0] as usize;
            }
        }
        self.at = black_box(at) as u32;
    }

    /// Nanoseconds of a visit of each of the next `count` lines.
    fn time(&mut self, count: usize, dirty_percent: u32) -> f64 {
        let begin = sys::now();
        self.visit(count, dirty_percent);
        sys::now().since(begin).0 as f64 / count as f64
    }
}

/// Load latency in a buffer of this many bytes, in nanoseconds.
pub fn latency(cpu: CpuId, bytes: usize) -> Quantiles {
    on(cpu, || {
        let mut chase = Chase::new(bytes);
        chase.visit(chase.len(), 0);
        let (rounds, loads) = if bytes > 32 << 20 { (LONG_ROUNDS, LOADS / 4) } else { (ROUNDS, LOADS) };
        Quantiles::of((0..rounds).map(|_| chase.time(loads, 0)).collect())
    })
}

/// Share of a last-level cache in KiB, from the latencies of buffers by size: the first is within the cache, the last far
/// beyond it. Other machines on the same host use the rest, so the size that the processor reports may be far larger.
///
/// Of a buffer of F bytes that is visited again and again, the model of caches keeps 2 C - F in a cache of C; half of the
/// loads miss where F = 4/3 C. `None` if the latency does not grow by half from the first to the last.
pub fn llc_share(curve: &[(usize, Quantiles)]) -> Option<Quantiles> {
    let share = |latency: fn(&Quantiles) -> f64| {
        let (first, last) = (latency(&curve.first()?.1), latency(&curve.last()?.1));
        if last < 1.5 * first {
            return None;
        }
        let half = (first + last) / 2.0;
        let beyond = curve.iter().position(|(_, quantiles)| latency(quantiles) >= half).filter(|at| *at > 0)?;
        let [(small, low), (large, high)] =
            [&curve[beyond - 1], &curve[beyond]].map(|(bytes, it)| (*bytes, latency(it)));
        // Sizes double, so the size is interpolated by its logarithm.
        let part = (half - low) / (high - low);
        Some(0.75 * small as f64 * (large as f64 / small as f64).powf(part) / 1_024.0)
    };
    let mut shares = [share(|it| it.p10)?, share(|it| it.median)?, share(|it| it.p90)?];
    shares.sort_by(f64::total_cmp);
    Some(Quantiles { p10: shares[0], median: shares[1], p90: shares[2] })
}

/// Time of each line of the first visit after a move from CPU `a` to CPU `b`, less that of the second visit, in
/// nanoseconds; the thread has written `dirty_percent` of the lines on `a`. The private cache of `b` contains other data
/// before.
pub fn reload(a: CpuId, b: CpuId, bytes: usize, dirty_percent: u32, private: usize) -> Quantiles {
    let mut chase = Chase::new(bytes);
    let mut other = Chase::new(2 * private);
    let count = chase.len();
    let mut round = || {
        pinned(b, || other.visit(other.len(), 100));
        pinned(a, || (0..4).for_each(|_| chase.visit(count, dirty_percent)));
        pinned(b, || {
            let first = chase.time(count, 0);
            (first - chase.time(count, 0)).max(0.0)
        })
    };
    round();
    Quantiles::of((0..ROUNDS).map(|_| round()).collect())
}

/// Reads lines of a buffer that no cache holds, in ascending order, again and again.
#[derive(Debug)]
pub struct Reader {
    lines: Vec<[u64; LINE / 8]>,
    at: usize,
}

impl Reader {
    /// Allocates and writes the buffer: 128 MiB on the node of the calling thread.
    pub fn new() -> Reader {
        Reader { lines: vec![[1; LINE / 8]; STREAM / LINE], at: 0 }
    }

    /// Number of lines of the buffer.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether it has no line, which is never so.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Reads the next `count` lines.
    pub fn read(&mut self, mut count: usize) {
        while count > 0 {
            let part = &self.lines[self.at..(self.at + count).min(self.lines.len())];
            black_box(part.iter().map(|line| line.iter().sum::<u64>()).sum::<u64>());
            count -= part.len();
            self.at = (self.at + part.len()) % self.lines.len();
        }
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

/// Bandwidth of threads on these CPUs that read at the same time, together, in MB/s.
pub fn bandwidth(cpus: &[CpuId]) -> Quantiles {
    let barrier = Barrier::new(cpus.len());
    let read = |cpu: CpuId| {
        let barrier = &barrier;
        move || {
            pinned(cpu, || {
                let mut reader = Reader::new();
                let mut rounds = Vec::new();
                for _ in 0..LONG_ROUNDS {
                    barrier.wait();
                    let begin = sys::now();
                    reader.read(reader.len());
                    rounds.push(STREAM as f64 * 1_000.0 / sys::now().since(begin).0.max(1) as f64);
                }
                rounds
            })
        }
    };
    let each: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(read(cpu))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread does not panic")).collect()
    });
    Quantiles::of((0..LONG_ROUNDS).map(|round| each.iter().map(|rounds| rounds[round]).sum()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chase_visits_each_line_once_in_a_cycle() {
        let mut chase = Chase::new(1_000 * LINE);
        chase.visit(1_000, 100);
        assert_eq!(chase.at, 0);
        assert!(chase.lines.iter().all(|line| line[1] == 1), "each line was written once");
        chase.visit(1_000, 30);
        let written = chase.lines.iter().filter(|line| line[1] == 2).count();
        assert!((280..320).contains(&written), "{written} of 1000 lines");
        assert_eq!(Chase::new(1).len(), 1);
    }

    #[test]
    fn reader_goes_round_its_buffer() {
        let mut reader = Reader::new();
        reader.read(reader.len() - 1);
        reader.read(3);
        assert_eq!(reader.at, 2);
        reader.read(2 * reader.len());
        assert_eq!(reader.at, 2);
    }

    /// Loads of the model: what is kept of F bytes in a cache of 12 MiB takes 80 ns, the rest 480 ns.
    #[test]
    fn share_of_the_last_level_cache_is_found_from_the_latencies_that_the_model_gives() {
        let capacity = 12.0;
        let latency = |mib: usize| {
            let kept = (2.0 * capacity - mib as f64).clamp(0.0, capacity).min(mib as f64) / mib as f64;
            let median = 80.0 * kept + 480.0 * (1.0 - kept);
            (mib << 20, Quantiles { p10: 0.9 * median, median, p90: 1.1 * median })
        };
        let curve: Vec<_> = [8, 16, 32, 64, 128, 256].map(latency).into();
        let share = llc_share(&curve).unwrap();
        assert!((0.9 * 12_288.0..1.1 * 12_288.0).contains(&share.median), "{share:?}");
        assert!(llc_share(&curve[2..]).is_none(), "all of it is memory");
    }

    /// Times depend on the host; a private cache is faster than memory on any of them.
    #[test]
    fn memory_is_slower_than_a_private_cache() {
        let cpu = crate::hardware::usable().unwrap().first().unwrap();
        let (near, far) = (latency(cpu, 16 << 10).median, latency(cpu, MEMORY).median);
        assert!(0.3 < near && 2.0 * near < far, "{near} ns, {far} ns");
    }
}
