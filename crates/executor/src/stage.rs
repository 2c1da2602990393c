// SPDX-License-Identifier: GPL-2.0-only
//! The stage: the thread that creates the tasks of a play and waits for them.

use super::actor::admit;
use super::lenders::Lenders;
use super::prepare::{self, Prepared, describe};
use super::process::{self, Process, Scope};
use super::shared::{Bells, Role, Shared};
use super::{Options, PlayError, Played};
use host::sys;
use ids::Nanos;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use workload::{Start, Workload};

/// Ends a play from another thread.
#[derive(Clone)]
pub struct Stopper {
    bells: Arc<Bells>,
    asked: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends the play now; its threads are gone when [`Running::join`] returns. Not for signal handlers: it takes a lock.
    pub fn stop(&self) {
        self.asked.store(true, SeqCst);
        self.bells.end();
    }
}

/// A workload that can be played on this machine by this user.
pub struct Stage<'w> {
    workload: &'w Workload,
    options: &'w Options,
    prepared: Prepared,
}

impl<'w> Stage<'w> {
    /// Checks the workload against this machine and the rights of this process, and measures how fast it works. The
    /// threads that are needed for this are gone when it returns.
    ///
    /// # Errors
    /// The first thing that is missing.
    pub fn prepare(workload: &'w Workload, options: &'w Options) -> Result<Stage<'w>, PlayError> {
        Ok(Stage { workload, options, prepared: prepare::prepare(workload, options)? })
    }

    /// What is played.
    pub fn workload(&self) -> &Workload {
        self.workload
    }

    /// The unit of work.
    pub fn calibration(&self) -> super::Calibration {
        self.prepared.calibration
    }

    /// Begins to play, calls `meanwhile` and waits for the end of both. The stage is the next child of the calling thread and
    /// the only one; all other tasks of the play descend from it, and it outlives them.
    ///
    /// # Panics
    /// If not even that process can be created. As `meanwhile` does, but when the play is over. As a task does, if nobody has
    /// joined the play.
    pub fn begin<Result>(&self, meanwhile: impl FnOnce(Running<'_>) -> Result) -> Result {
        let stopper = Stopper { bells: Arc::default(), asked: Arc::default() };
        let outcome = Mutex::new(None);
        let mourner = Mourner { lenders: &self.prepared.lenders, is_needed: AtomicBool::new(true) };
        let play = || {
            sys::set_name("weir-stage");
            let played = catch_unwind(AssertUnwindSafe(|| self.play(&stopper)));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(played);
            mourner.is_needed.store(false, SeqCst);
        };
        let attend = |process: &Process| {
            let stopper = stopper.clone();
            meanwhile(Running { workload: self.workload, process, outcome: &outcome, stopper })
        };
        let result = process::beside(&self.prepared.lenders, play, attend);
        drop(mourner);
        if let Ok(Some(Err(panic))) = outcome.into_inner() {
            resume_unwind(panic);
        }
        result.expect("one more process")
    }

    fn play(&self, stopper: &Stopper) -> Result<Played, PlayError> {
        let shared = Shared::new(self.workload, self.options, &self.prepared, stopper.bells.clone());
        let waited = process::scope(&self.prepared.lenders, &stopper.bells.stage, |scope| {
            run(&shared, scope);
            shared.wait_for_last(scope);
            scope.waited()
        });
        if let Some(panic) = stopper.bells.take_panic() {
            resume_unwind(panic);
        }
        shared.into_played(stopper.asked.load(SeqCst), waited)
    }
}

/// If the stage died before its tasks, waits for their ends too: what they borrow is there until then.
struct Mourner<'a> {
    lenders: &'a Lenders,
    is_needed: AtomicBool,
}

impl Drop for Mourner<'_> {
    fn drop(&mut self) {
        if self.is_needed.load(SeqCst) {
            self.lenders.abandon();
            self.lenders.wait_for_borrowers();
        }
    }
}

/// Creates the tasks that start by themselves and waits until the play is over.
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

/// Creates tasks that start at one time.
fn start<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>, together: &[(Nanos, u32)]) {
    // All are enrolled before the first one begins: who leads a process creates the others.
    let roles: Vec<Role> = together.iter().filter_map(|&(_, spec)| shared.enroll(spec, None)).collect();
    roles.into_iter().for_each(|role| admit(shared, scope, role));
}

/// What came of a play; nothing if the stage was killed, or left because a task was.
type Outcome = Option<thread::Result<Result<Played, PlayError>>>;

/// A play that goes on.
pub struct Running<'a> {
    workload: &'a Workload,
    process: &'a Process,
    outcome: &'a Mutex<Outcome>,
    stopper: Stopper,
}

impl Running<'_> {
    /// Whether all of its tasks have ended.
    pub fn is_finished(&self) -> bool {
        self.process.has_ended()
    }

    /// The number of the stage in the kernel: the process whose children the play's processes are.
    pub fn stage(&self) -> u32 {
        self.process.number()
    }

    /// Ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If the kernel refused a task's thread or its first affinity or policy, or if somebody killed a task.
    pub fn join(self) -> Result<Played, PlayError> {
        self.process.wait();
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome {
            Some(played) => played.unwrap_or_else(|panic| resume_unwind(panic)),
            None => {
                let spec = self.stopper.bells.killed.load(SeqCst).checked_sub(1);
                let task = spec.map_or("the stage".to_owned(), |spec| describe(self.workload, spec as usize));
                Err(PlayError::Killed { task })
            }
        }
    }
}
