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

/// Maximum time to wait for another scheduler that is being unloaded.
const LEAVING: Duration = Duration::from_secs(10);

/// Request to load a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Scheduler as named by the user, for errors.
    pub name: &'a str,
    /// Bytes of the object.
    pub object: &'a [u8],
    /// Launch profile with preset and tunables chosen.
    pub profile: &'a Profile,
    /// Machine that the profile's tables describe.
    pub host: &'a Host,
    /// Let the kernel measure runs and run time of the scheduler's programs, at about 40 ns per op call.
    pub measure: bool,
}

/// State of this machine at some time.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// CPUs of the host.
    pub machine: Machine,
    /// Hotplug sequence number read before the CPUs. If it has changed at attach, the kernel ends the scheduler at
    /// once with the restart code (contract 1.3, step 4), and it can be loaded again with new tables.
    pub hotplug_seq: u64,
}

/// Activity of a scheduler so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// The kernel's event counters (`SCX_EV_*`), since 6.15; empty before, and after the scheduler's exit.
    pub events: Vec<(String, u64)>,
    /// Number of tasks that the scheduler disallowed.
    pub nr_rejected: u64,
    /// Number of schedulers enabled since boot.
    pub enable_seq: u64,
    /// Programs of the scheduler, in the order of the kernel's struct.
    pub ops: Vec<OpStatistics>,
}

/// Activity of one op.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpStatistics {
    /// Op: `enqueue`, `dispatch`, …
    pub op: String,
    /// Function in the object.
    pub program: String,
    /// Number of calls; 0 unless [`Request::measure`] was set.
    pub runs: u64,
    /// Run time in nanoseconds; 0 unless [`Request::measure`] was set.
    pub run_time_ns: u64,
    /// Number of calls that the kernel skipped because the program was already active on that CPU.
    pub skipped: u64,
    /// Number of instructions of the program after verification.
    pub instructions: u64,
    /// Number of instructions that the verifier processed.
    pub verified_instructions: u64,
}

impl Host {
    /// Reads the state of the running kernel.
    ///
    /// # Errors
    /// If there is no sched_ext, or sysfs describes an inconsistent machine.
    pub fn read() -> Result<Host, LinkError> {
        kernel::check()?;
        // Read first, so that later hotplug is noticed at attach.
        let hotplug_seq = kernel::number("hotplug_seq")?;
        let sysfs = |path: &str| fs::read_to_string(path).ok();
        let machine = Machine::from_sysfs(&sysfs).map_err(SchedulerError::Machine)?;
        Ok(Host { machine: Machine { hz: kernel::hz(), ..machine }, hotplug_seq })
    }
}

/// Loads and attaches the scheduler, and waits until it is enabled.
///
/// A scheduler that fails after the kernel has accepted it (its `init` returns an error, a task cannot be
/// initialized) is not an error here: [`Attached::exited`] returns its exit.
///
/// # Errors
/// If the kernel has no sched_ext or this process lacks permission; if another scheduler is active; if the object or
/// its profile is unsuitable; if the verifier or the kernel rejects it.
pub fn load(request: &Request<'_>) -> Result<Attached, LinkError> {
    kernel::check()?;
    let prepared = prepare::prepare(request, &KernelTypes::read()?)?;
    kernel::check_free(LEAVING)?;
    attached::attach(request, prepared)
}

#[cfg(test)]
mod tests;
