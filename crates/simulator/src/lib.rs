// SPDX-License-Identifier: GPL-2.0-only
//! Simulator core: clock, event queue and seed; combines kernel, machine and workload into a run.

mod act;
mod advance;
mod ahead;
#[cfg(test)]
mod ahead_tests;
mod alarms;
mod apply;
mod calls;
mod clock;
mod cost;
mod cpu;
mod cpus;
mod critical_sections;
mod demands;
mod details;
mod disks;
mod faults;
mod groups;
mod handover;
mod interrupt;
mod kernel_calls;
mod kernel_name;
mod loader;
mod locks;
#[cfg(test)]
mod locks_tests;
mod memory;
#[cfg(test)]
mod memory_tests;
mod model;
mod networks;
mod noise;
mod operations;
mod pace;
mod page_cache;
mod plan;
mod population;
mod queue;
mod run;
#[cfg(test)]
mod run_tests;
mod script;
mod setup;
mod shared_locks;
mod sinks;
mod softirqs;
mod sources;
mod speed;
#[cfg(test)]
mod speed_tests;
mod tasks;
#[cfg(test)]
mod testing;
mod ticks;
mod ticks_seen;
mod tlb;

use bpf_object::LinkedObject;
use event_log::Sink;
use fault_plan::{FaultError, FaultPlan};
pub use handover::Spinning;
use ids::Nanos;
pub use kernel_model::MAP_BYTES;
use kernel_model::{Coverage, ExitInfo, Kernel, KernelTypes, LaunchError};
pub use kernel_name::{Form, KernelName};
use machine_model::Machine;
use measures::RunMeasures;
use run::BOOT_CPU;
pub use setup::{UPTIME, workload_facts};
pub use sources::Uses;
use workload::Workload;

/// Hardware effects modelled on every machine, by the names used in all commands. Further effects depend on the
/// machine's description ([`machine_model::Effects::modelled`]).
pub const EFFECTS: [&str; 1] = ["interrupts"];

/// Scheduler of the tasks.
#[derive(Clone, Copy, Debug)]
pub enum Scheduler<'a> {
    /// The kernel's own classes; no sched_ext scheduler is loaded.
    Kernel,
    /// A sched_ext scheduler.
    Object {
        /// The parsed object.
        object: &'a bpf_object::Object,
        /// Settings that its user space would apply.
        profile: &'a launch_profile::Profile,
    },
}

/// Inputs of a run. Equal inputs give identical output.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a Workload,
    /// The scheduler.
    pub scheduler: Scheduler<'a>,
    /// Seed of the random variation between runs ([`Machine::noise`]), and of the random numbers that schedulers ask
    /// for. With seed 0 (the nominal run) there is no variation; schedulers still get random numbers.
    pub seed: u64,
    /// Overrides the workload's duration.
    pub duration: Option<Nanos>,
    /// Faults of the machine during the run.
    pub faults: &'a FaultPlan,
    /// Kernel version, lock implementation, and whether kernel operations wait for locks.
    pub kernel: KernelName,
    /// Types of the kernel; `None`: those of its version.
    pub types: Option<&'a KernelTypes>,
    /// Most memory in bytes that the maps of the scheduler may take; [`MAP_BYTES`] is enough for every known one.
    pub map_bytes: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Measures.
    pub measures: RunMeasures,
    /// Hash of all events.
    pub log_hash: u128,
    /// Set if the kernel ejected the scheduler before the workload was done.
    pub ejected: Option<ExitInfo>,
    /// Number of forks that the scheduler refused (`init_task` failed, contract T1); these children do not exist.
    pub failed_forks: u64,
    /// Number of changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// Exit information of each restart: the scheduler's exit requested one (contract E2), and the run continued.
    pub restarts: Vec<ExitInfo>,
    /// Planned calls of the scheduler's programs, by time.
    pub calls: Vec<CallMade>,
}

/// A call of a program of the running scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMade {
    /// The call as the user wrote it.
    pub call: String,
    /// Time of the call, and return value of the program; `None` if the run ended before.
    pub made: Option<(Nanos, i32)>,
}

