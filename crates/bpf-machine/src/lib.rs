// SPDX-License-Identifier: GPL-2.0-only
//! Executes BPF programs over simulated guest memory. Knows nothing of scheduling: whatever a program calls that is
//! not plain BPF goes to the [`Host`].
//!
//! A program runs on its own frame stack, never on the host's, so it can be suspended before any kfunc, helper or
//! atomic instruction and resumed later.

mod fault;
mod machine;
mod maps;
mod memory;

pub use fault::{Fault, FaultKind};
pub use machine::{CodeSite, Context, Execution, Host, LoadError, Machine, PausePoints, Resolver, Step, TimerId};
pub use maps::{MapHandle, Maps};
pub use memory::{Access, GuestAddr, Memory, Region, RegionId};
