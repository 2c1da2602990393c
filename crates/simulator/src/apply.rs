// SPDX-License-Identifier: GPL-2.0-only
//! Application of a kernel call's output: charges costs, reports events, carries out effects.

use crate::alarms::Alarm;
use crate::cost::{ipi, price};
use crate::cpu::Charge;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::Run;
use crate::script::Step;
use crate::tasks::State;
use event_log::{Detail, Event, EventKind, Printk};
use ids::{CpuId, Nanos, TaskId};
use kernel_model::{Effect, TimerKey};

impl<M: Model> Run<'_, M> {
    /// Applies the output of the last call, which was made on `cpu` and cost `charge` in addition to the scheduler's
    /// code.
    pub fn apply(&mut self, cpu: CpuId, mut charge: Charge) {
        self.kernel.take_output();
        self.end_ahead(cpu);
        if self.kernel.output.locks.is_empty() && self.cpus[cpu].script.is_empty() {
            charge.scheduler += price(&self.machine.costs, &self.kernel.output.usage);
            self.cpus[cpu].charge(charge);
        } else {
            let Charge { idle_exit, interrupt, .. } = charge;
            self.cpus[cpu].charge(Charge { idle_exit, interrupt, ..Charge::default() });
            self.write_script(cpu, charge);
        }
        self.tell_output();
        if !self.kernel.output.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.kernel.output.effects);
            for effect in effects.drain(..) {
                self.carry(cpu, effect);
            }
            self.kernel.output.effects = effects;
        }
        if !self.cpus[cpu].script.is_empty() && !self.cpus[cpu].waits_for_lock {
            self.follow_script(cpu);
        }
    }

    /// Reports the events of the last call.
    pub fn tell_output(&mut self) {
        let mut events = std::mem::take(&mut self.kernel.output.events);
        if self.kernel.output.printed.is_empty() && self.kernel.output.details.is_empty() {
            events.iter_mut().for_each(|event| self.tell_event(event));
            return self.kernel.output.events = events;
        }
        let mut printed = std::mem::take(&mut self.kernel.output.printed);
        let mut details = std::mem::take(&mut self.kernel.output.details);
        for (index, event) in events.iter_mut().enumerate() {
            if !printed.is_empty() {
                let before = printed.partition_point(|(before, _)| *before <= index);
                printed.drain(..before).for_each(|(_, printk)| self.tell_printed(printk));
            }
            if !details.is_empty() {
                let before = details.partition_point(|(before, _)| *before <= index);
                details.drain(..before).for_each(|(_, detail)| self.tell_detail(detail));
            }
            self.tell_event(event);
        }
        printed.drain(..).for_each(|(_, printk)| self.tell_printed(printk));
        details.drain(..).for_each(|(_, detail)| self.tell_detail(detail));
        self.kernel.output.events = events;
    }

    fn tell_event(&mut self, event: &mut Event) {
        event.time += self.clock.suspended();
        if event.kind == EventKind::Affinity && !self.kernel.affinity_reported {
            // The kernel itself changed the affinity, because no allowed CPU remained.
            let allowed = self.kernel.model.allowed(event.task);
            self.sinks.affinity(event.time, event.task, allowed);
        }
        self.tell(event);
    }

    fn tell_detail(&mut self, mut detail: Detail) {
        detail.time += self.clock.suspended();
        self.sinks.detail(&detail);
    }

    /// Reports what the scheduler printed.
    fn tell_printed(&mut self, mut printk: Printk) {
        printk.time += self.clock.suspended();
        self.sinks.printk(&printk);
    }

    /// Reports an event to all sinks.
    #[inline(always)]
    pub fn tell(&mut self, event: &Event) {
        self.follow(event);
        self.sinks.event(event);
    }

    /// Updates task states from events.
    #[inline(always)]
    fn follow(&mut self, event: &Event) {
        let task = event.task;
        match event.kind {
            EventKind::Wakeup { .. } if self.tasks[task].state() == State::Blocked => {
                self.tasks.enter(self.clock.now(), task, State::Runnable);
            }
            EventKind::Block { .. } => {
                self.tasks[task].blocks = false;
                self.tasks.enter(self.clock.now(), task, State::Blocked);
            }
            EventKind::Exit => self.tasks.enter(self.clock.now(), task, State::Ended),
            EventKind::Switch { prev, .. } if prev != task => {
                if prev != TaskId::NONE && self.tasks[prev].state() == State::Running {
                    self.tasks.enter(self.clock.now(), prev, State::Runnable);
                }
                if task != TaskId::NONE {
                    self.tasks.enter(self.clock.now(), task, State::Running);
                }
            }
            _ => {}
        }
    }

    pub fn carry(&mut self, cpu: CpuId, effect: Effect) {
        match effect {
            Effect::Resched { cpu: target } if target == cpu => self.cpus[cpu].resched = true,
            Effect::Resched { cpu: target } if self.cpus[cpu].script.is_empty() => self.send(cpu, target),
            Effect::Resched { cpu: target } => self.cpus[cpu].script.push(Step::Send(target)),
            Effect::ArmTimer { timer, cpu: target, at } => {
                self.forget_fired(timer);
                // The watchdog's work waits for a tick anyway.
                let late = if timer == TimerKey::Watchdog { Nanos::ZERO } else { self.noise.timer(target) };
                let at =
                    Nanos(at.0.saturating_add(self.clock.suspended().0).saturating_add(late.0)).max(self.clock.now());
                self.alarms.set(Alarm::Timer(timer, target), at);
            }
            Effect::CancelTimer { timer } => {
                self.forget_fired(timer);
                self.alarms.cancel(Alarm::Timer(timer, cpu));
            }
            Effect::AwaitSwitch { cpu: waiting, targets } => {
                for target in targets.iter().filter(|&target| target != waiting) {
                    self.cpus.await_switch(waiting, target);
                }
            }
            Effect::Performance { cpu: target, target: wanted } => self.want_performance(target, wanted),
            Effect::Disabling => self.scheduler_leaves(),
            Effect::Disabled => self.scheduler_left(),
        }
    }

    /// Sends a rescheduling interrupt once `cpu` has paid what it owes, and charges it for that. The interrupt is
    /// omitted if another one that arrives no later is on its way.
    pub fn send(&mut self, cpu: CpuId, target: CpuId) {
        let way = ipi(self.machine, cpu, target);
        let leaves = self.cpus[cpu].free_at();
        let arrives = leaves + way;
        let alarm = Alarm::Resched(target);
        if self.alarms.due(alarm).is_none_or(|due| arrives < due) {
            self.alarms.set(alarm, arrives);
            let costs = &self.machine.costs;
            let scheduler = Nanos(self.halt(target, leaves).map_or(costs.ipi_send_ns, |halt| halt.send_ns));
            self.cpus[cpu].charge(Charge { scheduler, ..Charge::default() });
        }
    }

    /// Drops an expired timer that its busy CPU has not handled yet, because the timer is re-armed or canceled.
    fn forget_fired(&mut self, timer: TimerKey) {
        if let Some(cpu) = self.alarms.timer_cpu(timer) {
            self.cpus[cpu].inbox.retain(|&interrupt| interrupt != Interrupt::Timer(timer));
        }
    }
}
