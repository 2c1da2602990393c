// SPDX-License-Identifier: GPL-2.0-only
//! Clock, event queue and seed: joins the kernel, the machine and the workload into a run.

mod act;
mod advance;
mod ahead;
#[cfg(test)]
mod ahead_tests;
mod alarms;
mod apply;
mod calls;
mod cost;
mod cpu;
mod critical_sections;
mod details;
mod faults;
mod groups;
mod handover;
mod interrupt;
mod kernel_name;
mod loader;
mod locks;
#[cfg(test)]
mod locks_tests;
mod model;
mod noise;
mod operations;
mod plan;
mod queue;
mod run;
#[cfg(test)]
mod run_tests;
mod script;
mod setup;
mod shared_locks;
mod speed;
#[cfg(test)]
mod speed_tests;
mod tasks;
#[cfg(test)]
mod testing;
mod ticks;
mod ticks_seen;

use bpf_object::LinkedObject;
use event_log::Sink;
use fault_plan::{FaultError, FaultPlan};
pub use handover::Spinning;
use ids::Nanos;
use kernel_model::{Coverage, ExitInfo, Kernel, LaunchError};
pub use kernel_name::{Form, KernelName};
use machine_model::Machine;
use measures::RunMeasures;
use run::BOOT_CPU;
pub use setup::{UPTIME, told_by};
use workload::Workload;

/// The effects of hardware that runs on any machine have, in the words that all commands share. What else a machine has
/// stands in its description ([`machine_model::Effects::modelled`]).
pub const EFFECTS: [&str; 1] = ["interrupts"];

/// Who schedules the tasks.
#[derive(Clone, Copy, Debug)]
pub enum Scheduler<'a> {
    /// The kernel's own classes: no sched_ext scheduler is loaded.
    Kernel,
    /// A sched_ext scheduler.
    Object {
        /// The object, parsed.
        object: &'a bpf_object::Object,
        /// What its user space would set.
        profile: &'a launch_profile::Profile,
    },
}

/// What a run is made of. Same values, same bytes out.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// The workload.
    pub workload: &'a Workload,
    /// The scheduler.
    pub scheduler: Scheduler<'a>,
    /// What is drawn of what differs between two real runs ([`Machine::noise`]), and of what schedulers ask for as
    /// random numbers. 0 is the nominal run: only the latter.
    pub seed: u64,
    /// Overrides the workload's duration.
    pub duration: Option<Nanos>,
    /// What happens to the machine on the way.
    pub faults: &'a FaultPlan,
    /// The kernel, and whether its operations wait for locks.
    pub kernel: KernelName,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was measured.
    pub measures: RunMeasures,
    /// Hash of all events.
    pub log_hash: u128,
    /// Set if the kernel ejected the scheduler before the workload was done.
    pub ejected: Option<ExitInfo>,
    /// Forks that the scheduler refused (`init_task` failed, contract T1): these children do not exist.
    pub failed_forks: u64,
    /// Changes of affinity, policy or nice value that the kernel refused.
    pub refused_changes: u64,
    /// Why the scheduler was attached again, each time: its exit asked for that (contract E2), and the run went on.
    pub restarts: Vec<ExitInfo>,
    /// The calls that the scheduler's profile plans, by time.
    pub calls: Vec<CallMade>,
}

/// A call of a program of the scheduler while that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMade {
    /// As it was asked for.
    pub call: String,
    /// When it was made, and what the program returned; `None` if the run was over before.
    pub made: Option<(Nanos, i32)>,
}

/// Why a run could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The object cannot be linked against this kernel.
    #[error(transparent)]
    Object(#[from] bpf_object::ObjectError),
    /// The object needs what this kernel, or the model of it, does not have: all of it.
    #[error("{0}")]
    Lacks(String),
    /// The profile does not fit the object.
    #[error(transparent)]
    Profile(#[from] launch_profile::ProfileError),
    /// The kernel refused it.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The machine cannot be played: no CPUs, ticks that take all the time, or no locks where the kernel's name speaks of them.
    #[error("{0}")]
    Machine(String),
    /// The fault plan does not fit the machine.
    #[error("fault plan: {0}")]
    Faults(#[from] FaultError),
    /// The workload does not fit the machine (a task is pinned to CPUs that do not exist, …), never ends, or acts
    /// for ever without needing time.
    #[error("{0}")]
    Workload(String),
}

impl SetupError {
    /// Whether the scheduler is to blame, and another one might run.
    pub fn is_of_scheduler(&self) -> bool {
        use SetupError::{Lacks, Launch, Object, Profile};
        matches!(self, Object(_) | Lacks(_) | Profile(_) | Launch(_))
    }
}

/// Runs to the end: when the duration is over, all tasks have ended, those that are left wait for each other for ever,
/// or the kernel ejects the scheduler for good. `log` sees every event, `progress` the simulated time now and then.
///
/// A scheduler is attached at time 0, before any task of the workload exists. Tasks that start by themselves are
/// created on CPU 0 one after another, at their time or as soon after it as CPU 0 is free. A scheduler that leaves with
/// the wish to be restarted (contract E2) is attached again, as its loader would.
pub fn run(setup: &Setup<'_>, log: &mut dyn Sink, progress: &mut dyn FnMut(Nanos)) -> Result<Outcome, SetupError> {
    run_then(setup, log, progress, &mut |_, _| ())
}

/// The same; `last` gets the kernel as the run left it, and the scheduler's object to find its variables by; without an
/// object it is not called. It may still do something with that kernel, such as detaching the scheduler: the outcome is
/// that of before.
pub fn run_then(
    setup: &Setup<'_>,
    log: &mut dyn Sink,
    progress: &mut dyn FnMut(Nanos),
    last: &mut dyn FnMut(&mut Kernel, &LinkedObject),
) -> Result<Outcome, SetupError> {
    let mut run = setup::prepare(setup, log, false)?;
    run.play(progress);
    let loader = run.loader.take();
    let (outcome, mut kernel) = run.finish()?;
    if let Some(loader) = loader {
        last(&mut kernel, &loader.object);
    }
    Ok(outcome)
}

/// The same, and what was executed of the scheduler's object: its unloading counts too, which is not in the outcome.
/// Nothing without an object.
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

/// The same as [`run_then`], but the scheduler is unloaded at the end, which takes time: tasks go on meanwhile and bypass
/// it, and the outcome counts that too. `last` gets the kernel when the scheduler is gone. One that asks for a restart when the
/// machine changes just then is not attached again.
pub fn run_and_unload(
    setup: &Setup<'_>,
    log: &mut dyn Sink,
    progress: &mut dyn FnMut(Nanos),
    last: &mut dyn FnMut(&Kernel, &LinkedObject),
) -> Result<Outcome, SetupError> {
    let mut run = setup::prepare(setup, log, false)?;
    run.play(progress);
    run.unload();
    let loader = run.loader.take();
    let (outcome, kernel) = run.finish()?;
    if let Some(loader) = loader {
        last(&kernel, &loader.object);
    }
    Ok(outcome)
}
