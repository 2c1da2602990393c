// SPDX-License-Identifier: GPL-2.0-only
//! Operations that wait: a context for each CPU.
//!
//! By default an operation runs to its end at one instant, and whoever drives the kernel charges afterwards what it cost.
//! [`Kernel::begin`] starts one that stops at each lock, and where [`Stops`] says; [`Kernel::resume`] lets it go on, at a
//! later time, and other CPUs do what they like meanwhile. Both forms come from one source: see `two_forms`.
//!
//! 1. An operation holds the lock of one runqueue at a time, as in a kernel. A `bpf_spin_lock` and the lock of a queue are
//!    taken within that, and nobody who holds one of them waits for another lock. So some operation can always go on.
//! 2. Who drives the kernel decides when an operation goes on, once [`Kernel::may_resume`] says that it can.
//! 3. A task that is woken is nobody else's to wake (TASK_WAKING). One that is on its way to sleep when it is woken stays
//!    awake; one that still is on its CPU is woken when it has left it (`p->on_cpu`).
//! 4. A verdict about a task whose `enqueue` has not come to its end waits for that (SCX_OPSS_QUEUEING).
//! 5. All other functions of the kernel are for when no operation is in progress. An error disables the scheduler when the
//!    last one has come to its end.

use super::{Kernel, Stage};
use crate::api::{Config, Leave, Lock, LockStep, Switch, TimerKey};
use crate::core::dsq::QueueRef;
use crate::core::task::RunState;
use crate::core::{CpuContext, lock_of};
use crate::kfuncs;
use bpf_machine::{Execution, Memory, Next, PausePoints};
use event_log::Waker;
use ids::{CpuId, TaskId, Topology};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// `bpf_spin_lock`.
const SPIN_LOCK: u32 = 93;
/// `bpf_spin_unlock`.
const SPIN_UNLOCK: u32 = 94;

/// Where operations stop besides locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stops {
    /// Before each kfunc and helper.
    pub calls: bool,
    /// Before each atomic instruction.
    pub atomics: bool,
}

/// What a CPU can do that may have to wait: see the functions of [`Kernel`] with these names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Wakes a sleeping task.
    Wake(TaskId, Waker),
    /// Wakes a new one.
    WakeNew(TaskId),
    /// Picks the next task.
    Schedule(Leave),
    /// The timer interrupt.
    Tick,
    /// A timer has fired.
    Timer(TimerKey),
}

/// Where an operation stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Before it takes a lock, or before it gives one back.
    Lock(LockStep),
    /// For this CPU to switch away from this task (`p->on_cpu`).
    Switch(CpuId, TaskId),
    /// Before a call of this kfunc or helper.
    Call(String),
    /// Before an atomic instruction.
    Atomic,
}

/// How far an operation came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It waits.
    Waits(Wait),
    /// It came to its end; what [`Operation::Schedule`] decided.
    Done(Option<Switch>),
}

type Coroutine = Pin<Box<dyn Future<Output = Option<Switch>>>>;

/// Where a coroutine and who drives it hand each other the kernel.
#[derive(Default)]
struct Seat {
    kernel: Cell<Option<Box<Kernel>>>,
    wait: Cell<Option<Wait>>,
}

/// An operation that waits.
struct Waiting {
    coroutine: Coroutine,
    seat: Rc<Seat>,
    wait: Wait,
}

/// The operations in progress, and what they need.
#[derive(Default)]
pub(super) struct Contexts {
    stops: Stops,
    /// By CPU, up to the last one that ever had one.
    waiting: Vec<Option<Waiting>>,
    /// Who has which lock, of those at which operations stop.
    holders: BTreeMap<Lock, CpuId>,
    /// That of the operation that goes on now.
    seat: Option<Rc<Seat>>,
    /// Kernels without anything: one is where the kernel is not. They change places with it by their boxes.
    #[allow(clippy::vec_box)]
    hollows: Vec<Box<Kernel>>,
    /// Executions that no operation uses.
    #[allow(clippy::vec_box)]
    executions: Vec<Box<Execution>>,
}

