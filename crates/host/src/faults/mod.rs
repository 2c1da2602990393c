// SPDX-License-Identifier: GPL-2.0-only
//! Carries out a fault plan on this machine: CPUs go and come, and it sleeps.
//!
//! 1. [`Faults::prepare`] refuses what this machine cannot do, before anything happens.
//! 2. A thread of its own does what is due, since taking a CPU away blocks for tens of milliseconds. A fault that is
//!    due while another is on its way waits for it, as in the simulator.
//! 3. However a run ends, the CPUs are as they were found: [`Faults::end`], or dropping this. For a process that is killed
//!    (SIGKILL) a [`Guardian`] does it.

mod guardian;
mod sysfs;

pub use guardian::{Guardian, guard};

use crate::{HostError, proc};
use fault_plan::{Action, Fault, FaultPlan};
use ids::{CpuId, CpuSet, Nanos};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use sysfs::Sysfs;

/// What became of a fault. Times count from [`Faults::begin`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// As the plan has it.
    pub fault: Fault,
    /// When it was begun: when it was due, or when the one before it was done.
    pub began: Nanos,
    /// How long that took. The kernel lets a CPU go only when all tasks have left it, which a scheduler can delay for
    /// as long as its watchdog lets it; nobody can take the request back meanwhile.
    pub took: Nanos,
}

/// What became of a plan.
#[derive(Debug)]
pub struct Carried {
    /// The faults that were carried out.
    pub done: Vec<Done>,
    /// The fault that failed, if one did; those after it were not tried.
    pub failed: Option<HostError>,
    /// CPUs that were put back as they had been found.
    pub back: CpuSet,
}

/// A plan that is carried out.
#[derive(Debug)]
pub struct Faults {
    sysfs: Sysfs,
    /// CPUs that the plan speaks of, and those of them that are online without it.
    cpus: CpuSet,
    online: CpuSet,
    /// Starts the clock, and stops the thread when it is dropped.
    begin: Option<Sender<Instant>>,
    worker: Option<JoinHandle<(Vec<Done>, Option<HostError>)>>,
}

impl Faults {
    /// Checks that this machine can do it all, and waits for [`Faults::begin`].
    ///
    /// # Errors
    /// If this process is not root, or names the fault that is not possible here, and why.
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

    /// The run begins: times of the plan count from now.
    pub fn begin(&self) {
        if let Some(begin) = &self.begin {
            // A worker that has gone has nothing to do.
            let _ = begin.send(Instant::now());
        }
    }

    /// Stops, and brings everything back. Waits for a fault that is on its way.
    ///
    /// # Errors
    /// Names the CPUs that could not be brought back.
    pub fn end(mut self) -> Result<Carried, HostError> {
        let (done, failed) = self.stop();
        Ok(Carried { done, failed, back: self.sysfs.bring_back(&self.cpus, &self.online)? })
    }

    /// What is not yet due will not happen.
    fn stop(&mut self) -> (Vec<Done>, Option<HostError>) {
        drop(self.begin.take());
        // If it panicked, its message is on standard error, and the CPUs must be brought back all the more.
        self.worker.take().map(|worker| worker.join().unwrap_or_default()).unwrap_or_default()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // Whoever has not called `end` has an error to tell already.
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

/// The thread: waits for the beginning, then does what is due until all is done or the sender is gone.
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
