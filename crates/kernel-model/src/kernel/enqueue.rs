// SPDX-License-Identifier: GPL-2.0-only
//! Enqueue and dequeue of tasks: `enqueue_task_scx`, `do_enqueue_task`, `dequeue_task_scx` (contract T1-T3, T9, D11,
//! D12).

use super::Kernel;
use crate::core::classes::Turn;
use crate::core::deadline::server::Served;
use crate::core::dsq::QueueRef;
use crate::core::task::{Class, Owner};
use crate::core::{deq_flags, enq_flags, ops_flags};
use crate::ops::Op;
use event_log::DetailKind;
use ids::TaskId;
use two_forms::two_forms;

#[two_forms]
impl Kernel {
    /// `enqueue_task_scx`: makes an ext task runnable on its CPU's runqueue.
    pub(super) async fn enqueue_task(&mut self, task: TaskId, flags: u64) {
        let cpu = self.core.task_cpu(task);
        let restored = flags & enq_flags::RESTORE != 0 && self.core.current(cpu) == task;
        self.core.set_runnable(&mut self.machine.memory, task);
        let entry = self.core.task_mut(task);
        debug_assert!(!entry.queued, "a task is enqueued once");
        entry.queued = true;
        self.show_flags(task);
        self.core.cpus[cpu.index()].ext_tasks += 1;
        self.core.server_start(cpu, Served::Ext);
        self.call_task(Op::Runnable, task, flags).await;
        self.decide(task, flags, restored).await;
        if flags & enq_flags::CPU_SELECTED != 0 && self.core.task(task).selected_cpu != cpu {
            self.core.attached.counters.select_cpu_fallback += 1;
        }
    }

    /// `do_enqueue_task`: chooses the queue of a runnable ext task.
    pub(super) async fn do_enqueue(&mut self, task: TaskId, flags: u64) {
        self.decide(task, flags, false).await;
    }

    async fn decide(&mut self, task: TaskId, flags: u64, running: bool) {
        let cpu = self.core.task_cpu(task);
        if running {
            let memory = &mut self.machine.memory;
            self.core.enqueue_to(memory, task, QueueRef::Local(cpu), false, flags);
            return;
        }
        if std::mem::take(&mut self.core.task_mut(task).immediate) {
            self.show_flags(task);
        }
        let entry = self.core.task(task);
        if !self.core.rq_online(cpu) {
            self.enqueue_refilled(task, QueueRef::Local(cpu), flags).await;
        } else if self.core.bypassing() {
            self.core.attached.counters.bypass_dispatch += 1;
            self.enqueue_refilled(task, QueueRef::Bypass(cpu), flags).await;
        } else if entry.verdict.is_some() {
            self.carry_out_verdict(task, flags).await;
        } else if entry.exiting && !self.flag(ops_flags::ENQ_EXITING) {
            self.core.attached.counters.enq_skip_exiting += 1;
            self.enqueue_refilled(task, QueueRef::Local(cpu), flags).await;
        } else if !self.has(Op::Enqueue) {
            let global = self.core.global_of(task);
            self.enqueue_refilled(task, global, flags).await;
        } else {
            self.call_enqueue(task, flags).await;
        }
    }

    pub(super) async fn enqueue_refilled(&mut self, task: TaskId, queue: QueueRef, flags: u64) {
        self.core.refill_slice(&mut self.machine.memory, task);
        self.insert(task, queue, false, flags).await;
    }

    /// Inserts a task into a queue, taking the queue's lock.
    pub(super) async fn insert(&mut self, task: TaskId, queue: QueueRef, ordered: bool, flags: u64) {
        let queue = self.lock_queue(task, queue).await;
        self.core.enqueue_to(&mut self.machine.memory, task, queue, ordered, flags);
        self.unlock_queue().await;
    }

    async fn call_enqueue(&mut self, task: TaskId, flags: u64) {
        let entry = self.core.task_mut(task);
        let seq = entry.ops_qseq;
        entry.ops_qseq = seq.wrapping_add(1);
        entry.owner = Owner::Queueing(seq);
        let args = [self.addr(task), flags];
        self.call_deciding(Op::Enqueue, &args, task).await;
        if self.core.task(task).verdict.is_some() {
            return self.carry_out_verdict(task, flags).await;
        }
        let entry = self.core.task_mut(task);
        if entry.owner == Owner::Queueing(seq) {
            entry.owner = Owner::Bpf(seq);
            entry.custody = true;
            self.show_flags(task);
            self.core.detail_of(Op::Enqueue, task, |_| DetailKind::Kept);
        }
    }

