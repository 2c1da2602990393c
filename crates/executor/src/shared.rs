// SPDX-License-Identifier: GPL-2.0-only
//! What all tasks of a play share: the Executor and its lock, the play's clock, and the places where its threads sleep.

use super::company::{self, Bell, Company};
use super::locks::Locks;
use super::prepare::Prepared;
use super::process::{self, Kinship};
use super::{End, Options, PlayError, Played, Step, Stuck, TaskPlayed};
use host::sys;
use ids::{Nanos, TaskId};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;
use workload::{Demand, Executor, Period, Start, TaskSpec, Workload};

/// How long nobody may miss a task that was killed. A choice: the stage costs the machine some microseconds each time it looks.
const LOOK_AGAIN: Nanos = Nanos::from_secs(1);

/// How often to try the lock before sleeping for it: some 20 us, many times what its holders need.
const LOCK_SPINS: u32 = 500;

/// How long the stage sleeps until it tries the lock again.
const STAGE_LOOKS: Duration = Duration::from_micros(100);

/// The number of a thread that the kernel refused to create.
const NO_THREAD: u32 = u32::MAX;

/// Where the others find the thread of a task.
#[derive(Default)]
pub struct Seat {
    /// 0: it may sleep on this word. 1: it was woken, or the play is over.
    pub word: AtomicU32,
    /// The thread's number in the kernel: 0 until it has one, [`NO_THREAD`] if it will have none.
    pub thread: AtomicU32,
    /// While it waits: its count of voluntary switches once it has left its CPU. Else 0.
    pub asleep_from: AtomicU64,
    /// What it did; when it has ended.
    played: Mutex<Option<TaskPlayed>>,
}

impl Seat {
    pub fn ring(&self) {
        self.word.store(1, SeqCst);
        sys::wake(&self.word, 1);
    }

    /// Whether the kernel has taken the thread off its CPU. State S alone comes before that; the count does not.
    pub fn is_asleep(&self) -> bool {
        let from = self.asleep_from.load(SeqCst);
        from != 0 && sys::status(self.thread.load(SeqCst)).is_some_and(|now| now.sleeps && now.voluntary >= from)
    }

    /// The task ends, and this is what it did.
    pub fn leave(&self, played: TaskPlayed) {
        *self.played.lock().unwrap_or_else(PoisonError::into_inner) = Some(played);
    }

    fn take_played(&self) -> Option<TaskPlayed> {
        self.played.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Everything on which a task of the play may sleep.
#[derive(Default)]
pub struct Bells {
    pub over: AtomicBool,
    pub gate: AtomicU32,
    /// Where the stage sleeps, by [`sys::wait_shared`]: 0 while it does.
    pub stage: AtomicU32,
    seats: Mutex<Vec<Arc<Seat>>>,
    /// The first task that panicked did it with this.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Index and one of the spec whose task was killed, before the stage left because of that; else 0.
    pub killed: AtomicU32,
}

impl Bells {
    /// Ends the play: whoever sleeps wakes up, whoever is about to sleep does not.
    pub fn end(&self) {
        self.over.store(true, SeqCst);
        self.open_gate();
        self.ring_stage();
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|seat| seat.ring());
    }

    pub fn ring_stage(&self) {
        self.stage.store(1, SeqCst);
        sys::wake_shared(&self.stage);
    }

    /// Ends the play because of a panic: else the others might wait for its task for ever.
    pub fn end_by_panic(&self, panic: Box<dyn Any + Send>) {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        self.end();
    }

    /// With what a task panicked, if one did.
    pub fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn open_gate(&self) {
        self.gate.store(1, SeqCst);
        sys::wake(&self.gate, i32::MAX as u32);
    }

    /// A place for a new task. Once the play is over, it will not sleep.
    fn take_seat(&self) -> Arc<Seat> {
        let seat = Arc::new(Seat::default());
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).push(seat.clone());
        if self.over.load(SeqCst) {
            seat.word.store(1, SeqCst);
        }
        seat
    }
}

/// What changes while the play goes on; behind the lock.
pub struct State<'w> {
    pub player: Executor<'w>,
    seats: Vec<Arc<Seat>>,
    /// The processes with names that have members.
    companies: BTreeMap<&'w str, Company>,
    /// Tasks that neither wait nor have ended. Here and below those that play beside others are left out.
    awake: usize,
    /// Tasks that start by themselves and did not yet.
    due: usize,
    stuck: Vec<Stuck>,
    log: Vec<Step>,
    pub failed_forks: u64,
    pub refused_changes: u64,
    pub error: Option<PlayError>,
}

