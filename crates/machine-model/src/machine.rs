// SPDX-License-Identifier: GPL-2.0-only
//! A machine: its CPUs and how far they are from each other.

use crate::Costs;
use ids::{CpuId, CpuSet};

/// One logical CPU and the groups that it belongs to. Group numbers are dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Physical core: its CPUs are SMT siblings.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// How far a task moved, or two CPUs are apart. Ordered from near to far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Locality {
    /// The same CPU.
    Same,
    /// Another thread of the same core.
    Smt,
    /// Another core below the same last-level cache.
    Llc,
    /// Another cache in the same node.
    Node,
    /// Another node.
    Far,
}

/// A machine description.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Name of the preset or file.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The CPUs; index = [`CpuId`].
    pub cpus: Vec<Cpu>,
    /// SLIT distances between nodes, 10 = local; square, symmetric.
    pub distances: Vec<Vec<u32>>,
    /// Timer interrupts per second of a busy CPU.
    pub hz: u32,
    /// Idle CPUs stop their tick (CONFIG_NO_HZ_IDLE).
    pub no_hz_idle: bool,
    /// What things cost.
    pub costs: Costs,
}

/// Why a machine description was refused: where, what, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct MachineError {
    /// File and line, or the string itself.
    pub place: String,
    /// What was found and expected.
    pub problem: String,
}

impl Machine {
    /// From a TOML text; `name` stands in errors.
    pub fn from_toml(name: &str, text: &str) -> Result<Machine, MachineError> {
        todo!("{name} {text}")
    }

    /// From an hwloc synthetic string such as `node:2 core:8 pu:2`.
    pub fn from_synthetic(text: &str) -> Result<Machine, MachineError> {
        todo!("{text}")
    }

    /// From sysfs (`/sys/devices/system/...`), read through `read`: path → contents.
    pub fn from_sysfs(read: &dyn Fn(&str) -> Option<String>) -> Result<Machine, MachineError> {
        todo!("{}", read("").is_some())
    }

    /// All CPUs.
    pub fn all_cpus(&self) -> CpuSet {
        CpuSet::first_n(self.cpus.len())
    }

    /// How far apart two CPUs are.
    pub fn locality(&self, a: CpuId, b: CpuId) -> Locality {
        todo!("{a} {b}")
    }
}