    /// `direct_dispatch`: carries out a verdict; one for another CPU's local queue is deferred to the end of the
    /// operation (contract D2).
    async fn carry_out_verdict(&mut self, task: TaskId, flags: u64) {
        let cpu = self.core.task_cpu(task);
        let Some(mut verdict) = self.core.task(task).verdict else { return };
        verdict.enq_flags |= flags;
        let outer = self.core.blame(verdict.op, verdict.call);
        match self.core.resolve(cpu, verdict.dsq, task) {
            QueueRef::Local(to) if to != cpu => {
                let entry = self.core.task_mut(task);
                entry.owner = Owner::Core;
                entry.verdict = Some(verdict);
                self.core.context.deferred.push_back(task);
            }
            queue => self.insert(task, queue, verdict.ordered, verdict.enq_flags).await,
        }
        self.core.blame(outer.0, outer.1);
    }

    /// `dequeue_task_scx`: an ext task stops being runnable, because it sleeps or exits (SLEEP) or for an attribute
    /// change (SAVE).
    pub(super) async fn dequeue_task(&mut self, task: TaskId, flags: u64) {
        if !self.core.task(task).queued {
            return;
        }
        let flags = if flags & deq_flags::SLEEP != 0 { flags } else { flags | deq_flags::SCHED_CHANGE };
        self.core.clear_runnable(&mut self.machine.memory, task, false);
        self.take_from_bpf(task, flags).await;
        let cpu = self.core.task_cpu(task);
        if self.core.current(cpu) == task {
            self.update_current(cpu);
            self.call_task(Op::Stopping, task, 0).await;
        }
        self.call_task(Op::Quiescent, task, flags).await;
        let entry = self.core.task_mut(task);
        entry.queued = false;
        entry.slept = flags & deq_flags::SLEEP != 0;
        self.show_flags(task);
        self.core.cpus[cpu.index()].ext_tasks -= 1;
        self.core.dequeue_from(task);
        self.core.task_mut(task).verdict = None;
        self.core.context.deferred.retain(|&deferred| deferred != task);
    }

    /// Moves a waiting task to another CPU after an affinity change: without `quiescent` and `runnable`, but with
    /// `dequeue` from custody and another `enqueue` (contract T10).
    pub(super) fn push_to(&mut self, task: TaskId, to: ids::CpuId) {
        self.detach_task(task, to);
        self.attach_task(task);
    }

    /// First half of a move to another CPU: takes the task out of its queue and assigns it to that CPU.
    pub(super) async fn detach_task(&mut self, task: TaskId, to: ids::CpuId) {
        match self.core.task(task).class {
            Class::Ext => {
                self.take_from_bpf(task, deq_flags::SCHED_CHANGE | deq_flags::NOCLOCK).await;
                self.core.dequeue_from(task);
                self.core.task_mut(task).verdict = None;
                self.core.context.deferred.retain(|&deferred| deferred != task);
            }
            _ => {
                self.charge_fair(self.core.task_cpu(task));
                self.core.higher_dequeue(task);
            }
        }
        self.core.migrate(task, to);
    }

    /// Second half of the move: enqueues the task on its new CPU.
    pub(super) async fn attach_task(&mut self, task: TaskId) {
        match self.core.task(task).class {
            Class::Ext => self.do_enqueue(task, enq_flags::MIGRATED).await,
            _ => {
                self.charge_fair(self.core.task_cpu(task));
                self.core.higher_enqueue(task, Turn::Last);
            }
        }
        self.preempt_lower(task, false);
    }

    /// `wakeup_preempt`: reschedules the CPU of a task that became runnable if it runs a lower-priority task
    /// (contract T3). `fresh`: the task is new, which matters to the fair class.
    pub(super) fn preempt_lower(&mut self, task: TaskId, fresh: bool) {
        let entry = self.core.task(task);
        let (cpu, class, key) = (entry.cpu, entry.class, entry.class_key);
        self.core.note_class(cpu, class);
        let same = self.core.current_class(cpu) == class
            && matches!(class, Class::Deadline | Class::Rt)
            && self.core.current(cpu).some().is_some_and(|current| self.core.task(current).class_key > key);
        let equals = class == Class::Fair && self.core.current_class(cpu) == class;
        if same {
            self.core.resched(cpu);
        } else if equals && !self.core.cpus[cpu.index()].need_resched && self.core.fair_preempts(task, fresh) {
            self.core.resched_lazily(cpu);
        }
    }
}
