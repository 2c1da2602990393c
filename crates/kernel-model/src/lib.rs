// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext core of Linux 7.2 as a state machine: task states, dispatch queues, idle masks, kicks, watchdog,
//! kfuncs, and the scheduling classes above ext. It knows no costs, caches or workloads and has no event queue: the
//! driver (a simulator or a test) sets the time ([`Kernel::set_now`]) and carries out the [`Effect`]s.

mod api;
mod core;
mod guest;
mod kernel;
mod kfuncs;
mod lacks;
mod ops;
mod verifier;

pub use crate::core::deadline::Refusal;
pub use api::{
    Cause, CgroupId, CgroupKnobs, Config, Effect, ExitInfo, Identity, LaunchError, Leave, Lock, LockStep, Output,
    Switch, TaskAttributes, TimerKey, Usage,
};
pub use bpf_machine::{Coverage, FileCoverage, LineCoverage, MAP_BYTES};
pub use guest::{KernelTypes, TypesError};
pub use kernel::{Kernel, Operation, Progress, Stops, Wait};
pub use lacks::Lacks;