impl State<'_> {
    /// A member of the process of this name is no more.
    fn depart(&mut self, name: &str) {
        let Some(company) = self.companies.get_mut(name) else { return };
        company.members -= 1;
        if company.members == 0 {
            company.ring();
            self.companies.remove(name);
        }
    }
}

/// What all tasks share.
pub struct Shared<'w> {
    state: Mutex<State<'w>>,
    pub workload: &'w Workload,
    pub options: &'w Options,
    pub prepared: &'w Prepared,
    pub bells: Arc<Bells>,
    pub locks: Locks,
    /// Names of the processes that have an aide.
    pub aided: BTreeSet<&'w str>,
    /// When the play began and when it must end, by the clock.
    begin: AtomicU64,
    end: AtomicU64,
    /// The process that waits for all tasks.
    stage: u32,
    /// Tasks that have come to the gate, and how many will.
    arrived: AtomicU32,
    expected: u32,
    disturbances: AtomicU64,
}

impl<'w> Shared<'w> {
    /// Before the play.
    pub fn new(workload: &'w Workload, options: &'w Options, prepared: &'w Prepared, bells: Arc<Bells>) -> Shared<'w> {
        let by_itself = |(task, index)| -> bool {
            let task: &TaskSpec = task;
            task.start != Start::Forked && !workload.is_beside(index)
        };
        let starts = workload.tasks.iter().zip(0..).filter(|&start| by_itself(start)).count();
        let at_once = workload.tasks.iter().filter(|task| task.start == Start::At(Nanos::ZERO)).count();
        let state = State {
            player: Executor::new(workload),
            seats: Vec::new(),
            companies: BTreeMap::new(),
            awake: 0,
            due: starts,
            stuck: Vec::new(),
            log: Vec::new(),
            failed_forks: 0,
            refused_changes: 0,
            error: None,
        };
        Shared {
            state: Mutex::new(state),
            workload,
            options,
            prepared,
            bells,
            locks: Locks::new(&workload.locks),
            aided: company::with_aide(workload),
            begin: AtomicU64::new(sys::NEVER.0),
            end: AtomicU64::new(sys::NEVER.0),
            stage: sys::process_id(),
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
        if sys::process_id() != self.stage {
            return self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        // Who holds it may have been killed.
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(state)) => return state.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(STAGE_LOOKS),
            }
            self.leave_if_killed();
        }
    }

    /// For the stage: if a task was killed, leaves at once, and all others die of that. What the killed one held, it holds
    /// for ever.
    fn leave_if_killed(&self) {
        if let Some(spec) = self.prepared.lenders.killed() {
            self.bells.killed.store(spec + 1, SeqCst);
            process::leave();
        }
    }

    /// Whether the play has begun: its time runs.
    pub fn has_begun(&self) -> bool {
        self.begin.load(SeqCst) != sys::NEVER.0
    }

    /// The play's time.
    pub fn now(&self) -> Nanos {
        sys::now().since(Nanos(self.begin.load(SeqCst)))
    }

    /// What the clock says when the play's time is `time`.
    pub fn clock_at(&self, time: Nanos) -> Nanos {
        Nanos(self.begin.load(SeqCst).saturating_add(time.0))
    }

    /// When it must end, by the clock.
    pub fn end(&self) -> Nanos {
        Nanos(self.end.load(SeqCst))
    }

    pub fn is_over(&self) -> bool {
        self.bells.over.load(SeqCst) || sys::now() >= self.end()
    }

    /// The play begins now.
    pub fn start_clock(&self) {
        let begin = sys::now();
        if let Some(duration) = self.options.duration.or(self.workload.duration) {
            self.end.store(begin.0.saturating_add(duration.0), SeqCst);
        }
        self.begin.store(begin.0, SeqCst);
    }

    /// 1 if the play lasts until the tasks of this spec have ended, 0 if they play beside others.
    fn counts(&self, spec: u32) -> usize {
        usize::from(!self.workload.is_beside(spec))
    }