impl Contexts {
    fn of(&self, cpu: CpuId) -> Option<&Waiting> {
        self.waiting.get(cpu.index())?.as_ref()
    }

    /// They belong to an object that is gone.
    pub fn forget_executions(&mut self) {
        self.executions.clear();
    }

    fn hollow(&mut self) -> Box<Kernel> {
        self.hollows.pop().unwrap_or_else(|| {
            let topology = Topology::flat(1);
            let mut kernel =
                Kernel::new(Config { topology, hz: 1000, version: (7, 2), budget: 0, seed: 0, newidle_ratio: None });
            kernel.machine.memory = Memory::default();
            Box::new(kernel)
        })
    }
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.iter().enumerate().filter_map(|(cpu, waiting)| Some((cpu, waiting.as_ref()?)));
        f.debug_map().entries(waiting.map(|(cpu, waiting)| (cpu, &waiting.wait))).finish()
    }
}

impl Kernel {
    /// Operations that are begun from now on stop there too.
    pub fn stop_at(&mut self, stops: Stops) {
        self.contexts.stops = stops;
    }

    /// Begins an operation on `cpu`, which runs up to its first stop. [`Operation::Wake`] is never a synchronous one.
    ///
    /// # Panics
    /// If that CPU has one in progress.
    pub fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress {
        assert!(!self.is_waiting(cpu), "CPU {cpu} does one thing at a time");
        let seat = Rc::new(Seat::default());
        let inside = Rc::clone(&seat);
        let coroutine = Box::pin(async move {
            let mut kernel = inside.kernel.take().expect("the kernel was handed over");
            kernel.core.context = CpuContext { waits: true, ..CpuContext::default() };
            let switch = kernel.operate(cpu, operation).await;
            kernel.core.context.waits = false;
            inside.kernel.set(Some(kernel));
            switch
        });
        self.go_on(cpu, coroutine, seat)
    }

    /// The operation on `cpu` goes on: it has what it waited for.
    ///
    /// # Panics
    /// If there is none, or it may not: see [`Kernel::may_resume`].
    pub fn resume(&mut self, cpu: CpuId) -> Progress {
        assert!(self.may_resume(cpu), "CPU {cpu} waits for another one");
        let Waiting { coroutine, seat, .. } = self.contexts.waiting[cpu.index()].take().expect("it waits");
        self.go_on(cpu, coroutine, seat)
    }

    /// Whether an operation is in progress on `cpu`.
    pub fn is_waiting(&self, cpu: CpuId) -> bool {
        self.contexts.of(cpu).is_some()
    }

