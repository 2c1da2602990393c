// SPDX-License-Identifier: GPL-2.0-only
//! Everything that can be known before a play: whether the workload fits this machine and this user.

use super::cgroups::Cgroups;
use super::lenders::Lenders;
use super::{Calibration, Options, PlayError};
use host::sys;
use ids::{CpuSet, Nanos, Policy};
use std::thread;
use workload::{LockKind, Op, Start, TaskSpec, Workload};

/// What preparing found out.
pub struct Prepared {
    pub calibration: Calibration,
    /// The CPUs of the calling thread: those of the play.
    pub cpus: CpuSet,
    /// Where its groups are.
    pub cgroups: Option<Cgroups>,
    /// Storage for the stage and its tasks.
    pub lenders: Lenders,
}

pub fn prepare(workload: &Workload, options: &Options) -> Result<Prepared, PlayError> {
    workload.validate()?;
    if options.duration.or(workload.duration).is_none() && !workload.is_finite() {
        return Err(PlayError::Endless { workload: workload.name.clone() });
    }
    if let Some(lock) = workload.locks.iter().find(|lock| lock.kind == LockKind::Rcu) {
        return Err(PlayError::Rcu { workload: workload.name.clone(), lock: lock.name.clone() });
    }
    let affinity = |source| PlayError::System { action: "ask for the CPUs of this thread", source };
    let cpus = sys::allowed_cpus().map_err(affinity)?;
    check_cpus(workload, &cpus)?;
    check_policies(workload)?;
    let calibration = match options.calibration {
        Some(calibration) => calibration,
        // On a thread of its own, since it changes its affinity.
        None => aside("weir-calibrate", Calibration::measure)?
            .map_err(|source| PlayError::System { action: "measure how fast this machine works", source })?,
    };
    let at_once = workload.tasks.iter().filter(|task| task.start == Start::At(Nanos::ZERO)).count();
    let lenders = Lenders::make(1 + at_once)
        .map_err(|source| PlayError::System { action: "create a thread for the storage of tasks", source })?;
    // After all that can fail: from here on there is something to be removed.
    let cgroups = Cgroups::make(workload)?;
    Ok(Prepared { calibration, cpus, cgroups, lenders })
}

/// Number and name of a spec, for errors.
pub fn describe(workload: &Workload, spec: usize) -> String {
    format!("task {spec} ({})", workload.tasks[spec].name)
}

fn check_cpus(workload: &Workload, present: &CpuSet) -> Result<(), PlayError> {
    for (index, spec) in workload.tasks.iter().enumerate() {
        let changes = spec.script.iter().filter_map(|op| match op {
            Op::Change { cpus, .. } | Op::ChangeOf { cpus, .. } => cpus.as_deref(),
            _ => None,
        });
        if let Some(wanted) = spec.cpus.iter().chain(changes).find(|cpus| !cpus.intersects(present)) {
            return Err(PlayError::NoCpu {
                workload: workload.name.clone(),
                task: describe(workload, index),
                wanted: wanted.clone(),
                present: present.clone(),
            });
        }
    }
    Ok(())
}

/// Tries each policy and nice value that occurs once, each on a fresh thread: what a thread may do depends on what it
/// did before.
fn check_policies(workload: &Workload) -> Result<(), PlayError> {
    let mut tried: Vec<(Policy, i8)> = Vec::new();
    for (index, spec) in workload.tasks.iter().enumerate() {
        for (policy, nice) in policies(spec) {
            if tried.contains(&(policy, nice)) {
                continue;
            }
            tried.push((policy, nice));
            let refused = |source| PlayError::Policy {
                workload: workload.name.clone(),
                task: describe(workload, index),
                policy,
                nice,
                source,
            };
            aside("weir-try", move || sys::set_policy(0, policy, nice))?.map_err(refused)?;
        }
    }
    Ok(())
}

fn policies(spec: &TaskSpec) -> impl Iterator<Item = (Policy, i8)> {
    let changes = spec.script.iter().filter_map(|op| match op {
        Op::Change { policy, .. } | Op::ChangeOf { policy, .. } => policy.as_deref().copied(),
        _ => None,
    });
    std::iter::once((spec.policy, spec.nice)).chain(changes)
}

/// Runs something on a thread of its own.
fn aside<Result: Send + 'static>(
    name: &str,
    what: impl FnOnce() -> Result + Send + 'static,
) -> std::result::Result<Result, PlayError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(what);
    let thread = thread.map_err(|source| PlayError::Thread { task: name.to_owned(), source })?;
    Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
