// SPDX-License-Identifier: GPL-2.0-only
//! Loads a sched_ext object with its launch profile into the running kernel, watches it, and unloads it.
//!
//! The bytes are those that the simulator runs, and the profile is applied by the same code: values go into our own
//! [`bpf_object::LinkedObject`] and from there into libbpf's.
//!
//! ```no_run
//! # fn run(name: &str, object: &[u8], profile: &launch_profile::Profile) -> Result<(), kernel_link::LinkError> {
//! use kernel_link::scheduler::{Host, Request, load};
//! loop {
//!     let host = Host::read()?;
//!     let attached = load(&Request { name, object, profile, host: &host, measure: false })?;
//!     while attached.exited()?.is_none() {
//!         std::thread::sleep(std::time::Duration::from_secs(1));
//!     }
//!     let exit = attached.detach()?;
//!     if !exit.wants_restart() {
//!         return Ok(());
//!     }
//! }
//! # }
//! ```

mod attached;
mod error;
mod exit;
mod kernel;
mod log;
mod open;
mod prepare;
mod record;

pub use attached::Attached;
pub use error::SchedulerError;
pub use exit::KernelExit;

use crate::LinkError;
use kernel::KernelTypes;
use launch_profile::Profile;
use machine_model::Machine;
use std::fs;
use std::time::Duration;

/// A scheduler that is just being unloaded by somebody else is waited for.
const LEAVING: Duration = Duration::from_secs(10);

/// What shall be loaded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The scheduler, as it was asked for: for errors.
    pub name: &'a str,
    /// The object's bytes.
    pub object: &'a [u8],
    /// Its profile, preset and tunables chosen.
    pub profile: &'a Profile,
    /// The machine that the profile's tables describe.
    pub host: &'a Host,
    /// Let the kernel count runs and run time of the scheduler's programs: some 40 ns for each call of an op.
    pub measure: bool,
}

/// This machine at a certain moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Its CPUs.
    pub machine: Machine,
    /// How many CPUs had come or gone when that was read. If more have when the scheduler is attached, the kernel ends
    /// it at once with the code for a restart (contract 1.3, step 4), and the tables can be made again.
    pub hotplug_seq: u64,
}

/// What a scheduler did so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// The kernel's event counters (`SCX_EV_*`), from 6.15 on; empty before, and after the scheduler's end.
    pub events: Vec<(String, u64)>,
    /// Tasks that the scheduler disallowed.
    pub nr_rejected: u64,
    /// How many schedulers were attached since boot.
    pub enable_seq: u64,
    /// The scheduler's programs, in the order of their ops in the kernel's table.
    pub ops: Vec<OpStatistics>,
}

/// What one op did so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpStatistics {
    /// The op: `enqueue`, `dispatch`, …
    pub op: String,
    /// The function in the object.
    pub program: String,
    /// Calls; 0 unless [`Request::measure`] was set.
    pub runs: u64,
    /// Time in it; 0 unless [`Request::measure`] was set.
    pub run_time_ns: u64,
    /// Calls that the kernel skipped because the program was active on that CPU already.
    pub skipped: u64,
    /// Instructions of the program, which the verifier has left over.
    pub instructions: u64,
    /// Instructions that the verifier walked through.
    pub verified_instructions: u64,
}

impl Host {
    /// Reads it from the running kernel.
    ///
    /// # Errors
    /// If there is no sched_ext, or what sysfs says of the machine cannot be.
    pub fn read() -> Result<Host, LinkError> {
        kernel::check()?;
        // First: what comes or goes between the two is noticed at attach.
        let hotplug_seq = kernel::number("hotplug_seq")?;
        let sysfs = |path: &str| fs::read_to_string(path).ok();
        let machine = Machine::from_sysfs(&sysfs).map_err(SchedulerError::Machine)?;
        Ok(Host { machine: Machine { hz: kernel::hz(), ..machine }, hotplug_seq })
    }
}

/// Loads and attaches the scheduler, and waits until it is enabled.
///
/// A scheduler that fails after the kernel has accepted it (its `init` returns an error, a task cannot be initialised)
/// is no error here: [`Attached::exited`] tells why.
///
/// # Errors
/// If the kernel has no sched_ext or this process no rights; if another scheduler is active; if the object or its
/// profile is unsuitable; if the verifier or the kernel refuses it.
pub fn load(request: &Request<'_>) -> Result<Attached, LinkError> {
    kernel::check()?;
    let prepared = prepare::prepare(request, &KernelTypes::read()?)?;
    kernel::check_free(LEAVING)?;
    attached::attach(request, prepared)
}

#[cfg(test)]
mod tests;
