// SPDX-License-Identifier: GPL-2.0-only
//! Use of disks, and interrupts by source.

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

/// Interrupts of a source on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptUse {
    /// Source, such as `disk:sda`.
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
