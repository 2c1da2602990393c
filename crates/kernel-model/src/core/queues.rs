// SPDX-License-Identifier: GPL-2.0-only
//! Inserts tasks into queues, removes them, and moves them between CPUs.

use super::dsq::{Dsq, Mixed, QueueRef};
use super::enq_flags;
use super::task::{Class, Owner, Task};
use super::{Core, Reenqueue, SLICE_BYPASS_NS, SLICE_DFL_NS};
use bpf_machine::Memory;
use event_log::{DetailKind, EventKind};
use ids::{CpuId, DsqId, TaskId};

/// What to do with a task that may not move to another CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    /// Skip the task.
    Skip,
    /// Report an error of the scheduler (contract D5).
    Enforce,
}

impl Core {
    /// A task, to be changed.
    pub fn task_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task]
    }

    /// A task.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task]
    }

    /// Writes the current `p->scx.flags` of a task to guest memory.
    pub fn show_flags(&self, memory: &mut Memory, task: TaskId) {
        self.objects.set_scx_flags(memory, task, self.task(task).scx_flags());
    }

    fn queue_mut(&mut self, queue: QueueRef) -> &mut Dsq {
        match queue {
            QueueRef::Local(cpu) => &mut self.cpus[cpu.index()].local,
            QueueRef::Bypass(cpu) => &mut self.cpus[cpu.index()].bypass,
            QueueRef::Global(node) => self.queues.global_mut(node),
            QueueRef::User(id) => self.queues.holding_mut(id),
        }
    }

    fn queue(&self, queue: QueueRef) -> &Dsq {
        match queue {
            QueueRef::Local(cpu) => &self.cpus[cpu.index()].local,
            QueueRef::Bypass(cpu) => &self.cpus[cpu.index()].bypass,
            QueueRef::Global(node) => self.queues.global(node),
            QueueRef::User(id) => self.queues.holding(id),
        }
    }

    /// Whether the queue that holds a task is vtime-ordered.
    pub fn in_order(&self, task: TaskId) -> bool {
        match self.task(task).queue {
            Some(QueueRef::User(id)) => self.queues.holding(id).is_ordered(),
            _ => false,
        }
    }

    /// The default slice in nanoseconds, shorter in bypass mode (contract B1).
    pub fn default_slice(&self) -> u64 {
        if self.bypassing() { SLICE_BYPASS_NS } else { SLICE_DFL_NS }
    }

    /// Sets the slice of a task to the default.
    pub fn refill_slice(&mut self, memory: &mut Memory, task: TaskId) {
        self.attached.counters.refill_slice_dfl += 1;
        self.objects.set_slice(memory, task, self.default_slice());
    }

    /// The global queue of a task: that of its CPU's node (contract O2).
    pub fn global_of(&self, task: TaskId) -> QueueRef {
        QueueRef::Global(self.node_of(self.task_cpu(task)))
    }

    /// The queue named by a DSQ id, for a verdict about `task` on runqueue `cpu`. A missing queue or CPU is reported
    /// and replaced by the global queue (contract D5).
    pub fn resolve(&mut self, cpu: CpuId, dsq: DsqId, task: TaskId) -> QueueRef {
        match dsq {
            DsqId::LOCAL => QueueRef::Local(cpu),
            DsqId::GLOBAL => self.global_of(task),
            id if id.local_cpu().is_some() => {
                let target = id.local_cpu().expect("checked");
                if target.0 < self.cpus() {
                    return QueueRef::Local(target);
                }
                self.fail(format!("invalid CPU {} in SCX_DSQ_LOCAL_ON dispatch verdict", target.0 as i32));
                self.global_of(task)
            }
            id if self.queues.contains(id) => QueueRef::User(id),
            id => {
                self.fail(format!("non-existent DSQ {:#x}", id.0));
                self.global_of(task)
            }
        }
    }

    /// `dispatch_enqueue`: inserts a runnable task that is in no queue into `queue`, by its virtual time if
    /// `ordered`. The core then owns the task.
    pub fn enqueue_to(&mut self, memory: &mut Memory, task: TaskId, queue: QueueRef, ordered: bool, flags: u64) {
        debug_assert!(self.task(task).queue.is_none(), "a task is in one queue at a time");
        if ordered && queue.is_terminal() {
            self.fail("cannot use vtime ordering for built-in DSQs".into());
        }
        self.visit_queue(queue);
        let vtime = self.objects.vtime(memory, task);
        let ordered = ordered && !queue.is_terminal();
        let dsq = self.queue_mut(queue);
        let (position, mixed) = if ordered {
            dsq.insert_vtime(task, vtime)
        } else {
            dsq.insert_fifo(task, flags & (enq_flags::HEAD | enq_flags::PREEMPT) != 0)
        };
        let seq = dsq.seq();
        match mixed {
            Ok(()) => {}
            Err(Mixed::HasFifo) => self.fail(format!("DSQ ID {:#018x} already had FIFO-enqueued tasks", queue.id().0)),
            Err(Mixed::HasVtime) => self.fail(format!("DSQ ID {:#018x} already had PRIQ-enqueued tasks", queue.id().0)),
        }
        let was = self.task(task).scx_flags();
        let left_custody = queue.is_terminal() && self.task(task).custody;
        let entry = self.task_mut(task);
        entry.queue = Some(queue);
        entry.position = position;
        entry.queue_seq = seq;
        entry.owner = Owner::Core;
        entry.verdict = None;
        entry.custody = !queue.is_terminal();
        if left_custody {
            self.context.left_custody.push((task, 0));
        }
        let slice_ns = self.objects.slice(memory, task);
        let key = if ordered { vtime } else { 0 };
        self.log(task, EventKind::Insert { dsq: queue.id(), key, slice_ns });
        self.detail(task, |core| {
            let held = core.queue(queue);
            DetailKind::Placed { dsq: queue.id(), ahead: held.before(position) as u32, queued: held.len() as u32 }
        });
        let immediate = flags & enq_flags::IMMED != 0 && matches!(queue, QueueRef::Local(_));
        self.task_mut(task).immediate |= immediate;
        if self.task(task).scx_flags() != was {
            self.show_flags(memory, task);
        }
        if let QueueRef::Local(cpu) = queue {
            self.local_inserted(memory, cpu, task, flags);
        }
    }

    /// Handles an insert into the local queue of `cpu`: preempts or wakes that CPU (contract T3, D8), and schedules
    /// the re-enqueue of an IMMED task that cannot run at once (contract D10).
    fn local_inserted(&mut self, memory: &mut Memory, cpu: CpuId, task: TaskId, flags: u64) {
        if self.task(task).immediate {
            self.cpus[cpu.index()].immed_tasks += 1;
            if self.cpus[cpu.index()].local.len() > 1 || !self.is_open(cpu, flags) {
                self.reenqueue_local_later(cpu, Reenqueue::Immediate);
            }
        }
        let rq = &mut self.cpus[cpu.index()];
        let idle = rq.next_class == Class::Idle;
        if idle {
            rq.next_class = Class::Ext;
        }
        if rq.in_balance {
            return;
        }
        let current = rq.current;
        let preempt = flags & enq_flags::PREEMPT != 0 && current != task && self.current_class(cpu) == Class::Ext;
        if preempt {
            self.objects.set_slice(memory, current, 0);
            self.cpus[cpu.index()].preempted = true;
        }
        if preempt || idle || self.cpus[cpu.index()].switching {
            self.resched(cpu);
        }
    }

    /// `rq_is_open`: whether a task inserted into the local queue of `cpu` with these flags could run at once
    /// (contract D10). During a pick it returns true; the end of the pick checks again.
    pub fn is_open(&self, cpu: CpuId, flags: u64) -> bool {
        let rq = &self.cpus[cpu.index()];
        match rq.next_class {
            Class::Idle => true,
            Class::Ext => rq.in_balance || flags & enq_flags::PREEMPT != 0,
            _ => false,
        }
    }

    /// Schedules a re-enqueue of tasks in the local queue of `cpu` for the end of the operation; ignored in bypass
    /// mode (contract K2, D10).
    pub fn reenqueue_local_later(&mut self, cpu: CpuId, which: Reenqueue) {
        if self.bypassing() {
            return;
        }
        let pending = &mut self.cpus[cpu.index()].reenqueue;
        if pending.is_none() {
            self.context.reenqueue.push_back(cpu);
        }
        *pending = (*pending).max(Some(which));
    }

    /// `wakeup_preempt`: reschedules `cpu` if a task of `class`, which became runnable there, takes precedence.
    pub fn note_class(&mut self, cpu: CpuId, class: Class) {
        if self.raise_class(cpu, class) {
            self.resched(cpu);
        }
    }

    /// Returns whether `class` is above the class that `cpu` runs or expects to run next, and records it. IMMED tasks
    /// in the local queue are then re-enqueued (contract D10).
    pub fn raise_class(&mut self, cpu: CpuId, class: Class) -> bool {
        let rq = &mut self.cpus[cpu.index()];
        let raised = class < rq.next_class;
        if raised {
            let over_ext = rq.next_class == Class::Ext && rq.immed_tasks > 0;
            rq.next_class = class;
            if over_ext {
                self.reenqueue_local_later(cpu, Reenqueue::Immediate);
            }
        }
        raised
    }

    /// Removes a task from the queue that holds it, if any.
    pub fn dequeue_from(&mut self, task: TaskId) {
        let entry = self.task_mut(task);
        let position = entry.position;
        if let Some(queue) = entry.queue.take() {
            self.visit_queue(queue);
            let found = self.queue_mut(queue).remove(position);
            assert_eq!(found, task, "a queue holds the task that says so");
            self.detail(task, |_| DetailKind::Left { dsq: queue.id() });
            if let QueueRef::Local(cpu) = queue
                && self.task(task).immediate
            {
                self.cpus[cpu.index()].immed_tasks -= 1;
            }
        }
    }

    /// Whether `task` may move to `cpu`, which is not its own CPU.
    pub fn may_move_to(&mut self, task: TaskId, cpu: CpuId, remote: Remote) -> bool {
        let entry = self.task(task);
        if !entry.allowed.contains(cpu) {
            if remote == Remote::Enforce {
                let name = self.name_of(task);
                self.fail(format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {name}"));
            }
            return false;
        }
        let online = self.rq_online(cpu);
        if !online && remote == Remote::Enforce {
            self.attached.counters.dispatch_local_dsq_offline += 1;
        }
        online
    }

    /// Moves a task that does not run to another runqueue, without a callback (contract T10).
    pub fn migrate(&mut self, task: TaskId, to: CpuId) {
        let from = self.task_cpu(task);
        if from == to {
            return;
        }
        if self.task(task).queued {
            self.cpus[from.index()].ext_tasks -= 1;
            self.cpus[to.index()].ext_tasks += 1;
        }
        if self.task(task).runnable_seq != 0 {
            // The task moves to the tail of the other runqueue's runnable list.
            let arrival = self.tasks.arrival();
            self.task_mut(task).runnable_seq = arrival;
        }
        self.task_mut(task).cpu = to;
        self.task_mut(task).history.migrations += 1;
        self.log(task, EventKind::Migrate { from, to });
    }

    /// `dispatch_to_local_dsq`: carries out a verdict for the local queue of `to`, with the checks of contract D5 and
    /// the migration of D6.
    pub fn send_to_local(&mut self, memory: &mut Memory, task: TaskId, to: CpuId, ordered: bool, flags: u64) {
        if self.task_cpu(task) != to {
            if !self.may_move_to(task, to, Remote::Enforce) {
                let global = self.global_of(task);
                self.enqueue_to(memory, task, global, ordered, flags);
                return;
            }
            self.visit_runqueue(self.task_cpu(task));
            self.migrate(task, to);
        }
        self.enqueue_to(memory, task, QueueRef::Local(to), ordered, flags);
    }

    /// `consume_dispatch_q`: moves the first task of `queue` that is on `cpu` or may migrate to it to the local queue
    /// of `cpu` (contract D7).
    pub fn consume(&mut self, memory: &mut Memory, queue: QueueRef, cpu: CpuId, flags: u64) -> bool {
        if self.attached.is_exiting() && !matches!(queue, QueueRef::Bypass(_)) {
            return false;
        }
        let mut place = None;
        while let Some((position, task)) = self.queue_mut(queue).next(place, false) {
            if self.task_cpu(task) == cpu || self.may_move_to(task, cpu, Remote::Skip) {
                self.dequeue_from(task);
                self.visit_runqueue(self.task_cpu(task));
                self.log(task, EventKind::Dispatch { from: queue.id(), to: cpu });
                self.migrate(task, cpu);
                self.enqueue_to(memory, task, QueueRef::Local(cpu), false, flags);
                return true;
            }
            place = Some(position);
        }
        if place.is_some() {
            self.visit_queue(queue);
        }
        false
    }

    /// Consumes a task from the global queue of the CPU's node (contract P4).
    pub fn consume_global(&mut self, memory: &mut Memory, cpu: CpuId) -> bool {
        let node = self.node_of(cpu);
        !self.queues.global(node).is_empty() && self.consume(memory, QueueRef::Global(node), cpu, 0)
    }

    /// Puts a task on its runqueue's list of runnable tasks. Starts its watchdog clock unless the clock is running
    /// (contract W1).
    pub fn set_runnable(&mut self, memory: &mut Memory, task: TaskId) {
        let (now, arrival) = (self.jiffies_now(), self.tasks.arrival());
        let entry = self.task_mut(task);
        entry.runnable_seq = arrival;
        if std::mem::take(&mut entry.reset_runnable_at) {
            entry.runnable_at = now;
            self.show_flags(memory, task);
        }
    }

    /// Takes a task off its runqueue's list of runnable tasks. `has_run` stops its watchdog clock.
    pub fn clear_runnable(&mut self, memory: &mut Memory, task: TaskId, has_run: bool) {
        let entry = self.task_mut(task);
        entry.runnable_seq = 0;
        entry.reset_runnable_at |= has_run;
        if has_run {
            self.show_flags(memory, task);
        }
    }

    /// Runnable ext tasks of `cpu` that do not run, in the order of its runnable list.
    pub fn runnable_on(&self, cpu: CpuId) -> Vec<TaskId> {
        self.runnable_where(|task| task.cpu == cpu)
    }

    /// Runnable ext tasks of all CPUs that do not run, CPU by CPU.
    pub fn runnable(&self) -> Vec<TaskId> {
        self.runnable_where(|_| true)
    }

    fn runnable_where(&self, counts: impl Fn(&Task) -> bool) -> Vec<TaskId> {
        let all = self.tasks.iter().zip(0..).filter(|(task, _)| task.runnable_seq != 0 && counts(task));
        let mut found: Vec<_> = all.map(|(task, id)| (task.cpu, task.runnable_seq, TaskId(id))).collect();
        found.sort_unstable();
        found.into_iter().map(|(.., task)| task).collect()
    }
}
