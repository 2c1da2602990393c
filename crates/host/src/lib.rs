// SPDX-License-Identifier: GPL-2.0-only
//! This machine: what user space can read, change and time without BPF.
//!
//! - [`faults`] takes CPUs offline while something runs, and brings them back.
//! - [`affinity`] restores the affinities of tasks after CPUs have been offline.
//! - [`hardware`] measures the costs of this machine.
//! - [`idle`] keeps CPUs out of deep idle states.
//! - [`signals`], [`priority`], [`sys`]: stop requests, a real-time priority for this process, system calls.

pub mod affinity;
pub mod cpu_time;
mod error;
pub mod faults;
pub mod hardware;
pub mod idle;
pub mod priority;
pub mod proc;
pub mod signals;
pub mod sys;

pub use error::HostError;
pub use proc::release as kernel_release;
