// SPDX-License-Identifier: GPL-2.0-only
//! Execution of kernel operations that wait for locks.
//!
//! By default the kernel model executes an operation at one instant (the instant form), and the CPU goes through its
//! steps afterwards (`script`). With `+waiting` (the waiting form) both proceed together: the model stops before each
//! lock, the CPU spends the time used so far and takes the lock as in a script, and only then the model continues. So
//! each decision is made while holding the lock, and other CPUs act meanwhile.
//!
//! 1. Costs of operations and lock handoffs are the same with and without `+waiting`.
//! 2. Operations that the model executes atomically in any case (changes of tasks, hotplug, attaching or detaching a
//!    scheduler) wait until no other operation is in progress, and no other one begins before they are done.

use crate::alarms::Alarm;
use crate::cost::price;
use crate::cpu::Charge;
use crate::model::{Model, Obstacle};
use crate::run::Run;
use crate::script::Step;
use event_log::EventKind;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Effect, Leave, Lock, LockStep, Operation, Progress, Usage, Wait};
use machine_model::Nature;
use std::collections::VecDeque;

/// A kernel operation in progress on a CPU.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Set if it has not begun because others must complete first.
    planned: Option<Operation>,
    /// Usage of the scheduler's code since the operation began.
    used: Usage,
    /// Part of this usage that the script's steps already contain.
    paid: Nanos,
    /// Time to spend before the next step.
    spend: Nanos,
    /// Time to spend before it releases its runqueue lock.
    locked: Nanos,
    /// Interrupts to send when it is complete.
    sends: Vec<CpuId>,
    /// CPUs whose switch it must then wait for, with their numbers of schedule calls.
    awaits: Vec<(CpuId, u64)>,
}

/// State of waiting operations that concerns all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Operations wait for locks in this run.
    wait: bool,
    /// Number of operations in progress.
    begun: u32,
    /// CPUs that spin until another one has switched.
    switches: Vec<CpuId>,
    /// CPUs that wait until no operation is in progress, to execute an atomic one.
    quiet: VecDeque<CpuId>,
    /// CPUs whose operations begin after these atomic ones.
    held: Vec<CpuId>,
}

impl Operations {
    /// Whether operations wait for locks in this run.
    #[inline(always)]
    pub fn wait(&self) -> bool {
        self.wait
    }

    /// Decides whether operations wait for locks from now on.
    pub fn set_wait(&mut self, wait: bool) {
        self.wait = wait;
    }

    /// Whether any are in progress or planned.
    pub fn are_planned(&self) -> bool {
        self.begun > 0 || !self.held.is_empty()
    }
}

