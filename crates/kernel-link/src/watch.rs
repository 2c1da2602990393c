// SPDX-License-Identifier: GPL-2.0-only
//! What all tasks of the machine do, in numbers that cost little: sums in the kernel, read from time to time. Memory
//! and cost do not depend on how much happens between two looks.

use crate::LinkError;
use crate::complaints;
use crate::kernel;
use crate::meter::visit_cpus;
use crate::probes::Aligned;
use host::sys;
use ids::{CpuSet, Nanos};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use measures::LatencySummary;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o")));

/// Buckets of `watch.bpf.c`: 16 to an octave.
const OCTAVE_BITS: usize = 4;
const BUCKETS: usize = 36 << OCTAVE_BITS;

/// Which word of its `struct sums` says since when a CPU has been offline.
const OFFLINE_SINCE: usize = 5;

/// Counts for as long as it lives.
pub struct Watch {
    _links: Vec<Link>,
    object: Object,
}

/// All that was counted up to a moment, of all CPUs together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    time: Nanos,
    switches: u64,
    wakeups: u64,
    /// Of each CPU that is plugged in: idle and offline.
    unused: Vec<(Nanos, Nanos)>,
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
    /// Time of all CPUs that was spent on tasks, the scheduler and interrupts. With the two below it is all the time of
    /// all CPUs that are plugged in.
    pub busy: Nanos,
    /// Time of CPUs that had nothing to do.
    pub idle: Nanos,
    /// Time of CPUs that were not there, whoever took them away.
    pub offline: Nanos,
    /// From woken to running; percentiles to 3 %, `max` is the end of the highest bucket.
    pub wakeup_latency: LatencySummary,
    /// The same by buckets that hold some: the middle of each, and how many.
    pub wakeup_latencies: Vec<(Nanos, u64)>,
    /// Of each CPU that is plugged in: busy, idle and offline.
    pub cpus: Vec<[Nanos; 3]>,
}

impl Watch {
    /// Begins to count.
    ///
    /// # Errors
    /// If this process is not root, or the kernel lacks BTF or a tracepoint.
    pub fn start() -> Result<Watch, LinkError> {
        kernel::check()?;
        complaints::listen();
        let open = ObjectBuilder::default().open_memory(&OBJECT.0);
        let open = open.map_err(LinkError::bpf("read Weir's own programs"))?;
        let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
        note_offline(&object, &host::proc::online()?)?;
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let action = format!("attach {}", program.name().to_string_lossy());
            program.attach_trace().map_err(LinkError::bpf(action))
        };
        let links = object.progs_mut().map(attach).collect::<Result<_, _>>()?;
        visit_cpus(&host::proc::online()?);
        Ok(Watch { _links: links, object })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// Says what the kernel answered.
    pub fn sample(&self) -> Result<Sample, LinkError> {
        let values = sums(&self.object)
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(LinkError::bpf("read counts"))?;
        let mut sample = Sample::empty(sys::now());
        let present = host::proc::present()?;
        let all = values.unwrap_or_default();
        let mut plugged_in = (0..).map(ids::CpuId).zip(&all).filter(|(cpu, _)| present.contains(*cpu));
        plugged_in.try_for_each(|(_, bytes)| sample.add(bytes))?;
        Ok(sample)
    }
}

/// Tells the programs, before they are attached, which CPUs are not there.
fn note_offline(object: &Object, online: &CpuSet) -> Result<(), LinkError> {
    let map = sums(object);
    let size = map.value_size() as usize;
    let possible = libbpf_rs::num_possible_cpus().map_err(LinkError::bpf("count the CPUs"))?;
    let since = sys::now().0.to_ne_bytes();
    let value = |cpu: usize| {
        let mut value = vec![0; size];
        if !online.contains(ids::CpuId(cpu as u32)) {
            value[8 * OFFLINE_SINCE..][..8].copy_from_slice(&since);
        }
        value
    };
    let values: Vec<Vec<u8>> = (0..possible).map(value).collect();
    map.update_percpu(&0u32.to_ne_bytes(), &values, MapFlags::ANY).map_err(LinkError::bpf("set up Weir's own programs"))
}

fn sums(object: &Object) -> libbpf_rs::Map<'_> {
    object.maps().find(|map| map.name() == "sums").expect("watch.bpf.c has this map")
}

impl Sample {
    fn empty(time: Nanos) -> Sample {
        let (latency, latencies) = (Nanos::ZERO, vec![0; BUCKETS]);
        Sample { time, switches: 0, wakeups: 0, unused: Vec::new(), latency, latencies }
    }

    /// Adds one CPU's `struct sums`.
    fn add(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        let mut next = || words.next().ok_or_else(|| LinkError::Malformed(format!("sums of {} bytes", bytes.len())));
        self.switches += next()?;
        self.wakeups += next()?;
        // What was counted, and since when it goes on, if it does.
        let mut so_far = || -> Result<Nanos, LinkError> {
            let (time, since) = (Nanos(next()?), Nanos(next()?));
            Ok(if since > Nanos::ZERO { time + self.time.since(since) } else { time })
        };
        let (idle, offline) = (so_far()?, so_far()?);
        self.unused.push((idle, offline));
        self.latency += Nanos(next()?);
        for bucket in &mut self.latencies {
            *bucket += next()?;
        }
        Ok(())
    }

