// SPDX-License-Identifier: GPL-2.0-only
//! The kernel as BPF programs see it: object layouts, BTF, constants, and the guest copies of kernel objects.
//!
//! Layouts and constants are those of Linux 7.2 (`structs`, `enums`); the set of kfuncs depends on the version.

mod arguments;
mod cgroup;
mod constants;
mod credentials;
mod enums;
mod idle_masks;
mod iterators;
mod layout;
mod masks;
mod objects;
mod per_cpu;
mod read_mask;
mod structs;
mod target;
mod writer;

pub(crate) use cgroup::{MAX_LEVEL as MAX_CGROUP_LEVEL, id_of as cgroup_id};
pub use constants::fill_constants;
pub(crate) use idle_masks::IdleMask;
pub(crate) use masks::write as write_mask;
pub(crate) use objects::{Objects, TaskView, jiffies, jiffies_in_ns};
/// Counters of `scx_bpf_events`, in the kernel's order.
pub(crate) const EVENT_COUNTERS: &[layout::Field] = structs::SCX_EVENT_STATS.fields;
pub(crate) use per_cpu::CpuTime;
pub(crate) use target::target;

#[cfg(test)]
pub(crate) mod tests;
