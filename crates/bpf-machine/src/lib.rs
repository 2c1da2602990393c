// SPDX-License-Identifier: GPL-2.0-only
//! Executes BPF programs on simulated guest memory. It knows nothing about scheduling: calls that need a kernel go to
//! the [`Host`].
//!
//! A program runs on its own frame stack, never on the host's, so it can be suspended before any kfunc, helper or
//! atomic instruction and resumed later.

pub mod asm;
mod coverage;
mod decode;
mod engine;
mod errno;
mod execution;
mod fault;
mod helpers;
mod interpreter;
pub mod iter_num;
mod lines;
mod machine;
mod maps;
mod memory;
mod op;
mod quick;

pub use coverage::{Coverage, FileCoverage, LineCoverage};
pub use execution::{CodeSite, Execution, Next, PausePoints, Step};
pub use fault::{Fault, FaultKind};
pub use lines::SourceLine;
pub use machine::{Context, Host, LoadError, Machine, Resolver};
pub use maps::{MapHandle, Maps, TimerId};
pub use memory::{Access, GuestAddr, MAP_BYTES, Memory, Region, RegionId};
