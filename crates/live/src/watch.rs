// SPDX-License-Identifier: GPL-2.0-only
//! What all tasks of the machine do, in numbers that cost little: sums in the kernel, read from time to time. Memory
//! and cost do not depend on how much happens between two looks.

use crate::LiveError;
use crate::complaints;
use crate::kernel;
use crate::meter::visit_cpus;
use crate::probes::Aligned;
use crate::threads::sys;
use ids::{CpuSet, Nanos};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use measures::LatencySummary;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o")));

/// Buckets of `watch.bpf.c`: 16 to an octave.
const OCTAVE_BITS: usize = 4;
const BUCKETS: usize = 36 << OCTAVE_BITS;

/// Counts for as long as it lives.
pub struct Watch {
    _links: Vec<Link>,
    object: Object,
}

/// All that was counted up to a moment, of all CPUs together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    time: Nanos,
    online: u64,
    switches: u64,
    wakeups: u64,
    /// Of each CPU.
    idle: Vec<Nanos>,
    latency: Nanos,
    latencies: Vec<u64>,
}

/// What happened between two moments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// From the first to the second.
    pub length: Nanos,
    /// Switches to a task, not to idle.
    pub context_switches: u64,
    /// Tasks made runnable.
    pub wakeups: u64,
    /// CPU time of all online CPUs that was spent on tasks, the scheduler and interrupts.
    pub busy: Nanos,
    /// The rest of it.
    pub idle: Nanos,
    /// From woken to running; percentiles to 3 %, `max` is the end of the highest bucket.
    pub wakeup_latency: LatencySummary,
}

impl Watch {
    /// Begins to count.
    ///
    /// # Errors
    /// If this process is not root, or the kernel lacks BTF or a tracepoint.
    pub fn start() -> Result<Watch, LiveError> {
        kernel::check()?;
        complaints::listen();
        let open = ObjectBuilder::default().open_memory(&OBJECT.0);
        let open = open.map_err(LiveError::bpf("read Weir's own programs"))?;
        let object = open.load().map_err(|source| LiveError::Load { source, log: complaints::last_words() })?;
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let action = format!("attach {}", program.name().to_string_lossy());
            program.attach_trace().map_err(LiveError::bpf(action))
        };
        let links = object.progs_mut().map(attach).collect::<Result<_, _>>()?;
        visit_cpus(&online()?);
        Ok(Watch { _links: links, object })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn sample(&self) -> Result<Sample, LiveError> {
        let sums = self.object.maps().find(|map| map.name() == "sums").expect("watch.bpf.c has this map");
        let values = sums.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(LiveError::bpf("read counts"))?;
        let time = sys::now();
        let online = online()?;
        let mut sample = Sample {
            time,
            online: online.len() as u64,
            switches: 0,
            wakeups: 0,
            idle: Vec::new(),
            latency: Nanos::ZERO,
            latencies: vec![0; BUCKETS],
        };
        for (cpu, bytes) in values.unwrap_or_default().iter().enumerate() {
            sample.add(bytes, online.contains(ids::CpuId(cpu as u32)))?;
        }
        Ok(sample)
    }
}

fn online() -> Result<CpuSet, LiveError> {
    let path = "/sys/devices/system/cpu/online";
    let text = kernel::read(path)?;
    text.trim().parse().map_err(|_| LiveError::Malformed(format!("{path} holds `{}`, not CPUs", text.trim())))
}

impl Sample {
    /// Adds one CPU's `struct sums`. One that is offline has idled since it went.
    fn add(&mut self, bytes: &[u8], online: bool) -> Result<(), LiveError> {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        let mut next = || words.next().ok_or_else(|| LiveError::Malformed(format!("sums of {} bytes", bytes.len())));
        self.switches += next()?;
        self.wakeups += next()?;
        let (idle, since) = (Nanos(next()?), Nanos(next()?));
        let idles = online && since > Nanos::ZERO;
        self.idle.push(idle + if idles { self.time.since(since) } else { Nanos::ZERO });
        self.latency += Nanos(next()?);
        for bucket in &mut self.latencies {
            *bucket += next()?;
        }
        Ok(())
    }

    /// What happened since an earlier sample.
    pub fn since(&self, earlier: &Sample) -> Interval {
        let length = self.time.since(earlier.time);
        let all = Nanos(length.0 * self.online);
        // A CPU that has come back seems to have idled since it went.
        let idle_of = |(now, then): (&Nanos, &Nanos)| now.since(*then).min(length).0;
        let idle: u64 = self.idle.iter().zip(&earlier.idle).map(idle_of).sum();
        // The sums of a CPU are read while it goes on: a switch more or less.
        let idle = Nanos(idle).min(all);
        let counts = self.latencies.iter().zip(&earlier.latencies).map(|(now, then)| now.saturating_sub(*then));
        Interval {
            length,
            context_switches: self.switches.saturating_sub(earlier.switches),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
            busy: all - idle,
            idle,
            wakeup_latency: summary(&counts.collect::<Vec<_>>(), self.latency.since(earlier.latency)),
        }
    }
}