    /// A new task of the play, which the calling one is to create; `None` if it waits for another one to do that.
    pub fn enroll(&self, spec: u32, parent: Option<TaskId>) -> Option<Role> {
        let now = if self.has_begun() { self.now() } else { Nanos::ZERO };
        let seat = self.bells.take_seat();
        let mut state = self.state();
        let task = TaskId(state.seats.len() as u32);
        match parent {
            Some(parent) => state.player.forked(task, spec, parent, now),
            None => {
                state.player.started(task, spec, now);
                state.due -= self.counts(spec);
            }
        }
        state.awake += self.counts(spec);
        state.seats.push(seat.clone());
        let process = |spec: u32| self.workload.tasks[spec as usize].who.process.as_deref();
        let is_fellow = |name| parent.is_some_and(|parent| process(state.player.spec_of(parent)) == Some(name));
        let is_thread = |parent| state.player.is_thread(spec, parent);
        // Who is to create it, and as what.
        let (kinship, waits) = match process(spec) {
            Some(name) => match state.companies.get(name) {
                None => (Kinship::Process, false),
                Some(_) => (Kinship::Thread, !is_fellow(name)),
            },
            None if parent.is_some_and(is_thread) => (Kinship::Thread, false),
            None => (Kinship::Process, false),
        };
        let begins_session = kinship == Kinship::Process && state.player.begins_session(spec, parent);
        let at_gate = self.options.gate && self.workload.tasks[spec as usize].start == Start::At(Nanos::ZERO);
        let is_forked = parent.is_some();
        let role = Role { task, spec, seat, kinship, begins_session, at_gate, is_forked };
        let Some(name) = process(spec) else { return Some(role) };
        let company = state.companies.entry(name).or_default();
        company.members += 1;
        if !waits {
            return Some(role);
        }
        company.waiting.push(role);
        company.ring();
        None
    }

    /// The calling task leads the process of this name: those that wait for it, and where its aide sleeps.
    pub fn lead(&self, name: &'w str) -> (Vec<Role>, Bell) {
        let mut state = self.state();
        let company = state.companies.entry(name).or_default();
        (std::mem::take(&mut company.waiting), company.bell.clone())
    }

    /// Those that wait for the aide of the process of this name, that sleeps there; `None` when nobody is left.
    pub fn take_waiting(&self, name: &str, bell: &Bell) -> Option<Vec<Role>> {
        let mut state = self.state();
        let company = state.companies.get_mut(name).filter(|company| Arc::ptr_eq(&company.bell, bell))?;
        Some(std::mem::take(&mut company.waiting))
    }

    /// A task of this spec has ended.
    pub fn depart(&self, spec: u32) {
        if let Some(name) = self.workload.tasks[spec as usize].who.process.as_deref() {
            self.state().depart(name);
        }
    }

    /// Lets `task` do its next operation. Those that it wakes are appended to `woken`.
    pub fn advance(&self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>, rung: &mut Vec<Arc<Seat>>) -> Advance {
        let mut state = self.state();
        let operation = state.player.upcoming(task);
        let demand = state.player.advance(task, now, woken);
        let period = state.player.take_periods().last();
        if self.options.log {
            let script = &self.workload.tasks[state.player.spec_of(task) as usize].script;
            let exit = (demand == Some(Demand::Exit)).then_some(script.len() as u32);
            if let Some(operation) = operation.map(|(index, _)| index).or(exit) {
                state.log.push(Step { time: now, task, operation, cpu: sys::current_cpu() });
            }
        }
        rung.extend(woken.drain(..).map(|other| state.seats[other.index()].clone()));
        // Those that it wakes are of the same part.
        let counts = self.counts(state.player.spec_of(task));
        state.awake += counts * rung.len();
        if matches!(demand, Some(Demand::Wait | Demand::Spin | Demand::Exit)) {
            state.awake -= counts;
            self.look_for_end(state);
        }
        let late = demand.is_none() && matches!(operation, Some((_, workload::Op::Timer { .. })));
        Advance { demand, late, period }
    }

    /// When nobody is awake and nobody will come, the play is over.
    fn look_for_end(&self, mut state: MutexGuard<'_, State<'w>>) {
        if state.awake > 0 || state.due > 0 {
            return;
        }
        state.stuck = (0..state.seats.len() as u32)
            .filter_map(|task| {
                let task = TaskId(task);
                if self.counts(state.player.spec_of(task)) == 0 {
                    return None;
                }
                let waits_for = state.player.waits_for(task)?;
                let name = self.workload.tasks[state.player.spec_of(task) as usize].name.clone();
                Some(Stuck { task, name, waits_for })
            })
            .collect();
        let is_left =
            !state.stuck.is_empty() || (0..self.workload.tasks.len() as u32).any(|spec| self.counts(spec) == 0);
        drop(state);
        if is_left { self.bells.end() } else { self.bells.ring_stage() }
    }

