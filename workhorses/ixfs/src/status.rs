// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status of a running server.

use crate::server::Durability;
use crate::store::{Recovery, Usage};
use std::time::Duration;

/// State of a running server. Times are in nanoseconds, sizes in bytes.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Setting that decides when changes reach the disk.
    pub durability: Durability,
    /// Memory charged to the quota.
    pub memory_used_bytes: u64,
    /// The quota.
    pub memory_limit_bytes: u64,
    /// Bytes of pages that are on disk only.
    pub disk_only_bytes: u64,
    /// Inodes in the tree.
    pub inodes: u64,
    /// Number of inodes to which FUSE or 9P clients hold references.
    pub held_inodes: u64,
    /// Age of the oldest change that a crash would lose; 0: there is none.
    pub loss_window_ns: i64,
    /// Age at which the server begins to log a change by itself.
    pub loss_window_limit_ns: i64,
    /// Space used in the store file.
    pub store: Usage,
    /// Latency of the last 1,024 calls of `fsync` that waited for the log.
    pub sync_latency_ns: Summary,
    /// Failed attempts to write the store.
    pub failures: u64,
    /// Why the last attempt failed; null once one has succeeded.
    pub last_error: Option<String>,
    /// Time since the server started.
    pub uptime_ns: i64,
    /// What the server found when it opened the store.
    pub recovery: Recovery,
}

/// Order statistics of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Number of latencies, of which the last 1,024 are in the statistics.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// The last latencies.
#[derive(Default)]
pub struct Latencies {
    ring: Vec<u64>,
    count: u64,
}

impl Latencies {
    const KEPT: usize = 1024;

    /// Adds a latency.
    pub fn add(&mut self, latency: Duration) {
        let ns = latency.as_nanos() as u64;
        if self.ring.len() < Self::KEPT {
            self.ring.push(ns);
        } else {
            self.ring[self.count as usize % Self::KEPT] = ns;
        }
        self.count += 1;
    }

    /// Order statistics.
    pub fn summary(&self) -> Summary {
        let mut sorted = self.ring.clone();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)));
        let (p50, p99) = (at(50).copied().unwrap_or(0), at(99).copied().unwrap_or(0));
        Summary { count: self.count, p50, p99, max: sorted.last().copied().unwrap_or(0) }
    }
}
