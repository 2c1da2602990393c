// SPDX-License-Identifier: GPL-2.0-only
//! Calls of the scheduler's operations.

use super::Kernel;
use crate::core::task::Owner;
use crate::core::{Callee, DirectDispatch, Running, exit_kind};
use crate::ops::Op;
use bpf_machine::{Fault, Step};
use bpf_object::FunctionId;
use event_log::DetailKind;
use ids::{CpuId, TaskId};
use two_forms::two_forms;

#[two_forms]
impl Kernel {
    /// Guest address of a task; for NONE, that of this CPU's idle task.
    #[inline]
    pub(super) fn addr(&self, task: TaskId) -> u64 {
        self.core.objects.task_addr(&self.machine.memory, task, self.core.context.cpu)
    }

    /// Calls an op that operates on no task, if the scheduler has it; returns the low 32 bits of its result.
    pub(super) async fn call(&mut self, op: Op, args: &[u64]) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Off, self.core.context.cpu, [TaskId::NONE; 2]).await
    }

    /// Calls an op that operates on a task, with the task's address and `arg` as arguments.
    pub(super) async fn call_task(&mut self, op: Op, task: TaskId, arg: u64) -> Option<u32> {
        if !self.has(op) {
            return None;
        }
        let args = [self.addr(task), arg];
        // `init_task` runs without the locks that make a task its subject.
        let subject = if op == Op::InitTask { TaskId::NONE } else { task };
        self.call_for(op, &args, DirectDispatch::Off, self.core.task_cpu(task), [subject, TaskId::NONE]).await
    }

    /// Calls `yield`, which operates on two tasks.
    pub(super) fn call_yield_to(&mut self, from: TaskId, to: TaskId) -> Option<u32> {
        let args = [self.addr(from), self.addr(to)];
        self.call_for(Op::Yield, &args, DirectDispatch::Off, self.core.task_cpu(from), [from, to])
    }

    /// Calls `select_cpu` or `enqueue`, which may direct-dispatch `task`.
    pub(super) async fn call_deciding(&mut self, op: Op, args: &[u64], task: TaskId) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Task(task), self.core.task_cpu(task), [task, TaskId::NONE]).await
    }

    /// Calls an op with `args` that operates on a task, under the lock of the task's runqueue.
    pub(super) fn call_about(&mut self, op: Op, args: &[u64], task: TaskId) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Off, self.core.task_cpu(task), [task, TaskId::NONE])
    }

    /// Calls an op. `cpu` is the CPU whose runqueue is locked if the op runs under that lock; `subjects` are the
    /// tasks that it operates on.
    async fn call_for(
        &mut self,
        op: Op,
        args: &[u64],
        direct: DirectDispatch,
        cpu: CpuId,
        subjects: [TaskId; 2],
    ) -> Option<u32> {
        let function = self.scheduler.as_ref()?.ops[op as usize]?;
        let result = self.enter(op, function, args, direct, cpu, subjects).await;
        self.report_custody().await;
        Some(result as u32)
    }

    async fn enter(
        &mut self,
        op: Op,
        function: FunctionId,
        args: &[u64],
        direct: DirectDispatch,
        cpu: CpuId,
        subjects: [TaskId; 2],
    ) -> u64 {
        self.op_counts[op as usize] += 1;
        let block = self.machine.argument_block(&self.execution, args);
        let locked = op.locks_runqueue().then_some(cpu);
        let running = Running { op: Some(op), direct, locked, subjects, ..Running::NONE };
        let subject = || subjects[0].some().or_else(|| self.core.current(self.core.context.cpu).some());
        let watched = self.core.recorded.details.then(subject).flatten();
        let before = watched.map_or(Vec::new(), |task| self.stored_words(op, task));
        let result = self.execute(running, function, &[block]).await;
        if let Some(task) = watched {
            self.record_written_words(op, task, &before);
        }
        result
    }

    /// The words that the scheduler stores for a task, in its maps and as slice and virtual time. Ops that insert
    /// tasks leave out the last two, because the kernel itself writes them there.
    fn stored_words(&self, op: Op, task: TaskId) -> Vec<u64> {
        let memory = &self.machine.memory;
        let mut words = self.machine.maps.stored_words(memory, self.addr(task));
        if !matches!(op, Op::SelectCpu | Op::Enqueue | Op::Dispatch) {
            words.extend([self.core.objects.slice(memory, task), self.core.objects.vtime(memory, task)]);
        }
        words
    }

    /// Records as details the stored words that `op` changed. Words whose old value was small are skipped: they are
    /// counts and flags.
    fn record_written_words(&mut self, op: Op, task: TaskId, before: &[u64]) {
        const SMALL: u64 = 1 << 10;
        let after = self.stored_words(op, task);
        for (&value, _) in after.iter().zip(before).filter(|(value, before)| value != before && **value > SMALL) {
            self.core.detail_of(op, task, |_| DetailKind::Wrote { value });
        }
    }

    /// Calls `dequeue`, during which no task can leave custody.
    async fn call_dequeue(&mut self, task: TaskId, flags: u64) {
        let Some(function) = self.scheduler.as_ref().and_then(|scheduler| scheduler.ops[Op::Dequeue as usize]) else {
            return;
        };
        let (args, cpu) = ([self.addr(task), flags], self.core.task_cpu(task));
        self.enter(Op::Dequeue, function, &args, DirectDispatch::Off, cpu, [task, TaskId::NONE]).await;
    }

    /// Runs a function of the scheduler on this CPU until it returns.
    #[inline(always)]
    pub(super) async fn execute(&mut self, running: Running, function: FunctionId, args: &[u64]) -> u64 {
        let outer = std::mem::replace(&mut self.core.context.running, running);
        self.core.output.usage.callbacks += 1;
        self.machine.begin(&mut self.execution, function, args, self.core.context.cpu.0);
        let result = loop {
            match self.machine.run(&mut self.execution, &mut *self.core) {
                Ok(Step::Done(result)) => break result,
                Ok(Step::Paused) => self.stop_in_program().await,
                Err(fault) => {
                    self.fault(running.op.expect("some callback runs"), fault);
                    break 0;
                }
            }
        };
        self.core.context.running = outer;
        self.core.count_executed(self.execution.executed);
        self.core.context.counted = 0;
        self.core.context.locks.in_flight = 0;
        self.visit_others().await;
        result
    }

    /// Ends the scheduler after a fault of its program, which the verifier of a real kernel would have rejected.
    pub(super) fn fault(&mut self, op: Op, fault: Fault) {
        let first = !self.core.attached.is_exiting();
        self.core.objects.iterators.forget();
        let callee = self.core.context.running.call.map(|call| call.callee).or(fault.helper.map(Callee::Helper));
        self.core.error(exit_kind::ERROR, 0, format!("BPF fault in ops.{}(): {fault}", op.name()));
        let source = self.core.attached.source(fault.own);
        let attached = &mut self.core.attached;
        if first && let Some(exit) = &mut attached.exit {
            (exit.fault, exit.cause.source) = (Some(fault.to_string()), source);
            attached.exit_callee = callee;
        }
    }

    /// Calls `dequeue` for the tasks that left custody during the callback (contract T14). The kernel calls it within
    /// that callback; a program can see the difference only if it reads its own state between two kfunc calls.
    #[inline]
    pub(super) async fn report_custody(&mut self) {
        if !self.core.context.left_custody.is_empty() {
            self.report_all_custody().await;
        }
    }

    async fn report_all_custody(&mut self) {
        while !self.core.context.left_custody.is_empty() {
            let (task, flags) = self.core.context.left_custody.remove(0);
            self.call_dequeue(task, flags).await;
        }
    }

    /// `ops_dequeue`: ends the BPF custody of a task; `flags` are those passed to `dequeue`.
    pub(super) async fn take_from_bpf(&mut self, task: TaskId, flags: u64) {
        let entry = self.core.task_mut(task);
        if matches!(entry.owner, Owner::Bpf(_)) {
            entry.owner = Owner::Core;
        }
        if std::mem::take(&mut entry.custody) {
            self.show_flags(task);
            self.call_dequeue(task, flags).await;
        }
    }
}
