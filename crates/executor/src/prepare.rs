// SPDX-License-Identifier: GPL-2.0-only
//! Checks before an execution: whether the workload fits this machine and this user.

use super::cgroups::Cgroups;
use super::disks::Disks;
use super::donors::Donors;
use super::memory::TaskMemory;
use super::{Calibration, ExecuteError, Options};
use host::idle::IdleExitLimit;
use host::sys;
use ids::{CpuSet, Nanos, Policy};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::thread;
use workload::{LockKind, Op, Quantity, Start, TaskSpec, Workload};

/// Largest footprint in bytes that a task accesses for real.
const MAX_FOOTPRINT: u64 = 16 << 30;

/// Result of the preparation.
pub struct Prepared {
    pub calibration: Calibration,
    /// CPUs of the calling thread, which are those of the execution.
    pub cpus: CpuSet,
    /// Cgroups of the workload's groups.
    pub cgroups: Option<Cgroups>,
    /// Disks of the workload.
    pub disks: Disks,
    /// Request for shallow idle states, if the workload makes one; the error if the kernel refused it.
    pub idle_exit: Option<io::Result<IdleExitLimit>>,
    /// Storage for the coordinator and its tasks.
    pub donors: Donors,
    /// Memory of specs, until a task takes it.
    pub memories: Mutex<BTreeMap<u32, TaskMemory>>,
}

pub fn prepare(workload: &Workload, options: &Options) -> Result<Prepared, ExecuteError> {
    workload.validate()?;
    if options.duration.or(workload.duration).is_none() && !workload.is_finite() {
        return Err(ExecuteError::Endless { workload: workload.name.clone() });
    }
    if let Some(lock) = workload.locks.iter().find(|lock| lock.kind == LockKind::Rcu) {
        return Err(ExecuteError::Rcu { workload: workload.name.clone(), lock: lock.name.clone() });
    }
    let footprint =
        |task: &TaskSpec| task.memory.as_ref().map_or(0, |memory| memory.limits(Quantity::Footprint).typical);
    if let Some(task) = workload.tasks.iter().find(|task| footprint(task) > MAX_FOOTPRINT) {
        return Err(ExecuteError::Footprint { workload: workload.name.clone(), task: task.name.clone() });
    }
    if workload.unmaps() {
        return Err(ExecuteError::Unmaps { workload: workload.name.clone() });
    }
    if !workload.networks.is_empty() {
        return Err(ExecuteError::Networks { workload: workload.name.clone() });
    }
    if workload.mutexes.iter().any(|mutex| mutex.inherits_priority) {
        return Err(ExecuteError::Inherits { workload: workload.name.clone() });
    }
    let affinity = |source| ExecuteError::System { action: "ask for the CPUs of this thread", source };
    let cpus = sys::allowed_cpus().map_err(affinity)?;
    check_cpus(workload, &cpus)?;
    check_policies(workload)?;
    let calibration = match options.calibration {
        Some(calibration) => calibration,
        // Calibrate on a separate thread, since calibration changes the affinity of its thread.
        None => on_new_thread("weir-calibrate", Calibration::measure)?
            .map_err(|source| ExecuteError::System { action: "measure how fast this machine works", source })?,
    };
    let at_once = workload.tasks.iter().filter(|task| task.start == Start::At(Nanos::ZERO)).count();
    let donors = Donors::make(1 + at_once)
        .map_err(|source| ExecuteError::System { action: "create a thread for the storage of tasks", source })?;
    let disks = Disks::open(workload, &options.disks)?;
    let memories = Mutex::new(memories(workload, &cpus)?);
    let idle_exit = workload.idle_exit_limit.map(IdleExitLimit::request);
    // Cgroups are created last, after everything that can fail, because they would have to be removed again.
    let cgroups = Cgroups::make(workload)?;
    Ok(Prepared { calibration, cpus, cgroups, disks, idle_exit, donors, memories })
}

/// Memory of the tasks that start by themselves. It is made before time starts, so that no task spends its time on that, and
/// one after the other, so that they do not disturb each other's times of a visit. A thread bound to the CPUs of the spec makes
/// it, so that the kernel allocates it on their node.
fn memories(workload: &Workload, present: &CpuSet) -> Result<BTreeMap<u32, TaskMemory>, ExecuteError> {
    let mut memories = BTreeMap::new();
    let by_themselves = |(_, task): &(u32, &TaskSpec)| matches!(task.start, Start::At(_));
    for (spec, task) in (0..).zip(&workload.tasks).filter(by_themselves) {
        let Some(memory) = task.memory.as_deref().cloned() else { continue };
        let cpus = task
            .cpus
            .as_ref()
            .map_or_else(|| present.clone(), |cpus| cpus.iter().filter(|cpu| present.contains(*cpu)).collect());
        let name = task.name.clone();
        let made = on_new_thread("weir-memory", move || {
            let bound = sys::set_allowed_cpus(0, &cpus);
            bound.map(|()| TaskMemory::of(Some(&memory), &name))
        })?;
        let action = "bind a thread to the CPUs of a task";
        memories.insert(spec, made.map_err(|source| ExecuteError::System { action, source })??);
    }
    Ok(memories)
}

/// Number and name of a spec, for errors.
pub fn describe(workload: &Workload, spec: usize) -> String {
    format!("task {spec} ({})", workload.tasks[spec].name)
}

fn check_cpus(workload: &Workload, present: &CpuSet) -> Result<(), ExecuteError> {
    for (index, spec) in workload.tasks.iter().enumerate() {
        let changes = spec.script.iter().filter_map(|op| match op {
            Op::Change { cpus, .. } | Op::ChangeOf { cpus, .. } => cpus.as_deref(),
            _ => None,
        });
        if let Some(wanted) = spec.cpus.iter().chain(changes).find(|cpus| !cpus.intersects(present)) {
            return Err(ExecuteError::NoCpu {
                workload: workload.name.clone(),
                task: describe(workload, index),
                wanted: wanted.clone(),
                present: present.clone(),
            });
        }
    }
    Ok(())
}

/// Tries each distinct policy and nice value once, each on a new thread, since permissions depend on the thread's
/// current policy.
fn check_policies(workload: &Workload) -> Result<(), ExecuteError> {
    let mut tried: Vec<(Policy, i8)> = Vec::new();
    for (index, spec) in workload.tasks.iter().enumerate() {
        for (policy, nice) in policies(spec) {
            if tried.contains(&(policy, nice)) {
                continue;
            }
            tried.push((policy, nice));
            let refused = |source| ExecuteError::Policy {
                workload: workload.name.clone(),
                task: describe(workload, index),
                policy,
                nice,
                source,
            };
            on_new_thread("weir-try", move || sys::set_policy(0, policy, nice))?.map_err(refused)?;
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

/// Runs a function on a separate thread.
fn on_new_thread<Result: Send + 'static>(
    name: &str,
    what: impl FnOnce() -> Result + Send + 'static,
) -> std::result::Result<Result, ExecuteError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(what);
    let thread = thread.map_err(|source| ExecuteError::Thread { task: name.to_owned(), source })?;
    Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
