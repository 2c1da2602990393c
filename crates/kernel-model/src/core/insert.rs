// SPDX-License-Identifier: GPL-2.0-only
//! The kfuncs that insert and move tasks: direct dispatch, dispatch buffer, queue iterators (contract 1.5, K3, K4).

use super::dsq::{Position, QueueRef};
use super::task::{Owner, Verdict};
use super::{Core, DirectDispatch, Reenqueue, enq_flags, ops_flags};
use crate::ops::Op;
use bpf_machine::Memory;
use ids::{CpuId, DsqId, TaskId};

/// `-EINVAL`.
const EINVAL: i32 = -22;
/// `-EEXIST`.
const EEXIST: i32 = -17;
/// `-ENOENT`.
const ENOENT: i32 = -2;
/// SCX_DSQ_ITER_REV.
const ITER_REVERSE: u64 = 1 << 16;

/// A verdict in the dispatch buffer.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    task: TaskId,
    /// Sequence number of the `enqueue` that the verdict answers.
    seq: u32,
    verdict: Verdict,
}

/// Inserts made by the `dispatch` in progress and not yet carried out (contract D4).
#[derive(Debug, Default)]
pub(crate) struct DispatchBuffer {
    entries: Vec<Buffered>,
    /// The CPU that is dispatching.
    pub cpu: Option<CpuId>,
    /// Number of tasks inserted or moved in this round of `dispatch`.
    pub moved: u32,
}

/// State of a queue iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DsqCursor {
    /// The queue.
    pub dsq: DsqId,
    /// The task returned last, or NONE.
    pub last: TaskId,
    /// Insert count of the queue when the iterator was created: tasks inserted later are skipped (contract K3).
    pub seq: u64,
    /// Whether it walks from the tail to the head.
    pub reverse: bool,
    /// Position of `last`, so that iteration continues after `last` has left the queue.
    pub position: Position,
}

impl Core {
    /// `scx_vet_enq_flags`: rejects IMMED on other than local queues, and adds it on local queues under
    /// SCX_OPS_ALWAYS_ENQ_IMMED (contract D10).
    fn vet_flags(&mut self, dsq: DsqId, flags: u64) -> Option<u64> {
        let local = dsq == DsqId::LOCAL || dsq.local_cpu().is_some();
        if flags & enq_flags::IMMED != 0 && !local {
            self.fail(format!("SCX_ENQ_IMMED on a non-local DSQ {:#x}", dsq.0));
            return None;
        }
        let implied = local && self.attached.has_flags(ops_flags::ALWAYS_ENQ_IMMED);
        Some(if implied { flags | enq_flags::IMMED } else { flags })
    }

    /// `scx_bpf_dsq_insert`, or `scx_bpf_dsq_insert_vtime` if `vtime` is given. Returns false if the kernel refused
    /// the call before it changed the task.
    #[allow(clippy::too_many_arguments)]
    pub fn dsq_insert(
        &mut self,
        memory: &mut Memory,
        task: TaskId,
        dsq: DsqId,
        slice: u64,
        vtime: Option<u64>,
        flags: u64,
    ) -> bool {
        if flags & enq_flags::INTERNAL != 0 {
            self.fail(format!("invalid enq_flags {flags:#x}"));
            return false;
        }
        let Some(flags) = self.vet_flags(dsq, flags) else { return false };
        let residual = self.objects.slice(memory, task).max(1);
        self.objects.set_slice(memory, task, if slice == 0 { residual } else { slice });
        if let Some(vtime) = vtime {
            self.objects.set_vtime(memory, task, vtime);
        }
        let ordered = vtime.is_some();
        let verdict =
            Verdict { dsq, ordered, enq_flags: flags, op: self.context.running.op, call: self.context.running.call };
        match self.context.running.direct {
            DirectDispatch::Off => self.buffer_insert(task, verdict),
            DirectDispatch::Done(_) => {
                let name = self.name_of(task);
                self.fail(format!("{name} already direct-dispatched"));
            }
            DirectDispatch::Task(subject) => {
                self.context.running.direct = DirectDispatch::Done(subject);
                if subject == task {
                    self.task_mut(task).verdict = Some(verdict);
                } else {
                    let (subject, other) = (self.name_of(subject), self.name_of(task));
                    self.fail(format!("scheduling for {subject} but trying to direct-dispatch {other}"));
                }
            }
        }
        true
    }

