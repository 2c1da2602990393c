// SPDX-License-Identifier: GPL-2.0-only
//! Plays scripts: says what each task wants next and whom it wakes.
//!
//! What is exact here, so that two drivers (the simulator, real threads) mean the same:
//! - **Mutex**: an unlock hands the mutex to the task that waits longest; it owns it at once, before it runs. Nobody
//!   can take it in between.
//! - **Wait** gives the mutex up (and hands it over), then queues for the condition. A **signal** wakes the first
//!   waiter, a **broadcast** all, first come first; without a waiter both are lost. A woken task takes the mutex when
//!   it runs, and may have to wait for it then, as with glibc. **Sync** is a signal and then a wait.
//! - **Barrier**: the last of its users to arrive wakes the others in the order of their arrival, those that spin as well,
//!   and passes; the next arrival begins a new round.
//! - **Suspend** waits for a later resume of the task's spec; a resume without a suspended task is lost. All instances
//!   of a resumed spec wake, first come first.
//! - **Post** and **await**: a posted signal stays posted; an await of it passes at once.
//! - **Timer**: the reference moves on by one period. If that is in the future, the task sleeps until then; otherwise
//!   it does not, and the reference becomes now, unless the timer is absolute.
//! - **Interval**: as an absolute timer, but of the expiries that are past one counts and the others are lost.
//! - **Work until** a time or a post: CPU time in pieces of at most 1 ms, until a piece ends after that. So it ends by no
//!   more than a piece too late.
//! - **Children**: passes as soon as at most so many of the task's own children have not exited; the exit of one wakes
//!   the parent, if the driver announced it as a child ([`Player::forked`]).
//! - Steps of length 0 are skipped. A task that ends while it holds a mutex keeps it for ever.

use crate::{BarrierId, ConditionId, CriticalSections, MutexId, Op, SignalId, Start, TaskSpec, Workload};
use ids::{CpuSet, Nanos, Policy, TaskId};

/// What a task wants next.
#[derive(Clone, PartialEq, Debug)]
pub enum Demand {
    /// This much work, user and system together; `system` of it in the kernel.
    Work {
        /// All of it.
        work: Nanos,
        /// The part in the kernel.
        system: Nanos,
    },
    /// This much CPU time.
    CpuTime(Nanos),
    /// To sleep for this long from now on (a timer or a device wakes it).
    Sleep(Nanos, crate::Sleep),
    /// To sleep until another task wakes it.
    Wait,
    /// To pass through a lock in shared memory, which is the driver's; ask again when that is done.
    CriticalSections(CriticalSections),
    /// To yield once; ask again when it runs next.
    Yield,
    /// That a task of this spec is started as its child; ask again at once, with [`Player::forked`] in between.
    Fork(u32),
    /// Another affinity, policy or nice value for itself; ask again at once.
    Change {
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// The same for other tasks.
    ChangeOf {
        /// Whose, in the order of their numbers; they may just be about to end.
        tasks: Vec<TaskId>,
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// To look all the time whether it was woken, and to use its CPU for that. Whoever wakes it tells it by memory: for the
    /// kernel nothing happens.
    Spin,
    /// To exit.
    Exit,
}

/// A period of a timer or an interval that is over for its task: it has done what it had to do since the period began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// Whose.
    pub task: TaskId,
    /// From one release to the next.
    pub length: Nanos,
    /// From the release to the end of what it released.
    pub response: Nanos,
}

/// What [`Player::next`] answers.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What the task wants now.
    pub demand: Demand,
}

/// No task, in links between tasks.
const NOBODY: u32 = u32::MAX;

