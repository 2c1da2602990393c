// SPDX-License-Identifier: GPL-2.0-only
//! Executes scripts: returns what each task does next and which tasks it wakes.
//!
//! Exact semantics, so that both drivers (the simulator, real threads) agree:
//!
//! - **Mutex**: an unlock hands the mutex to the longest waiter, which owns it immediately, before it runs. No other
//!   task can take it in between.
//! - **Wait** releases the mutex (with handoff), then queues for the condition. A **signal** wakes the first waiter,
//!   a **broadcast** all, in FIFO order; without a waiter both are lost. A woken task acquires the mutex when it
//!   runs, and may have to wait for it, as with glibc. **Sync** is a signal followed by a wait.
//! - **Barrier**: the last participant to arrive wakes the others in order of arrival, including spinning ones, and
//!   continues; the next arrival starts a new round.
//! - **Suspend** waits for a later resume of the task's spec; a resume without a suspended task is lost. All
//!   instances of a resumed spec wake, in FIFO order.
//! - **Post** and **await**: a posted signal stays posted; an await of it returns immediately.
//! - **Timer**: the reference advances by one period. If the new time is in the future, the task sleeps until then;
//!   otherwise it does not sleep, and the reference becomes now, unless the timer is absolute.
//! - **Interval**: like an absolute timer, but several missed expiries count as one.
//! - **Work until** a time or a post: CPU time in pieces of at most 1 ms, until a piece ends after that. So it
//!   overruns by less than one piece.
//! - **Children**: continues once at most the given number of the task's own children are alive; the exit of a child
//!   wakes the parent, if the driver registered it as a child ([`Executor::forked`]).
//! - **Take request**: see [`crate::Source`].
//! - Steps of length 0 are skipped. A task that exits with a mutex held never releases it.

use self::inheritance::Inheritance;
pub use self::requests::Completed;
use self::requests::Requests;
use crate::{BarrierId, ConditionId, CriticalSections, MutexId, Op, SignalId, Start, TaskSpec, Workload};
use ids::{CpuSet, Nanos, Policy, TaskId};

/// What a task does next.
#[derive(Clone, PartialEq, Debug)]
pub enum Demand {
    /// Work, user and system together.
    Work {
        /// Total work.
        work: Nanos,
        /// Part of the work in kernel mode.
        system: Nanos,
    },
    /// Run until the thread has used this much CPU time.
    CpuTime(Nanos),
    /// Sleep for this time from now; a timer or a device wakes the task.
    Sleep(Nanos, crate::Sleep),
    /// Sleep until another task wakes it.
    Wait,
    /// A request to a disk; ask again when it is complete.
    Io(crate::Io),
    /// Wait until the pages of this disk that the task made dirty are written; ask again then.
    Fsync(crate::DiskId),
    /// Shrink the address space of the task's process by this number of pages; ask again then.
    Unmap(u32),
    /// A call over a network; ask again when its answer has arrived.
    Call(crate::NetworkCall),
    /// A request to a device that the driver may not have; ask again immediately.
    Submit(crate::Submission),
    /// Wait until at most `most` requests of the task to this device are in progress, or, without the device, sleep.
    AwaitRequests {
        /// The device.
        device: crate::DeviceId,
        /// Number of requests that may be in progress at the end of the wait.
        most: u32,
        /// Length of the sleep.
        slept: Nanos,
    },
    /// Critical sections of a lock in shared memory, which the driver implements; ask again when they are done.
    CriticalSections(CriticalSections),
    /// Yield once; ask again when the task next runs.
    Yield,
    /// Start a task of this spec as a child; register it with [`Executor::forked`] and ask again immediately.
    Fork(u32),
    /// Change the task's own affinity, policy or nice value; ask again immediately.
    Change {
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// Change these attributes of other tasks.
    ChangeOf {
        /// The tasks, in order of ID; they may be about to exit.
        tasks: Vec<TaskId>,
        /// New affinity.
        cpus: Option<CpuSet>,
        /// New policy and nice value.
        policy: Option<(Policy, i8)>,
    },
    /// Spin until woken. The wakeup is a memory write and involves no kernel action.
    Spin,
    /// Exit.
    Exit,
}

/// A completed period of a timer or interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// The task.
    pub task: TaskId,
    /// Period length.
    pub length: Nanos,
    /// Response time: from the release to the completion of the released work.
    pub response: Nanos,
}

/// Result of [`Executor::next`].
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What the task does next.
    pub demand: Demand,
}