impl<M: Model> Run<'_, M> {
    /// Executes an operation on `cpu` that costs `charge` in addition to the scheduler's code, or begins it if
    /// operations wait for locks.
    pub fn operate(&mut self, cpu: CpuId, operation: Operation, charge: Charge) {
        if self.operations.wait {
            return self.begin(cpu, operation, charge);
        }
        self.tell_time();
        self.kernel.model.execute(cpu, operation);
        self.apply(cpu, charge);
    }

    /// Begins an operation on `cpu`, or defers it until others are complete.
    pub fn begin(&mut self, cpu: CpuId, operation: Operation, charge: Charge) {
        if let Operation::Wake(task, _) = operation {
            self.cancel_block(task);
        }
        let entry = &mut self.cpus[cpu];
        debug_assert!(entry.operation.is_none(), "CPU {cpu} already executes an operation");
        let Charge { idle_exit, interrupt, scheduler, locked } = charge;
        entry.charge(Charge { idle_exit, interrupt, ..Charge::default() });
        let mut pending = Pending { spend: scheduler - locked, locked, ..Pending::default() };
        if let Operation::Schedule(leave) = operation {
            pending.awaits = std::mem::take(&mut entry.awaits);
            if let (Leave::Block(_), Some(task)) = (leave, entry.current.some()) {
                self.tasks[task].blocks = true;
            }
        }
        let busy = self.operations.begun > 0;
        let waits = !self.operations.quiet.is_empty() || busy && self.kernel.model.is_disable_pending();
        pending.planned = waits.then_some(operation);
        entry.operation = Some(Box::new(pending));
        if waits {
            entry.parked = true;
            self.operations.held.push(cpu);
        } else {
            self.begin_now(cpu, operation);
        }
    }

    /// `task` is about to be woken: if its CPU has planned but not begun to block it, it does not block. If it has
    /// begun, the kernel model handles the wakeup.
    fn cancel_block(&mut self, task: TaskId) {
        if !self.tasks[task].blocks {
            return;
        }
        let entry = self.cpus.iter_mut().find(|entry| entry.current == task);
        let pending = entry.and_then(|entry| entry.operation.as_deref_mut());
        if let Some(Operation::Schedule(leave)) = pending.and_then(|pending| pending.planned.as_mut()) {
            *leave = Leave::Preempt;
        }
    }

    fn begin_now(&mut self, cpu: CpuId, operation: Operation) {
        self.operations.begun += 1;
        self.tell_time();
        let progress = self.kernel.model.begin(cpu, operation);
        self.follow_operation(cpu, &progress);
    }

    /// Continues the operation on `cpu`, which has paid what it owes.
    pub fn go_on_with_operation(&mut self, cpu: CpuId) {
        let pending = self.cpus[cpu].operation.as_mut().expect("an operation is in progress");
        if let Some(operation) = pending.planned.take() {
            self.begin_now(cpu, operation);
            return;
        }
        match self.kernel.model.obstacle(cpu) {
            None => {
                self.tell_time();
                let progress = self.kernel.model.resume(cpu);
                self.follow_operation(cpu, &progress);
            }
            Some(Obstacle::Switch) => {
                self.cpus[cpu].parked = true;
                self.operations.switches.push(cpu);
            }
            // The CPU that releases the lock at this very time comes later in the order of CPUs.
            Some(Obstacle::Lock) => self.cpus[cpu].charge(Charge::scheduler(Nanos(1))),
        }
    }

    /// Handles the output of the last part of the operation on `cpu`.
    fn follow_operation(&mut self, cpu: CpuId, progress: &Progress) {
        self.kernel.take_output();
        let mut pending = self.cpus[cpu].operation.take().expect("an operation is in progress");
        let mut switches = self.kernel.output.events.iter().filter_map(|event| match event.kind {
            EventKind::Switch { prev, .. } if event.cpu == cpu && prev != event.task => Some((prev, event.task)),
            _ => None,
        });
        if let Some((prev, next)) = switches.next_back() {
            pending.locked += self.switch_current(cpu, prev, next);
        }
        self.tell_output();
        self.write_part(cpu, &mut pending, progress);
        let mut effects = std::mem::take(&mut self.kernel.output.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Resched { cpu: target } if target != cpu => pending.sends.push(target),
                effect => self.carry(cpu, effect),
            }
        }
        self.kernel.output.effects = effects;
        match progress {
            Progress::Waits(_) => self.cpus[cpu].operation = Some(pending),
            Progress::Done(switch) => self.end_operation(cpu, *pending, switch.is_some()),
        }
        let entry = &self.cpus[cpu];
        if !entry.script.is_empty() && !entry.waits_for_lock {
            self.follow_script(cpu);
        }
    }

    /// Adds the steps up to the current point of the operation to the script.
    fn write_part(&mut self, cpu: CpuId, pending: &mut Pending, progress: &Progress) {
        let locks = self.locks.as_mut().expect("operations wait for locks");
        let costs = &self.machine.costs;
        let script = &mut self.cpus[cpu].script;
        let queue_call = Nanos(costs.call(Nature::Queue));
        let mut stand = |pending: &mut Pending, step: &LockStep, used: &Usage| {
            let paid = price(costs, used);
            pending.spend += paid - std::mem::replace(&mut pending.paid, paid);
            let is_queue = !matches!(step.lock, Lock::Runqueue(_) | Lock::Bpf(_));
            let number = locks.number(step.lock);
            if step.taken {
                // The cost of the kfunc was counted before the lock; it is spent while holding the lock.
                let held = if is_queue { pending.spend.min(queue_call) } else { Nanos::ZERO };
                script.push(Step::Spend(pending.spend - held));
                script.push(Step::Take(number, step.caller));
                pending.spend = held;
            } else {
                let own = matches!(step.lock, Lock::Runqueue(_)) && matches!(step.caller, "wakeup" | "schedule");
                let locked = if own { std::mem::take(&mut pending.locked) } else { Nanos::ZERO };
                script.push(Step::Spend(std::mem::take(&mut pending.spend) + locked));
                script.push(Step::Give(number));
            }
        };
        for step in &self.kernel.output.locks {
            stand(pending, step, &sum(&pending.used, &step.used));
        }
        pending.used = sum(&pending.used, &self.kernel.output.usage);
        let used = pending.used;
        if let Progress::Waits(Wait::Lock(step)) = progress {
            return stand(pending, step, &used);
        }
        let paid = price(costs, &used);
        let rest = paid - std::mem::replace(&mut pending.paid, paid);
        let locked = if let Progress::Done(_) = progress { std::mem::take(&mut pending.locked) } else { Nanos::ZERO };
        script.push(Step::Spend(std::mem::take(&mut pending.spend) + rest + locked));
    }

    /// The model has completed the operation of `cpu`, which continues to spend the remaining cost.
    fn end_operation(&mut self, cpu: CpuId, pending: Pending, switched: bool) {
        self.operations.begun -= 1;
        let entry = &mut self.cpus[cpu];
        if let Some(task) = entry.current.some() {
            self.tasks[task].blocks = false;
        }
        pending.sends.iter().for_each(|&cpu| entry.script.push(Step::Send(cpu)));
        self.cpus.spin_for(cpu, pending.awaits);
        if switched && self.cpus.is_any_spinning() {
            self.release_spinning();
        }
        for waiter in std::mem::take(&mut self.operations.switches) {
            if self.kernel.model.obstacle(waiter).is_none() {
                self.release(waiter);
            } else {
                self.operations.switches.push(waiter);
            }
        }
        if self.operations.begun == 0 {
            self.run_quiet_operations();
        }
    }

    /// `cpu` stops spinning.
    fn release(&mut self, cpu: CpuId) {
        self.settle(cpu);
        self.cpus[cpu].parked = false;
        self.alarms.set(Alarm::Cpu(cpu), self.clock.now());
    }

    /// Whether `cpu` can execute an atomic operation now. If not, it spins until no operation is in progress, and
    /// must try again then.
    pub fn is_quiet(&mut self, cpu: CpuId) -> bool {
        if self.operations.begun > 0 {
            self.operations.quiet.push_back(cpu);
            self.cpus[cpu].parked = true;
        }
        self.operations.begun == 0
    }

    /// No operation is in progress: the CPUs that wait for that continue, then the operations deferred because of
    /// them.
    fn run_quiet_operations(&mut self) {
        while let Some(cpu) = self.operations.quiet.pop_front() {
            self.settle(cpu);
            self.cpus[cpu].parked = false;
            self.advance(cpu);
            if self.operations.begun > 0 {
                return;
            }
        }
        // Process the CPUs in the order in which they were held: a wakeup may concern a task that is about to block.
        for cpu in std::mem::take(&mut self.operations.held) {
            self.settle(cpu);
            self.cpus[cpu].parked = false;
            self.advance(cpu);
        }
    }

    /// The CPU switches to another task or to idle; returns the cost.
    pub fn switch_current(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) -> Nanos {
        let cost = self.noise.switch(cpu, next, self.machine.costs.context_switch_ns);
        self.switch_memory(cpu, prev, next);
        let entry = &mut self.cpus[cpu];
        entry.current = next;
        if self.machine.no_hz_idle {
            if next == TaskId::NONE {
                entry.next_tick = Nanos::MAX;
            } else if prev == TaskId::NONE {
                entry.next_tick = self.ticks.after(self.clock.now(), cpu);
            }
        }
        cost
    }
}

fn sum(a: &Usage, b: &Usage) -> Usage {
    let calls = std::array::from_fn(|nature| a.calls[nature] + b.calls[nature]);
    Usage { callbacks: a.callbacks + b.callbacks, instructions: a.instructions + b.instructions, calls }
}
