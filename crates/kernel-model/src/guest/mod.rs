// SPDX-License-Identifier: GPL-2.0-only
//! The kernel as BPF programs see it: object layouts, BTF, constants, and the guest copies of kernel objects.
//!
//! Layouts and constants are those of a real kernel's BTF (`types`), and `members` says which members have a value;
//! the set of kfuncs depends on the version.

mod arguments;
mod cgroup;
mod constants;
mod credentials;
mod enums;
mod idle_masks;
mod iterators;
mod masks;
mod members;
mod objects;
mod per_cpu;
mod read_mask;
mod scheduling;
mod target;
mod types;
mod writer;

pub(crate) use cgroup::{MAX_LEVEL as MAX_CGROUP_LEVEL, id_of as cgroup_id};
pub(crate) use constants::fill_constants;
pub(crate) use idle_masks::IdleMask;
pub(crate) use masks::write as write_mask;
pub(crate) use members::{Live, Source};
pub(crate) use objects::{Objects, TaskView, jiffies, jiffies_in_ns};
pub(crate) use per_cpu::CpuTime;
pub(crate) use target::target;
pub use types::{KernelTypes, TypesError};

#[cfg(test)]
pub(crate) mod tests;