/// Null link between tasks.
const NO_TASK: u32 = u32::MAX;

/// FIFO queue of tasks, linked through [`Task::behind`]. A task is in one queue at a time, so waiting never
/// allocates.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    const EMPTY: Queue = Queue { first: NO_TASK, last: NO_TASK };

    fn push(&mut self, tasks: &mut [Task], task: u32) {
        tasks[task as usize].behind = NO_TASK;
        if self.first == NO_TASK {
            self.first = task;
        } else {
            tasks[self.last as usize].behind = task;
        }
        self.last = task;
    }

    fn is_empty(&self) -> bool {
        self.first == NO_TASK
    }

    /// The tasks, first to last.
    fn iter(self, tasks: &[Task]) -> impl Iterator<Item = u32> + '_ {
        let next = |task: u32| (task != NO_TASK).then_some(task);
        std::iter::successors(next(self.first), move |&task| next(tasks[task as usize].behind))
    }

    /// Removes this task, which is in the queue.
    fn remove(&mut self, tasks: &mut [Task], task: u32) {
        let rest: Vec<u32> = self.iter(tasks).filter(|&other| other != task).collect();
        *self = Queue::EMPTY;
        rest.into_iter().for_each(|other| self.push(tasks, other));
    }

    fn pop(&mut self, tasks: &[Task]) -> Option<u32> {
        let task = self.first;
        (task != NO_TASK).then(|| {
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
    /// Number of participants that have not arrived in this round.
    missing: u32,
    waiters: Queue,
}

#[derive(Clone, Copy, Debug)]
struct Signal {
    posted: bool,
    waiters: Queue,
}

/// State of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The ID is not in use yet.
    Absent,
    /// Runnable: may be asked for its next demand.
    Ready,
    /// Waits in a queue for a wakeup.
    Waiting,
    /// Waits for a condition, then for this mutex.
    WaitingWith(MutexId),
    /// Woken from a condition; acquires this mutex next.
    Taking(MutexId),
    /// Waits until at most this number of its children are alive.
    WaitingForChildren(u32),
    /// Exited.
    Gone,
}

#[derive(Debug)]
struct Task {
    spec: u32,
    /// Index of the next operation.
    position: u32,
    state: State,
    /// Next task in the queue.
    behind: u32,
    parent: u32,
    /// Number of live children.
    children: u32,
    /// Sequence number of the suspension; orders tasks of several specs.
    suspended: u64,
    /// Active loops, innermost last: index of the `Repeat` and remaining repetitions.
    loops: Vec<(u32, u64)>,
    /// Private timer references, once used.
    references: Vec<Option<Nanos>>,
}

impl Task {
    fn absent() -> Task {
        Task {
            spec: 0,
            position: 0,
            state: State::Absent,
            behind: NO_TASK,
            parent: NO_TASK,
            children: 0,
            suspended: 0,
            loops: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Next position after the `Repeat` at `at`: the loop's first operation, or the one after the loop.
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

/// What a task waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitsFor {
    /// The object, such as `mutex m` or `barrier 0, which 2 more tasks must reach`.
    pub object: String,
    /// Task that holds the mutex.
    pub holder: Option<TaskId>,
    /// Whether the object is a mutex.
    pub is_mutex: bool,
}

impl std::fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.holder {
            Some(holder) => write!(f, "{}, which task {holder} holds", self.object),
            None => f.write_str(&self.object),
        }
    }
}

/// State of a workload in one run: positions in scripts, owners and waiters of locks.
///
/// The driver calls [`Executor::next`] for a task that *runs* and has completed its previous demand. Tasks woken by it
/// are appended to `woken` in order; the driver makes them runnable, with this task as the waker. A woken task is
/// asked again only when it runs.
#[derive(Debug)]
pub struct Executor<'w> {
    workload: &'w Workload,
    /// Script of each spec. Equal scripts of adjacent specs (instances of a task) share the first one's memory,
    /// because thousands of copies would not fit in the cache.
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
    /// Completed periods not yet taken by the driver.
    periods: Vec<Period>,
    inheritance: Inheritance,
    requests: Requests,
}