    /// What happened since an earlier sample.
    pub fn since(&self, earlier: &Sample) -> Interval {
        let length = self.time.since(earlier.time);
        let counts = self.latencies.iter().zip(&earlier.latencies).map(|(now, then)| now.saturating_sub(*then));
        let counts: Vec<u64> = counts.collect();
        let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut interval = Interval {
            length,
            context_switches: self.switches.saturating_sub(earlier.switches),
            wakeups: self.wakeups.saturating_sub(earlier.wakeups),
            busy: Nanos::ZERO,
            idle: Nanos::ZERO,
            offline: Nanos::ZERO,
            wakeup_latency: summary(&counts, self.latency.since(earlier.latency)),
            wakeup_latencies: some.map(|(bucket, &count)| (Nanos(middle(bucket)), count)).collect(),
            cpus: Vec::with_capacity(self.unused.len()),
        };
        for (now, then) in self.unused.iter().zip(&earlier.unused) {
            // The sums of a CPU are read while it goes on: no state may have lasted longer than the interval.
            let offline = now.1.since(then.1).min(length);
            let idle = now.0.since(then.0).min(length - offline);
            let busy = length - offline - idle;
            interval.offline += offline;
            interval.idle += idle;
            interval.busy += busy;
            interval.cpus.push([busy, idle, offline]);
        }
        interval
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

    const MS: u64 = 1_000_000;

    /// Switches, wakeups, idle and since when, offline and since when, latency.
    fn sums(numbers: [u64; 7], latencies: &[(usize, u64)]) -> Vec<u8> {
        let mut words = numbers.to_vec();
        words.extend([0; BUCKETS]);
        for &(bucket, count) in latencies {
            words[7 + bucket] = count;
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn sample(time_ms: u64, cpus: &[Vec<u8>]) -> Sample {
        let mut sample = Sample::empty(Nanos::from_ms(time_ms));
        cpus.iter().for_each(|bytes| sample.add(bytes).expect("whole"));
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
        // CPU 0 works from 100 ms on; CPU 1 idles since 50 ms; CPU 2 is offline since 20 ms.
        let then = [
            sums([10, 20, 30 * MS, 90 * MS, 0, 0, 500], &[(16, 5)]),
            sums([1, 2, 0, 50 * MS, 0, 0, 0], &[]),
            sums([9, 9, 7, 0, 0, 20 * MS, 0], &[]),
        ];
        let now = [
            sums([30, 25, 40 * MS, 0, 0, 0, 2_500], &[(16, 14), (111, 1)]),
            sums([1, 2, 0, 50 * MS, 0, 0, 0], &[]),
            sums([9, 9, 7, 0, 0, 20 * MS, 0], &[]),
        ];
        let interval = sample(200, &now).since(&sample(100, &then));
        assert_eq!((interval.context_switches, interval.wakeups), (20, 5));
        let ms = |interval: &Interval| [interval.busy, interval.idle, interval.offline].map(|time| time.0 / MS);
        assert_eq!(ms(&interval), [100, 100, 100]);
        let each: Vec<_> = interval.cpus.iter().map(|cpu| cpu.map(|time| time.0 / MS)).collect();
        assert_eq!(each, [[100, 0, 0], [0, 100, 0], [0, 0, 100]]);
        assert_eq!(interval.wakeup_latencies, [(Nanos(16), 9), (Nanos(1008), 1)]);
        // CPU 1 goes at 210 ms. CPU 2 comes at 280 ms, idles for 5 ms, and works.
        let mut back = now.clone();
        back[1] = sums([1, 2, 160 * MS, 0, 0, 210 * MS, 0], &[]);
        back[2] = sums([10, 9, 7 + 5 * MS, 0, 260 * MS, 0, 0], &[]);
        assert_eq!(ms(&sample(300, &back).since(&sample(200, &now))), [100 + 15, 10 + 5, 90 + 80]);
        let latency = interval.wakeup_latency;
        assert_eq!((latency.count, latency.mean, latency.p50, latency.p90), (10, Nanos(200), Nanos(16), Nanos(16)));
        assert_eq!((latency.p99, latency.max), (Nanos(1008), Nanos(1023)), "1000 ns is in bucket 111");
        assert!(Sample::empty(Nanos(1)).add(&[0; 24]).is_err());
    }

    #[test]
    fn no_state_lasts_longer_than_the_interval() {
        // Read while the CPU went on: both sums are too large.
        let then = sample(100, &[sums([0; 7], &[])]);
        let interval = sample(110, &[sums([0, 0, 8 * MS, 0, 7 * MS, 0, 0], &[])]).since(&then);
        assert_eq!([interval.busy, interval.idle, interval.offline], [0, 3, 7].map(Nanos::from_ms));
    }
}
