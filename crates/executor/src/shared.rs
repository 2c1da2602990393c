// SPDX-License-Identifier: GPL-2.0-only
//! State shared by all tasks of an execution: the Executor and its lock, the clock, and the futexes on which its
//! threads sleep.

use super::locks::Locks;
use super::named_process::{self, HelperFutex, NamedProcess};
use super::prepare::Prepared;
use super::process::{self, TaskKind};
use super::{End, ExecuteError, ExecutionResult, Options, Step, Stuck, TaskResult};
use host::sys;
use ids::{Nanos, TaskId};
use measures::RequestMeasures;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;
use workload::{Demand, Executor, Period, SourceId, Start, TaskSpec, Workload};

/// Maximum delay until a killed task is noticed. Each check by the coordinator costs some microseconds.
const KILL_CHECK_INTERVAL: Nanos = Nanos::from_secs(1);

/// Number of attempts at the lock before sleeping: about 20 us, many times the hold time.
const LOCK_SPINS: u32 = 500;

/// Interval at which the coordinator retries the lock.
const LOCK_RETRY: Duration = Duration::from_micros(100);

/// TID of a thread that the kernel failed to create.
const NO_THREAD: u32 = u32::MAX;

/// Handle through which other tasks reach a task's thread.
#[derive(Default)]
pub struct TaskHandle {
    /// Futex: 0 if the task may sleep, 1 if it was woken or the execution is over.
    pub word: AtomicU32,
    /// TID of the thread: 0 until it exists, [`NO_THREAD`] if it could not be created.
    pub thread: AtomicU32,
    /// While the task waits: its number of voluntary switches after it has left its CPU. Otherwise 0.
    pub asleep_from: AtomicU64,
    /// Result of the task, after its exit.
    result: Mutex<Option<TaskResult>>,
}

impl TaskHandle {
    pub fn wake(&self) {
        self.word.store(1, SeqCst);
        sys::wake(&self.word, 1);
    }

    /// Whether the kernel has switched the thread out. State S is set earlier than that; the switch count is not.
    pub fn is_asleep(&self) -> bool {
        let from = self.asleep_from.load(SeqCst);
        from != 0 && sys::status(self.thread.load(SeqCst)).is_some_and(|now| now.sleeps && now.voluntary >= from)
    }

    /// Stores the result of a task that exits.
    pub fn leave(&self, result: TaskResult) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    fn take_result(&self) -> Option<TaskResult> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Futexes on which tasks of the execution sleep.
#[derive(Default)]
pub struct Futexes {
    pub over: AtomicBool,
    pub gate: AtomicU32,
    /// Futex of the coordinator ([`sys::wait_shared`]); 0 while it sleeps.
    pub coordinator: AtomicU32,
    handles: Mutex<Vec<Arc<TaskHandle>>>,
    /// Panic payload of the first task that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Index plus one of the spec whose task was killed, set before the coordinator exits for that reason; else 0.
    pub killed: AtomicU32,
}

impl Futexes {
    /// Ends the execution: wakes all sleeping tasks and prevents further sleeps.
    pub fn end(&self) {
        self.over.store(true, SeqCst);
        self.open_gate();
        self.wake_coordinator();
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|handle| handle.wake());
    }

    pub fn wake_coordinator(&self) {
        self.coordinator.store(1, SeqCst);
        sys::wake_shared(&self.coordinator);
    }

    /// Ends the execution after a panic, because other tasks might wait for the panicked one forever.
    pub fn end_by_panic(&self, panic: Box<dyn Any + Send>) {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        self.end();
    }

    /// Panic payload of a task, if one panicked.
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn open_gate(&self) {
        self.gate.store(1, SeqCst);
        sys::wake(&self.gate, i32::MAX as u32);
    }

    /// Handle for a new task. Once the execution is over, it will not sleep.
    fn new_handle(&self) -> Arc<TaskHandle> {
        let handle = Arc::new(TaskHandle::default());
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle.clone());
        if self.over.load(SeqCst) {
            handle.word.store(1, SeqCst);
        }
        handle
    }
}

