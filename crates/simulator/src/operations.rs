// SPDX-License-Identifier: GPL-2.0-only
//! Operations of the kernel that wait, as the CPU's time sees them.
//!
//! In the default form the kernel does an operation at one instant, and the CPU goes through its steps afterwards
//! (`script`). In the waiting form the kernel's part goes along: it stops before each lock, the CPU spends what was used
//! up to there and takes the lock as in a script, and only then the kernel goes on. So what it decides, it decides when it
//! has the lock, and others act meanwhile.
//!
//! 1. What an operation costs and how locks are passed on is the same in both forms.
//! 2. What the kernel model does at one instant in any case (changes of tasks, hotplug, a scheduler that comes or goes) waits
//!    until no operation is in progress, and no other begins before it is done.

use crate::alarms::Alarm;
use crate::cost::price;
use crate::cpu::Charge;
use crate::model::Model;
use crate::run::Run;
use crate::script::Step;
use event_log::EventKind;
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Effect, Leave, Lock, LockStep, Operation, Progress, Usage, Wait};
use machine_model::Nature;
use std::collections::VecDeque;

/// An operation in progress on a CPU.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// It has not begun: others must be done before.
    planned: Option<Operation>,
    /// What it has used since it began.
    used: Usage,
    /// So much of that is in steps already.
    paid: Nanos,
    /// To be spent before what follows.
    spend: Nanos,
    /// To be spent before it gives its runqueue back.
    locked: Nanos,
    /// Interrupts that it sends when it is done.
    sends: Vec<CpuId>,
    /// Whom it must see switch then.
    awaits: Vec<(CpuId, u64)>,
}

/// What of all CPUs matters to operations that wait.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// Operations wait in this run.
    pub wait: bool,
    /// How many are in progress.
    pub begun: u32,
    /// CPUs that spin until another one has switched.
    switches: Vec<CpuId>,
    /// CPUs that want to do something while no operation is in progress.
    quiet: VecDeque<CpuId>,
    /// CPUs whose operations begin after that.
    held: Vec<CpuId>,
}

impl Operations {
    /// Whether some are in progress, or will be.
    pub fn are_planned(&self) -> bool {
        self.begun > 0 || !self.held.is_empty()
    }
}

