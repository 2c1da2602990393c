// SPDX-License-Identifier: GPL-2.0-only
//! Putting tasks into queues, taking them out, moving them between CPUs.

use super::dsq::{Mixed, QueueRef};
use super::enq_flags;
use super::task::{Class, Owner, Task};
use super::{Core, SLICE_BYPASS_NS, SLICE_DFL_NS};
use bpf_machine::Memory;
use event_log::EventKind;
use ids::{CpuId, DsqId, TaskId};

/// How strictly a move to another CPU is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    /// A task that may not move is skipped.
    Skip,
    /// It is the scheduler's error (contract D5).
    Enforce,
}

impl Core {
    /// One task, to be changed.
    pub fn task_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }

    /// One task.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    fn queue_mut(&mut self, queue: QueueRef) -> &mut super::Dsq {
        match queue {
            QueueRef::Local(cpu) => &mut self.cpus[cpu.index()].local,
            QueueRef::Bypass(cpu) => &mut self.cpus[cpu.index()].bypass,
            QueueRef::Global(node) => &mut self.global[node as usize],
            QueueRef::User(id) => self.dsqs.get_mut(&id).expect("a queue that holds a task exists"),
        }
    }

    /// The default slice: shorter while bypassed (contract B1).
    pub fn default_slice(&self) -> u64 {
        if self.bypassing() { SLICE_BYPASS_NS } else { SLICE_DFL_NS }
    }

    /// Gives a task a full default slice.
    pub fn refill_slice(&mut self, memory: &mut Memory, task: TaskId) {
        self.counters.refill_slice_dfl += 1;
        self.objects.set_slice(memory, task, self.default_slice());
    }

    /// Global queue of a task: that of the node of its CPU (contract O2).
    pub fn global_of(&self, task: TaskId) -> QueueRef {
        QueueRef::Global(self.node_of(self.task_cpu(task)))
    }

    /// The queue that an id names for a verdict about `task` on runqueue `cpu`; what does not exist is reported and
    /// becomes the global queue (contract D5).
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
            id if self.dsqs.contains_key(&id) => QueueRef::User(id),
            id => {
                let name = self.name_of(task);
                self.fail(format!("non-existent DSQ {:#x} for {name}", id.0));
                self.global_of(task)
            }
        }
    }

    /// `dispatch_enqueue`: puts a runnable task that no queue holds into `queue`. Afterwards the core owns it.
    pub fn enqueue_to(
        &mut self,
        memory: &mut Memory,
        task: TaskId,
        queue: QueueRef,
        vtime: Option<u64>,
        flags: u64,
        line: u32,
    ) {
        debug_assert!(self.task(task).queue.is_none(), "a task is in one queue at a time");
        let vtime = match (queue, vtime) {
            (QueueRef::User(_), vtime) => vtime,
            (_, None) => None,
            (_, Some(_)) => {
                self.fail("cannot use vtime ordering for built-in DSQs".into());
                None
            }
        };
        if flags & enq_flags::IMMED != 0 && !matches!(queue, QueueRef::Local(_)) {
            self.fail(format!("SCX_ENQ_IMMED on a non-local DSQ {:#x}", queue.id().0));
        }
        let dsq = self.queue_mut(queue);
        let (position, mixed) = match vtime {
            Some(vtime) => dsq.insert_vtime(task, vtime),
            None => dsq.insert_fifo(task, flags & (enq_flags::HEAD | enq_flags::PREEMPT) != 0),
        };
        let seq = dsq.seq();
        match mixed {
            Ok(()) => {}
            Err(Mixed::HasFifo) => self.fail(format!("DSQ ID {:#018x} already had FIFO-enqueued tasks", queue.id().0)),
            Err(Mixed::HasVtime) => self.fail(format!("DSQ ID {:#018x} already had PRIQ-enqueued tasks", queue.id().0)),
        }
        if let Some(vtime) = vtime {
            self.objects.set_vtime(memory, task, vtime);
        }
        let left_custody = queue.is_terminal() && self.task(task).custody;
        let entry = self.task_mut(task);
        entry.queue = Some(queue);
        entry.position = position;
        entry.queue_seq = seq;
        entry.owner = Owner::Core;
        entry.verdict = None;
        entry.custody = !queue.is_terminal();
        if left_custody {
            self.left_custody.push((task, 0));
        }
        let slice_ns = self.objects.slice(memory, task);
        let key = vtime.unwrap_or(0);
        self.log_at(task, EventKind::Insert { dsq: queue.id(), key, slice_ns }, line);
        if let QueueRef::Local(cpu) = queue {
            self.local_inserted(memory, cpu, task, flags);
        }
    }

    /// A task came into the local queue of `cpu`: preempt or wake that CPU (contract T3, D8).
    fn local_inserted(&mut self, memory: &mut Memory, cpu: CpuId, task: TaskId, flags: u64) {
        let rq = &self.cpus[cpu.index()];
        if rq.in_balance {
            return;
        }
        let current = rq.current;
        let class = self.current_class(cpu);
        let preempt = flags & enq_flags::PREEMPT != 0 && class == Class::Ext && current != task;
        if preempt {
            self.objects.set_slice(memory, current, 0);
            self.cpus[cpu.index()].preempted = true;
        }
        if preempt || class == Class::Idle {
            self.resched(cpu);
        }
    }

    /// Takes a task out of the queue that holds it, if one does.
    pub fn dequeue_from(&mut self, task: TaskId) {
        let entry = self.task_mut(task);
        let position = entry.position;
        if let Some(queue) = entry.queue.take() {
            let found = self.queue_mut(queue).remove(position);
            assert_eq!(found, task, "a queue holds the task that says so");
        }
    }

    /// Whether `task` may go to `cpu`, another CPU than its own.
    pub fn may_move_to(&mut self, task: TaskId, cpu: CpuId, remote: Remote) -> bool {
        let entry = self.task(task);
        if !entry.allowed.contains(cpu) {
            if remote == Remote::Enforce {
                let name = self.name_of(task);
                self.fail(format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {name}"));
            }
            return false;
        }
        let online = self.cpus[cpu.index()].online;
        if !online && remote == Remote::Enforce {
            self.counters.dispatch_local_dsq_offline += 1;
        }
        online
    }

    /// Moves a queued task that does not run to another runqueue; no callback knows (contract T10).
    pub fn migrate(&mut self, task: TaskId, to: CpuId) {
        let from = self.task_cpu(task);
        if from == to {
            return;
        }
        if self.task(task).queued {
            self.cpus[from.index()].ext_tasks -= 1;
            self.cpus[to.index()].ext_tasks += 1;
        }
        self.task_mut(task).cpu = to;
        self.log(task, EventKind::Migrate { from, to });
    }

    /// `dispatch_to_local_dsq`: a verdict for the local queue of `to`, with the checks of contract D5 and the move of
    /// D6.
    pub fn send_to_local(&mut self, memory: &mut Memory, task: TaskId, to: CpuId, flags: u64, line: u32) {
        if self.task_cpu(task) != to {
            if !self.may_move_to(task, to, Remote::Enforce) {
                let global = self.global_of(task);
                self.enqueue_to(memory, task, global, None, flags, line);
                return;
            }
            self.migrate(task, to);
        }
        self.enqueue_to(memory, task, QueueRef::Local(to), None, flags, line);
    }

    /// `consume_dispatch_q`: the first task of `queue` that is here already or may come here goes to the local queue
    /// of `cpu` (contract D7).
    pub fn consume(&mut self, memory: &mut Memory, queue: QueueRef, cpu: CpuId, flags: u64, line: u32) -> bool {
        if self.exit.is_some() && !self.bypassing() {
            return false;
        }
        let mut place = None;
        while let Some((position, task)) = self.queue_mut(queue).next(place, false) {
            if self.task_cpu(task) == cpu || self.may_move_to(task, cpu, Remote::Skip) {
                self.dequeue_from(task);
                self.log_at(task, EventKind::Dispatch { from: queue.id(), to: cpu }, line);
                self.migrate(task, cpu);
                self.enqueue_to(memory, task, QueueRef::Local(cpu), None, flags, line);
                return true;
            }
            place = Some(position);
        }
        false
    }

    /// Consumes from the global queue of the CPU's node (contract P4).
    pub fn consume_global(&mut self, memory: &mut Memory, cpu: CpuId) -> bool {
        let node = self.node_of(cpu);
        !self.global[node as usize].is_empty() && self.consume(memory, QueueRef::Global(node), cpu, 0, 0)
    }

    /// Notes that a task is on its runqueue's list of runnable tasks; the watchdog's clock starts unless it runs
    /// already (contract W1).
    pub fn set_runnable(&mut self, task: TaskId) {
        self.arrivals += 1;
        let (now, arrival) = (self.jiffies_now(), self.arrivals);
        let entry = self.task_mut(task);
        entry.runnable_seq = arrival;
        if std::mem::take(&mut entry.reset_runnable_at) {
            entry.runnable_at = now;
        }
    }

    /// Takes it off that list.
    pub fn clear_runnable(&mut self, task: TaskId, has_run: bool) {
        let entry = self.task_mut(task);
        entry.runnable_seq = 0;
        entry.reset_runnable_at |= has_run;
    }

    /// Tasks that are runnable and do not run, in the order of `cpu`'s list.
    pub fn runnable_on(&self, cpu: CpuId) -> Vec<TaskId> {
        let mut found: Vec<(u64, TaskId)> = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            if task.runnable_seq != 0 && task.cpu == cpu {
                found.push((task.runnable_seq, TaskId(number as u32)));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, task)| task).collect()
    }
}
