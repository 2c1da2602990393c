// SPDX-License-Identifier: GPL-2.0-only
//! Use of disks and networks, and interrupts by source.

use crate::Histogram;
use ids::{CpuId, Nanos};

/// Use of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskMeasures {
    /// Name.
    pub name: String,
    /// Number of completed reads.
    pub reads: u64,
    /// Number of completed writes.
    pub writes: u64,
    /// Bytes of the completed reads.
    pub read_bytes: u64,
    /// Bytes of the completed writes.
    pub written_bytes: u64,
    /// Number of requests that it can serve at the same time; 0 if only their latencies are known, as in a real run.
    pub servers: u64,
    /// Time for which its servers were busy, summed over them.
    pub busy: Nanos,
    /// Time of each completed request before its service.
    pub waits: Histogram<6>,
    /// Service time of each completed request.
    pub services: Histogram<6>,
    /// Time of each completed request from its issue until it was complete.
    pub latencies: Histogram<6>,
}

impl DiskMeasures {
    /// Busy share of its servers' time in a run of this length, in parts per million; `None` if it is unknown.
    pub fn utilization_ppm(&self, elapsed: Nanos) -> Option<u64> {
        let whole = u128::from(elapsed.0) * u128::from(self.servers);
        (self.servers > 0).then(|| (u128::from(self.busy.0) * 1_000_000 / whole.max(1)) as u64)
    }
}

/// Use of a network and of the server behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkMeasures {
    /// Name.
    pub name: String,
    /// Number of answered calls.
    pub calls: u64,
    /// Bytes of these calls.
    pub sent_bytes: u64,
    /// Bytes of their answers.
    pub received_bytes: u64,
    /// Number of calls that the server can serve at the same time.
    pub servers: u64,
    /// Busy time of the direction to the server, of the direction back, and of the server, summed over its places.
    pub busy: [Nanos; 3],
    /// Time for which each answered call, with its answer, waited behind others.
    pub waits: Histogram<6>,
    /// Service time of the server for each answered call.
    pub services: Histogram<6>,
    /// Time of each call until its answer arrived.
    pub latencies: Histogram<6>,
}

impl NetworkMeasures {
    /// Counts an answered call of these lengths, with its wait, service and latency.
    pub fn count(&mut self, sent: u64, received: u64, [wait, service, latency]: [Nanos; 3]) {
        self.calls += 1;
        self.sent_bytes += sent;
        self.received_bytes += received;
        self.waits.record(wait);
        self.services.record(service);
        self.latencies.record(latency);
    }

    /// Busy share of each direction and of the server in a run of this length, in parts per million.
    pub fn utilization_ppm(&self, elapsed: Nanos) -> [u64; 3] {
        let ppm = |busy: Nanos, places: u64| {
            let whole = u128::from(elapsed.0) * u128::from(places);
            (u128::from(busy.0) * 1_000_000 / whole.max(1)) as u64
        };
        [ppm(self.busy[0], 1), ppm(self.busy[1], 1), ppm(self.busy[2], self.servers)]
    }
}

/// Use of the page cache. Bytes are those of whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCacheMeasures {
    /// Bytes of cached reads that were in memory.
    pub hit_bytes: u64,
    /// Bytes that cached reads had to read from disks, gaps between missing pages included.
    pub miss_bytes: u64,
    /// Bytes of cached writes.
    pub written_bytes: u64,
    /// Bytes that kthreads wrote back.
    pub flushed_bytes: u64,
    /// Bytes that `fsync` wrote.
    pub synced_bytes: u64,
    /// Bytes that were dirty or under write-back at the end.
    pub dirty_bytes: u64,
    /// Time for which writers waited because too many pages were dirty.
    pub throttled: Nanos,
}

/// Use of disks and networks in a simulated run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceTotals {
    /// Use of each disk, if the workload uses any.
    pub disks: Option<Vec<DiskMeasures>>,
    /// Time for which each task waited for disks.
    pub disk_waits: Vec<Nanos>,
    /// Use of each network, if the workload uses any.
    pub networks: Option<Vec<NetworkMeasures>>,
    /// Time for which each task waited for answers.
    pub network_waits: Vec<Nanos>,
    /// Interrupts by source and CPU.
    pub interrupts: Vec<InterruptUse>,
    /// Use of the page cache, if the machine has one and the workload uses it.
    pub page_cache: Option<PageCacheMeasures>,
}

/// Interrupts of a source on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptUse {
    /// Source, such as `disk:sda` or `network:eth0`.
    pub source: String,
    /// CPU that handled them.
    pub cpu: CpuId,
    /// Number of interrupts.
    pub count: u64,
    /// Number of these whose bottom half ksoftirqd executed; its time is CPU time of that task.
    pub deferred: u64,
    /// Total time, a part of the CPU's stolen time.
    pub total: Nanos,
    /// Longest time of one.
    pub max: Nanos,
}
