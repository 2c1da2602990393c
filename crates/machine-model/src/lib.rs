// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, cores, caches, nodes, HZ, and what things cost. Data and arithmetic only: no clock, no files, no scheduling.
//!
//! A [`Machine`] comes from a preset ([`Machine::preset`]), a TOML file ([`Machine::from_toml`]), an hwloc synthetic
//! string ([`Machine::from_synthetic`]) or the sysfs of a running kernel ([`Machine::from_sysfs`]). All of them end in
//! the same checks, so that whoever holds a machine may rely on dense group numbers, nested groups and sane distances.
//!
//! A machine file in full; `[costs]` and each of its keys may be absent, then the cost of `server-64` holds:
//!
//! ```toml
//! description = "two sockets, two cores each, two threads a core"
//! hz = 250                  # 24 to 10000
//! no_hz_idle = true         # an idle CPU stops its tick
//!
//! [topology]
//! shape = "node:2 core:2 pu:2"            # an hwloc synthetic string
//! numbering = "threads-last"              # or "threads-together" (the default), or the list of the CPU numbers
//! distances = [[10, 21], [21, 10]]        # SLIT; default: 10 at home, 20 elsewhere, as in Linux
//!
//! [costs]
//! context_switch_ns = 800
//! ```

mod cost;
mod machine;
mod presets;
mod synthetic;
mod sysfs;
mod toml_file;

pub use cost::{Costs, Nature};
pub use machine::{Machine, MachineError};
pub use presets::presets;
