// SPDX-License-Identifier: GPL-2.0-only
//! What all tasks of a play share: the Player and its lock, the play's clock, and the places where its threads sleep.

use super::locks::Locks;
use super::prepare::Prepared;
use super::{End, Options, PlayError, Played, Step, Stuck, TaskPlayed, sys};
use ids::{Nanos, TaskId};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use workload::{Demand, Period, Player, Start, TaskSpec, Workload};

/// How often to try the lock before sleeping for it: some 20 us, many times what its holders need.
const LOCK_SPINS: u32 = 500;

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
}

/// Everything on which a thread of the play may sleep.
#[derive(Default)]
pub struct Bells {
    pub over: AtomicBool,
    pub gate: AtomicU32,
    pub stage: AtomicU32,
    seats: Mutex<Vec<Arc<Seat>>>,
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
        sys::wake(&self.stage, 1);
    }

    fn open_gate(&self) {
        self.gate.store(1, SeqCst);
        sys::wake(&self.gate, i32::MAX as u32);
    }

    /// A place for a new task. Once the play is over, its thread will not sleep.
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
    pub player: Player<'w>,
    seats: Vec<Arc<Seat>>,
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

/// What all tasks share.
pub struct Shared<'w> {
    state: Mutex<State<'w>>,
    pub workload: &'w Workload,
    pub options: &'w Options,
    pub prepared: &'w Prepared,
    pub bells: Arc<Bells>,
    pub locks: Locks,
    /// When the play began and when it must end, by the clock.
    begin: AtomicU64,
    end: AtomicU64,
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
            player: Player::new(workload),
            seats: Vec::new(),
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
            begin: AtomicU64::new(sys::NEVER.0),
            end: AtomicU64::new(sys::NEVER.0),
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A new task of the play: its number and its place.
    pub fn enroll(&self, spec: u32, parent: Option<TaskId>) -> (TaskId, Arc<Seat>) {
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
        (task, seat)
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

    /// `task` was enrolled, but the kernel created no thread for it.
    pub fn dismiss(&self, task: TaskId) {
        let mut state = self.state();
        // Nobody but its parent could wait for it, and that is here.
        state.player.refused(task, &mut Vec::new());
        state.awake -= self.counts(state.player.spec_of(task));
        state.failed_forks += 1;
        state.seats[task.index()].thread.store(NO_THREAD, SeqCst);
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
            if self.bells.over.load(SeqCst) || self.arrived.load(SeqCst) == self.expected {
                break;
            }
            sys::wait(&self.bells.stage, 0, sys::NEVER);
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
            let nobody_left = {
                let state = self.state();
                state.awake == 0 && state.due == 0
            };
            if nobody_left || self.is_over() || sys::now() >= time {
                return;
            }
            sys::wait(&self.bells.stage, 0, time.min(self.end()));
        }
    }

    /// What the play was like; `asked`: somebody wanted its end.
    pub fn into_played(self, tasks: Vec<TaskPlayed>, asked: bool) -> Result<Played, PlayError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
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
            disturbances: self.disturbances.into_inner(),
            log: state.log,
            groups: self.workload.all_groups(),
        })
    }
}

/// What [`Shared::advance`] found.
pub struct Advance {
    pub demand: Option<Demand>,
    /// It was a timer that was due already.
    pub late: bool,
    /// The period that it ended.
    pub period: Option<Period>,
}
