// SPDX-License-Identifier: GPL-2.0-only
//! Execution of the fault plan: CPU hotplug, suspend, and clock faults.
//!
//! 1. Faults are serialized as by the kernel's hotplug lock: a fault that is due while another one is in progress
//!    waits.
//! 2. A CPU's part in its own hotplug is done by a kthread on that CPU (`cpuhp/N`), which the boot CPU wakes for each
//!    step; the scheduler schedules it like other tasks.
//! 3. For suspend, the kernel bypasses the scheduler, freezes the tasks, takes all CPUs but the first offline (the
//!    last one first), and stops its clock. Later events are postponed by the length of the suspend. Resume undoes
//!    this in the opposite order.

use crate::alarms::Alarm;
use crate::cpu::{Charge, Cpu};
use crate::interrupt::{Interrupt, Step};
use crate::model::{MachineChange, Model};
use crate::run::{BOOT_CPU, Run};
use crate::tasks::Role;
use event_log::{BlockCause, Waker};
use fault_plan::{Action, ClockFault, FaultPlan};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, Operation, TaskAttributes};
use std::collections::VecDeque;

/// Duration of `synchronize_rcu()` between the first steps of taking a CPU offline: three ticks at 250 Hz (chosen, not
/// measured).
const GRACE: Nanos = Nanos::from_ms(12);
/// Work of the hotplug kthread before a step takes effect (chosen, not measured): only tasks of that CPU could notice.
const STEP_NS: Nanos = Nanos::from_us(20);
/// Interval at which a CPU that goes offline is checked for remaining tasks (chosen, not measured).
const LOOK: Nanos = Nanos::from_us(10);
/// Interval at which the freezer checks whether all tasks have stopped (`try_to_freeze_tasks`).
const FREEZER_LOOK: Nanos = Nanos::from_ms(1);

