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
use crate::cpu::Charge;
use crate::interrupt::{Interrupt, Step};
use crate::model::Model;
use crate::plan::Ordered;
use crate::run::{BOOT_CPU, Run};
use crate::tasks::Role;
use event_log::{BlockCause, Waker};
use fault_plan::{Action, ClockFault, FaultPlan};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};
use kernel_model::{Identity, Leave, TaskAttributes};
use std::collections::VecDeque;

/// Duration of `synchronize_rcu()` between the first steps of taking a CPU offline: three ticks at 250 Hz. A choice.
const GRACE: Nanos = Nanos::from_ms(12);
/// Work of that kthread before a step takes effect. A choice: only tasks of that CPU could notice.
const STEP_NS: Nanos = Nanos::from_us(20);
/// Interval at which a CPU that goes offline is checked for remaining tasks. A choice.
const LOOK: Nanos = Nanos::from_us(10);
/// Interval at which the freezer checks whether all tasks have stopped (`try_to_freeze_tasks`).
const FREEZER_LOOK: Nanos = Nanos::from_ms(1);

impl<M: Model> Run<'_, M> {
    /// Plans these faults.
    pub fn plan_faults(&mut self, plan: &FaultPlan) {
        self.faults.plan = plan.faults().iter().copied().collect();
        if let Some(first) = self.faults.plan.front() {
            self.alarms.set(Alarm::Fault, first.at);
        }
    }

    /// Creates the hotplug kthreads during boot, if the plan needs them. They have run once, and sleep.
    pub fn create_hotplug_threads(&mut self, plan: &FaultPlan) {
        if plan.faults().iter().all(|fault| matches!(fault.action, Action::Clock(..))) {
            return;
        }
        for cpu in self.all_cpus.clone().iter() {
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
            self.faults.threads.push(thread);
        }
    }

    /// Leaves these CPUs offline at boot, before anything runs.
    pub fn boot_without(&mut self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            self.model.deactivate_cpu(cpu);
            self.model.offline_cpu(cpu);
            self.apply(cpu, Charge::default());
            self.cpus[cpu.index()].resched = false;
            assert_eq!(self.kill(cpu), None, "no task exists yet");
        }
    }

    /// Continues the plan as far as possible now.
    pub fn fault_due(&mut self) {
        while self.end.is_none() {
            if let Some(&step) = self.faults.steps.front() {
                if let Some(later) = self.take_step(step) {
                    return self.alarms.set(Alarm::Fault, later);
                }
                self.faults.steps.pop_front();
                continue;
            }
            match self.faults.plan.front() {
                Some(&fault) if fault.at <= self.now => {
                    self.faults.plan.pop_front();
                    self.faults.steps = self.steps_of(fault.action);
                }
                Some(fault) => return self.alarms.set(Alarm::Fault, fault.at),
                None => return,
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
                let up = |cpu: &CpuId| *cpu != BOOT_CPU && !self.cpus[cpu.index()].offline;
                let others: Vec<CpuId> = self.all_cpus.iter().filter(up).collect();
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
                self.faults.steps[0] = Step::Grace(Some(self.now + GRACE));
                Some(self.now + GRACE)
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
        if self.faults.ordered == Ordered::No {
            self.faults.ordered = Ordered::Waits;
            self.interrupt(BOOT_CPU, Some(Interrupt::Fault(step)));
        }
        if self.faults.ordered == Ordered::Waits {
            return Some(self.now + LOOK);
        }
        self.faults.ordered = Ordered::No;
        None
    }

    /// `cpu`, which owes no time, executes the step that it was ordered to, or wakes the kthread. Returns the cost.
    pub fn do_step(&mut self, cpu: CpuId, step: Step) -> Charge {
        match step {
            Step::Deactivate(target) | Step::Offline(target) | Step::Activate(target) => {
                let thread = self.faults.threads[target.index()];
                self.model.wake(cpu, thread, Waker::External);
                return self.wakeup(cpu, thread);
            }
            Step::Bypass => self.model.begin_suspend(cpu),
            Step::Thaw => self.thaw(cpu),
            _ => unreachable!("{step:?} is not executed by a CPU"),
        }
        self.faults.ordered = Ordered::Done;
        Charge::default()
    }

    /// The hotplug kthread of `cpu` works briefly, executes the step that it was woken for, and sleeps again.
    pub fn work_for_hotplug(&mut self, cpu: CpuId, thread: TaskId) {
        let task = &mut self.tasks[thread.index()];
        if !std::mem::replace(&mut task.took_work, true) {
            return task.begin_work(STEP_NS);
        }
        task.took_work = false;
        self.tell_time();
        match self.faults.steps[0] {
            Step::Deactivate(_) => self.model.deactivate_cpu(cpu),
            Step::Offline(_) => self.model.offline_cpu(cpu),
            Step::Activate(_) => self.model.activate_cpu(cpu),
            step => unreachable!("{step:?} is not executed by a kthread"),
        }
        self.faults.ordered = Ordered::Done;
        self.apply(cpu, Charge::default());
        if self.end.is_none() {
            self.schedule(cpu, Leave::Block(BlockCause::External));
        }
    }

    /// Stops a CPU that no task uses any more, and moves its timers to the boot CPU.
    fn kill(&mut self, cpu: CpuId) -> Option<Nanos> {
        self.settle(cpu);
        if !self.cpus[cpu.index()].is_quiet() || !self.model.is_vacant(cpu) {
            return Some(self.now + LOOK);
        }
        self.watch(cpu);
        self.tell_time();
        self.model.kill_cpu(cpu);
        self.apply(BOOT_CPU, Charge::default());
        // No CPU waits for a switch of this one: contract K1 waits only for CPUs that run a task of the scheduler,
        // and this one has switched to idle since.
        let entry = &mut self.cpus[cpu.index()];
        (entry.offline, entry.next_tick) = (true, Nanos::MAX);
        self.alarms.cancel(Alarm::Cpu(cpu));
        self.alarms.cancel(Alarm::Resched(cpu));
        self.alarms.move_timers(cpu, BOOT_CPU);
        self.tasks.iter_mut().filter(|task| task.slept_on == cpu).for_each(|task| task.slept_on = BOOT_CPU);
        None
    }

    /// Changes the clock of a CPU. Ticks then see another remaining slice, so they are replanned.
    fn disturb_clock(&mut self, cpu: CpuId, fault: ClockFault) {
        self.settle(cpu);
        self.tell_time();
        match fault {
            ClockFault::Step(step) => self.model.disturb_clock(cpu, step, None),
            ClockFault::Drift(ppm) => self.model.disturb_clock(cpu, 0, Some(ppm)),
        }
        self.advance(cpu);
    }

    fn bring_up(&mut self, cpu: CpuId) {
        self.settle(cpu);
        let entry = &mut self.cpus[cpu.index()];
        let first_tick = || self.ticks.after(self.now, cpu);
        let next_tick = if self.machine.no_hz_idle { Nanos::MAX } else { first_tick() };
        (entry.offline, entry.next_tick) = (false, next_tick);
        self.tell_time();
        self.model.start_cpu(cpu);
        self.apply(cpu, Charge::default());
        self.advance(cpu);
    }

    /// Makes all tasks freeze as soon as they get a CPU.
    fn freeze_all(&mut self) -> Option<Nanos> {
        if !std::mem::replace(&mut self.freezing, true) {
            for cpu in self.all_cpus.clone().iter() {
                self.settle(cpu);
                self.advance(cpu);
            }
        }
        (self.left.ready > 0).then_some(self.now + FREEZER_LOOK)
    }

    /// The current task of `cpu`, which owes no time, freezes.
    pub fn freeze(&mut self, cpu: CpuId, task: TaskId) {
        self.count_step(task);
        self.tasks[task.index()].frozen = true;
        self.faults.frozen.push(task);
        self.schedule(cpu, Leave::Block(BlockCause::External));
    }

    /// Stops the clock once the boot CPU idles.
    fn fall_asleep(&mut self, length: Nanos) -> Option<Nanos> {
        self.settle(BOOT_CPU);
        if !self.cpus[BOOT_CPU.index()].is_quiet() {
            return Some(self.now + LOOK);
        }
        self.watch(BOOT_CPU);
        let entry = &mut self.cpus[BOOT_CPU.index()];
        entry.offline = true;
        entry.next_tick = later(entry.next_tick, length);
        self.roll_back_all();
        self.alarms.postpone(length);
        self.postpone_starts(length);
        let at = self.now + length;
        self.faults.steps[0] = Step::Wake { at, length };
        Some(at)
    }

    fn wake_up(&mut self, length: Nanos) {
        self.settle(BOOT_CPU);
        self.cpus[BOOT_CPU.index()].offline = false;
        self.suspended += length;
        self.ticks.postpone(length);
        self.advance(BOOT_CPU);
    }

    /// Thaws the tasks, in the order of their numbers, and delivers what became due for them.
    fn thaw(&mut self, cpu: CpuId) {
        self.freezing = false;
        let mut frozen = std::mem::take(&mut self.faults.frozen);
        frozen.sort_unstable();
        for task in frozen {
            self.tasks[task.index()].frozen = false;
            self.model.wake(cpu, task, Waker::External);
            let wakeup = self.wakeup(cpu, task);
            self.apply(cpu, wakeup);
        }
        let missed = std::mem::take(&mut self.faults.missed);
        self.cpus[cpu.index()].inbox.extend(missed);
        self.model.end_suspend(cpu);
    }
}

/// Adds to a time, unless it is [`Nanos::MAX`].
fn later(time: Nanos, by: Nanos) -> Nanos {
    if time == Nanos::MAX { time } else { time + by }
}