fn summary(counts: &[u64], sum: Nanos) -> LatencySummary {
    let count: u64 = counts.iter().sum();
    let percentile = |permille: u64| {
        let rank = (count * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let reached = |bucket: &u64| {
            seen += bucket;
            seen >= rank
        };
        Nanos(counts.iter().position(reached).map_or(0, middle))
    };
    let last = counts.iter().rposition(|&bucket| bucket > 0);
    LatencySummary {
        count,
        mean: Nanos(sum.0.checked_div(count).unwrap_or(0)),
        p50: percentile(500),
        p90: percentile(900),
        p99: percentile(990),
        p999: percentile(999),
        max: Nanos(last.map_or(0, |last| lowest(last + 1) - 1)),
    }
}

/// The smallest value that falls into a bucket.
fn lowest(bucket: usize) -> u64 {
    let (octave, place) = (bucket >> OCTAVE_BITS, bucket as u64 & ((1 << OCTAVE_BITS) - 1));
    match octave {
        0 => place,
        _ => ((1 << OCTAVE_BITS) + place) << (octave - 1),
    }
}

fn middle(bucket: usize) -> u64 {
    (lowest(bucket) + lowest(bucket + 1)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(numbers: [u64; 5], latencies: &[(usize, u64)]) -> Vec<u8> {
        let mut words = numbers.to_vec();
        words.extend([0; BUCKETS]);
        for &(bucket, count) in latencies {
            words[5 + bucket] = count;
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn sample(time_ms: u64, cpus: &[(Vec<u8>, bool)]) -> Sample {
        let mut sample = Sample {
            time: Nanos::from_ms(time_ms),
            online: cpus.iter().filter(|cpu| cpu.1).count() as u64,
            switches: 0,
            wakeups: 0,
            idle: Vec::new(),
            latency: Nanos::ZERO,
            latencies: vec![0; BUCKETS],
        };
        cpus.iter().for_each(|(bytes, online)| sample.add(bytes, *online).expect("whole"));
        sample
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        assert_eq!([0, 15, 16, 31, 32, 47, 48].map(lowest), [0, 15, 16, 31, 32, 62, 64]);
        assert!((1..BUCKETS).all(|bucket| lowest(bucket) > lowest(bucket - 1)));
        assert_eq!(lowest(BUCKETS), 1 << 39);
    }

    #[test]
    fn an_interval_is_the_difference_of_two_looks() {
        const MS: u64 = 1_000_000;
        // CPU 0 works from 100 ms on; CPU 1 idles since 50 ms; CPU 2 is offline since 20 ms.
        let then = [
            (sums([10, 20, 30 * MS, 90 * MS, 500], &[(16, 5)]), true),
            (sums([1, 2, 0, 50 * MS, 0], &[]), true),
            (sums([9, 9, 7, 20 * MS, 0], &[]), false),
        ];
        let now = [
            (sums([30, 25, 40 * MS, 0, 2_500], &[(16, 14), (111, 1)]), true),
            (sums([1, 2, 0, 50 * MS, 0], &[]), true),
            (sums([9, 9, 7, 20 * MS, 0], &[]), false),
        ];
        let interval = sample(200, &now).since(&sample(100, &then));
        assert_eq!((interval.context_switches, interval.wakeups), (20, 5));
        assert_eq!((interval.idle, interval.busy), (Nanos::from_ms(100), Nanos::from_ms(100)));
        // CPU 2 comes back after 280 ms: it cannot have idled for longer than the interval.
        let mut back = now.clone();
        back[2] = (sums([10, 9, 7 + 280 * MS, 0, 0], &[]), true);
        let next = sample(300, &back).since(&sample(200, &now));
        assert_eq!((next.idle, next.busy), (Nanos::from_ms(200), Nanos::from_ms(100)));
        let latency = interval.wakeup_latency;
        assert_eq!((latency.count, latency.mean, latency.p50, latency.p90), (10, Nanos(200), Nanos(16), Nanos(16)));
        assert_eq!((latency.p99, latency.max), (Nanos(1008), Nanos(1023)), "1000 ns is in bucket 111");
        assert!(Sample::add(&mut sample(1, &[]), &[0; 24], true).is_err());
    }
}
