// SPDX-License-Identifier: GPL-2.0-only
//! Memory by node: where it is, how far it is, and what was moved.

use crate::ONE;
use ids::{Nanos, Topology};
use machine_model::Effects;

/// Node of a working set's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Home {
    /// A node.
    Node(u32),
    /// All nodes with CPUs, evenly.
    All,
}

/// Bytes that CPUs loaded from the memory of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// By CPUs of the node.
    pub local: u64,
    /// By CPUs of other nodes.
    pub remote: u64,
}

/// Distances of memory, and the traffic of each node.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// Nodes with CPUs, over which memory is interleaved.
    pub with_cpus: Vec<u32>,
    /// Typical memory latency in nanoseconds by the CPU's node, then the memory's.
    latency: Vec<Vec<u64>>,
    /// Traffic by node, in thousandths of a byte: local, remote.
    moved: Vec<[u64; 2]>,
    /// Sums of the streams that run now, in MB/s.
    streams: Vec<[u64; 2]>,
    at: Nanos,
}

impl Nodes {
    /// Creates the nodes of a machine. Without the effect `numa`, all memory is as far as that of the own node.
    pub fn new(effects: &Effects, topology: &Topology) -> Nodes {
        let count = topology.nodes() as u32;
        let local = effects.caches.as_ref().map_or(1, |caches| caches.memory_ns.typical);
        let latency = |from, to| match &effects.numa {
            Some(numa) => numa.latency(topology.distance(from, to)),
            None => local,
        };
        let mut with_cpus: Vec<u32> = topology.places.iter().map(|place| place.node).collect();
        with_cpus.sort_unstable();
        with_cpus.dedup();
        Nodes {
            with_cpus,
            latency: (0..count).map(|from| (0..count).map(|to| latency(from, to)).collect()).collect(),
            moved: vec![[0; 2]; count as usize],
            streams: vec![[0; 2]; count as usize],
            at: Nanos::ZERO,
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.latency.len()
    }

    /// Latency of memory in nanoseconds, from a CPU of the node `from`.
    pub fn latency(&self, from: u32, home: Home) -> u64 {
        let row = &self.latency[from as usize];
        match home {
            Home::Node(node) => row[node as usize],
            Home::All => {
                self.with_cpus.iter().map(|&node| row[node as usize]).sum::<u64>() / self.with_cpus.len() as u64
            }
        }
    }

    /// Latency relative to that of the own node, as a fixed-point number, at least 1.
    pub fn ratio(&self, from: u32, to: u32) -> u64 {
        let row = &self.latency[from as usize];
        (row[to as usize] * ONE / row[from as usize].max(1)).max(ONE)
    }

    /// Calls `each` with the nodes of this home, and the divisor of its traffic.
    pub fn of_home(&self, home: Home, mut each: impl FnMut(u32, u64)) {
        match home {
            Home::Node(node) => each(node, 1),
            Home::All => self.with_cpus.iter().for_each(|&node| each(node, self.with_cpus.len() as u64)),
        }
    }

    /// A CPU of the node `from` loads these bytes.
    pub fn load(&mut self, from: u32, home: Home, bytes: u64) {
        let mut moved = std::mem::take(&mut self.moved);
        self.of_home(home, |node, parts| moved[node as usize][usize::from(node != from)] += bytes * 1_000 / parts);
        self.moved = moved;
    }

    /// The stream of a task on the node `from` changes, in MB/s.
    pub fn change_stream(&mut self, now: Nanos, from: u32, home: Home, old: u64, new: u64) {
        self.advance(now);
        let mut streams = std::mem::take(&mut self.streams);
        self.of_home(home, |node, parts| {
            let sum = &mut streams[node as usize][usize::from(node != from)];
            *sum = *sum + new / parts - old / parts;
        });
        self.streams = streams;
    }

    fn advance(&mut self, now: Nanos) {
        let time = (now - std::mem::replace(&mut self.at, now)).0;
        if time == 0 {
            return;
        }
        for (moved, streams) in self.moved.iter_mut().zip(&self.streams) {
            (0..2).for_each(|side| moved[side] += streams[side] * time);
        }
    }

    /// Bytes loaded from each node up to `now`.
    pub fn moved(&mut self, now: Nanos) -> Vec<Moved> {
        self.advance(now);
        self.moved.iter().map(|&[local, remote]| Moved { local: local / 1_000, remote: remote / 1_000 }).collect()
    }
}