/// Mutable state, protected by the lock.
pub struct State<'w> {
    pub executor: Executor<'w>,
    handles: Vec<Arc<TaskHandle>>,
    /// Named processes that have members.
    named_processes: BTreeMap<&'w str, NamedProcess>,
    /// Number of tasks that neither wait nor have exited. Here and below background tasks are excluded.
    awake: usize,
    /// Number of tasks that start by themselves and have not started yet.
    due: usize,
    stuck: Vec<Stuck>,
    log: Vec<Step>,
    /// Requests of each source of the workload.
    requests: Vec<RequestMeasures>,
    pub failed_forks: u64,
    pub refused_changes: u64,
    pub error: Option<ExecuteError>,
}

impl State<'_> {
    /// Removes a member from a named process.
    fn note_exit(&mut self, name: &str) {
        let Some(named) = self.named_processes.get_mut(name) else { return };
        named.members -= 1;
        if named.members == 0 {
            named.wake();
            self.named_processes.remove(name);
        }
    }
}

/// Seed of the arrivals and service times of requests: that of [`Executor::new`], as in a simulated nominal run.
const SEED: u64 = 0;

/// State shared by all tasks.
pub struct Shared<'w> {
    state: Mutex<State<'w>>,
    pub workload: &'w Workload,
    pub options: &'w Options,
    pub prepared: &'w Prepared,
    pub futexes: Arc<Futexes>,
    pub locks: Locks,
    /// Names of the processes that have a helper thread.
    pub with_helper: BTreeSet<&'w str>,
    /// Start and latest end of the execution, as times of CLOCK_MONOTONIC.
    begin: AtomicU64,
    end: AtomicU64,
    /// PID of the coordinator.
    coordinator: u32,
    /// Number of tasks that have arrived at the start gate, and number expected.
    arrived: AtomicU32,
    expected: u32,
    disturbances: AtomicU64,
}

