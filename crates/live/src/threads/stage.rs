// SPDX-License-Identifier: GPL-2.0-only
//! The stage: the thread that creates the tasks of a play and waits for them.

use super::actor::{Actor, Handle, Performance};
use super::prepare::{self, Prepared, describe};
use super::shared::{Bells, Shared};
use super::{Options, PlayError, Played, TaskPlayed, sys};
use ids::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, Scope, ScopedJoinHandle};
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

    /// Begins to play. The stage is the next child of the calling thread and the only one; all other threads of the play
    /// descend from it, and it outlives them.
    ///
    /// # Panics
    /// If not even that thread can be created.
    pub fn begin<'scope, 'env>(&'scope self, scope: &'scope Scope<'scope, 'env>) -> Running<'scope> {
        let stopper = Stopper { bells: Arc::default(), asked: Arc::default() };
        let own = stopper.clone();
        let thread = thread::Builder::new().name("weir-stage".into()).spawn_scoped(scope, move || self.play(&own));
        Running { thread: thread.expect("one more thread"), stopper }
    }

    fn play(&self, stopper: &Stopper) -> Result<Played, PlayError> {
        let shared = Shared::new(self.workload, self.options, &self.prepared, stopper.bells.clone());
        let tasks = thread::scope(|scope| {
            let mut performances: Vec<Performance<'_>> = Vec::new();
            let mut handles = run(&shared, scope);
            while let Some(handle) = handles.pop() {
                let mut performance = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                handles.append(&mut performance.children);
                performances.push(performance);
            }
            performances.sort_unstable_by_key(|performance| performance.task);
            performances.into_iter().map(|performance| performance.played).collect::<Vec<TaskPlayed>>()
        });
        shared.into_played(tasks, stopper.asked.load(SeqCst))
    }
}

/// Creates the tasks that start by themselves and waits until the play is over.
fn run<'scope, 'env, 'w>(shared: &'env Shared<'w>, scope: &'scope Scope<'scope, 'env>) -> Vec<Handle<'scope>> {
    let mut starts: Vec<(Nanos, u32)> = Vec::new();
    for (index, spec) in shared.workload.tasks.iter().enumerate() {
        if let Start::At(time) = spec.start {
            starts.push((time, index as u32));
        }
    }
    starts.sort_unstable();
    let (now, later) = starts.split_at(starts.partition_point(|&(time, _)| time == Nanos::ZERO));
    let mut handles = Vec::new();
    let gate = shared.options.gate;
    if !gate {
        shared.start_clock();
    }
    for &(_, spec) in now {
        handles.extend(start(shared, scope, spec, gate));
    }
    if gate {
        shared.open_gate_when_all_came();
    }
    for &(time, spec) in later {
        shared.wait_until(shared.clock_at(time));
        if shared.is_over() {
            break;
        }
        handles.extend(start(shared, scope, spec, false));
    }
    shared.wait_until(sys::NEVER);
    handles
}

/// Creates the thread of a task. That it cannot be had ends the play.
fn start<'scope, 'env, 'w>(
    shared: &'env Shared<'w>,
    scope: &'scope Scope<'scope, 'env>,
    spec: u32,
    gate: bool,
) -> Option<Handle<'scope>> {
    let (task, seat) = shared.enroll(spec, None);
    let failed = |source| shared.fail(PlayError::Thread { task: describe(shared.workload, spec as usize), source });
    Actor::new(shared, scope, task, seat, spec, gate).begin_thread().map_err(failed).ok()
}

/// A play that goes on.
pub struct Running<'scope> {
    thread: ScopedJoinHandle<'scope, Result<Played, PlayError>>,
    stopper: Stopper,
}

impl Running<'_> {
    /// Whether all of its threads have ended, but for the stage at most.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If the kernel refused a task's thread or its first affinity or policy.
    pub fn join(self) -> Result<Played, PlayError> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
