// SPDX-License-Identifier: GPL-2.0-only
//! Bandwidth of memory: how much longer each access takes because of the demand of all tasks.
//!
//! One multiplier m of the latency for each node: the least one for which m is at least the loaded latency of the load
//! u that the tasks cause at m, and u is at most 1. The load falls as m grows, so there is exactly one. Below
//! saturation it is the measured curve L / L0 = 1 + slope u + knee u / (1 - u), which fits published measurements for
//! u < 0.9; above, m grows until the demand equals the capacity. A second multiplier limits accesses by CPUs of other
//! nodes.

use crate::ONE;
use crate::nodes::{Home, Nodes};
use machine_model::Bandwidth;

/// Load up to which the curve is used: 0.9.
const CURVE_END: u64 = ONE * 9 / 10;
/// Largest multiplier: 1024. Beyond, the demand of a thousand CPUs meets the memory of one node.
const MOST: u64 = 1_024 * ONE;
/// Rounds in which multipliers of nodes that influence each other are computed.
const ROUNDS: usize = 3;

/// Demand of a number of like tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// Node of the CPUs.
    pub node: u32,
    /// Home of the memory.
    pub home: Home,
    /// Share of time waiting for memory, in percent.
    pub share_percent: u64,
    /// Stream at full speed, in MB/s.
    pub stream_mb_s: u64,
    /// Number of tasks.
    pub count: u64,
}

/// Multipliers of the latency of each node.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    limits: Option<Bandwidth>,
    /// For all accesses.
    all: Vec<u64>,
    /// For accesses from other nodes, in addition.
    remote: Vec<u64>,
}

/// Rate of a task that waits for memory for this share of its undisturbed time, if each access takes `longer` times as
/// long: 1 / (1 + d (longer - 1)). Fixed-point, rounded down, above 0.
pub(crate) fn rate(share_percent: u64, longer: u64) -> u64 {
    let more = u128::from(share_percent) * u128::from(longer.saturating_sub(ONE));
    let whole = 100 * u128::from(ONE);
    ((whole * u128::from(ONE) / (whole + more)) as u64).max(1)
}

impl Load {
    /// Creates the multipliers of an idle machine.
    pub fn new(limits: Option<&Bandwidth>, nodes: usize) -> Load {
        Load { limits: limits.cloned(), all: vec![ONE; nodes], remote: vec![ONE; nodes] }
    }

    /// Whether bandwidth is modelled.
    pub fn is_limited(&self) -> bool {
        self.limits.is_some()
    }

    /// Factor by which accesses of a CPU of `node` to memory at `home` take longer than idle accesses to its own node.
    pub fn longer(&self, nodes: &Nodes, node: u32, home: Home) -> u64 {
        let mut sum = 0;
        nodes.of_home(home, |to, parts| {
            let mut longer = scaled(nodes.ratio(node, to), self.all[to as usize]);
            if to != node {
                longer = scaled(longer, self.remote[to as usize]);
            }
            sum += longer / parts;
        });
        sum.max(ONE)
    }

    /// Computes the multipliers for these demands.
    pub fn solve(&mut self, nodes: &Nodes, demands: &[Demand]) {
        let Some(limits) = self.limits.clone() else { return };
        self.all.fill(ONE);
        self.remote.fill(ONE);
        for _ in 0..ROUNDS {
            let before = (self.all.clone(), self.remote.clone());
            for node in 0..self.all.len() {
                let at: Vec<Demand> = demands.iter().copied().filter(|one| one.reaches(nodes, node as u32)).collect();
                if at.is_empty() {
                    continue;
                }
                self.solve_node(nodes, node, &at, &limits);
            }
            // A single node has nothing to influence.
            if self.all.len() == 1 || before == (self.all.clone(), self.remote.clone()) {
                return;
            }
        }
    }

    fn solve_node(&mut self, nodes: &Nodes, node: usize, demands: &[Demand], limits: &Bandwidth) {
        let capacity = limits.node_mb_s.typical.max(1);
        self.all[node] = least(|multiplier| {
            self.all[node] = multiplier;
            let load = self.demand(nodes, node, demands, false) / capacity;
            load <= ONE && multiplier >= loaded_latency(limits, load.min(CURVE_END))
        });
        let capacity = limits.remote_mb_s.typical.max(1);
        self.remote[node] = least(|multiplier| {
            self.remote[node] = multiplier;
            self.demand(nodes, node, demands, true) / capacity <= ONE
        });
    }

    /// Bandwidth that these tasks take from `node`, in MB/s as a fixed-point number; `remote`: from other nodes only.
    fn demand(&self, nodes: &Nodes, node: usize, demands: &[Demand], remote: bool) -> u64 {
        let of = |one: &Demand| {
            if remote && one.node as usize == node {
                return 0;
            }
            let rate = rate(one.share_percent, self.longer(nodes, one.node, one.home));
            let parts = if one.home == Home::All { nodes.with_cpus.len() as u64 } else { 1 };
            one.count * one.stream_mb_s * rate / parts
        };
        demands.iter().map(of).sum()
    }
}

impl Demand {
    /// Whether it needs memory of this node.
    fn reaches(&self, nodes: &Nodes, node: u32) -> bool {
        match self.home {
            Home::Node(home) => home == node,
            Home::All => nodes.with_cpus.contains(&node),
        }
    }
}

/// Loaded latency relative to the idle one, at a load below 1, all fixed-point.
///
/// # Panics
/// If the load is 1.
pub fn loaded_latency(limits: &Bandwidth, load: u64) -> u64 {
    let (slope, knee) = (limits.slope_permille.typical, limits.knee_permille.typical);
    ONE + (slope * load + knee * (load * ONE / (ONE - load))) / 1_000
}

/// Product of two fixed-point numbers.
fn scaled(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 16) as u64
}

/// The least multiplier that is enough, between 1 and [`MOST`]; a larger one is enough as well.
fn least(mut is_enough: impl FnMut(u64) -> bool) -> u64 {
    if is_enough(ONE) {
        return ONE;
    }
    // Most are below 2: the search begins there, not in the middle.
    let (mut low, mut high) = (ONE + 1, 2 * ONE);
    while high < MOST && !is_enough(high) {
        (low, high) = (high + 1, 2 * high);
    }
    while low < high {
        let middle = u64::midpoint(low, high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}
