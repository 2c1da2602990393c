// SPDX-License-Identifier: GPL-2.0-only
//! Calling the scheduler's operations.

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
    /// Address of the guest object of a task; the idle task of this CPU for NONE.
    #[inline]
    pub(super) fn addr(&self, task: TaskId) -> u64 {
        self.core.objects.task_addr(&self.machine.memory, task, self.core.context.cpu)
    }

    /// Calls an op about this CPU or about nothing, if the scheduler has it; the low 32 bits of what it returns.
    pub(super) async fn call(&mut self, op: Op, args: &[u64]) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Off, self.core.context.cpu, [TaskId::NONE; 2]).await
    }

    /// Calls an op about a task: its address goes first.
    pub(super) async fn call_task(&mut self, op: Op, task: TaskId, arg: u64) -> Option<u32> {
        if !self.has(op) {
            return None;
        }
        let args = [self.addr(task), arg];
        // `init_task` runs without the locks that make a task its subject.
        let subject = if op == Op::InitTask { TaskId::NONE } else { task };
        self.call_for(op, &args, DirectDispatch::Off, self.core.task_cpu(task), [subject, TaskId::NONE]).await
    }

    /// Calls `yield` about two tasks.
    pub(super) fn call_yield_to(&mut self, from: TaskId, to: TaskId) -> Option<u32> {
        let args = [self.addr(from), self.addr(to)];
        self.call_for(Op::Yield, &args, DirectDispatch::Off, self.core.task_cpu(from), [from, to])
    }

    /// Calls `select_cpu` or `enqueue`, which may dispatch `task` directly.
    pub(super) async fn call_deciding(&mut self, op: Op, args: &[u64], task: TaskId) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Task(task), self.core.task_cpu(task), [task, TaskId::NONE]).await
    }

    /// Calls an op about a task with arguments of its own, under the lock of its runqueue.
    pub(super) fn call_about(&mut self, op: Op, args: &[u64], task: TaskId) -> Option<u32> {
        self.call_for(op, args, DirectDispatch::Off, self.core.task_cpu(task), [task, TaskId::NONE])
    }

    /// `cpu` is the one whose runqueue an op under a lock has locked, `subjects` are the tasks that it is about.
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
        let watched = self.core.details_told.then(subject).flatten();
        let before = watched.map_or(Vec::new(), |task| self.kept_for(op, task));
        let result = self.execute(running, function, &[block]).await;
        if let Some(task) = watched {
            self.tell_written(op, task, &before);
        }
        result
    }

    /// What the scheduler keeps for a task, its slice and its virtual time; the latter two not in ops that insert tasks, as
    /// the kernel itself writes them then.
    fn kept_for(&self, op: Op, task: TaskId) -> Vec<u64> {
        let memory = &self.machine.memory;
        let mut words = self.machine.maps.kept_for(memory, self.addr(task));
        if !matches!(op, Op::SelectCpu | Op::Enqueue | Op::Dispatch) {
            words.extend([self.core.objects.slice(memory, task), self.core.objects.vtime(memory, task)]);
        }
        words
    }

    /// Tells what `op` changed in that. Small numbers are left out: they are counts and flags, which tell nothing.
    fn tell_written(&mut self, op: Op, task: TaskId, before: &[u64]) {
        const SMALL: u64 = 1 << 10;
        let after = self.kept_for(op, task);
        for (&value, _) in after.iter().zip(before).filter(|(value, before)| value != before && **value > SMALL) {
            self.core.detail_of(op, task, |_| DetailKind::Wrote { value });
        }
    }

    /// Calls `dequeue`, after which nobody leaves custody.
    async fn call_dequeue(&mut self, task: TaskId, flags: u64) {
        let Some(function) = self.scheduler.as_ref().and_then(|scheduler| scheduler.ops[Op::Dequeue as usize]) else {
            return;
        };
        let (args, cpu) = ([self.addr(task), flags], self.core.task_cpu(task));
        self.enter(Op::Dequeue, function, &args, DirectDispatch::Off, cpu, [task, TaskId::NONE]).await;
    }

    /// Runs a function of the scheduler to its end, on this CPU.
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

    /// A fault of the program: the verifier of a real kernel would have refused it, so it ends the scheduler.
    pub(super) fn fault(&mut self, op: Op, fault: Fault) {
        let first = self.core.exit.is_none();
        let callee = self.core.context.running.call.map(|call| call.callee).or(fault.helper.map(Callee::Helper));
        self.core.error(exit_kind::ERROR, 0, format!("BPF fault in ops.{}(): {fault}", op.name()));
        if first && let Some(exit) = &mut self.core.exit {
            exit.fault = Some(fault.to_string());
            exit.cause.call = callee.map(Callee::name);
            let file = self.core.files.get(usize::from(fault.own.file)).filter(|_| fault.own.is_known());
            exit.cause.source = file.map(|file| (file.clone(), fault.own.line));
        }
    }

    /// Calls `dequeue` for the tasks that left custody during the callback (contract T14). The kernel calls it inside
    /// of that callback; a program cannot tell unless it looks at its own state between two kfuncs.
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

    /// `ops_dequeue`: takes a task out of BPF hands, for `flags` reasons.
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