    fn buffer_insert(&mut self, task: TaskId, verdict: Verdict) {
        if self.context.buffer.entries.len() >= self.attached.max_batch() {
            self.fail("dispatch buffer overflow".into());
            return;
        }
        let seq = match self.task(task).owner {
            Owner::Bpf(seq) | Owner::Queueing(seq) => seq,
            Owner::Core => 0,
        };
        self.context.buffer.entries.push(Buffered { task, seq, verdict });
    }

    /// CPU of a task that has a buffered verdict and whose `enqueue` is still in progress. This happens only if
    /// operations are interleaved (`+waiting`); the kernel's `finish_dispatch` waits for such a task.
    pub fn task_still_in_enqueue(&self) -> Option<CpuId> {
        let entries = self.context.buffer.entries.iter();
        let mut task_still_in_enqueue =
            entries.filter(|entry| self.task(entry.task).owner == Owner::Queueing(entry.seq));
        task_still_in_enqueue.next().map(|entry| self.task_cpu(entry.task))
    }

    /// Carries out the buffered verdicts. Verdicts about tasks that BPF no longer owns are dropped silently (contract
    /// D4).
    pub fn flush_buffer(&mut self, memory: &mut Memory) {
        let outer = self.blame(Some(Op::Dispatch), None);
        let cpu = self.context.buffer.cpu.unwrap_or(self.context.cpu);
        let mut entries = std::mem::take(&mut self.context.buffer.entries);
        self.context.buffer.moved += entries.len() as u32;
        for Buffered { task, seq, verdict } in entries.drain(..) {
            if self.task(task).owner != Owner::Bpf(seq) {
                continue;
            }
            self.context.running.call = verdict.call;
            match self.resolve(cpu, verdict.dsq, task) {
                QueueRef::Local(to) => {
                    self.send_to_local(memory, task, to, verdict.ordered, verdict.enq_flags);
                }
                queue => self.enqueue_to(memory, task, queue, verdict.ordered, verdict.enq_flags),
            }
        }
        self.context.buffer.entries = entries;
        self.blame(outer.0, outer.1);
    }

    /// `scx_bpf_dsq_move_to_local`.
    pub fn dsq_move_to_local(&mut self, memory: &mut Memory, dsq: DsqId, flags: u64) -> bool {
        let Some(flags) = self.vet_flags(DsqId::LOCAL, flags) else { return false };
        self.flush_buffer(memory);
        if dsq.is_builtin() || !self.queues.contains(dsq) {
            self.fail(format!("invalid DSQ ID {:#018x}", dsq.0));
            return false;
        }
        let cpu = self.context.buffer.cpu.unwrap_or(self.context.cpu);
        let moved = self.consume(memory, QueueRef::User(dsq), cpu, flags);
        self.context.buffer.moved += u32::from(moved);
        moved
    }

    /// `scx_bpf_dispatch_nr_slots`.
    pub fn dispatch_nr_slots(&mut self) -> u32 {
        (self.attached.max_batch() - self.context.buffer.entries.len()) as u32
    }

    /// `scx_bpf_dispatch_cancel`.
    pub fn dispatch_cancel(&mut self) {
        if self.context.buffer.entries.pop().is_none() {
            self.fail("dispatch buffer underflow".into());
        }
    }

    /// `scx_bpf_create_dsq`: returns 0 or a negative errno.
    pub fn create_dsq(&mut self, dsq: DsqId, node: i32) -> i32 {
        if dsq.is_builtin() || node >= self.nodes() as i32 || node < -1 {
            return EINVAL;
        }
        if self.queues.contains(dsq) {
            return EEXIST;
        }
        self.queues.create(dsq);
        0
    }

    /// `scx_bpf_destroy_dsq`.
    pub fn destroy_dsq(&mut self, dsq: DsqId) {
        match self.queues.user(dsq) {
            Some(queue) if !queue.is_empty() => {
                self.fail(format!("attempting to destroy in-use dsq {:#018x} (nr={})", dsq.0, queue.len()));
            }
            _ => self.queues.destroy(dsq),
        }
    }

    /// `scx_bpf_dsq_nr_queued`: returns the number of tasks or -ENOENT.
    pub fn dsq_nr_queued(&mut self, dsq: DsqId) -> i32 {
        let queue = match dsq {
            DsqId::LOCAL => Some(&self.cpus[self.locked_cpu().index()].local),
            id if id.local_cpu().is_some() => {
                let Some(cpu) = self.check_cpu(id.0 as u32 as i32) else { return ENOENT };
                Some(&self.cpus[cpu.index()].local)
            }
            id => self.queues.user(id),
        };
        queue.map_or(ENOENT, |queue| queue.len() as i32)
    }

