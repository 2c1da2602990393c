// SPDX-License-Identifier: GPL-2.0-only
//! Kernel operations that are interleaved at lock waits (`--kernel 7.2+waiting`), at most one in progress per CPU.
//!
//! By default an operation runs to completion at one instant (the instant form), and the driver charges its cost
//! afterwards. [`Kernel::begin`] starts an operation that stops at each lock, and where [`Stops`] says;
//! [`Kernel::resume`] continues it at a later time, and operations of other CPUs can run in between. Both forms come
//! from one source: see `two_forms`.
//!
//! 1. An operation holds one runqueue lock at a time, as in a kernel. A `bpf_spin_lock` and a queue lock nest inside
//!    it, and an operation that holds one of them waits for no other lock. Some operation can therefore always
//!    continue.
//! 2. The driver decides when an operation continues, once [`Kernel::may_resume`] returns true.
//! 3. While a wakeup of a task is in progress, other wakeups of it have no effect (TASK_WAKING). A task that is about
//!    to block when it is woken stays runnable; a blocked task that is still on its CPU is woken once the CPU has
//!    switched (`p->on_cpu`).
//! 4. A verdict about a task whose `enqueue` is in progress waits for the end of that call (SCX_OPSS_QUEUEING).
//! 5. All other methods of the kernel may be called only while no operation is in progress. An error disables the
//!    scheduler when the last operation finishes.

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

/// Number of the helper `bpf_spin_lock`.
const SPIN_LOCK: u32 = 93;
/// Number of the helper `bpf_spin_unlock`.
const SPIN_UNLOCK: u32 = 94;

/// Points at which an operation stops in addition to lock acquisitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stops {
    /// Whether operations stop before each call of a kfunc or helper.
    pub calls: bool,
    /// Whether operations stop before each atomic instruction.
    pub atomics: bool,
}

/// An operation that may have to wait: see the methods of [`Kernel`] with these names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Wakes a sleeping task.
    Wake(TaskId, Waker),
    /// Wakes a new task for the first time.
    WakeNew(TaskId),
    /// Picks the next task.
    Schedule(Leave),
    /// The tick.
    Tick,
    /// A timer has fired.
    Timer(TimerKey),
}

/// Point where an operation has stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Before it acquires or releases a lock.
    Lock(LockStep),
    /// Until this CPU has switched away from this task (`p->on_cpu`).
    Switch(CpuId, TaskId),
    /// Before a call of this kfunc or helper.
    Call(String),
    /// Before an atomic instruction.
    Atomic,
}

/// Progress of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The operation has stopped.
    Waits(Wait),
    /// The operation has finished, with the result of [`Operation::Schedule`].
    Done(Option<Switch>),
}

type Coroutine = Pin<Box<dyn Future<Output = Option<Switch>>>>;

/// Slot through which a coroutine and the driver pass the kernel to each other.
#[derive(Default)]
struct KernelSlot {
    kernel: Cell<Option<Box<Kernel>>>,
    wait: Cell<Option<Wait>>,
}

/// An operation that has stopped.
struct Waiting {
    coroutine: Coroutine,
    slot: Rc<KernelSlot>,
    wait: Wait,
}

/// The operations in progress, and their shared state.
#[derive(Default)]
pub(super) struct Contexts {
    stops: Stops,
    /// Stopped operations by CPU; as long as the highest CPU that ever had one.
    waiting: Vec<Option<Waiting>>,
    /// CPU that holds each lock at which operations stop.
    holders: BTreeMap<Lock, CpuId>,
    /// Slot of the operation that runs now.
    slot: Option<Rc<KernelSlot>>,
    /// Empty kernels, each a placeholder while the real kernel is elsewhere. Only the boxes are swapped.
    #[allow(clippy::vec_box)]
    placeholders: Vec<Box<Kernel>>,
    /// Spare executions.
    #[allow(clippy::vec_box)]
    executions: Vec<Box<Execution>>,
}

impl Contexts {
    fn of(&self, cpu: CpuId) -> Option<&Waiting> {
        self.waiting.get(cpu.index())?.as_ref()
    }

    /// Drops the spare executions, which belong to an object that was unloaded.
    pub fn forget_executions(&mut self) {
        self.executions.clear();
    }