/// Reason why a run could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The object cannot be linked against this kernel.
    #[error(transparent)]
    Object(#[from] bpf_object::ObjectError),
    /// The object requires features that this kernel, or its model, does not have; lists all of them.
    #[error("{0}")]
    Lacks(String),
    /// The profile does not fit the object.
    #[error(transparent)]
    Profile(#[from] launch_profile::ProfileError),
    /// The kernel refused the scheduler.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The machine cannot be simulated: no CPUs, ticks that take all the time, or no lock costs although the kernel's
    /// name specifies locks.
    #[error("{0}")]
    Machine(String),
    /// The fault plan does not fit the machine.
    #[error("fault plan: {0}")]
    Faults(#[from] FaultError),
    /// The workload does not fit the machine (a task is pinned to CPUs that do not exist, …), never ends, or acts
    /// endlessly without consuming time.
    #[error("{0}")]
    Workload(String),
}

impl SetupError {
    /// Whether the error concerns the scheduler, so that another one might run.
    pub fn is_of_scheduler(&self) -> bool {
        use SetupError::{Lacks, Launch, Object, Profile};
        matches!(self, Object(_) | Lacks(_) | Profile(_) | Launch(_))
    }
}

/// Runs until the duration is over, all tasks have ended, the remaining tasks wait for each other forever, or the
/// kernel ejects the scheduler for the last time. `log` receives every event; `progress` is called periodically with
/// the simulated time.
///
/// The scheduler is attached at time 0, before any task of the workload exists. Tasks that start by themselves are
/// created on CPU 0 one after another, at their time or as soon after it as CPU 0 is free. A scheduler whose exit
/// requests a restart (contract E2) is attached again, as its loader would do.
pub fn run(setup: &Setup<'_>, log: &mut dyn Sink, progress: &mut dyn FnMut(Nanos)) -> Result<Outcome, SetupError> {
    run_then(setup, log, progress, &mut |_, _| ())
}

/// Like [`run`], but calls `last` with the final state of the kernel, and with the scheduler's object to look up its
/// variables; not called without an object. Changes that `last` makes to the kernel, such as detaching the scheduler,
/// do not affect the outcome.
pub fn run_then(
    setup: &Setup<'_>,
    log: &mut dyn Sink,
    progress: &mut dyn FnMut(Nanos),
    last: &mut dyn FnMut(&mut Kernel, &LinkedObject),
) -> Result<Outcome, SetupError> {
    let mut run = setup::prepare(setup, log, false)?;
    run.play(progress);
    let object = run.loading.take_object();
    let (outcome, mut kernel) = run.finish()?;
    if let Some(object) = object {
        last(&mut kernel, &object);
    }
    Ok(outcome)
}

/// Like [`run`], but also returns the executed lines of the scheduler's object, those of its unloading included,
/// which the outcome excludes. `None` without an object.
///
/// # Errors
/// As for [`run`].
pub fn run_covered(
    setup: &Setup<'_>,
    log: &mut dyn Sink,
    progress: &mut dyn FnMut(Nanos),
) -> Result<(Outcome, Coverage), SetupError> {
    let mut run = setup::prepare(setup, log, true)?;
    run.play(progress);
    let (outcome, mut kernel) = run.finish()?;
    kernel.detach(BOOT_CPU);
    kernel.end_disable(BOOT_CPU);
    Ok((outcome, kernel.coverage().unwrap_or_default()))
}

/// Like [`run_then`], but the scheduler is unloaded at the end, which takes time: tasks continue in bypass mode
/// meanwhile, and the outcome includes that. `last` is called when the scheduler is gone. A scheduler that requests a
/// restart because the machine changes at that moment is not attached again.
pub fn run_and_unload(
    setup: &Setup<'_>,
    log: &mut dyn Sink,
    progress: &mut dyn FnMut(Nanos),
    last: &mut dyn FnMut(&Kernel, &LinkedObject),
) -> Result<Outcome, SetupError> {
    let mut run = setup::prepare(setup, log, false)?;
    run.play(progress);
    run.unload();
    let object = run.loading.take_object();
    let (outcome, kernel) = run.finish()?;
    if let Some(object) = object {
        last(&kernel, &object);
    }
    Ok(outcome)
}
