// SPDX-License-Identifier: GPL-2.0-only
//! Executes a fault plan on this machine: CPU hotplug and suspend.
//!
//! 1. [`Faults::prepare`] rejects plans that this machine does not support, before anything happens.
//! 2. A separate thread executes the faults, since offlining a CPU blocks for tens of milliseconds. A fault that is
//!    due during another one waits for it, as in the simulator.
//! 3. However the run ends, the CPUs are restored: by [`Faults::end`], or by dropping this. If the process is killed
//!    (SIGKILL), a [`Guardian`] does it.

mod guardian;
mod sysfs;

pub use guardian::{Guardian, Restored, guard};

use crate::{HostError, proc};
use fault_plan::{Action, Fault, FaultPlan};
use ids::{CpuId, CpuSet, Nanos};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use sysfs::Sysfs;

/// An executed fault. Times count from [`Faults::begin`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// Fault of the plan.
    pub fault: Fault,
    /// Start time: when it was due, or when the previous fault had finished.
    pub began: Nanos,
    /// Duration. The kernel offlines a CPU only after all tasks have been migrated away, which a scheduler can delay
    /// until its watchdog fires; the request cannot be cancelled meanwhile.
    pub took: Nanos,
}

/// Result of executing a fault plan.
#[derive(Debug)]
pub struct Carried {
    /// Executed faults.
    pub done: Vec<Done>,
    /// The fault that failed, if any; later ones were not tried.
    pub failed: Option<HostError>,
    /// CPUs that were still offline at the end and were brought back.
    pub back: CpuSet,
}

/// A fault plan in execution.
#[derive(Debug)]
pub struct Faults {
    sysfs: Sysfs,
    /// CPUs named by the plan, and those of them that were online before.
    cpus: CpuSet,
    online: CpuSet,
    /// Starts the clock; dropping it stops the thread.
    begin: Option<Sender<Instant>>,
    worker: Option<JoinHandle<(Vec<Done>, Option<HostError>)>>,
}

impl Faults {
    /// Checks that this machine supports the plan, and prepares a thread that waits for [`Faults::begin`].
    ///
    /// # Errors
    /// If this process is not root, or a fault is not possible on this machine.
    pub fn prepare(plan: &FaultPlan) -> Result<Faults, HostError> {
        proc::check_root()?;
        Faults::prepare_in(Path::new("/sys"), plan)
    }

    fn prepare_in(root: &Path, plan: &FaultPlan) -> Result<Faults, HostError> {
        let sysfs = Sysfs::new(root);
        let online = sysfs.check(plan)?;
        let cpus: CpuSet = plan.faults().iter().filter_map(|fault| cpu_of(fault.action)).collect();
        let (begin, began) = mpsc::channel();
        let (faults, own) = (plan.faults().to_vec(), sysfs.clone());
        let worker = move || carry_out(&own, &faults, &began);
        let worker = thread::Builder::new().name("weir-faults".into()).spawn(worker);
        let worker = worker.map_err(HostError::file("a thread for the fault plan"))?;
        Ok(Faults { sysfs, online, cpus, begin: Some(begin), worker: Some(worker) })
    }

    /// Starts the run: times of the plan count from now.
    pub fn begin(&self) {
        if let Some(begin) = &self.begin {
            // The thread may already have ended.
            let _ = begin.send(Instant::now());
        }
    }

    /// Stops the plan and restores all CPUs. Waits for a fault in progress.
    ///
    /// # Errors
    /// Names the CPUs that could not be restored.
    pub fn end(mut self) -> Result<Carried, HostError> {
        let (done, failed) = self.stop();
        Ok(Carried { done, failed, back: self.sysfs.bring_back(&self.cpus, &self.online)? })
    }

    /// Cancels the faults that are not due yet.
    fn stop(&mut self) -> (Vec<Done>, Option<HostError>) {
        drop(self.begin.take());
        // If the thread panicked, its message is on standard error; the CPUs must be restored all the same.
        self.worker.take().map(|worker| worker.join().unwrap_or_default()).unwrap_or_default()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // If `end` was not called, another error is already being reported.
        let _ = self.stop();
        let _ = self.sysfs.bring_back(&self.cpus, &self.online);
    }
}

fn cpu_of(action: Action) -> Option<CpuId> {
    match action {
        Action::Offline(cpu) | Action::Online(cpu) => Some(cpu),
        Action::Suspend(_) | Action::Clock(..) => None,
    }
}

/// Body of the thread: waits for the start, then executes faults until all are done or the sender is dropped.
fn carry_out(sysfs: &Sysfs, faults: &[Fault], control: &Receiver<Instant>) -> (Vec<Done>, Option<HostError>) {
    let mut all = Vec::new();
    let Ok(origin) = control.recv() else { return (all, None) };
    let since_origin = || Nanos(origin.elapsed().as_nanos() as u64);
    for fault in faults {
        let due = origin + Duration::from_nanos(fault.at.0);
        match control.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return (all, None),
        }
        let began = since_origin();
        let done = match fault.action {
            Action::Offline(cpu) => sysfs.set_online(cpu, false),
            Action::Online(cpu) => sysfs.set_online(cpu, true),
            Action::Suspend(length) => sysfs.suspend(length),
            Action::Clock(..) => unreachable!("the plan was checked"),
        };
        if let Err(error) = done {
            return (all, Some(HostError::Fault { fault: fault.to_string(), problem: error.to_string() }));
        }
        all.push(Done { fault: *fault, began, took: since_origin().since(began) });
    }
    (all, None)
}

#[cfg(test)]
mod tests;