impl<M: Model> Run<'_, M> {
    /// Plans these faults.
    pub fn plan_faults(&mut self, plan: &FaultPlan) {
        if let Some(first) = self.faults.plan(plan) {
            self.alarms.set(Alarm::Fault, first);
        }
    }

    /// Creates the hotplug kthreads during boot, if the plan needs them. They have run once, and sleep.
    pub fn create_hotplug_threads(&mut self, plan: &FaultPlan) {
        if plan.faults().iter().all(|fault| matches!(fault.action, Action::Clock(..))) {
            return;
        }
        for cpu in self.machine.all_cpus().iter() {
            let attributes = TaskAttributes {
                name: format!("cpuhp/{cpu}"),
                policy: Policy::Other,
                nice: 0,
                allowed: [cpu].into_iter().collect(),
                kernel_thread: true,
                own_cpu: Some(cpu),
                thread: false,
                parent: None,
                identity: Identity::default(),
            };
            let thread = self.boot_thread(cpu, attributes, Role::Hotplug);
            self.faults.add_thread(thread);
        }
    }

    /// Leaves these CPUs offline at boot, before anything runs.
    pub fn boot_without(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            self.kernel.model.change_machine(cpu, MachineChange::Deactivate);
            self.kernel.model.change_machine(cpu, MachineChange::Offline);
            self.apply(cpu, Charge::default());
            self.cpus[cpu].resched = false;
            assert_eq!(self.kill(cpu), None, "no task exists yet");
        }
    }

    /// Continues the plan as far as possible now.
    pub fn fault_due(&mut self) {
        while !self.clock.is_over() {
            if let Some(step) = self.faults.step() {
                if let Some(later) = self.take_step(step) {
                    return self.alarms.set(Alarm::Fault, later);
                }
                self.faults.end_step();
            } else if let Some(fault) = self.faults.take_fault(self.clock.now()) {
                self.faults.begin(self.steps_of(fault.action));
            } else {
                return self.faults.next_fault().into_iter().for_each(|next| self.alarms.set(Alarm::Fault, next));
            }
        }
    }

    fn steps_of(&self, action: Action) -> VecDeque<Step> {
        let down = |cpu| [Step::Deactivate(cpu), Step::Grace(None), Step::Offline(cpu), Step::Kill(cpu)];
        match action {
            Action::Offline(cpu) => down(cpu).into(),
            Action::Online(cpu) => [Step::Online(cpu), Step::Activate(cpu)].into(),
            Action::Clock(cpu, fault) => [Step::Clock(cpu, fault)].into(),
            Action::Suspend(length) => {
                let up = self.cpus.iter().filter(|cpu| !cpu.offline).map(Cpu::number);
                let others: Vec<CpuId> = up.filter(|cpu| *cpu != BOOT_CPU).collect();
                let mut steps = VecDeque::from([Step::Bypass, Step::Freeze]);
                steps.extend(others.iter().rev().flat_map(|&cpu| down(cpu)));
                steps.push_back(Step::Sleep(length));
                steps.extend(others.iter().flat_map(|&cpu| [Step::Online(cpu), Step::Activate(cpu)]));
                steps.push_back(Step::Thaw);
                steps
            }
        }
    }

    /// Executes a step; returns the time of the next attempt if it is not complete.
    fn take_step(&mut self, step: Step) -> Option<Nanos> {
        match step {
            Step::Deactivate(_) | Step::Offline(_) | Step::Activate(_) | Step::Bypass | Step::Thaw => self.order(step),
            Step::Grace(None) => {
                let end = self.clock.now() + GRACE;
                self.faults.replace_step(Step::Grace(Some(end)));
                Some(end)
            }
            Step::Grace(Some(_)) => None,
            Step::Kill(cpu) => self.kill(cpu),
            Step::Online(cpu) => {
                self.bring_up(cpu);
                None
            }
            Step::Clock(cpu, fault) => {
                self.disturb_clock(cpu, fault);
                None
            }
            Step::Freeze => self.freeze_all(),
            Step::Sleep(length) => self.fall_asleep(length),
            Step::Wake { length, .. } => {
                self.wake_up(length);
                None
            }
        }
    }

    /// Orders the CPU to execute a step, or to wake the kthread that does so, and waits for it.
    fn order(&mut self, step: Step) -> Option<Nanos> {
        if self.faults.order() {
            self.interrupt(BOOT_CPU, Some(Interrupt::Fault(step)));
        }
        (!self.faults.take_obeyed()).then(|| self.clock.now() + LOOK)
    }

    /// `cpu`, which owes no time, executes the step that it was ordered to, or wakes the kthread. Returns the cost.
    pub fn do_step(&mut self, cpu: CpuId, step: Step) -> Charge {
        match step {
            Step::Deactivate(target) | Step::Offline(target) | Step::Activate(target) => {
                let thread = self.faults.thread(target);
                self.kernel.model.execute(cpu, Operation::Wake(thread, Waker::External));
                return self.wakeup(cpu, thread);
            }
            Step::Bypass => self.kernel.model.change_machine(cpu, MachineChange::BeginSuspend),
            Step::Thaw => self.thaw(cpu),
            _ => unreachable!("{step:?} is not executed by a CPU"),
        }
        self.faults.obey();
        Charge::default()
    }

    /// The hotplug kthread of `cpu` works briefly, executes the step that it was woken for, and sleeps again.
    pub fn work_for_hotplug(&mut self, cpu: CpuId, thread: TaskId) {
        let task = &mut self.tasks[thread];
        if !std::mem::replace(&mut task.took_work, true) {
            return task.begin_work(STEP_NS);
        }
        task.took_work = false;
        self.tell_time();
        let change = match self.faults.step() {
            Some(Step::Deactivate(_)) => MachineChange::Deactivate,
            Some(Step::Offline(_)) => MachineChange::Offline,
            Some(Step::Activate(_)) => MachineChange::Activate,
            step => unreachable!("{step:?} is not executed by a kthread"),
        };
        self.kernel.model.change_machine(cpu, change);
        self.faults.obey();
        self.apply(cpu, Charge::default());
        if !self.clock.is_over() {
            self.schedule(cpu, Leave::Block(BlockCause::External));
        }
    }

    /// Stops a CPU that no task uses any more, and moves its timers to the boot CPU.
    fn kill(&mut self, cpu: CpuId) -> Option<Nanos> {
        self.settle(cpu);
        if !self.cpus[cpu].is_quiet() || !self.kernel.model.is_vacant(cpu) {
            return Some(self.clock.now() + LOOK);
        }
        self.watch(cpu);
        self.tell_time();
        self.kernel.model.change_machine(cpu, MachineChange::Kill);
        self.apply(BOOT_CPU, Charge::default());
        // No CPU waits for a switch of this one: contract K1 waits only for CPUs that run a task of the scheduler,
        // and this one has switched to idle since.
        let entry = &mut self.cpus[cpu];
        (entry.offline, entry.next_tick) = (true, Nanos::MAX);
        self.alarms.cancel(Alarm::Cpu(cpu));
        self.alarms.cancel(Alarm::Resched(cpu));
        self.alarms.move_timers(cpu, BOOT_CPU);
        self.tasks.move_sleep_timers(cpu, BOOT_CPU);
        None
    }

    /// Changes the clock of a CPU. Ticks then see another remaining slice, so they are replanned.
    fn disturb_clock(&mut self, cpu: CpuId, fault: ClockFault) {
        self.settle(cpu);
        self.tell_time();
        let change = match fault {
            ClockFault::Step(step) => MachineChange::StepClock(step),
            ClockFault::Drift(ppm) => MachineChange::DriftClock(ppm),
        };
        self.kernel.model.change_machine(cpu, change);
        self.advance(cpu);
    }

    fn bring_up(&mut self, cpu: CpuId) {
        self.settle(cpu);
        let entry = &mut self.cpus[cpu];
        let first_tick = || self.ticks.after(self.clock.now(), cpu);
        let next_tick = if self.machine.no_hz_idle { Nanos::MAX } else { first_tick() };
        (entry.offline, entry.next_tick) = (false, next_tick);
        self.tell_time();
        self.kernel.model.change_machine(cpu, MachineChange::Start);
        self.apply(cpu, Charge::default());
        self.advance(cpu);
    }

    /// Makes all tasks freeze as soon as they get a CPU.
    fn freeze_all(&mut self) -> Option<Nanos> {
        if self.faults.begin_freeze() {
            for cpu in self.cpus.numbers() {
                self.settle(cpu);
                self.advance(cpu);
            }
        }
        self.tasks.is_any_ready().then_some(self.clock.now() + FREEZER_LOOK)
    }

    /// The current task of `cpu`, which owes no time, freezes.
    pub fn freeze(&mut self, cpu: CpuId, task: TaskId) {
        self.count_step(task);
        self.tasks[task].frozen = true;
        self.faults.add_frozen(task);
        self.schedule(cpu, Leave::Block(BlockCause::External));
    }

    /// Stops the clock once the boot CPU idles.
    fn fall_asleep(&mut self, length: Nanos) -> Option<Nanos> {
        self.settle(BOOT_CPU);
        if !self.cpus[BOOT_CPU].is_quiet() {
            return Some(self.clock.now() + LOOK);
        }
        self.watch(BOOT_CPU);
        let entry = &mut self.cpus[BOOT_CPU];
        entry.offline = true;
        entry.next_tick = later(entry.next_tick, length);
        self.roll_back_all();
        self.alarms.postpone(length);
        if let Some(disks) = &mut self.disks {
            disks.postpone(length);
        }
        self.demands.postpone_starts(length);
        let at = self.clock.now() + length;
        self.faults.replace_step(Step::Wake { at, length });
        Some(at)
    }

    fn wake_up(&mut self, length: Nanos) {
        self.settle(BOOT_CPU);
        self.cpus[BOOT_CPU].offline = false;
        self.clock.suspend(length);
        self.ticks.postpone(length);
        self.advance(BOOT_CPU);
    }

    /// Thaws the tasks, in the order of their numbers, and delivers what became due for them.
    fn thaw(&mut self, cpu: CpuId) {
        for task in self.faults.end_freeze() {
            self.tasks[task].frozen = false;
            self.kernel.model.execute(cpu, Operation::Wake(task, Waker::External));
            let wakeup = self.wakeup(cpu, task);
            self.apply(cpu, wakeup);
        }
        let missed = self.faults.take_missed();
        self.cpus[cpu].inbox.extend(missed);
        self.kernel.model.change_machine(cpu, MachineChange::EndSuspend);
    }
}

/// Adds to a time, unless it is [`Nanos::MAX`].
fn later(time: Nanos, by: Nanos) -> Nanos {
    if time == Nanos::MAX { time } else { time + by }
}