impl<M: Model> Run<'_, M> {
    /// An operation begins on `cpu`, or will when others are done.
    pub fn begin(&mut self, cpu: CpuId, operation: Operation, charge: Charge) {
        if let Operation::Wake(task, _) = operation {
            self.stay_awake(task);
        }
        let entry = &mut self.cpus[cpu.index()];
        debug_assert!(entry.operation.is_none(), "CPU {cpu} does one thing at a time");
        let Charge { idle_exit, interrupt, scheduler, locked } = charge;
        entry.charge(Charge { idle_exit, interrupt, ..Charge::default() });
        let mut pending = Pending { spend: scheduler - locked, locked, ..Pending::default() };
        if let Operation::Schedule(leave) = operation {
            pending.awaits = std::mem::take(&mut entry.awaits);
            if let (Leave::Block(_), Some(task)) = (leave, entry.current.some()) {
                self.tasks[task.index()].blocks = true;
            }
        }
        let busy = self.operations.begun > 0;
        let waits = !self.operations.quiet.is_empty() || busy && self.model.is_disable_pending();
        pending.planned = waits.then_some(operation);
        entry.operation = Some(Box::new(pending));
        if waits {
            entry.parked = true;
            self.operations.held.push(cpu);
        } else {
            self.begin_now(cpu, operation);
        }
    }

    /// `task` is to be woken: if its CPU is about to put it to sleep and has not begun with that, it does not. The kernel
    /// itself tells one that has begun.
    fn stay_awake(&mut self, task: TaskId) {
        if !self.tasks[task.index()].blocks {
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
        let progress = self.model.begin(cpu, operation);
        self.follow_operation(cpu, &progress);
    }

    /// The operation on `cpu`, which has spent what it owes, goes on.
    pub fn go_on_with_operation(&mut self, cpu: CpuId) {
        let pending = self.cpus[cpu.index()].operation.as_mut().expect("one is in progress");
        if let Some(operation) = pending.planned.take() {
            self.begin_now(cpu, operation);
        } else if self.model.may_resume(cpu) {
            self.tell_time();
            let progress = self.model.resume(cpu);
            self.follow_operation(cpu, &progress);
        } else if self.model.waits_for_switch(cpu) {
            self.cpus[cpu.index()].parked = true;
            self.operations.switches.push(cpu);
        } else {
            // Who gives the lock back at this very time comes later in the order of CPUs.
            self.cpus[cpu.index()].charge(Charge { scheduler: Nanos(1), ..Charge::default() });
        }
    }

    /// What the last part of the operation on `cpu` left.
    fn follow_operation(&mut self, cpu: CpuId, progress: &Progress) {
        self.model.take_output(&mut self.output);
        self.instructions += self.output.usage.instructions;
        let mut pending = self.cpus[cpu.index()].operation.take().expect("one is in progress");
        let mut switches = self.output.events.iter().filter_map(|event| match event.kind {
            EventKind::Switch { prev, .. } if event.cpu == cpu && prev != event.task => Some((prev, event.task)),
            _ => None,
        });
        if let Some((prev, next)) = switches.next_back() {
            pending.locked += self.take_over(cpu, prev, next);
        }
        self.tell_output();
        self.write_part(cpu, &mut pending, progress);
        let mut effects = std::mem::take(&mut self.output.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Resched { cpu: target } if target != cpu => pending.sends.push(target),
                effect => self.carry(cpu, effect),
            }
        }
        self.output.effects = effects;
        match progress {
            Progress::Waits(_) => self.cpus[cpu.index()].operation = Some(pending),
            Progress::Done(switch) => self.end_operation(cpu, *pending, switch.is_some()),
        }
        let entry = &self.cpus[cpu.index()];
        if !entry.script.is_empty() && !entry.waits_for_lock {
            self.follow_script(cpu);
        }
    }

    /// Writes down the steps up to where the operation stands now.
    fn write_part(&mut self, cpu: CpuId, pending: &mut Pending, progress: &Progress) {
        let locks = self.locks.as_mut().expect("operations wait for locks");
        let costs = &self.machine.costs;
        let script = &mut self.cpus[cpu.index()].script;
        let queue_call = Nanos(costs.call(Nature::Queue));
        let mut stand = |pending: &mut Pending, step: &LockStep, used: &Usage| {
            let paid = price(costs, used);
            pending.spend += paid - std::mem::replace(&mut pending.paid, paid);
            let is_queue = !matches!(step.lock, Lock::Runqueue(_) | Lock::Bpf(_));
            let number = locks.number(step.lock);
            if step.taken {
                // What the kfunc costs was counted before it came to the lock; it is spent under it.
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
        for step in &self.output.locks {
            stand(pending, step, &sum(&pending.used, &step.used));
        }
        pending.used = sum(&pending.used, &self.output.usage);
        let used = pending.used;
        if let Progress::Waits(Wait::Lock(step)) = progress {
            return stand(pending, step, &used);
        }
        let paid = price(costs, &used);
        let rest = paid - std::mem::replace(&mut pending.paid, paid);
        let locked = if let Progress::Done(_) = progress { std::mem::take(&mut pending.locked) } else { Nanos::ZERO };
        script.push(Step::Spend(std::mem::take(&mut pending.spend) + rest + locked));
    }

    /// The kernel has done what `cpu` began; that goes on to spend what it cost.
    fn end_operation(&mut self, cpu: CpuId, pending: Pending, switched: bool) {
        self.operations.begun -= 1;
        let entry = &mut self.cpus[cpu.index()];
        if let Some(task) = entry.current.some() {
            self.tasks[task.index()].blocks = false;
        }
        pending.sends.iter().for_each(|&cpu| entry.script.push(Step::Send(cpu)));
        if !pending.awaits.is_empty() {
            entry.spins_for = pending.awaits;
            self.spinning.push(cpu);
        }
        if switched && !self.spinning.is_empty() {
            self.release_spinning();
        }
        for waiter in std::mem::take(&mut self.operations.switches) {
            if self.model.may_resume(waiter) {
                self.release(waiter);
            } else {
                self.operations.switches.push(waiter);
            }
        }
        if self.operations.begun == 0 {
            self.use_quiet();
        }
    }

    /// `cpu` spins no longer.
    fn release(&mut self, cpu: CpuId) {
        self.settle(cpu);
        self.cpus[cpu.index()].parked = false;
        self.alarms.set(Alarm::Cpu(cpu), self.now);
    }

    /// Whether `cpu` can do now what needs that no operation is in progress. If not, it spins until it can, and is to try
    /// again then.
    pub fn is_quiet(&mut self, cpu: CpuId) -> bool {
        if self.operations.begun > 0 {
            self.operations.quiet.push_back(cpu);
            self.cpus[cpu.index()].parked = true;
        }
        self.operations.begun == 0
    }

    /// No operation is in progress: those who waited for that have their turn, then those who waited for them.
    fn use_quiet(&mut self) {
        while let Some(cpu) = self.operations.quiet.pop_front() {
            self.settle(cpu);
            self.cpus[cpu.index()].parked = false;
            self.advance(cpu);
            if self.operations.begun > 0 {
                return;
            }
        }
        // In the order in which they came: a wakeup may be for one who is about to sleep.
        for cpu in std::mem::take(&mut self.operations.held) {
            self.settle(cpu);
            self.cpus[cpu.index()].parked = false;
            self.advance(cpu);
        }
    }

    /// The CPU runs another task, or idles; what that takes.
    pub fn take_over(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) -> Nanos {
        let cost = self.noise.switch(cpu, next, self.machine.costs.context_switch_ns);
        let entry = &mut self.cpus[cpu.index()];
        entry.current = next;
        if self.machine.no_hz_idle {
            if next == TaskId::NONE {
                entry.next_tick = Nanos::MAX;
            } else if prev == TaskId::NONE {
                entry.next_tick = self.ticks.after(self.now, cpu);
            }
        }
        cost
    }
}

fn sum(a: &Usage, b: &Usage) -> Usage {
    let calls = std::array::from_fn(|nature| a.calls[nature] + b.calls[nature]);
    Usage { callbacks: a.callbacks + b.callbacks, instructions: a.instructions + b.instructions, calls }
}
