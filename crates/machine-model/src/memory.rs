// SPDX-License-Identifier: GPL-2.0-only
//! Parameters of caches, of memory by node, and of memory bandwidth. `crates/memory` implements the effects, and
//! `docs/explanation/memory.md` has their formulas.

use crate::Estimate;
use ids::Placement;

/// Caches: one private to each core, and the last-level cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caches {
    /// Size of the cache private to a core, in KiB; its SMT threads share it.
    pub private_kb: u64,
    /// Sizes of the last-level caches in KiB: one for all of them, or one for each.
    pub llc_kb: Vec<u64>,
    /// Size of a cache line in bytes.
    pub line_bytes: u64,
    /// Load latency of the private cache in nanoseconds.
    pub private_ns: Estimate,
    /// Load latency of the last-level cache in nanoseconds.
    pub llc_ns: Estimate,
    /// Load latency of the node's own memory in nanoseconds.
    pub memory_ns: Estimate,
    /// Load latency of a line modified in another core's cache, in nanoseconds, by distance: below the same
    /// last-level cache, in the same node, in another node.
    pub dirty_ns: [Estimate; 3],
    /// Number of misses that a core has in flight while it reloads a working set.
    pub overlap: Estimate,
}

impl Caches {
    /// Size in KiB of the last-level cache with this number.
    pub fn llc_kb(&self, llc: usize) -> u64 {
        self.llc_kb.get(llc).or(self.llc_kb.first()).copied().unwrap_or(0)
    }
}

/// Latency of memory for a SLIT distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// SLIT distance from the CPU's node to the memory's.
    pub distance: u32,
    /// Load latency in nanoseconds.
    pub latency_ns: Estimate,
}

/// Memory of several nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numa {
    /// Latencies by SLIT distance, the local one first, both ascending. Between two distances the latency is
    /// interpolated; beyond the last one it grows as between the last two.
    pub latency_ns: Vec<Remote>,
    /// Placement of tasks for which the workload gives none.
    pub placement: Placement,
    /// Running time on another node after which memory placed by [`Placement::Balancing`] follows its task, in
    /// milliseconds.
    pub balance_ms: u64,
    /// Cost of moving a page of 4 KiB to another node, in nanoseconds: a page fault and a copy.
    pub move_page_ns: Estimate,
}

impl Numa {
    /// Typical latency of memory at this SLIT distance, in nanoseconds.
    pub fn latency(&self, distance: u32) -> u64 {
        let known: Vec<(u64, u64)> =
            self.latency_ns.iter().map(|row| (u64::from(row.distance), row.latency_ns.typical)).collect();
        let distance = u64::from(distance);
        if known.len() == 1 || distance <= known[0].0 {
            return known[0].1;
        }
        let upper = known.iter().position(|row| row.0 >= distance).unwrap_or(known.len() - 1);
        let ((from, near), (to, far)) = (known[upper - 1], known[upper]);
        near + far.saturating_sub(near) * (distance - from) / (to - from)
    }
}

/// Memory bandwidth of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    /// Capacity of a node's memory in MB/s (10^6 bytes a second).
    pub node_mb_s: Estimate,
    /// Capacity of a node's memory for CPUs of other nodes, in MB/s.
    pub remote_mb_s: Estimate,
    /// Increase of latency with load: L / L0 = 1 + slope u + knee u / (1 - u) for a load u below 0.9, in thousandths.
    pub slope_permille: Estimate,
    /// See `slope_permille`.
    pub knee_permille: Estimate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_latency_is_interpolated_between_known_slit_distances() {
        let row = |distance, ns| Remote { distance, latency_ns: Estimate::exactly(ns) };
        let mut numa = Numa {
            latency_ns: vec![row(10, 80), row(20, 140), row(30, 240)],
            placement: Placement::FirstTouch,
            balance_ms: 0,
            move_page_ns: Estimate::exactly(0),
        };
        assert_eq!([10, 15, 20, 21, 30, 40].map(|distance| numa.latency(distance)), [80, 110, 140, 150, 240, 340]);
        numa.latency_ns.truncate(1);
        assert_eq!(numa.latency(99), 80);
    }
}