impl<'w> Executor<'w> {
    /// Creates the initial state.
    ///
    /// # Panics
    /// If the workload is not valid ([`Workload::validate`]); loaders return valid ones.
    pub fn new(workload: &'w Workload) -> Executor<'w> {
        Executor::seeded(workload, 0)
    }

    /// As [`Executor::new`], with the seed of the arrivals and services of requests.
    ///
    /// # Panics
    /// As [`Executor::new`].
    pub fn seeded(workload: &'w Workload, seed: u64) -> Executor<'w> {
        if let Err(error) = workload.validate() {
            panic!("the executor needs a valid workload: {error}");
        }
        let barrier = |&users: &u32| Barrier { missing: users, waiters: Queue::EMPTY };
        let mut scripts: Vec<&[Op]> = Vec::with_capacity(workload.tasks.len());
        for task in &workload.tasks {
            let shared = scripts.last().copied().filter(|&last| last == task.script);
            scripts.push(shared.unwrap_or(&task.script));
        }
        Executor {
            workload,
            scripts,
            tasks: Vec::new(),
            mutexes: vec![Mutex { owner: NO_TASK, waiters: Queue::EMPTY }; workload.mutexes.len()],
            conditions: vec![Queue::EMPTY; workload.conditions as usize],
            barriers: workload.barriers.iter().map(barrier).collect(),
            signals: vec![Signal { posted: false, waiters: Queue::EMPTY }; workload.signals as usize],
            suspended: vec![Queue::EMPTY; workload.tasks.len()],
            suspensions: 0,
            references: vec![None; workload.references as usize],
            periods: Vec::new(),
            inheritance: Inheritance::new(workload),
            requests: Requests::new(workload, seed),
        }
    }

    /// Removes and returns the periods completed since the last call.
    pub fn take_periods(&mut self) -> impl Iterator<Item = Period> + '_ {
        self.periods.drain(..)
    }

    /// The spec with this index.
    pub fn spec(&self, index: u32) -> &'w TaskSpec {
        &self.workload.tasks[index as usize]
    }

    /// Returns whether tasks of this spec belong to an endless part beside finite ones, for which the run does not
    /// wait.
    pub fn is_beside(&self, index: u32) -> bool {
        self.workload.is_beside(index)
    }

    /// Returns whether a task of this spec forked by `parent` is a thread of the parent's process.
    pub fn is_thread(&self, index: u32, parent: TaskId) -> bool {
        let process = |index| self.spec(index).who.tgid;
        process(index).is_some() && process(index) == process(self.spec_of(parent))
    }

    /// Returns whether a task of this spec, forked by `parent` or started by itself, begins a session: its session is
    /// known and differs from its parent's.
    pub fn begins_session(&self, index: u32, parent: Option<TaskId>) -> bool {
        let session = |index| self.spec(index).who.session;
        session(index).is_some() && session(index) != parent.and_then(|parent| session(self.spec_of(parent)))
    }

    /// Spec index of `task`.
    pub fn spec_of(&self, task: TaskId) -> u32 {
        self.tasks[task.index()].spec
    }