    /// The number that the thread of `task` has in the kernel; `None` if the kernel created none.
    pub fn thread_of(&self, task: TaskId) -> Option<u32> {
        let seat = self.state().seats[task.index()].clone();
        // The thread writes it first of all.
        loop {
            match seat.thread.load(SeqCst) {
                0 if !self.is_over() => thread::yield_now(),
                0 | NO_THREAD => return None,
                number => return Some(number),
            }
        }
    }

    /// `task` was enrolled, but the kernel created no thread for it. False if others wait for it to create them.
    pub fn dismiss(&self, task: TaskId) -> bool {
        let mut state = self.state();
        // Nobody but its parent could wait for it, and that is here.
        state.player.refused(task, &mut Vec::new());
        let spec = state.player.spec_of(task);
        state.awake -= self.counts(spec);
        state.failed_forks += 1;
        state.seats[task.index()].thread.store(NO_THREAD, SeqCst);
        let Some(name) = self.workload.tasks[spec as usize].who.process.as_deref() else { return true };
        state.depart(name);
        state.companies.get(name).is_none_or(|company| company.members as usize != company.waiting.len())
    }

    /// Comes to the gate and waits until it opens.
    pub fn pass_gate(&self) {
        if self.arrived.fetch_add(1, SeqCst) + 1 == self.expected {
            self.bells.ring_stage();
        }
        while self.bells.gate.load(SeqCst) == 0 {
            sys::wait(&self.bells.gate, 0, sys::NEVER);
        }
    }

    /// Ends the play with an error; the first one counts.
    pub fn fail(&self, error: PlayError) {
        self.state().error.get_or_insert(error);
        self.bells.end();
    }

    /// Waits until all tasks that start at once have come, and lets them go: the play begins.
    pub fn open_gate_when_all_came(&self) {
        loop {
            self.bells.stage.store(0, SeqCst);
            self.leave_if_killed();
            if self.bells.over.load(SeqCst) || self.arrived.load(SeqCst) == self.expected {
                break;
            }
            self.wait_as_stage(sys::NEVER);
        }
        if let Some(limit) = self.options.settle {
            let until = sys::now() + limit;
            let seats = self.state().seats.clone();
            while sys::now() < until && !seats.iter().all(|seat| seat.is_asleep()) {
                thread::yield_now();
            }
        }
        self.start_clock();
        self.bells.open_gate();
    }

    /// Sleeps until then by the clock, at most until the play is over or nobody is left.
    pub fn wait_until(&self, time: Nanos) {
        loop {
            self.bells.stage.store(0, SeqCst);
            self.leave_if_killed();
            let nobody_left = {
                let state = self.state();
                state.awake == 0 && state.due == 0
            };
            if nobody_left || self.is_over() || sys::now() >= time {
                return;
            }
            self.wait_as_stage(time.min(self.end()));
        }
    }

    /// The stage sleeps until somebody rings for it, or until then. For a task that is killed the kernel wakes who sleeps here,
    /// but changes nothing: if the stage was about to sleep, or had been stopped, it finds that by looking again.
    fn wait_as_stage(&self, until: Nanos) {
        sys::wait_shared(&self.bells.stage, 0, until.min(sys::now() + LOOK_AGAIN));
    }

    /// For the stage: waits until all tasks have ended, which the last one tells.
    pub fn wait_for_last(&self, scope: &process::Scope<'_, '_>) {
        loop {
            self.bells.stage.store(0, SeqCst);
            self.leave_if_killed();
            if scope.alive() == 0 {
                return;
            }
            self.wait_as_stage(sys::NEVER);
        }
    }

    /// What the play was like, when all tasks have ended; `asked`: somebody wanted its end.
    pub fn into_played(self, asked: bool, waited: u32) -> Result<Played, PlayError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let tasks: Vec<TaskPlayed> = state.seats.iter().filter_map(|seat| seat.take_played()).collect();
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
        Ok(Played {
            end,
            elapsed: tasks.iter().map(|task| task.ended).max().unwrap_or_default(),
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

/// A task that has no thread yet.
pub struct Role {
    pub task: TaskId,
    pub spec: u32,
    pub seat: Arc<Seat>,
    /// What it is to the one that creates it.
    pub kinship: Kinship,
    /// It is to lead a session of its own.
    pub begins_session: bool,
    /// It waits until the play begins.
    pub at_gate: bool,
    /// Another task forks it.
    pub is_forked: bool,
}

/// What [`Shared::advance`] found.
pub struct Advance {
    pub demand: Option<Demand>,
    /// It was a timer that was due already.
    pub late: bool,
    /// The period that it ended.
    pub period: Option<Period>,
}