    fn placeholder(&mut self) -> Box<Kernel> {
        self.placeholders.pop().unwrap_or_else(|| {
            let topology = Topology::flat(1);
            let mut kernel = Kernel::new(Config {
                topology,
                hz: 1000,
                version: (7, 2),
                budget: 0,
                seed: 0,
                newidle_ratio: None,
                autogroup: false,
                types: None,
            });
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
    /// Adds these points to those at which operations stop, for operations begun from now on.
    pub fn stop_at(&mut self, stops: Stops) {
        self.contexts.stops = stops;
    }

    /// Begins an operation on `cpu`, which runs up to its first stop. [`Operation::Wake`] is never synchronous.
    ///
    /// # Panics
    /// If an operation is in progress on that CPU.
    pub fn begin(&mut self, cpu: CpuId, operation: Operation) -> Progress {
        assert!(!self.is_waiting(cpu), "an operation is in progress on CPU {cpu}");
        let slot = Rc::new(KernelSlot::default());
        let inside = Rc::clone(&slot);
        let coroutine = Box::pin(async move {
            let mut kernel = inside.kernel.take().expect("the slot holds the kernel");
            kernel.core.context = CpuContext { waits: true, ..CpuContext::default() };
            let switch = kernel.operate(cpu, operation).await;
            kernel.core.context.waits = false;
            inside.kernel.set(Some(kernel));
            switch
        });
        self.advance(cpu, coroutine, slot)
    }

    /// Continues the operation on `cpu`.
    ///
    /// # Panics
    /// Unless [`Kernel::may_resume`].
    pub fn resume(&mut self, cpu: CpuId) -> Progress {
        assert!(self.may_resume(cpu), "the operation on CPU {cpu} cannot continue");
        let Waiting { coroutine, slot, .. } = self.contexts.waiting[cpu.index()].take().expect("it waits");
        self.advance(cpu, coroutine, slot)
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

    /// Whether the operation on `cpu` can continue: false if there is none, if it needs a lock that another CPU
    /// holds, or if it waits for a switch that has not happened.
    pub fn may_resume(&self, cpu: CpuId) -> bool {
        self.contexts.of(cpu).is_some_and(|waiting| match &waiting.wait {
            Wait::Lock(step) => !step.taken || !self.contexts.holders.contains_key(&step.lock),
            Wait::Switch(cpu, task) => self.current(*cpu) != *task,
            Wait::Call(_) | Wait::Atomic => true,
        })
    }

    /// What the operation on `cpu` waits for, if one is in progress.
    pub fn waits_for(&self, cpu: CpuId) -> Option<&Wait> {
        self.contexts.of(cpu).map(|waiting| &waiting.wait)
    }

    /// Whether the scheduler will be disabled as soon as no operation is in progress; the driver should not begin
    /// another one.
    pub fn is_disable_pending(&self) -> bool {
        self.core.attached.is_exiting() && self.stage == Stage::Enabled
    }

    /// Whether a stopped program holds a lock of the scheduler, so that no program may run to completion without
    /// stopping.
    pub fn holds_scheduler_lock(&self) -> bool {
        self.contexts.holders.keys().any(|lock| matches!(lock, Lock::Bpf(_)))
    }

    /// Runs all operations in progress to completion.
    pub fn finish_operations(&mut self) {
        loop {
            let ready = self.waiting_cpus().find(|&cpu| self.may_resume(cpu));
            let Some(cpu) = ready else { break };
            self.resume(cpu);
        }
        assert!(self.is_alone(), "operations wait for each other's locks");
    }

    /// Whether no other operation is in progress.
    pub(super) fn is_alone(&self) -> bool {
        self.contexts.waiting.iter().all(Option::is_none)
    }

    fn advance(&mut self, cpu: CpuId, mut coroutine: Coroutine, slot: Rc<KernelSlot>) -> Progress {
        let mut kernel = self.contexts.placeholder();
        std::mem::swap(self, &mut kernel);
        let Stops { calls, atomics } = kernel.contexts.stops;
        kernel.execution.pause = PausePoints { kfuncs: true, helpers: calls, atomics, spin_locks: true };
        kernel.contexts.slot = Some(Rc::clone(&slot));
        slot.kernel.set(Some(kernel));
        let polled = coroutine.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        let mut placeholder = slot.kernel.take().expect("the slot holds the kernel");
        std::mem::swap(self, &mut placeholder);
        self.contexts.placeholders.push(placeholder);
        self.execution.pause = PausePoints::default();
        match polled {
            Poll::Ready(switch) => Progress::Done(switch),
            Poll::Pending => {
                let wait = slot.wait.take().expect("a stopped operation sets its wait");
                let waiting = &mut self.contexts.waiting;
                if waiting.len() <= cpu.index() {
                    waiting.resize_with(cpu.index() + 1, || None);
                }
                waiting[cpu.index()] = Some(Waiting { coroutine, slot, wait: wait.clone() });
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

    /// Stops the operation in progress: the driver gets the kernel, and the coroutine keeps the operation's own
    /// state.
    async fn stop(&mut self, wait: Wait) {
        let spare = self.contexts.executions.pop().unwrap_or_else(|| Box::new(self.machine.execution()));
        let execution = std::mem::replace(&mut self.execution, spare);
        self.execution.budget = execution.budget;
        let context = std::mem::take(&mut self.core.context);
        let slot = self.contexts.slot.take().expect("an operation is in progress");
        let mut kernel = self.contexts.placeholder();
        std::mem::swap(self, &mut kernel);
        slot.wait.set(Some(wait));
        slot.kernel.set(Some(kernel));
        let mut stopped = false;
        poll_fn(|_| if std::mem::replace(&mut stopped, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        let mut placeholder = slot.kernel.take().expect("the slot holds the kernel");
        std::mem::swap(self, &mut placeholder);
        self.contexts.placeholders.push(placeholder);
        self.core.context = context;
        let spare = std::mem::replace(&mut self.execution, execution);
        self.contexts.executions.push(spare);
    }

    async fn acquire(&mut self, lock: Lock) {
        self.stop(Wait::Lock(self.core.lock_step(lock, true))).await;
        let other = self.contexts.holders.insert(lock, self.core.context.cpu);
        assert_eq!(other, None, "{lock:?} is held by another CPU");
    }

    async fn release(&mut self, lock: Lock) {
        self.stop(Wait::Lock(self.core.lock_step(lock, false))).await;
        let holder = self.contexts.holders.remove(&lock);
        assert_eq!(holder, Some(self.core.context.cpu), "{lock:?} is released by its holder");
    }
}

/// Steps that differ between the two ways to execute an operation: `x` runs to completion at one instant, `x_waiting`
/// stops at locks.
impl Kernel {
    /// Takes the runqueue lock with which an operation begins.
    pub(super) fn begin_locked(&mut self, cpu: CpuId, operation: &'static str) {
        self.core.begin_locked(cpu, operation);
    }

    pub(super) async fn begin_locked_waiting(&mut self, cpu: CpuId, operation: &'static str) {
        self.core.context.locks.operation = operation;
        self.lock_rq_waiting(cpu).await;
    }

    /// Releases the runqueue lock that the operation holds.
    pub(super) fn unlock(&mut self) {
        self.core.unlock_runqueue();
    }

    pub(super) async fn unlock_waiting(&mut self) {
        if let Some(cpu) = self.core.context.locks.runqueue {
            self.release(Lock::Runqueue(cpu)).await;
            self.core.context.locks.runqueue = None;
        }
        self.visit_others_waiting().await;
    }

    /// Locks this runqueue, and first releases the one that is locked.
    pub(super) fn lock_rq(&mut self, _: CpuId) {}

    pub(super) async fn lock_rq_waiting(&mut self, cpu: CpuId) {
        let held = self.core.context.locks.runqueue;
        if held == Some(cpu) {
            return;
        }
        if let Some(held) = held {
            self.release(Lock::Runqueue(held)).await;
            self.core.context.locks.runqueue = None;
        }
        self.acquire(Lock::Runqueue(cpu)).await;
        self.core.context.locks.runqueue = Some(cpu);
    }

    /// Releases the runqueue lock taken by `lock_rq`.
    pub(super) fn unlock_rq(&mut self) {}

    pub(super) async fn unlock_rq_waiting(&mut self) {
        self.unlock_waiting().await;
    }

    /// Locks briefly each runqueue from or to which tasks were moved.
    #[inline]
    pub(super) fn visit_others(&mut self) {}

    pub(super) async fn visit_others_waiting(&mut self) {
        if self.core.context.visits.is_empty() {
            return;
        }
        let before = self.core.context.locks.runqueue;
        for cpu in std::mem::take(&mut self.core.context.visits) {
            self.lock_rq_waiting(cpu).await;
        }
        if let Some(held) = self.core.context.locks.runqueue
            && before != Some(held)
        {
            self.release(Lock::Runqueue(held)).await;
            self.core.context.locks.runqueue = None;
        }
        if let Some(before) = before {
            self.lock_rq_waiting(before).await;
        }
    }

    /// Takes the lock of the queue that `task` is to be inserted into. Returns the queue, or a replacement if it has
    /// been destroyed meanwhile.
    #[inline]
    pub(super) fn lock_queue(&mut self, _: TaskId, queue: QueueRef) -> QueueRef {
        queue
    }

    pub(super) async fn lock_queue_waiting(&mut self, task: TaskId, queue: QueueRef) -> QueueRef {
        if let QueueRef::Local(_) = queue {
            return queue;
        }
        let lock = lock_of(queue);
        self.acquire(lock).await;
        self.core.context.locks.queue = Some(lock);
        match queue {
            QueueRef::User(dsq) if !self.core.queues.contains(dsq) => {
                self.unlock_queue_waiting().await;
                self.core.resolve(self.core.task_cpu(task), dsq, task)
            }
            queue => queue,
        }
    }

    /// Releases the queue lock.
    #[inline]
    pub(super) fn unlock_queue(&mut self) {}

    pub(super) async fn unlock_queue_waiting(&mut self) {
        if let Some(lock) = self.core.context.locks.queue {
            self.release(lock).await;
            self.core.context.locks.queue = None;
        }
    }

    /// Claims the wakeup of a task: returns whether the task sleeps and this operation must wake it.
    pub(super) fn claim_wakeup(&mut self, task: TaskId) -> bool {
        self.core.task(task).run_state == RunState::Sleeping
    }

    pub(super) async fn claim_wakeup_waiting(&mut self, task: TaskId) -> bool {
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

    /// Takes the lock with which `schedule` begins. Returns how the current task leaves: a task that was woken before
    /// it blocked stays runnable.
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

    /// Enqueues a task that was moved off its CPU. Without `+waiting` this happens at once, with it after the CPU has
    /// switched, because another CPU could run the task before. (In a kernel the stopper thread runs in between.)
    pub(super) fn attach_evicted(&mut self, task: TaskId) {
        self.attach_task(task);
    }

    pub(super) async fn attach_evicted_waiting(&mut self, task: TaskId) {
        self.core.context.evicted = Some(task);
    }

    #[inline]
    pub(super) fn attach_evicted_late(&mut self) {}

    pub(super) async fn attach_evicted_late_waiting(&mut self) {
        if let Some(task) = self.core.context.evicted.take() {
            self.lock_rq_waiting(self.core.task_cpu(task)).await;
            self.attach_task_waiting(task).await;
            self.unlock_waiting().await;
        }
    }

    /// Marks that `cpu` has picked and not yet switched: a task inserted into its local queue now is not part of the
    /// pick.
    #[inline]
    pub(super) fn mark_switching(&mut self, _: CpuId) {}

    pub(super) async fn mark_switching_waiting(&mut self, cpu: CpuId) {
        self.core.cpus[cpu.index()].switching = true;
    }

    /// Waits until the `enqueue` calls that `dispatch` answers have returned.
    #[inline]
    pub(super) fn await_enqueues(&mut self) {}

    pub(super) async fn await_enqueues_waiting(&mut self) {
        let here = self.core.context.locks.runqueue;
        while let Some(cpu) = self.core.task_still_in_enqueue() {
            self.lock_rq_waiting(cpu).await;
        }
        if let Some(here) = here {
            self.lock_rq_waiting(here).await;
        }
    }

    /// Handles a stop inside a program.
    pub(super) fn stop_in_program(&mut self) {
        unreachable!("programs have no pause points without +waiting");
    }

    pub(super) async fn stop_in_program_waiting(&mut self) {
        self.core.count_executed(self.execution.executed);
        self.core.context.locks.in_flight = self.execution.executed;
        // The program has just called a kfunc that took a task from a queue.
        self.unlock_queue_waiting().await;
        let Stops { calls, atomics } = self.contexts.stops;
        match self.machine.next(&self.execution) {
            Next::Helper(SPIN_LOCK, [addr, ..]) => self.acquire(Lock::Bpf(addr)).await,
            Next::Helper(SPIN_UNLOCK, [addr, ..]) => self.release(Lock::Bpf(addr)).await,
            Next::Helper(helper, _) if calls => self.stop(Wait::Call(kfuncs::helper_name(helper))).await,
            Next::Kfunc(kfunc, args) => {
                if calls {
                    self.stop(Wait::Call(kfuncs::name(kfunc).to_owned())).await;
                }
                if kfuncs::takes_from_queue(kfunc) {
                    self.lock_queue_of_move(ids::DsqId(args[0])).await;
                }
            }
            Next::Atomic if atomics => self.stop(Wait::Atomic).await,
            _ => {}
        }
    }

    /// Locks a queue from which a kfunc is about to take a task; before that the dispatch buffer is flushed.
    async fn lock_queue_of_move(&mut self, dsq: ids::DsqId) {
        self.await_enqueues_waiting().await;
        self.core.flush_buffer(&mut self.machine.memory);
        self.visit_others_waiting().await;
        // `consume_dispatch_q` checks whether the queue is empty before it takes the lock.
        if self.core.queues.user(dsq).is_some_and(|queue| !queue.is_empty()) {
            self.acquire(Lock::Dsq(dsq)).await;
            self.core.context.locks.queue = Some(Lock::Dsq(dsq));
            self.execution.pause_behind = true;
        }
    }
}
