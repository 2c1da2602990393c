// SPDX-License-Identifier: GPL-2.0-only
//! Attaching and detaching the scheduler while tasks run: its loader, and the kthreads involved.
//!
//! 1. A scheduler that is attached during a run, or that exits, is bypassed for a while: the kernel waits for RCU and
//!    visits every task. The machine defines the duration; tasks are switched at ticks meanwhile (contract B1).
//! 2. A scheduler that requests a restart on exit is attached again by its loader.
//! 3. The kernel does one of these after the other.
//!
//! The attach at time 0 is instantaneous, as no task exists yet.

use crate::alarms::Alarm;
use crate::cpu::Charge;
use crate::interrupt::{Interrupt, Load};
use crate::model::Model;
use crate::run::{BOOT_CPU, End, Run};
use ids::{CpuId, Nanos};

/// Time from the exit of a scheduler to its next attach: the loader has to notice and to load. A choice.
const RELOAD: Nanos = Nanos::from_ms(100);
/// `SCX_ECODE_ACT_RESTART`: the loader shall load the scheduler again (contract E2).
const ACT_RESTART: i64 = 1 << 48;
/// `SCX_EXIT_UNREG`: the loader detached the scheduler.
const UNREGISTERED: u32 = 64;

impl<M: Model> Run<'_, M> {
    fn load_later(&mut self, load: Load, delay: Nanos) {
        self.load = Some(load);
        self.alarms.set(Alarm::Load, self.now + delay);
    }

    /// The next step is due.
    pub fn load_due(&mut self) {
        let load = self.load.take().expect("the alarm implies a step");
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(load)));
    }

    /// Executes the step on `cpu`, which owes no time.
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
        let steps = steps.expect("it fitted the whole machine before");
        if self.model.begin_attach(cpu, &loader.object, &steps) {
            loader.calls = steps.calls_attached;
            self.load_later(Load::EndAttach, Nanos(self.machine.costs.attach_ns));
        } else {
            self.end = Some(End::Ejected);
        }
        self.loader = Some(loader);
    }

    /// The scheduler is bypassed and being disabled. An attach in progress is completed first.
    pub fn scheduler_leaves(&mut self) {
        if self.load.is_none() {
            self.load_later(Load::EndDisable, Nanos(self.machine.costs.disable_ns));
        }
    }

    /// The scheduler is disabled: its loader attaches it again, or the run is over.
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

    /// The run ends before the scheduler is disabled; the reason of the exit is reported nevertheless.
    pub fn end_disable_now(&mut self) {
        self.now = self.deadline.unwrap_or(self.now).max(self.now);
        self.settle(BOOT_CPU);
        self.tell_time();
        self.model.end_disable(BOOT_CPU);
        self.apply(BOOT_CPU, Charge::default());
    }

    /// After [`Run::play`]: detaches the scheduler, and continues until it is gone. No effect if there is no
    /// scheduler any more.
    pub fn unload(&mut self) {
        if self.end.is_some() || self.loader.is_none() {
            return;
        }
        self.now = self.deadline.take().unwrap_or(self.now).max(self.now);
        self.steps = 0;
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(Load::Detach)));
        while self.end.is_none() {
            let (time, alarm) = self.alarms.pop().expect("the scheduler is being disabled");
            if time > self.now {
                self.steps = 0;
            }
            self.now = time;
            self.ring(alarm);
        }
    }
}
