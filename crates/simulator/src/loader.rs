// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler comes and goes while tasks run: its loader, and the threads of the kernel that work for it.
//!
//! 1. A scheduler that is attached amidst a run, or that ends, is bypassed for a while: the kernel waits for RCU and
//!    visits every task. How long is the machine's number; the tasks take turns at ticks meanwhile (contract B1).
//! 2. One that asks for it when it ends is attached again by its loader.
//! 3. The kernel does one of these after the other.
//!
//! The attach at time 0 is over at once: nobody is there who could see how long it took.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::{Interrupt, Load};
use crate::model::Model;
use crate::run::{BOOT_CPU, End, Run};
use ids::{CpuId, Nanos};

/// From the end of a scheduler to its next attach: the loader has to notice and to load. A choice.
const RELOAD: Nanos = Nanos::from_ms(100);
/// `SCX_ECODE_ACT_RESTART`: whoever loaded the scheduler shall load it again (contract E2).
const ACT_RESTART: i64 = 1 << 48;
/// SCX_EXIT_UNREG: its loader took it away.
const UNREGISTERED: u32 = 64;

impl<M: Model> Run<'_, M> {
    fn load_later(&mut self, load: Load, delay: Nanos) {
        self.load = Some(load);
        self.alarms.set(Alarm::Load, self.now + delay);
    }

    /// It is time to do that.
    pub fn load_due(&mut self) {
        let load = self.load.take().expect("the alarm was set for something");
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(load)));
    }

    /// Does it on `cpu`, which is free.
    pub fn do_load(&mut self, cpu: CpuId, load: Load) {
        match load {
            Load::Attach => self.attach_again(cpu),
            Load::EndAttach => {
                self.model.end_attach(cpu);
                let loader = self.loader.as_ref().expect("a scheduler was loaded");
                if !self.model.is_disabling() && !self.model.call_programs(&loader.object, &loader.calls) {
                    self.end = Some(End::Ejected);
                }
                if self.model.is_disabling() {
                    self.load_later(Load::EndDisable, Nanos(self.machine.costs.disable_ns));
                }
                self.await_calls();
            }
            Load::Detach => self.model.detach(cpu),
            Load::EndDisable => self.model.end_disable(cpu),
        }
    }

    /// Begins to attach the scheduler, with tables of the machine as it is now.
    fn attach_again(&mut self, cpu: CpuId) {
        let mut loader = self.loader.take().expect("a scheduler was loaded");
        let offline = self.all_cpus.iter().filter(|cpu| self.cpus[cpu.index()].offline).collect();
        let machine = self.machine.without(&offline);
        let applied = loader.profile.apply(&mut loader.object, &machine);
        let steps = applied.and_then(|()| loader.profile.steps(&loader.object, &machine));
        let steps = steps.expect("it fitted the whole machine");
        if self.model.begin_attach(cpu, &loader.object, &steps) {
            loader.calls = steps.calls_attached;
            self.load_later(Load::EndAttach, Nanos(self.machine.costs.attach_ns));
        } else {
            self.end = Some(End::Ejected);
        }
        self.loader = Some(loader);
    }

    /// The scheduler is bypassed and on its way out. What the kernel does with it at the moment comes first.
    pub fn scheduler_leaves(&mut self) {
        if self.load.is_none() {
            self.load_later(Load::EndDisable, Nanos(self.machine.costs.disable_ns));
        }
    }

    /// The kernel is rid of the scheduler: its loader attaches it again, or the run is over.
    pub fn scheduler_left(&mut self) {
        self.alarms.cancel(Alarm::Load);
        self.load = None;
        match self.model.exit_info() {
            Some(exit) if exit.code & ACT_RESTART != 0 => {
                self.restarts.push(exit.clone());
                self.load_later(Load::Attach, RELOAD);
            }
            Some(exit) if exit.kind == UNREGISTERED => self.end = Some(End::Unloaded),
            _ => self.end = Some(End::Ejected),
        }
    }

    /// The run is over before the scheduler is gone: why it goes is known all the same.
    pub fn end_disable_now(&mut self) {
        self.now = self.deadline.unwrap_or(self.now).max(self.now);
        self.settle(BOOT_CPU);
        self.tell_time();
        self.model.end_disable(BOOT_CPU);
        self.apply(BOOT_CPU, Charge::default());
    }

    /// After [`Run::play`]: takes the scheduler away, and plays on until it is gone. No effect if it is gone already, or
    /// there was none.
    pub fn unload(&mut self) {
        if self.end.is_some() || self.loader.is_none() {
            return;
        }
        self.now = self.deadline.take().unwrap_or(self.now).max(self.now);
        self.steps = 0;
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(Load::Detach)));
        while self.end.is_none() {
            let (time, alarm) = self.alarms.pop().expect("the scheduler is on its way out");
            if time > self.now {
                self.steps = 0;
            }
            self.now = time;
            self.ring(alarm);
        }
    }
}
