// SPDX-License-Identifier: GPL-2.0-only
//! Machine-wide statistics at low cost: sums are kept in the kernel and read periodically. Memory and cost do not
//! depend on the number of events between two reads.

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

/// Buckets of `watch.bpf.c`: 16 per octave.
const OCTAVE_BITS: usize = 4;
const BUCKETS: usize = 36 << OCTAVE_BITS;

/// Index of `offline_since_ns` in `struct sums`.
const OFFLINE_SINCE: usize = 5;

/// Counts the switches, wakeups and idle times of the whole machine while this exists.
pub struct Watch {
    _links: Vec<Link>,
    object: Object,
}

/// All counts up to some time, summed over the CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    time: Nanos,
    switches: u64,
    wakeups: u64,
    /// Idle and offline time of each present CPU.
    unused: Vec<(Nanos, Nanos)>,
    latency: Nanos,
    latencies: Vec<u64>,
}

/// Counts between two samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Time between the samples.
    pub length: Nanos,
    /// Number of switches to a task other than idle.
    pub context_switches: u64,
    /// Number of wakeups.
    pub wakeups: u64,
    /// Time of all CPUs spent on tasks, the scheduler and interrupts. With `idle` and `offline` it adds up to the
    /// time of all present CPUs.
    pub busy: Nanos,
    /// Idle time of all CPUs.
    pub idle: Nanos,
    /// Offline time of all CPUs, whatever the reason.
    pub offline: Nanos,
    /// Wakeup latency; percentiles are accurate to 3 %, and `max` is the end of the highest bucket.
    pub wakeup_latency: LatencySummary,
    /// Nonempty buckets of the wakeup latencies: middle and count.
    pub wakeup_latencies: Vec<(Nanos, u64)>,
    /// Busy, idle and offline time of each present CPU.
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

    /// Counts so far.
    ///
    /// # Errors
    /// The kernel's error.
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

/// Initializes the state of offline CPUs before the programs are attached.
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

    /// Adds the `struct sums` of one CPU.
    fn add(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        let mut next = || words.next().ok_or_else(|| LinkError::Malformed(format!("sums of {} bytes", bytes.len())));
        self.switches += next()?;
        self.wakeups += next()?;
        // The accumulated time, plus the current period if there is one.
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

    /// Difference to an earlier sample.
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
            // The sums of a CPU are read while it continues: no state may last longer than the interval.
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

/// Lower bound of a bucket.
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

    /// For tests: switches, wakeups, idle time and start, offline time and start, latency.
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
        cpus.iter().for_each(|bytes| sample.add(bytes).expect("a complete struct sums"));
        sample
    }

    #[test]
    fn latency_buckets_are_contiguous() {
        assert_eq!([0, 15, 16, 31, 32, 47, 48].map(lowest), [0, 15, 16, 31, 32, 62, 64]);
        assert!((1..BUCKETS).all(|bucket| lowest(bucket) > lowest(bucket - 1)));
        assert_eq!(lowest(BUCKETS), 1 << 39);
    }

    #[test]
    fn interval_is_the_difference_of_two_samples() {
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
        // CPU 1 goes offline at 210 ms. CPU 2 comes online at 280 ms, idles for 5 ms, and works.
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
    fn time_in_a_state_is_limited_to_the_interval() {
        // Read while the CPU continued: both sums are too large.
        let then = sample(100, &[sums([0; 7], &[])]);
        let interval = sample(110, &[sums([0, 0, 8 * MS, 0, 7 * MS, 0, 0], &[])]).since(&then);
        assert_eq!([interval.busy, interval.idle, interval.offline], [0, 3, 7].map(Nanos::from_ms));
    }
}