    /// `scx_bpf_dsq_peek`.
    pub fn dsq_peek(&mut self, dsq: DsqId) -> Option<TaskId> {
        if dsq.is_builtin() {
            self.fail(format!("peek disallowed on builtin DSQ {:#x}", dsq.0));
            return None;
        }
        if !self.queues.contains(dsq) {
            self.fail(format!("peek on non-existent DSQ {:#x}", dsq.0));
        }
        self.queues.user(dsq)?.first()
    }

    /// Creates an iterator over a user queue; fails with -ENOENT or -EINVAL.
    pub fn dsq_iter(&mut self, dsq: DsqId, flags: u64) -> Result<DsqCursor, i32> {
        if flags & !ITER_REVERSE != 0 {
            return Err(EINVAL);
        }
        let queue = self.queues.user(dsq).ok_or(ENOENT)?;
        let reverse = flags & ITER_REVERSE != 0;
        Ok(DsqCursor { dsq, last: TaskId::NONE, seq: queue.seq(), reverse, position: (0, 0) })
    }

    /// Returns the next task of an iterator.
    pub fn dsq_iter_next(&mut self, cursor: &mut DsqCursor) -> Option<TaskId> {
        self.visit_queue(QueueRef::User(cursor.dsq));
        let queue = self.queues.user(cursor.dsq)?;
        loop {
            let after = cursor.last.some().map(|_| cursor.position);
            let (position, task) = queue.next(after, cursor.reverse)?;
            (cursor.last, cursor.position) = (task, position);
            if self.tasks[task].queue_seq <= cursor.seq {
                return Some(task);
            }
        }
    }

    /// `scx_bpf_dsq_move(_vtime)`: returns false if the task has left the queue since the iterator was created
    /// (contract K3).
    #[allow(clippy::too_many_arguments)]
    pub fn dsq_move(
        &mut self,
        memory: &mut Memory,
        cursor: &DsqCursor,
        task: TaskId,
        to: DsqId,
        slice: Option<u64>,
        vtime: Option<u64>,
        ordered: bool,
        flags: u64,
    ) -> bool {
        let Some(flags) = self.vet_flags(to, flags) else { return false };
        let entry = self.task(task);
        if entry.queue != Some(QueueRef::User(cursor.dsq)) || entry.queue_seq > cursor.seq || self.attached.is_exiting()
        {
            return false;
        }
        let cpu = self.locked_cpu();
        let target = self.resolve(cpu, to, task);
        self.dequeue_from(task);
        if let Some(slice) = slice {
            self.objects.set_slice(memory, task, slice);
        }
        if let Some(vtime) = vtime {
            self.objects.set_vtime(memory, task, vtime);
        }
        match target {
            // Within one runqueue the kernel inserts FIFO, whatever order was requested.
            QueueRef::Local(to) if to == self.task_cpu(task) => {
                self.enqueue_to(memory, task, target, false, flags);
            }
            QueueRef::Local(to) => self.send_to_local(memory, task, to, ordered, flags),
            queue => self.enqueue_to(memory, task, queue, ordered, flags),
        }
        true
    }

    /// `scx_bpf_dsq_reenq`: re-enqueues every task of a local or user queue when the operation ends (contract K2).
    pub fn dsq_reenqueue(&mut self, dsq: DsqId) {
        let local = if dsq == DsqId::LOCAL { Some(self.locked_cpu()) } else { dsq.local_cpu() };
        if local.is_some_and(|cpu| cpu.0 >= self.cpus()) {
            self.fail(format!("invalid CPU {} in SCX_DSQ_LOCAL_ON dispatch verdict", dsq.0 as u32 as i32));
        } else if let Some(cpu) = local {
            self.reenqueue_local_later(cpu, Reenqueue::All);
        } else if dsq != DsqId::GLOBAL && !self.queues.contains(dsq) {
            self.fail(format!("non-existent DSQ {:#x}", dsq.0));
        } else if self.bypassing() {
            // Bypass ignores the call without an error.
        } else if dsq == DsqId::GLOBAL {
            self.fail(format!("DSQ {:#x} not allowed for reenq", dsq.0));
        } else if !self.context.reenqueue_users.contains(&dsq) {
            self.context.reenqueue_users.push_back(dsq);
        }
    }

    /// `scx_bpf_reenqueue_local` in `cpu_release`: re-enqueues every task of the local queue when the operation ends;
    /// returns their number (contract K2).
    pub fn reenqueue_local(&mut self) -> u32 {
        let cpu = self.locked_cpu();
        let current = self.cpus[cpu.index()].current;
        self.reenqueue_local_later(cpu, Reenqueue::Released(current));
        self.cpus[cpu.index()].local.len() as u32
    }
}
