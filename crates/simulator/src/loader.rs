// SPDX-License-Identifier: GPL-2.0-only
//! Attaching and detaching the scheduler while tasks run: its loader, and the kthreads involved.
//!
//! 1. A scheduler that is attached during a run, or that exits, is bypassed for a while: the kernel waits for RCU and
//!    visits every task. The machine defines the duration; tasks are switched at ticks meanwhile (contract B1).
//! 2. A scheduler that requests a restart on exit is attached again by its loader.
//! 3. The kernel does one of these after the other.
//!
//! The attach at time 0 is instantaneous, as no task exists yet.

use crate::CallMade;
use crate::alarms::Alarm;
use crate::calls::Calls;
use crate::clock::End;
use crate::cpu::Charge;
use crate::interrupt::{Interrupt, Load};
use crate::model::{LoadStep, Model};
use crate::run::{BOOT_CPU, Run};
use bpf_object::LinkedObject;
use ids::{CpuId, Nanos};
use kernel_model::ExitInfo;
use launch_profile::{PlannedStep, Profile, ProgramCall};
use std::borrow::Cow;

/// Time from the exit of a scheduler to its next attach: the loader has to notice and to load. A choice.
const RELOAD: Nanos = Nanos::from_ms(100);
/// `SCX_ECODE_ACT_RESTART`: the loader shall load the scheduler again (contract E2).
const ACT_RESTART: i64 = 1 << 48;
/// `SCX_EXIT_UNREG`: the loader detached the scheduler.
const UNREGISTERED: u32 = 64;

/// State of the user-space program that loaded the scheduler.
pub(crate) struct Loader<'a> {
    pub object: LinkedObject,
    pub profile: Cow<'a, Profile>,
    /// Programs to call when the attach in progress is complete.
    pub calls: Vec<ProgramCall>,
}

/// Attaching and detaching of the scheduler, and calls of its programs.
#[derive(Default)]
pub(crate) struct Loading<'a> {
    /// Attaches the scheduler again on request; `None`: no scheduler is loaded.
    loader: Option<Loader<'a>>,
    /// Next step of attaching or detaching the scheduler.
    next: Option<Load>,
    /// Exit information of each restart.
    restarts: Vec<ExitInfo>,
    /// Planned calls of the scheduler's programs.
    pub calls: Calls,
}

impl<'a> Loading<'a> {
    /// A scheduler was loaded and attached, whose loader will make these calls.
    pub fn begin(&mut self, loader: Loader<'a>, planned: Vec<PlannedStep>) {
        self.loader = Some(loader);
        self.calls.plan(planned);
    }

    /// Whether the scheduler is being attached or detached.
    pub fn is_in_progress(&self) -> bool {
        self.next.is_some()
    }

    /// The object of the scheduler; `None` if no scheduler was loaded.
    pub fn object(&self) -> Option<&LinkedObject> {
        self.loader.as_ref().map(|loader| &loader.object)
    }

    /// Takes the object at the end of the run.
    pub fn take_object(&mut self) -> Option<LinkedObject> {
        self.loader.take().map(|loader| loader.object)
    }

    /// The loader, which exists if the scheduler is attached or detached.
    fn loader(&mut self) -> &mut Loader<'a> {
        self.loader.as_mut().expect("a scheduler was loaded")
    }

    /// Exit information of each restart, and the calls in order.
    pub fn finish(self) -> (Vec<ExitInfo>, Vec<CallMade>) {
        (self.restarts, self.calls.finish())
    }
}

impl<M: Model> Run<'_, M> {
    fn load_later(&mut self, load: Load, delay: Nanos) {
        self.loading.next = Some(load);
        self.alarms.set(Alarm::Load, self.clock.now() + delay);
    }

    /// The next step is due.
    pub fn load_due(&mut self) {
        let load = self.loading.next.take().expect("the alarm implies a step");
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(load)));
    }

    /// Executes the step on `cpu`, which owes no time.
    pub fn do_load(&mut self, cpu: CpuId, load: Load) {
        match load {
            Load::Attach => self.attach_again(cpu),
            Load::EndAttach => {
                self.kernel.model.load(cpu, LoadStep::EndAttach);
                let loader = self.loading.loader();
                let calls = LoadStep::CallPrograms(&loader.object, &loader.calls);
                if !self.kernel.model.is_disabling() && !self.kernel.model.load(cpu, calls) {
                    self.clock.end_with(End::Ejected);
                }
                if self.kernel.model.is_disabling() {
                    self.load_later(Load::EndDisable, Nanos(self.machine.costs.disable_ns));
                }
                self.await_calls();
            }
            Load::Detach => _ = self.kernel.model.load(cpu, LoadStep::Detach),
            Load::EndDisable => _ = self.kernel.model.load(cpu, LoadStep::EndDisable),
        }
    }

    /// Begins to attach the scheduler, with tables of the machine as it is now.
    fn attach_again(&mut self, cpu: CpuId) {
        let offline = self.cpus.iter().filter(|cpu| cpu.offline).map(|cpu| cpu.number()).collect();
        let machine = self.machine.without(&offline);
        let loader = self.loading.loader();
        let applied = loader.profile.apply(&mut loader.object, &machine);
        let steps = applied.and_then(|()| loader.profile.steps(&loader.object, &machine));
        let steps = steps.expect("it fitted the whole machine before");
        if self.kernel.model.load(cpu, LoadStep::BeginAttach(&loader.object, &steps)) {
            loader.calls = steps.calls_attached;
            self.load_later(Load::EndAttach, Nanos(self.machine.costs.attach_ns));
        } else {
            self.clock.end_with(End::Ejected);
        }
    }

    /// The scheduler is bypassed and being disabled. An attach in progress is completed first.
    pub fn scheduler_leaves(&mut self) {
        if !self.loading.is_in_progress() {
            self.load_later(Load::EndDisable, Nanos(self.machine.costs.disable_ns));
        }
    }

    /// The scheduler is disabled: its loader attaches it again, or the run is over.
    pub fn scheduler_left(&mut self) {
        self.alarms.cancel(Alarm::Load);
        self.loading.next = None;
        match self.kernel.model.exit_info() {
            Some(exit) if exit.code & ACT_RESTART != 0 => {
                self.loading.restarts.push(exit.clone());
                self.load_later(Load::Attach, RELOAD);
            }
            Some(exit) if exit.kind == UNREGISTERED => self.clock.end_with(End::Unloaded),
            _ => self.clock.end_with(End::Ejected),
        }
    }

    /// The run ends before the scheduler is disabled; the reason of the exit is reported nevertheless.
    pub fn end_disable_now(&mut self) {
        self.clock.advance_to(self.clock.latest_end());
        self.settle(BOOT_CPU);
        self.tell_time();
        self.kernel.model.load(BOOT_CPU, LoadStep::EndDisable);
        self.apply(BOOT_CPU, Charge::default());
    }

    /// After [`Run::play`]: detaches the scheduler, and continues until it is gone. No effect if there is no
    /// scheduler any more.
    pub fn unload(&mut self) {
        if self.clock.is_over() || self.loading.object().is_none() {
            return;
        }
        self.clock.pass_deadline();
        self.interrupt(BOOT_CPU, Some(Interrupt::Load(Load::Detach)));
        while !self.clock.is_over() {
            let (time, alarm) = self.alarms.pop().expect("the scheduler is being disabled");
            self.clock.advance_to(time);
            self.ring(alarm);
        }
    }
}