/// Tasks in order of arrival, linked through [`Task::behind`]: a task waits in one queue at a time, so waiting never
/// allocates.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    const EMPTY: Queue = Queue { first: NOBODY, last: NOBODY };

    fn push(&mut self, tasks: &mut [Task], task: u32) {
        tasks[task as usize].behind = NOBODY;
        if self.first == NOBODY {
            self.first = task;
        } else {
            tasks[self.last as usize].behind = task;
        }
        self.last = task;
    }

    fn is_empty(&self) -> bool {
        self.first == NOBODY
    }

    fn pop(&mut self, tasks: &[Task]) -> Option<u32> {
        let task = self.first;
        (task != NOBODY).then(|| {
            self.first = tasks[task as usize].behind;
            task
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Mutex {
    owner: u32,
    waiters: Queue,
}

#[derive(Clone, Copy, Debug)]
struct Barrier {
    /// How many of the round have not arrived yet.
    missing: u32,
    waiters: Queue,
}

#[derive(Clone, Copy, Debug)]
struct Signal {
    posted: bool,
    waiters: Queue,
}

/// Where a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Number never announced.
    Absent,
    /// May be asked.
    Ready,
    /// Waits in a queue; somebody will wake it.
    Waiting,
    /// Waits for a condition, with the mutex that it takes afterwards.
    WaitingWith(MutexId),
    /// Woken from a condition: takes this mutex first.
    Taking(MutexId),
    /// Waits until at most so many of its children live.
    WaitingForChildren(u32),
    /// Exited.
    Gone,
}

#[derive(Debug)]
struct Task {
    spec: u32,
    /// The operation to do next.
    position: u32,
    state: State,
    /// Who waits behind it.
    behind: u32,
    parent: u32,
    /// How many of its children live.
    children: u32,
    /// When it suspended, by count; orders tasks of several specs.
    suspended: u64,
    /// Loops that have begun to repeat, innermost last: index of the `Repeat` and how often it still goes back.
    loops: Vec<(u32, u64)>,
    /// Private references, once used.
    references: Vec<Option<Nanos>>,
}

impl Task {
    fn absent() -> Task {
        Task {
            spec: 0,
            position: 0,
            state: State::Absent,
            behind: NOBODY,
            parent: NOBODY,
            children: 0,
            suspended: 0,
            loops: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Where to go on after the `Repeat` at `at`: at the body's first op, or behind the loop.
    fn repeat(&mut self, at: u32, from: u32, times: u64) -> u32 {
        match self.loops.last_mut() {
            Some((index, left)) if *index == at => {
                if *left == 0 {
                    self.loops.pop();
                    return at + 1;
                }
                *left -= 1;
                from
            }
            _ if times <= 1 => at + 1,
            _ => {
                self.loops.push((at, times - 2));
                from
            }
        }
    }
}

/// The state of a workload in one run: positions in scripts, owners and waiters of locks.
///
/// The driver calls [`Player::next`] for a task that *runs* and has got what it asked for. Tasks that this wakes are
/// appended to `woken` in order; the driver makes them runnable (waker = this task). A woken task is asked again only
/// when it runs.
#[derive(Debug)]
pub struct Player<'w> {
    workload: &'w Workload,
    /// Script of each spec. Instances of one task have equal scripts next to each other in the workload; they share the
    /// first one's memory here, since thousands of copies would not stay in the cache.
    scripts: Vec<&'w [Op]>,
    tasks: Vec<Task>,
    mutexes: Vec<Mutex>,
    conditions: Vec<Queue>,
    barriers: Vec<Barrier>,
    signals: Vec<Signal>,
    /// Suspended tasks by spec.
    suspended: Vec<Queue>,
    suspensions: u64,
    references: Vec<Option<Nanos>>,
    /// Periods that are over and that the driver has not asked for yet.
    periods: Vec<Period>,
}

impl<'w> Player<'w> {
    /// At the start.
    ///
    /// # Panics
    /// If the workload is not valid ([`Workload::validate`]); what the loaders return is.
    pub fn new(workload: &'w Workload) -> Player<'w> {
        if let Err(error) = workload.validate() {
            panic!("a player needs a valid workload: {error}");
        }
        let barrier = |&users: &u32| Barrier { missing: users, waiters: Queue::EMPTY };
        let mut scripts: Vec<&[Op]> = Vec::with_capacity(workload.tasks.len());
        for task in &workload.tasks {
            let shared = scripts.last().copied().filter(|&last| last == task.script);
            scripts.push(shared.unwrap_or(&task.script));
        }
        Player {
            workload,
            scripts,
            tasks: Vec::new(),
            mutexes: vec![Mutex { owner: NOBODY, waiters: Queue::EMPTY }; workload.mutexes as usize],
            conditions: vec![Queue::EMPTY; workload.conditions as usize],
            barriers: workload.barriers.iter().map(barrier).collect(),
            signals: vec![Signal { posted: false, waiters: Queue::EMPTY }; workload.signals as usize],
            suspended: vec![Queue::EMPTY; workload.tasks.len()],
            suspensions: 0,
            references: vec![None; workload.references as usize],
            periods: Vec::new(),
        }
    }

    /// The periods that ended since this was last asked.
    pub fn take_periods(&mut self) -> impl Iterator<Item = Period> + '_ {
        self.periods.drain(..)
    }

    /// The spec with this index.
    pub fn spec(&self, index: u32) -> &'w TaskSpec {
        &self.workload.tasks[index as usize]
    }

    /// Whether tasks of this spec play beside others, for whose end a run waits.
    pub fn is_beside(&self, index: u32) -> bool {
        self.workload.is_beside(index)
    }

    /// Whether a task of this spec that `parent` forks is a thread of its process.
    pub fn is_thread(&self, index: u32, parent: TaskId) -> bool {
        let process = |index| self.spec(index).who.tgid;
        process(index).is_some() && process(index) == process(self.spec_of(parent))
    }

    /// Whether a task of this spec that `parent` forks, or that starts by itself, begins a session: its own is known, and
    /// is not that of its parent.
    pub fn begins_session(&self, index: u32, parent: Option<TaskId>) -> bool {
        let session = |index| self.spec(index).who.session;
        session(index).is_some() && session(index) != parent.and_then(|parent| session(self.spec_of(parent)))
    }

    /// Index of the spec that `task` plays.
    pub fn spec_of(&self, task: TaskId) -> u32 {
        self.tasks[task.index()].spec
    }

    /// Announces that `task` now plays spec `index` from its beginning; any number of tasks may play one spec. Task
    /// numbers are dense or nearly so, since each number up to the largest costs memory, and are never used twice. The
    /// time is that of the run; it must not be before the spec's own start.
    ///
    /// # Panics
    /// If the number is in use or was.
    pub fn started(&mut self, task: TaskId, index: u32, now: Nanos) {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::absent);
        }
        assert!(
            !matches!(self.spec(index).start, Start::At(earliest) if now < earliest),
            "task {task} starts at {now}, before its time"
        );
        let state = &mut self.tasks[task.index()];
        assert!(state.state == State::Absent, "task {task} was started before");
        state.state = State::Ready;
        state.spec = index;
    }

    /// The same for a task that `parent` forked.
    ///
    /// # Panics
    /// If the number is in use or was.
    pub fn forked(&mut self, task: TaskId, index: u32, parent: TaskId, now: Nanos) {
        self.started(task, index, now);
        self.tasks[task.index()].parent = parent.0;
        self.tasks[parent.index()].children += 1;
    }

    /// What `task` wants next.
    ///
    /// # Panics
    /// If the task was never started, waits, or has exited.
    pub fn next(&mut self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>) -> Outcome {
        Outcome { demand: self.demand(task.index(), now, woken) }
    }

    /// Lets `task` do its next operation and nothing more. `None`: it is done, ask again; a repetition is an operation of
    /// its own. For a driver that must carry out what one operation causes before the next one begins: real threads.
    ///
    /// # Panics
    /// If the task was never started, waits, or has exited.
    pub fn advance(&mut self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>) -> Option<Demand> {
        let task = task.index();
        self.resume_waiter(task).or_else(|| self.operate(task, now, woken))
    }

    /// The operation that [`Player::advance`] will let `task` do, and its index in the script. `None`: it takes a mutex
    /// again after a wait, or exits.
    pub fn upcoming(&self, task: TaskId) -> Option<(u32, &'w Op)> {
        let task = &self.tasks[task.index()];
        let script: &'w [Op] = self.scripts[task.spec as usize];
        let op = script.get(task.position as usize).filter(|_| task.state == State::Ready);
        op.map(|op| (task.position, op))
    }

    /// Whether the upcoming operation of `task` is there to wake somebody (signal, broadcast, resume, post) and nobody
    /// waits for it yet. A `sync` is not counted: the first one of two that alternate never finds a waiter.
    pub fn wakes_nobody_yet(&self, task: TaskId) -> bool {
        match self.upcoming(task).map(|(_, op)| op) {
            Some(Op::Signal(condition) | Op::Broadcast(condition)) => self.conditions[condition.0 as usize].is_empty(),
            Some(Op::Resume(specs)) => specs.iter().all(|&spec| self.suspended[spec as usize].is_empty()),
            Some(Op::Post(signal)) => self.signals[signal.0 as usize].waiters.is_empty(),
            _ => false,
        }
    }

    /// What `task` waits for, in words: `mutex 0, which task 3 holds`. `None`: it does not wait.
    pub fn waits_for(&self, task: TaskId) -> Option<String> {
        let state = &self.tasks[task.index()];
        match state.state {
            State::Absent | State::Ready | State::Taking(_) | State::Gone => return None,
            State::WaitingWith(_) | State::Waiting | State::WaitingForChildren(_) => {}
        }
        let op = &self.scripts[state.spec as usize][state.position as usize - 1];
        Some(match op {
            Op::Lock(mutex) => self.held(*mutex),
            // Woken from the condition already, if it waits without one.
            Op::Wait(_, mutex) | Op::Sync(_, mutex) if state.state == State::Waiting => self.held(*mutex),
            Op::Wait(condition, _) | Op::Sync(condition, _) => format!("condition {}", condition.0),
            Op::Barrier(barrier) | Op::SpinBarrier(barrier) => {
                let missing = self.barriers[barrier.0 as usize].missing;
                format!("barrier {}, which {missing} more must reach", barrier.0)
            }
            Op::Suspend => "a resume".into(),
            Op::Await(signal) => format!("signal {}", signal.0),
            Op::Children(most) => format!("its children, of which {} live and at most {most} may", state.children),
            other => unreachable!("nobody waits in {other:?}"),
        })
    }

    /// Whether `task` waits for a mutex.
    pub fn waits_for_mutex(&self, task: TaskId) -> bool {
        let state = &self.tasks[task.index()];
        let op = (state.position as usize).checked_sub(1).map(|last| &self.scripts[state.spec as usize][last]);
        state.state == State::Waiting && matches!(op, Some(Op::Lock(_) | Op::Wait(..) | Op::Sync(..)))
    }

    fn held(&self, mutex: MutexId) -> String {
        format!("mutex {}, which task {} holds", mutex.0, self.mutexes[mutex.0 as usize].owner)
    }

    /// Announces that `task`, which was started and never asked, does not come to be after all: the kernel refused to
    /// create it. It counts as exited.
    ///
    /// # Panics
    /// If the task was never started or was asked already.
    pub fn refused(&mut self, task: TaskId, woken: &mut Vec<TaskId>) {
        let state = &self.tasks[task.index()];
        assert!(state.state == State::Ready && state.position == 0, "task {task} has begun");
        self.exit(task.index(), woken);
    }

    fn demand(&mut self, task: usize, now: Nanos, woken: &mut Vec<TaskId>) -> Demand {
        if let Some(demand) = self.resume_waiter(task) {
            return demand;
        }
        loop {
            if let Some(demand) = self.operate(task, now, woken) {
                return demand;
            }
        }
    }

    /// Takes the mutex of a task that was woken from a condition; answers if it must wait for it.
    fn resume_waiter(&mut self, task: usize) -> Option<Demand> {
        match self.tasks[task].state {
            State::Ready => None,
            State::Taking(mutex) => {
                self.tasks[task].state = State::Ready;
                (!self.lock(task, mutex)).then_some(Demand::Wait)
            }
            state => panic!("task {task} was asked for its next demand while it is {state:?}"),
        }
    }

    /// Does the operation at the position of `task`. `None`: it is done and the task goes on.
    fn operate(&mut self, task: usize, now: Nanos, woken: &mut Vec<TaskId>) -> Option<Demand> {
        let script = self.scripts[self.tasks[task].spec as usize];
        let at = self.tasks[task].position;
        let Some(op) = script.get(at as usize) else {
            self.exit(task, woken);
            return Some(Demand::Exit);
        };
        self.tasks[task].position = at + 1;
        let &Op::Repeat { from, times } = op else { return self.step(task, op, now, woken) };
        self.tasks[task].position = match times {
            None => from,
            Some(times) => self.tasks[task].repeat(at, from, times),
        };
        None
    }

    /// Does one operation other than a repetition. `None`: it is done and the task goes on.
    fn step(&mut self, task: usize, op: &Op, now: Nanos, woken: &mut Vec<TaskId>) -> Option<Demand> {
        match op {
            Op::Work { user, system } => {
                let work = *user + *system;
                (work > Nanos::ZERO).then_some(Demand::Work { work, system: *system })
            }
            Op::CpuTime(time) => (*time > Nanos::ZERO).then_some(Demand::CpuTime(*time)),
            Op::Sleep(time, cause) => (*time > Nanos::ZERO).then_some(Demand::Sleep(*time, *cause)),
            &Op::Timer { reference, period, absolute } => self.timer(task, reference, period, absolute, now),
            &Op::Anchor(reference) => {
                *self.reference(task, reference).0 = Some(now);
                None
            }
            &Op::Interval { reference, period } => self.interval(task, reference, period, now),
            &Op::WorkUntil { reference, after } => {
                let (cell, begin) = self.reference(task, reference);
                let end = cell.unwrap_or(begin) + after;
                self.work_on(task, end.since(now))
            }
            Op::WorkUntilPosted(signal) => {
                let left = if self.signals[signal.0 as usize].posted { Nanos::ZERO } else { time::PIECE };
                self.work_on(task, left)
            }
            Op::Timeout(_) => None,
            Op::Lock(mutex) => (!self.lock(task, *mutex)).then_some(Demand::Wait),
            Op::Unlock(mutex) => {
                self.unlock(task, *mutex, woken);
                None
            }
            Op::Wait(condition, mutex) => Some(self.wait(task, *condition, *mutex, woken)),
            Op::Signal(condition) => {
                self.signal(*condition, woken);
                None
            }
            Op::Broadcast(condition) => {
                while self.signal(*condition, woken) {}
                None
            }
            Op::Sync(condition, mutex) => {
                self.signal(*condition, woken);
                Some(self.wait(task, *condition, *mutex, woken))
            }
            Op::Barrier(barrier) => self.barrier(task, *barrier, woken),
            Op::SpinBarrier(barrier) => self.barrier(task, *barrier, woken).map(|_| Demand::Spin),
            Op::Suspend => Some(self.suspend(task)),
            Op::Resume(specs) => {
                self.resume(specs, woken);
                None
            }
            Op::Post(signal) => {
                self.post(*signal, woken);
                None
            }
            Op::Await(signal) => self.wait_for_post(task, *signal),
            Op::CriticalSections(critical_sections) => Some(Demand::CriticalSections(**critical_sections)),
            Op::Yield => Some(Demand::Yield),
            Op::Fork(spec) => Some(Demand::Fork(*spec)),
            Op::Children(most) => self.wait_for_children(task, *most),
            Op::Change { cpus, policy } => {
                Some(Demand::Change { cpus: cpus.as_deref().cloned(), policy: policy.as_deref().copied() })
            }
            Op::ChangeOf { spec, cpus, policy } => {
                let lives = |task: &Task| task.spec == *spec && !matches!(task.state, State::Absent | State::Gone);
                let tasks = self.tasks.iter().zip(0..).filter(|(task, _)| lives(task)).map(|(_, id)| TaskId(id));
                let (cpus, policy) = (cpus.as_deref().cloned(), policy.as_deref().copied());
                Some(Demand::ChangeOf { tasks: tasks.collect(), cpus, policy })
            }
            Op::Repeat { .. } => unreachable!("the caller repeats"),
        }
    }

    fn block(&mut self, task: usize) -> Demand {
        self.tasks[task].state = State::Waiting;
        Demand::Wait
    }

    fn wake(&mut self, task: u32, woken: &mut Vec<TaskId>) {
        let state = &mut self.tasks[task as usize].state;
        *state = match *state {
            State::Waiting | State::WaitingForChildren(_) => State::Ready,
            State::WaitingWith(mutex) => State::Taking(mutex),
            other => unreachable!("task {task} is woken while it is {other:?}"),
        };
        woken.push(TaskId(task));
    }

    /// True if the task owns the mutex now, false if it waits for it.
    fn lock(&mut self, task: usize, mutex: MutexId) -> bool {
        let mutex = &mut self.mutexes[mutex.0 as usize];
        if mutex.owner == NOBODY {
            mutex.owner = task as u32;
            return true;
        }
        mutex.waiters.push(&mut self.tasks, task as u32);
        self.block(task);
        false
    }

    fn unlock(&mut self, task: usize, mutex: MutexId, woken: &mut Vec<TaskId>) {
        let mutex = &mut self.mutexes[mutex.0 as usize];
        assert!(mutex.owner == task as u32, "validated scripts unlock only what they hold");
        let next = mutex.waiters.pop(&self.tasks);
        mutex.owner = next.unwrap_or(NOBODY);
        if let Some(next) = next {
            self.wake(next, woken);
        }
    }

    fn wait(&mut self, task: usize, condition: ConditionId, mutex: MutexId, woken: &mut Vec<TaskId>) -> Demand {
        self.unlock(task, mutex, woken);
        self.conditions[condition.0 as usize].push(&mut self.tasks, task as u32);
        self.tasks[task].state = State::WaitingWith(mutex);
        Demand::Wait
    }

    /// True if somebody waited.
    fn signal(&mut self, condition: ConditionId, woken: &mut Vec<TaskId>) -> bool {
        let waiter = self.conditions[condition.0 as usize].pop(&self.tasks);
        if let Some(waiter) = waiter {
            self.wake(waiter, woken);
        }
        waiter.is_some()
    }

    fn barrier(&mut self, task: usize, id: BarrierId, woken: &mut Vec<TaskId>) -> Option<Demand> {
        let barrier = &mut self.barriers[id.0 as usize];
        barrier.missing -= 1;
        if barrier.missing > 0 {
            barrier.waiters.push(&mut self.tasks, task as u32);
            return Some(self.block(task));
        }
        barrier.missing = self.workload.barriers[id.0 as usize];
        while let Some(waiter) = self.barriers[id.0 as usize].waiters.pop(&self.tasks) {
            self.wake(waiter, woken);
        }
        None
    }

    fn suspend(&mut self, task: usize) -> Demand {
        self.suspensions += 1;
        self.tasks[task].suspended = self.suspensions;
        self.suspended[self.tasks[task].spec as usize].push(&mut self.tasks, task as u32);
        self.block(task)
    }

    fn resume(&mut self, specs: &[u32], woken: &mut Vec<TaskId>) {
        let before = woken.len();
        for &spec in specs {
            while let Some(waiter) = self.suspended[spec as usize].pop(&self.tasks) {
                self.wake(waiter, woken);
            }
        }
        woken[before..].sort_unstable_by_key(|task| self.tasks[task.index()].suspended);
    }

    fn post(&mut self, id: SignalId, woken: &mut Vec<TaskId>) {
        self.signals[id.0 as usize].posted = true;
        while let Some(waiter) = self.signals[id.0 as usize].waiters.pop(&self.tasks) {
            self.wake(waiter, woken);
        }
    }

    fn wait_for_post(&mut self, task: usize, id: SignalId) -> Option<Demand> {
        let signal = &mut self.signals[id.0 as usize];
        if signal.posted {
            return None;
        }
        signal.waiters.push(&mut self.tasks, task as u32);
        Some(self.block(task))
    }

    fn wait_for_children(&mut self, task: usize, most: u32) -> Option<Demand> {
        let state = &mut self.tasks[task];
        (state.children > most).then(|| {
            state.state = State::WaitingForChildren(most);
            Demand::Wait
        })
    }

    fn exit(&mut self, task: usize, woken: &mut Vec<TaskId>) {
        self.tasks[task].state = State::Gone;
        let number = self.tasks[task].parent;
        if number == NOBODY {
            return;
        }
        let parent = &mut self.tasks[number as usize];
        parent.children -= 1;
        if matches!(parent.state, State::WaitingForChildren(most) if parent.children <= most) {
            self.wake(number, woken);
        }
    }
}

mod time;

#[cfg(test)]
mod tests;