impl<'w> Shared<'w> {
    /// State before the execution starts.
    pub fn new(
        workload: &'w Workload,
        options: &'w Options,
        prepared: &'w Prepared,
        futexes: Arc<Futexes>,
    ) -> Shared<'w> {
        let by_itself = |(task, index)| -> bool {
            let task: &TaskSpec = task;
            task.start != Start::Forked && !workload.is_beside(index)
        };
        let starts = workload.tasks.iter().zip(0..).filter(|&start| by_itself(start)).count();
        let at_once = workload.tasks.iter().filter(|task| task.start == Start::At(Nanos::ZERO)).count();
        let state = State {
            executor: Executor::new(workload),
            handles: Vec::new(),
            named_processes: BTreeMap::new(),
            awake: 0,
            due: starts,
            stuck: Vec::new(),
            log: Vec::new(),
            requests: workload.sources.iter().map(|source| requests_of(&source.name)).collect(),
            failed_forks: 0,
            refused_changes: 0,
            error: None,
        };
        Shared {
            state: Mutex::new(state),
            workload,
            options,
            prepared,
            futexes,
            locks: Locks::new(&workload.locks),
            with_helper: named_process::needing_helper(workload),
            begin: AtomicU64::new(sys::NEVER.0),
            end: AtomicU64::new(sys::NEVER.0),
            coordinator: sys::process_id(),
            arrived: AtomicU32::new(0),
            expected: at_once as u32,
            disturbances: AtomicU64::new(0),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State<'w>> {
        for _ in 0..LOCK_SPINS {
            if let Ok(state) = self.state.try_lock() {
                return state;
            }
            spin_loop();
        }
        self.disturbances.fetch_add(1, SeqCst);
        if sys::process_id() != self.coordinator {
            return self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        // The lock holder may have been killed.
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY),
            }
            self.leave_if_killed();
        }
    }

    /// For the coordinator: if a task was killed, exits at once, which kills all others. Locks held by the killed
    /// task stay locked forever.
    fn leave_if_killed(&self) {
        if let Some(spec) = self.prepared.donors.killed() {
            self.futexes.killed.store(spec + 1, SeqCst);
            process::leave();
        }
    }

    /// Whether the execution's time has started.
    pub fn has_begun(&self) -> bool {
        self.begin.load(SeqCst) != sys::NEVER.0
    }

    /// Time since the start of the execution.
    pub fn now(&self) -> Nanos {
        sys::now().since(Nanos(self.begin.load(SeqCst)))
    }

    /// Clock time at `time` since the start.
    pub fn clock_at(&self, time: Nanos) -> Nanos {
        Nanos(self.begin.load(SeqCst).saturating_add(time.0))
    }

    /// Clock time at which the execution must end.
    pub fn end(&self) -> Nanos {
        Nanos(self.end.load(SeqCst))
    }

    pub fn is_over(&self) -> bool {
        self.futexes.over.load(SeqCst) || sys::now() >= self.end()
    }

    /// Starts the execution's time.
    pub fn start_clock(&self) {
        let begin = sys::now();
        if let Some(duration) = self.options.duration.or(self.workload.duration) {
            self.end.store(begin.0.saturating_add(duration.0), SeqCst);
        }
        self.begin.store(begin.0, SeqCst);
    }

    /// 1 for tasks whose exit the execution waits for, 0 for background tasks.
    fn counts(&self, spec: u32) -> usize {
        usize::from(!self.workload.is_beside(spec))
    }

    /// Registers a new task, which the caller must create; `None` if another task will create it.
    pub fn register(&self, spec: u32, parent: Option<TaskId>) -> Option<TaskSetup> {
        let now = if self.has_begun() { self.now() } else { Nanos::ZERO };
        let handle = self.futexes.new_handle();
        let mut state = self.state();
        let task = TaskId(state.handles.len() as u32);
        match parent {
            Some(parent) => state.executor.forked(task, spec, parent, now),
            None => {
                state.executor.started(task, spec, now);
                state.due -= self.counts(spec);
            }
        }
        state.awake += self.counts(spec);
        state.handles.push(handle.clone());
        let process = |spec: u32| self.workload.tasks[spec as usize].who.process.as_deref();
        let is_member = |name| parent.is_some_and(|parent| process(state.executor.spec_of(parent)) == Some(name));
        let is_thread = |parent| state.executor.is_thread(spec, parent);
        // Determines the kind of the new task, and whether another task creates it.
        let (kind, waits) = match process(spec) {
            Some(name) => match state.named_processes.get(name) {
                None => (TaskKind::Process, false),
                Some(_) => (TaskKind::Thread, !is_member(name)),
            },
            None if parent.is_some_and(is_thread) => (TaskKind::Thread, false),
            None => (TaskKind::Process, false),
        };
        let begins_session = kind == TaskKind::Process && state.executor.begins_session(spec, parent);
        let at_gate = self.options.gate && self.workload.tasks[spec as usize].start == Start::At(Nanos::ZERO);
        let is_forked = parent.is_some();
        let setup = TaskSetup { task, spec, handle, kind, begins_session, at_gate, is_forked };
        let Some(name) = process(spec) else { return Some(setup) };
        let named = state.named_processes.entry(name).or_default();
        named.members += 1;
        if !waits {
            return Some(setup);
        }
        named.waiting.push(setup);
        named.wake();
        None
    }

    /// Called by the leader of a named process: the members that it must create, and the helper's futex.
    pub fn lead(&self, name: &'w str) -> (Vec<TaskSetup>, HelperFutex) {
        let mut state = self.state();
        let named = state.named_processes.entry(name).or_default();
        (std::mem::take(&mut named.waiting), named.futex.clone())
    }

    /// Members that the helper must create; `None` when no member is left.
    pub fn take_waiting(&self, name: &str, futex: &HelperFutex) -> Option<Vec<TaskSetup>> {
        let mut state = self.state();
        let named = state.named_processes.get_mut(name).filter(|named| Arc::ptr_eq(&named.futex, futex))?;
        Some(std::mem::take(&mut named.waiting))
    }

    /// Notes the exit of a task of this spec.
    pub fn note_exit(&self, spec: u32) {
        if let Some(name) = self.workload.tasks[spec as usize].who.process.as_deref() {
            self.state().note_exit(name);
        }
    }

    /// Executes the next operation of `task`. Woken tasks are appended to `woken_handles`.
    pub fn advance(
        &self,
        task: TaskId,
        now: Nanos,
        woken: &mut Vec<TaskId>,
        woken_handles: &mut Vec<Arc<TaskHandle>>,
    ) -> Advance {
        let mut state = self.state();
        let operation = state.executor.upcoming(task);
        let demand = state.executor.advance(task, now, woken);
        let period = state.executor.take_periods().last();
        let State { executor, requests, .. } = &mut *state;
        for done in executor.take_completed() {
            let source = done.source.0 as usize;
            requests[source].complete(done.latency, now >= self.workload.sources[source].measured_from);
        }
        if self.options.log {
            let script = &self.workload.tasks[state.executor.spec_of(task) as usize].script;
            let exit = (demand == Some(Demand::Exit)).then_some(script.len() as u32);
            if let Some(operation) = operation.map(|(index, _)| index).or(exit) {
                state.log.push(Step { time: now, task, operation, cpu: sys::current_cpu() });
            }
        }
        woken_handles.extend(woken.drain(..).map(|other| state.handles[other.index()].clone()));
        // Tasks wake only tasks of the same part.
        let counts = self.counts(state.executor.spec_of(task));
        state.awake += counts * woken_handles.len();
        if matches!(demand, Some(Demand::Wait | Demand::Spin | Demand::Exit)) {
            state.awake -= counts;
            self.check_for_end(state);
        }
        let late = demand.is_none() && matches!(operation, Some((_, workload::Op::Timer { .. })));
        Advance { demand, late, period }
    }

    /// Ends the execution if all tasks wait and no task is still to start.
    fn check_for_end(&self, mut state: MutexGuard<'_, State<'w>>) {
        if state.awake > 0 || state.due > 0 {
            return;
        }
        state.stuck = (0..state.handles.len() as u32)
            .filter_map(|task| {
                let task = TaskId(task);
                if self.counts(state.executor.spec_of(task)) == 0 {
                    return None;
                }
                let waits_for = state.executor.waits_for(task)?.to_string();
                let name = self.workload.tasks[state.executor.spec_of(task) as usize].name.clone();
                Some(Stuck { task, name, waits_for })
            })
            .collect();
        let is_left =
            !state.stuck.is_empty() || (0..self.workload.tasks.len() as u32).any(|spec| self.counts(spec) == 0);
        drop(state);
        if is_left { self.futexes.end() } else { self.futexes.wake_coordinator() }
    }

    /// TID of a task; `None` if the kernel failed to create it.
    pub fn thread_of(&self, task: TaskId) -> Option<u32> {
        let handle = self.state().handles[task.index()].clone();
        // The new thread stores its id before anything else.
        loop {
            match handle.thread.load(SeqCst) {
                0 if !self.is_over() => thread::yield_now(),
                0 | NO_THREAD => return None,
                number => return Some(number),
            }
        }
    }

    /// Unregisters a task that the kernel failed to create. Returns false if other members depended on it to be
    /// created.
    pub fn unregister(&self, task: TaskId) -> bool {
        let mut state = self.state();
        // Only the parent of the task, which is the caller, could wait for it, so no task must be woken.
        state.executor.refused(task, &mut Vec::new());
        let spec = state.executor.spec_of(task);
        state.awake -= self.counts(spec);
        state.failed_forks += 1;
        state.handles[task.index()].thread.store(NO_THREAD, SeqCst);
        let Some(name) = self.workload.tasks[spec as usize].who.process.as_deref() else { return true };
        state.note_exit(name);
        state.named_processes.get(name).is_none_or(|named| named.members as usize != named.waiting.len())
    }

    /// Arrives at the start gate and waits until it opens.
    pub fn pass_gate(&self) {
        if self.arrived.fetch_add(1, SeqCst) + 1 == self.expected {
            self.futexes.wake_coordinator();
        }
        while self.futexes.gate.load(SeqCst) == 0 {
            sys::wait(&self.futexes.gate, 0, sys::NEVER);
        }
    }

    /// Ends the execution with an error; the first error counts.
    pub fn fail(&self, error: ExecuteError) {
        self.state().error.get_or_insert(error);
        self.futexes.end();
    }

    /// Waits until all tasks that start at time 0 have arrived, opens the gate, and starts the clock.
    pub fn open_gate_when_all_came(&self) {
        loop {
            self.futexes.coordinator.store(0, SeqCst);
            self.leave_if_killed();
            if self.futexes.over.load(SeqCst) || self.arrived.load(SeqCst) == self.expected {
                break;
            }
            self.wait_as_coordinator(sys::NEVER);
        }
        if let Some(limit) = self.options.settle {
            let until = sys::now() + limit;
            let handles = self.state().handles.clone();
            while sys::now() < until && !handles.iter().all(|handle| handle.is_asleep()) {
                thread::yield_now();
            }
        }
        self.start_clock();
        self.futexes.open_gate();
    }

    /// Sleeps until this clock time, the end of the execution, or until all tasks have exited or wait.
    pub fn wait_until(&self, time: Nanos) {
        loop {
            self.futexes.coordinator.store(0, SeqCst);
            self.leave_if_killed();
            let none_left = {
                let state = self.state();
                state.awake == 0 && state.due == 0
            };
            if none_left || self.is_over() || sys::now() >= time {
                return;
            }
            self.wait_as_coordinator(time.min(self.end()));
        }
    }

    /// Coordinator: sleeps until woken or until this time. When a task is killed, the kernel wakes a sleeper here but
    /// does not change the futex: if the coordinator was only about to sleep, or was stopped, it notices the kill at
    /// the next check.
    fn wait_as_coordinator(&self, until: Nanos) {
        sys::wait_shared(&self.futexes.coordinator, 0, until.min(sys::now() + KILL_CHECK_INTERVAL));
    }

    /// Coordinator: waits until all tasks have exited; the last one wakes it.
    pub fn wait_for_last(&self, scope: &process::Scope<'_, '_>) {
        loop {
            self.futexes.coordinator.store(0, SeqCst);
            self.leave_if_killed();
            if scope.alive() == 0 {
                return;
            }
            self.wait_as_coordinator(sys::NEVER);
        }
    }

    /// Builds the result after all tasks have exited; `asked` is whether a stop was requested.
    pub fn into_result(self, asked: bool, waited: u32) -> Result<ExecutionResult, ExecuteError> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let tasks: Vec<TaskResult> = state.handles.iter().filter_map(|handle| handle.take_result()).collect();
        if let Some(error) = state.error {
            return Err(error);
        }
        let end = if !state.stuck.is_empty() {
            End::Stuck(state.stuck)
        } else if state.due == 0 && tasks.iter().all(|task| task.finished || self.workload.is_beside(task.spec)) {
            End::Finished
        } else if asked {
            End::Stopped
        } else {
            End::Duration
        };
        let elapsed = tasks.iter().map(|task| task.ended).max().unwrap_or_default();
        let sources = (0..).zip(&self.workload.sources);
        for (requests, (number, source)) in state.requests.iter_mut().zip(sources) {
            let from = source.measured_from.min(elapsed);
            requests.measured = elapsed - from;
            requests.arrivals = source.arrivals_within(SourceId(number), SEED, from, elapsed);
        }
        Ok(ExecutionResult {
            end,
            elapsed,
            requests: state.requests,
            disks: self.prepared.disks.take_measures(),
            calibration: self.prepared.calibration,
            tasks,
            failed_forks: state.failed_forks,
            refused_changes: state.refused_changes,
            disturbances: self.disturbances.into_inner() + u64::from(waited),
            log: state.log,
            groups: self.workload.all_groups(),
        })
    }
}

fn requests_of(source: &str) -> RequestMeasures {
    RequestMeasures { source: source.to_owned(), ..RequestMeasures::default() }
}

/// A registered task that has no thread yet.
pub struct TaskSetup {
    pub task: TaskId,
    pub spec: u32,
    pub handle: Arc<TaskHandle>,
    /// Relation of the task to its creator.
    pub kind: TaskKind,
    /// The task leads a new session.
    pub begins_session: bool,
    /// The task waits at the start gate.
    pub at_gate: bool,
    /// The task is forked by another task.
    pub is_forked: bool,
}

/// Result of [`Shared::advance`].
pub struct Advance {
    pub demand: Option<Demand>,
    /// The operation was a timer that had already expired.
    pub late: bool,
    /// Period that the operation ended.
    pub period: Option<Period>,
}