    /// Registers that `task` starts to execute spec `index`; several tasks may execute one spec. Task IDs should be
    /// nearly dense, since memory is allocated up to the largest, and are never reused. `now` is the run's time and
    /// not before the spec's start.
    ///
    /// # Panics
    /// If the ID has been used before.
    pub fn started(&mut self, task: TaskId, index: u32, now: Nanos) {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Task::absent);
        }
        assert!(
            !matches!(self.spec(index).start, Start::At(earliest) if now < earliest),
            "task {task} starts at {now}, before its start time"
        );
        let state = &mut self.tasks[task.index()];
        assert!(state.state == State::Absent, "task {task} was started before");
        state.state = State::Ready;
        state.spec = index;
    }

    /// As [`Executor::started`], for a task forked by `parent`.
    ///
    /// # Panics
    /// If the ID has been used before.
    pub fn forked(&mut self, task: TaskId, index: u32, parent: TaskId, now: Nanos) {
        self.started(task, index, now);
        self.tasks[task.index()].parent = parent.0;
        self.tasks[parent.index()].children += 1;
    }

    /// Returns what `task` does next.
    ///
    /// # Panics
    /// If the task was never started, waits, or has exited.
    pub fn next(&mut self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>) -> Outcome {
        Outcome { demand: self.demand(task.index(), now, woken) }
    }

    /// Executes only the next operation of `task`. Returns `None` if the operation is complete and the driver should
    /// ask again; a repetition is an operation of its own. For real threads, which must carry out the effects of each
    /// operation before the next one begins.
    ///
    /// # Panics
    /// If the task was never started, waits, or has exited.
    pub fn advance(&mut self, task: TaskId, now: Nanos, woken: &mut Vec<TaskId>) -> Option<Demand> {
        let task = task.index();
        self.resume_waiter(task).or_else(|| self.operate(task, now, woken))
    }

    /// The operation that [`Executor::advance`] would execute, with its index in the script. `None` if the task next
    /// reacquires a mutex after a wait, or exits.
    pub fn upcoming(&self, task: TaskId) -> Option<(u32, &'w Op)> {
        let task = &self.tasks[task.index()];
        let script: &'w [Op] = self.scripts[task.spec as usize];
        let op = script.get(task.position as usize).filter(|_| task.state == State::Ready);
        op.map(|op| (task.position, op))
    }

    /// Returns whether the next operation of `task` is a wakeup (signal, broadcast, resume, post) without a waiter. A
    /// `sync` is not included: of two alternating tasks, the first never finds a waiter.
    pub fn has_no_waiter_yet(&self, task: TaskId) -> bool {
        match self.upcoming(task).map(|(_, op)| op) {
            Some(Op::Signal(condition) | Op::Broadcast(condition)) => self.conditions[condition.0 as usize].is_empty(),
            Some(Op::Resume(specs)) => specs.iter().all(|&spec| self.suspended[spec as usize].is_empty()),
            Some(Op::Post(signal)) => self.signals[signal.0 as usize].waiters.is_empty(),
            _ => false,
        }
    }

    /// What `task` waits for; `None` if it does not wait.
    pub fn waits_for(&self, task: TaskId) -> Option<WaitsFor> {
        let state = &self.tasks[task.index()];
        match state.state {
            State::Absent | State::Ready | State::Taking(_) | State::Gone => return None,
            State::WaitingWith(_) | State::Waiting | State::WaitingForChildren(_) => {}
        }
        let op = &self.scripts[state.spec as usize][state.position as usize - 1];
        let mutex = match op {
            Op::Lock(mutex) => Some(*mutex),
            // The condition is over; the task waits for the mutex.
            Op::Wait(_, mutex) | Op::Sync(_, mutex) if state.state == State::Waiting => Some(*mutex),
            _ => None,
        };
        if let Some(mutex) = mutex {
            let holder = self.mutexes[mutex.0 as usize].owner;
            let holder = (holder != NO_TASK).then_some(TaskId(holder));
            return Some(WaitsFor { object: self.workload.mutex_name(mutex), holder, is_mutex: true });
        }
        let object = match op {
            Op::Wait(condition, _) | Op::Sync(condition, _) => format!("condition {}", condition.0),
            Op::Barrier(barrier) | Op::SpinBarrier(barrier) => {
                let missing = self.barriers[barrier.0 as usize].missing;
                format!("barrier {}, which {missing} more tasks must reach", barrier.0)
            }
            Op::Suspend => "a resume".into(),
            Op::Await(signal) => format!("signal {}", signal.0),
            Op::Children(most) => format!("its children: {} are alive, at most {most} may be", state.children),
            other => unreachable!("no task waits in {other:?}"),
        };
        Some(WaitsFor { object, holder: None, is_mutex: false })
    }

    /// Registers that `task`, which was started and never asked, is not created because the kernel refused to fork.
    /// It counts as exited.
    ///
    /// # Panics
    /// If the task was never started or has been asked.
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

    /// Acquires the mutex of a task woken from a condition; returns a demand if the task must wait for it.
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

    /// Executes the next operation of `task`; `None` if it is complete and the task continues.
    fn operate(&mut self, task: usize, now: Nanos, woken: &mut Vec<TaskId>) -> Option<Demand> {
        let script = self.scripts[self.tasks[task].spec as usize];
        let at = self.tasks[task].position;
        let Some(op) = script.get(at as usize) else {
            self.complete_request(task, now);
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

    /// Executes an operation other than a repetition; `None` if it is complete and the task continues.
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
            &Op::WorkUntil { reference, after } => self.work_until(task, reference, after, now),
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
            Op::Broadcast(condition) => self.broadcast(*condition, woken),
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
            Op::Io(_) | Op::Fsync(_) | Op::Unmap(_) | Op::Call(_) | Op::Submit(_) | Op::AwaitRequests { .. } => {
                demand_of_hardware(op)
            }
            Op::TakeRequest(source) => self.take_request(task, *source, now),
            Op::Serve(source) => self.serve(task, *source),
            Op::CriticalSections(critical_sections) => Some(Demand::CriticalSections(**critical_sections)),
            Op::Yield => Some(Demand::Yield),
            Op::Fork(spec) => Some(Demand::Fork(*spec)),
            Op::Children(most) => self.wait_for_children(task, *most),
            Op::Change { cpus, policy } => {
                let policy = self.choose_policy(task as u32, policy.as_deref().copied());
                Some(Demand::Change { cpus: cpus.as_deref().cloned(), policy })
            }
            Op::ChangeOf { spec, cpus, policy } => {
                let tasks = self.living(*spec);
                let (cpus, policy) = (cpus.as_deref().cloned(), policy.as_deref().copied());
                Some(Demand::ChangeOf { tasks, cpus, policy })
            }
            Op::Repeat { .. } => unreachable!("the caller repeats"),
        }
    }

    /// The live tasks of a spec.
    fn living(&self, spec: u32) -> Vec<TaskId> {
        let lives = |task: &Task| task.spec == spec && !matches!(task.state, State::Absent | State::Gone);
        self.tasks.iter().zip(0..).filter(|(task, _)| lives(task)).map(|(_, id)| TaskId(id)).collect()
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

    /// Acquires the mutex; returns false if the task must wait for it.
    fn lock(&mut self, task: usize, mutex: MutexId) -> bool {
        let mutex = &mut self.mutexes[mutex.0 as usize];
        if mutex.owner == NO_TASK {
            mutex.owner = task as u32;
            return true;
        }
        mutex.waiters.push(&mut self.tasks, task as u32);
        self.block(task);
        self.settle_inheritance();
        false
    }

    fn unlock(&mut self, task: usize, mutex: MutexId, woken: &mut Vec<TaskId>) {
        let index = mutex.0 as usize;
        assert!(self.mutexes[index].owner == task as u32, "validated scripts unlock only what they hold");
        let next = match self.workload.mutexes[index].inherits_priority {
            false => self.mutexes[index].waiters.pop(&self.tasks),
            true => {
                let waiters = self.mutexes[index].waiters;
                // The first of the most important ones: `max_by_key` returns the last.
                let best = waiters.iter(&self.tasks).enumerate();
                let best = best.max_by_key(|&(place, task)| (self.precedence(task), std::cmp::Reverse(place)));
                best.map(|(_, task)| task).inspect(|&task| self.mutexes[index].waiters.remove(&mut self.tasks, task))
            }
        };
        self.mutexes[index].owner = next.unwrap_or(NO_TASK);
        if let Some(next) = next {
            self.wake(next, woken);
        }
        self.settle_inheritance();
    }

    fn wait(&mut self, task: usize, condition: ConditionId, mutex: MutexId, woken: &mut Vec<TaskId>) -> Demand {
        self.unlock(task, mutex, woken);
        self.conditions[condition.0 as usize].push(&mut self.tasks, task as u32);
        self.tasks[task].state = State::WaitingWith(mutex);
        Demand::Wait
    }

    /// Wakes the first waiter; returns whether there was one.
    fn signal(&mut self, condition: ConditionId, woken: &mut Vec<TaskId>) -> bool {
        let waiter = self.conditions[condition.0 as usize].pop(&self.tasks);
        if let Some(waiter) = waiter {
            self.wake(waiter, woken);
        }
        waiter.is_some()
    }

    /// Wakes all waiters.
    fn broadcast(&mut self, condition: ConditionId, woken: &mut Vec<TaskId>) -> Option<Demand> {
        while self.signal(condition, woken) {}
        None
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
        if number == NO_TASK {
            return;
        }
        let parent = &mut self.tasks[number as usize];
        parent.children -= 1;
        if matches!(parent.state, State::WaitingForChildren(most) if parent.children <= most) {
            self.wake(number, woken);
        }
    }
}

/// Demand of an operation that a device or the memory management completes.
fn demand_of_hardware(op: &Op) -> Option<Demand> {
    match op {
        Op::Io(io) => Some(Demand::Io(**io)),
        Op::Fsync(disk) => Some(Demand::Fsync(*disk)),
        Op::Unmap(pages) => Some(Demand::Unmap(*pages)),
        Op::Call(call) => Some(Demand::Call(**call)),
        Op::Submit(submission) => Some(Demand::Submit(**submission)),
        &Op::AwaitRequests { device, most, slept } => Some(Demand::AwaitRequests { device, most, slept }),
        _ => None,
    }
}

mod inheritance;
mod requests;
mod time;

#[cfg(test)]
mod tests;
