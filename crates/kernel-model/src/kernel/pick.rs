// SPDX-License-Identifier: GPL-2.0-only
//! Picks the next task of a CPU: `balance_one` and the order of the classes (contract 1.6).

use super::Kernel;
use crate::core::classes::Turn;
use crate::core::deadline::server::Served;
use crate::core::dsq::QueueRef;
use crate::core::task::Class;
use crate::core::{Reenqueue, ops_flags};
use crate::ops::Op;
use event_log::DetailKind;
use ids::{CpuId, TaskId};
use two_forms::two_forms;

/// Maximum number of `dispatch` calls in one pick (SCX_DSP_MAX_LOOPS).
const DISPATCH_ROUNDS: u32 = 32;

#[two_forms]
impl Kernel {
    /// Returns the next task of `cpu`, NONE for idle. `prev` is still current, and a candidate if it is runnable.
    pub(super) async fn pick_next(&mut self, cpu: CpuId, prev: TaskId) -> TaskId {
        let prev_class = prev.some().map_or(Class::Idle, |prev| self.core.task(prev).class);
        if prev_class < Class::Ext && self.core.task(prev).is_runnable() && self.core.task(prev).allowed.contains(cpu) {
            let over = std::mem::take(&mut self.core.cpus[cpu.index()].preempted);
            self.core.higher_put_back(prev, if over { Turn::Last } else { Turn::First });
        }
        if prev_class == Class::Deadline && !(self.core.task(prev).is_runnable() && self.core.is_in_class(prev)) {
            self.core.dl_pull(cpu);
        }
        let mut searched = false;
        while let Some(served) = self.core.server_first(cpu) {
            let task = match served {
                Served::Fair => self.core.fair_pick_served(cpu, prev),
                Served::Ext => {
                    searched = true;
                    self.pick_ext(cpu, prev, prev_class == Class::Ext).await
                }
            };
            if let Some(task) = task {
                return task;
            }
            self.core.server_stop(cpu, served);
        }
        if !searched {
            if let Some(task) = self.core.higher_pick(cpu, prev, Class::Ext, true) {
                return task;
            }
            if let Some(task) = self.pick_ext(cpu, prev, prev_class == Class::Ext).await {
                return task;
            }
        }
        // Searches other CPUs for fair tasks only once per pick.
        self.core.higher_pick(cpu, prev, Class::Ext, searched).unwrap_or(TaskId::NONE)
    }

    async fn pick_ext(&mut self, cpu: CpuId, prev: TaskId, prev_is_ext: bool) -> Option<TaskId> {
        if !self.schedules() {
            return None;
        }
        let rq = &mut self.core.cpus[cpu.index()];
        rq.kick_sync += 1;
        rq.in_balance = true;
        let kept = self.balance(cpu, prev, prev_is_ext).await;
        let rq = &mut self.core.cpus[cpu.index()];
        rq.in_balance = false;
        if rq.local.len() > 1 && rq.immed_tasks > 0 {
            self.core.reenqueue_local_later(cpu, Reenqueue::Immediate);
        }
        let memory = &mut self.machine.memory;
        let task = if kept { Some(prev) } else { self.core.cpus[cpu.index()].local.first() }?;
        if self.core.objects.slice(memory, task) == 0 {
            self.core.refill_slice(memory, task);
        }
        Some(task)
    }

    /// Moves a task to the local queue of `cpu`, or returns true to keep `prev`.
    async fn balance(&mut self, cpu: CpuId, prev: TaskId, prev_is_ext: bool) -> bool {
        if std::mem::take(&mut self.core.cpus[cpu.index()].released) {
            let args = self.core.objects.cpu_release_args(&mut self.machine.memory, u32::MAX, TaskId::NONE);
            self.call(Op::CpuAcquire, &[u64::from(cpu.0), args]).await;
        }
        let prev_runnable = prev_is_ext && self.core.task(prev).queued;
        let bypassing = self.core.bypassing();
        if prev_runnable && !bypassing && self.slice_left(prev) {
            return true;
        }
        let has_local = |kernel: &Kernel| !kernel.core.cpus[cpu.index()].local.is_empty();
        if has_local(self) || self.consume_global(cpu).await {
            return false;
        }
        if bypassing {
            if self.core.consume(&mut self.machine.memory, QueueRef::Bypass(cpu), cpu, 0) {
                return false;
            }
        } else if self.has(Op::Dispatch) && self.core.cpus[cpu.index()].scx_online {
            match self.dispatch_rounds(cpu, prev, prev_is_ext, prev_runnable).await {
                Found::Prev => return true,
                Found::Local => return false,
                Found::Nothing => {}
            }
        }
        if prev_runnable && (bypassing || !self.flag(ops_flags::ENQ_LAST)) {
            self.core.attached.counters.dispatch_keep_last += 1;
            return true;
        }
        false
    }

    async fn consume_global(&mut self, cpu: CpuId) -> bool {
        let consumed = self.core.consume_global(&mut self.machine.memory, cpu);
        self.visit_others().await;
        consumed
    }

    fn slice_left(&self, task: TaskId) -> bool {
        self.core.objects.slice(&self.machine.memory, task) > 0
    }

    /// Calls `dispatch` until a task is found, a call inserts and moves nothing, or the limit is reached (contract
    /// P5).
    async fn dispatch_rounds(&mut self, cpu: CpuId, prev: TaskId, prev_is_ext: bool, prev_runnable: bool) -> Found {
        self.core.context.buffer.cpu = Some(cpu);
        let prev_addr = if prev_is_ext { self.addr(prev) } else { 0 };
        let mut found = Found::Nothing;
        for round in 1..=DISPATCH_ROUNDS {
            self.core.context.buffer.moved = 0;
            self.call(Op::Dispatch, &[u64::from(cpu.0 as i32 as u32), prev_addr]).await;
            self.await_enqueues().await;
            self.core.flush_buffer(&mut self.machine.memory);
            self.visit_others().await;
            self.report_custody().await;
            if prev_runnable && self.core.task(prev).queued && self.slice_left(prev) {
                found = Found::Prev;
                break;
            }
            if !self.core.cpus[cpu.index()].local.is_empty() || self.consume_global(cpu).await {
                found = Found::Local;
                break;
            }
            if round == DISPATCH_ROUNDS {
                self.core.context.kicks.push((cpu, 0));
            }
            if self.core.context.buffer.moved == 0 {
                break;
            }
        }
        self.core.context.buffer.cpu = None;
        let keeps_last = prev_runnable && !self.flag(ops_flags::ENQ_LAST);
        let (brought, kept) = match found {
            Found::Prev => (true, true),
            Found::Local => (true, false),
            Found::Nothing => (false, keeps_last),
        };
        self.core.detail_of(Op::Dispatch, TaskId::NONE, |_| DetailKind::Dispatched { found: brought, kept });
        found
    }
}

/// Result of the `dispatch` calls of one pick.
enum Found {
    /// The previous task has slice left and continues.
    Prev,
    /// A task is in the local queue.
    Local,
    /// No task was found.
    Nothing,
}