    /// CPUs with an operation in progress.
    pub fn waiting_cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        let all = self.contexts.waiting.iter().zip(0..);
        all.filter(|(waiting, _)| waiting.is_some()).map(|(_, cpu)| CpuId(cpu))
    }

    /// Whether the operation on `cpu` can go on: false if there is none, if it takes a lock that another one has, or if it
    /// waits for a switch that was not done.
    pub fn may_resume(&self, cpu: CpuId) -> bool {
        self.contexts.of(cpu).is_some_and(|waiting| match &waiting.wait {
            Wait::Lock(step) => !step.taken || !self.contexts.holders.contains_key(&step.lock),
            Wait::Switch(cpu, task) => self.current(*cpu) != *task,
            Wait::Call(_) | Wait::Atomic => true,
        })
    }

    /// What the operation on `cpu` waits for, if one is in progress there.
    pub fn waits_for(&self, cpu: CpuId) -> Option<&Wait> {
        self.contexts.of(cpu).map(|waiting| &waiting.wait)
    }

    /// Whether the scheduler is to be disabled as soon as no operation is in progress: better begin no other one.
    pub fn must_be_quiet(&self) -> bool {
        self.core.exit.is_some() && self.stage == Stage::Enabled
    }

    /// Whether a program that waits has a lock of the scheduler: no other program may run at one instant then.
    pub fn holds_scheduler_lock(&self) -> bool {
        self.contexts.holders.keys().any(|lock| matches!(lock, Lock::Bpf(_)))
    }

    /// All operations come to their end now.
    pub fn finish_operations(&mut self) {
        loop {
            let ready = self.waiting_cpus().find(|&cpu| self.may_resume(cpu));
            let Some(cpu) = ready else { break };
            self.resume(cpu);
        }
        assert!(self.is_alone(), "operations that wait for each other's locks always go on");
    }

    /// Whether no other operation is in progress.
    pub(super) fn is_alone(&self) -> bool {
        self.contexts.waiting.iter().all(Option::is_none)
    }

    fn go_on(&mut self, cpu: CpuId, mut coroutine: Coroutine, seat: Rc<Seat>) -> Progress {
        let mut kernel = self.contexts.hollow();
        std::mem::swap(self, &mut kernel);
        let Stops { calls, atomics } = kernel.contexts.stops;
        kernel.execution.pause = PausePoints { kfuncs: true, helpers: calls, atomics, spin_locks: true };
        kernel.contexts.seat = Some(Rc::clone(&seat));
        seat.kernel.set(Some(kernel));
        let polled = coroutine.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        let mut hollow = seat.kernel.take().expect("the kernel is handed back");
        std::mem::swap(self, &mut hollow);
        self.contexts.hollows.push(hollow);
        self.execution.pause = PausePoints::default();
        match polled {
            Poll::Ready(switch) => Progress::Done(switch),
            Poll::Pending => {
                let wait = seat.wait.take().expect("it says what it waits for");
                let waiting = &mut self.contexts.waiting;
                if waiting.len() <= cpu.index() {
                    waiting.resize_with(cpu.index() + 1, || None);
                }
                waiting[cpu.index()] = Some(Waiting { coroutine, seat, wait: wait.clone() });
                Progress::Waits(wait)
            }
        }
    }

    async fn operate(&mut self, cpu: CpuId, operation: Operation) -> Option<Switch> {
        match operation {
            Operation::Wake(task, waker) => self.wake_waiting(cpu, task, waker, false).await,
            Operation::WakeNew(task) => self.wake_new_waiting(cpu, task).await,
            Operation::Schedule(leave) => return Some(self.schedule_waiting(cpu, leave).await),
            Operation::Tick => self.tick_waiting(cpu).await,
            Operation::Timer(timer) => self.timer_waiting(cpu, timer).await,
        }
        None
    }

    /// The operation in progress stops here: the kernel goes to who drives it, and what is its own stays with it.
    async fn stop(&mut self, wait: Wait) {
        let spare = self.contexts.executions.pop().unwrap_or_else(|| Box::new(self.machine.execution()));
        let execution = std::mem::replace(&mut self.execution, spare);
        self.execution.budget = execution.budget;
        let context = std::mem::take(&mut self.core.context);
        let seat = self.contexts.seat.take().expect("an operation is in progress");
        let mut kernel = self.contexts.hollow();
        std::mem::swap(self, &mut kernel);
        seat.wait.set(Some(wait));
        seat.kernel.set(Some(kernel));
        let mut stopped = false;
        poll_fn(|_| if std::mem::replace(&mut stopped, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        let mut hollow = seat.kernel.take().expect("the kernel was handed over");
        std::mem::swap(self, &mut hollow);
        self.contexts.hollows.push(hollow);
        self.core.context = context;
        let spare = std::mem::replace(&mut self.execution, execution);
        self.contexts.executions.push(spare);
    }

    async fn take(&mut self, lock: Lock) {
        self.stop(Wait::Lock(self.core.lock_step(lock, true))).await;
        let other = self.contexts.holders.insert(lock, self.core.context.cpu);
        assert_eq!(other, None, "{lock:?} is one CPU's at a time");
    }

    async fn give(&mut self, lock: Lock) {
        self.stop(Wait::Lock(self.core.lock_step(lock, false))).await;
        let holder = self.contexts.holders.remove(&lock);
        assert_eq!(holder, Some(self.core.context.cpu), "{lock:?} is given back by who has it");
    }
}

/// What the two forms do differently: at one instant, and waiting.
impl Kernel {
    /// The operation begins with the lock of a runqueue.
    pub(super) fn begin_locked(&mut self, cpu: CpuId, operation: &'static str) {
        self.core.begin_locked(cpu, operation);
    }

    pub(super) async fn begin_locked_waiting(&mut self, cpu: CpuId, operation: &'static str) {
        self.core.context.locks.operation = operation;
        self.go_to_waiting(cpu).await;
    }

    /// Gives back the lock of the runqueue that the operation holds.
    pub(super) fn unlock(&mut self) {
        self.core.unlock_runqueue();
    }

    pub(super) async fn unlock_waiting(&mut self) {
        if let Some(cpu) = self.core.context.locks.runqueue {
            self.give(Lock::Runqueue(cpu)).await;
            self.core.context.locks.runqueue = None;
        }
        self.visit_others_waiting().await;
    }

    /// What follows is done with this runqueue locked, instead of the one that is.
    pub(super) fn go_to(&mut self, _: CpuId) {}

    pub(super) async fn go_to_waiting(&mut self, cpu: CpuId) {
        let held = self.core.context.locks.runqueue;
        if held == Some(cpu) {
            return;
        }
        if let Some(held) = held {
            self.give(Lock::Runqueue(held)).await;
            self.core.context.locks.runqueue = None;
        }
        self.take(Lock::Runqueue(cpu)).await;
        self.core.context.locks.runqueue = Some(cpu);
    }

    /// That is done, and no runqueue is locked any more.
    pub(super) fn come_back(&mut self) {}

    pub(super) async fn come_back_waiting(&mut self) {
        self.unlock_waiting().await;
    }

    /// Tasks came from other runqueues, or went there: each was locked for that.
    #[inline]
    pub(super) fn visit_others(&mut self) {}

    pub(super) async fn visit_others_waiting(&mut self) {
        if self.core.context.visits.is_empty() {
            return;
        }
        let before = self.core.context.locks.runqueue;
        for cpu in std::mem::take(&mut self.core.context.visits) {
            self.go_to_waiting(cpu).await;
        }
        if let Some(held) = self.core.context.locks.runqueue
            && before != Some(held)
        {
            self.give(Lock::Runqueue(held)).await;
            self.core.context.locks.runqueue = None;
        }
        if let Some(before) = before {
            self.go_to_waiting(before).await;
        }
    }

    /// Takes the lock of a queue into which `task` is to be put; the queue, or another if it is gone by then.
    #[inline]
    pub(super) fn lock_queue(&mut self, _: TaskId, queue: QueueRef) -> QueueRef {
        queue
    }

    pub(super) async fn lock_queue_waiting(&mut self, task: TaskId, queue: QueueRef) -> QueueRef {
        if let QueueRef::Local(_) = queue {
            return queue;
        }
        let lock = lock_of(queue);
        self.take(lock).await;
        self.core.context.locks.queue = Some(lock);
        match queue {
            QueueRef::User(dsq) if !self.core.dsqs.contains_key(&dsq) => {
                self.unlock_queue_waiting().await;
                self.core.resolve(self.core.task_cpu(task), dsq, task)
            }
            queue => queue,
        }
    }

    /// Gives it back.
    #[inline]
    pub(super) fn unlock_queue(&mut self) {}

    pub(super) async fn unlock_queue_waiting(&mut self) {
        if let Some(lock) = self.core.context.locks.queue {
            self.give(lock).await;
            self.core.context.locks.queue = None;
        }
    }

    /// Whether a task sleeps, and is for this operation to wake.
    pub(super) fn claim(&mut self, task: TaskId) -> bool {
        self.core.task(task).run_state == RunState::Sleeping
    }

    pub(super) async fn claim_waiting(&mut self, task: TaskId) -> bool {
        let cpu = self.core.task_cpu(task);
        let entry = self.core.task_mut(task);
        entry.blocks = false;
        if entry.run_state != RunState::Sleeping {
            return false;
        }
        entry.run_state = RunState::Waking;
        if self.core.current(cpu) == task {
            self.stop(Wait::Switch(cpu, task)).await;
        }
        true
    }

    /// The lock with which `schedule` begins. How the current task leaves then: not at all if it was woken before it slept.
    pub(super) fn begin_switch(&mut self, cpu: CpuId, leave: Leave) -> Leave {
        self.core.begin_locked(cpu, "schedule");
        leave
    }

    pub(super) async fn begin_switch_waiting(&mut self, cpu: CpuId, leave: Leave) -> Leave {
        let Leave::Block(_) = leave else {
            self.begin_locked_waiting(cpu, "schedule").await;
            return leave;
        };
        let task = self.core.current(cpu);
        self.core.task_mut(task).blocks = true;
        self.begin_locked_waiting(cpu, "schedule").await;
        if std::mem::take(&mut self.core.task_mut(task).blocks) { leave } else { Leave::Preempt }
    }

    /// A task that was taken off its CPU waits elsewhere: at once, or when its CPU has switched, since others could run it
    /// before. (A kernel has the migration helper run in between.)
    pub(super) fn put_down_evicted(&mut self, task: TaskId) {
        self.put_down(task);
    }

    pub(super) async fn put_down_evicted_waiting(&mut self, task: TaskId) {
        self.core.context.evicted = Some(task);
    }

    #[inline]
    pub(super) fn put_down_late(&mut self) {}

    pub(super) async fn put_down_late_waiting(&mut self) {
        if let Some(task) = self.core.context.evicted.take() {
            self.go_to_waiting(self.core.task_cpu(task)).await;
            self.put_down_waiting(task).await;
            self.unlock_waiting().await;
        }
    }

    /// `cpu` has picked and not yet switched: whoever comes to its local queue now is not in the pick.
    #[inline]
    pub(super) fn amid_switch(&mut self, _: CpuId) {}

    pub(super) async fn amid_switch_waiting(&mut self, cpu: CpuId) {
        self.core.cpus[cpu.index()].switching = true;
    }

    /// Waits until all `enqueue` calls have come to their end that `dispatch` answers.
    #[inline]
    pub(super) fn await_decisions(&mut self) {}

    pub(super) async fn await_decisions_waiting(&mut self) {
        let here = self.core.context.locks.runqueue;
        while let Some(cpu) = self.core.undecided() {
            self.go_to_waiting(cpu).await;
        }
        if let Some(here) = here {
            self.go_to_waiting(here).await;
        }
    }

    /// The program in progress stands at a stop.
    pub(super) fn stop_in_program(&mut self) {
        unreachable!("programs that run to their end have no pause points");
    }

    pub(super) async fn stop_in_program_waiting(&mut self) {
        self.core.count_executed(self.execution.executed);
        self.core.context.locks.in_flight = self.execution.executed;
        // It stands behind a kfunc that took a task from a queue.
        self.unlock_queue_waiting().await;
        let Stops { calls, atomics } = self.contexts.stops;
        match self.machine.next(&self.execution) {
            Next::Helper(SPIN_LOCK, [addr, ..]) => self.take(Lock::Bpf(addr)).await,
            Next::Helper(SPIN_UNLOCK, [addr, ..]) => self.give(Lock::Bpf(addr)).await,
            Next::Helper(helper, _) if calls => self.stop(Wait::Call(kfuncs::helper_name(helper))).await,
            Next::Kfunc(kfunc, args) => {
                if calls {
                    self.stop(Wait::Call(kfuncs::name(kfunc).to_owned())).await;
                }
                if kfuncs::takes_from_queue(kfunc) {
                    self.lock_for_taking(ids::DsqId(args[0])).await;
                }
            }
            Next::Atomic if atomics => self.stop(Wait::Atomic).await,
            _ => {}
        }
    }

    /// A kfunc is about to take a task from this queue. What waits in the dispatch buffer goes to its queues before.
    async fn lock_for_taking(&mut self, dsq: ids::DsqId) {
        self.await_decisions_waiting().await;
        self.core.flush_buffer(&mut self.machine.memory);
        self.visit_others_waiting().await;
        // `consume_dispatch_q` looks whether there is anybody before it takes the lock.
        if self.core.dsqs.get(&dsq).is_some_and(|queue| !queue.is_empty()) {
            self.take(Lock::Dsq(dsq)).await;
            self.core.context.locks.queue = Some(Lock::Dsq(dsq));
            self.execution.pause_behind = true;
        }
    }
}
