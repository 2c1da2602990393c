// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, cores, caches, nodes, HZ, and what things cost. Data and arithmetic only: no clock, no files, no scheduling.

mod cost;
mod machine;

pub use cost::{Costs, Nature};
pub use machine::{Cpu, Locality, Machine, MachineError};
