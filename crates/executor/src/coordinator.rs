// SPDX-License-Identifier: GPL-2.0-only
//! The coordinator: the process that creates the tasks of an execution and waits for them.

use super::donors::Donors;
use super::prepare::{self, Prepared, describe};
use super::process::{self, Process, Scope};
use super::shared::{Futexes, Shared, TaskSetup};
use super::task::create;
use super::{ExecuteError, ExecutionResult, Options};
use host::sys;
use ids::Nanos;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use workload::{Start, Workload};

/// Handle to end an execution from another thread.
#[derive(Clone)]
pub struct Stopper {
    futexes: Arc<Futexes>,
    asked: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends the execution now; its threads are gone when [`Running::join`] returns. Takes a lock, so it must not be
    /// called from signal handlers.
    pub fn stop(&self) {
        self.asked.store(true, SeqCst);
        self.futexes.end();
    }
}

/// A workload that has been checked against this machine and user.
pub struct PreparedWorkload<'w> {
    workload: &'w Workload,
    options: &'w Options,
    prepared: Prepared,
}

impl<'w> PreparedWorkload<'w> {
    /// Checks the workload against this machine and the permissions of this process, and calibrates the unit of work.
    /// The threads used for calibration are gone when this returns.
    ///
    /// # Errors
    /// The first unmet requirement.
    pub fn prepare(workload: &'w Workload, options: &'w Options) -> Result<PreparedWorkload<'w>, ExecuteError> {
        Ok(PreparedWorkload { workload, options, prepared: prepare::prepare(workload, options)? })
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        self.workload
    }

    /// The unit of work.
    pub fn calibration(&self) -> super::Calibration {
        self.prepared.calibration
    }

    /// Sentences on where the execution differs from the workload.
    pub fn notes(&self) -> Vec<String> {
        let deep = match &self.prepared.idle_exit {
            Some(Err(error)) => Some(format!("CPUs enter any idle state, since the request failed: {error}")),
            _ => None,
        };
        self.prepared.disks.notes().into_iter().chain(deep).collect()
    }

    /// Largest exit latency of idle states while this exists; `None`: any.
    pub fn idle_exit_limit(&self) -> Option<Nanos> {
        self.workload.idle_exit_limit.filter(|_| matches!(self.prepared.idle_exit, Some(Ok(_))))
    }

    /// Starts the execution, calls `meanwhile`, and waits for the end of both. The coordinator is the next and only
    /// child of the calling thread. All tasks descend from it, and it outlives them.
    ///
    /// # Panics
    /// If the coordinator cannot be created. If `meanwhile` panics, after the end of the execution. If a task panics
    /// and [`Running::join`] was not called.
    pub fn begin<Result>(&self, meanwhile: impl FnOnce(Running<'_>) -> Result) -> Result {
        let stopper = Stopper { futexes: Arc::default(), asked: Arc::default() };
        let outcome = Mutex::new(None);
        let guard = OrphanGuard { donors: &self.prepared.donors, is_needed: AtomicBool::new(true) };
        let coordinate = || {
            sys::set_name("weir-coord");
            let result = catch_unwind(AssertUnwindSafe(|| self.execute(&stopper)));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            guard.is_needed.store(false, SeqCst);
        };
        let observe = |process: &Process| {
            let stopper = stopper.clone();
            meanwhile(Running { workload: self.workload, process, outcome: &outcome, stopper })
        };
        let result = process::beside(&self.prepared.donors, coordinate, observe);
        drop(guard);
        if let Ok(Some(Err(panic))) = outcome.into_inner() {
            resume_unwind(panic);
        }
        result.expect("one more process")
    }

    fn execute(&self, stopper: &Stopper) -> Result<ExecutionResult, ExecuteError> {
        let shared = Shared::new(self.workload, self.options, &self.prepared, stopper.futexes.clone());
        let waited = process::scope(&self.prepared.donors, &stopper.futexes.coordinator, |scope| {
            run(&shared, scope);
            shared.wait_for_last(scope);
            scope.waited()
        });
        if let Some(panic) = stopper.futexes.take_panic() {
            resume_unwind(panic);
        }
        shared.into_result(stopper.asked.load(SeqCst), waited)
    }
}

/// If the coordinator dies before its tasks, dropping this waits for their exit too, because the data they borrow
/// must stay valid until then.
struct OrphanGuard<'a> {
    donors: &'a Donors,
    is_needed: AtomicBool,
}

impl Drop for OrphanGuard<'_> {
    fn drop(&mut self) {
        if self.is_needed.load(SeqCst) {
            self.donors.abandon();
            self.donors.wait_for_recipients();
        }
    }
}

/// Creates the tasks that start by themselves and waits for the end of the execution.
fn run<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>) {
    let mut starts: Vec<(Nanos, u32)> = Vec::new();
    for (index, spec) in shared.workload.tasks.iter().enumerate() {
        if let Start::At(time) = spec.start {
            starts.push((time, index as u32));
        }
    }
    starts.sort_unstable();
    let first = starts.partition_point(|&(time, _)| time == Nanos::ZERO);
    let (now, later) = starts.split_at(first);
    let gate = shared.options.gate;
    if !gate {
        shared.start_clock();
    }
    start(shared, scope, now);
    if gate {
        shared.open_gate_when_all_came();
    }
    for together in later.chunk_by(|one, other| one.0 == other.0) {
        shared.wait_until(shared.clock_at(together[0].0));
        if shared.is_over() {
            break;
        }
        start(shared, scope, together);
    }
    shared.wait_until(sys::NEVER);
}

/// Creates the tasks that start at the same time.
fn start<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, together: &[(Nanos, u32)]) {
    // All are registered before the first one starts, since the leader of a named process creates the other members.
    let setups: Vec<TaskSetup> = together.iter().filter_map(|&(_, spec)| shared.register(spec, None)).collect();
    setups.into_iter().for_each(|setup| create(shared, scope, setup));
}

/// Result of an execution; `None` if the coordinator was killed, or exited because a task was killed.
type Outcome = Option<thread::Result<Result<ExecutionResult, ExecuteError>>>;

/// An execution in progress.
pub struct Running<'a> {
    workload: &'a Workload,
    process: &'a Process,
    outcome: &'a Mutex<Outcome>,
    stopper: Stopper,
}

impl Running<'_> {
    /// Whether all of its tasks have exited.
    pub fn is_finished(&self) -> bool {
        self.process.has_ended()
    }

    /// PID of the coordinator, which is the parent of all processes of the execution.
    pub fn coordinator(&self) -> u32 {
        self.process.number()
    }

    /// Handle with which another thread can end the execution.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the kernel rejected a task or its initial affinity or policy, or if a task was killed.
    pub fn join(self) -> Result<ExecutionResult, ExecuteError> {
        self.process.wait();
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome {
            Some(result) => result.unwrap_or_else(|panic| resume_unwind(panic)),
            None => {
                let spec = self.stopper.futexes.killed.load(SeqCst).checked_sub(1);
                let task = spec.map_or("the coordinator".to_owned(), |spec| describe(self.workload, spec as usize));
                Err(ExecuteError::Killed { task })
            }
        }
    }
}
