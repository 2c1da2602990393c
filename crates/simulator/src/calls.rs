// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the scheduler that user space calls while it runs, as its user planned.
//!
//! Whoever calls is no task: as with a loader, what the call costs is the boot CPU's, as soon as that is free. While the
//! scheduler is on its way in or out, calls wait until it is there again; while the machine sleeps, they wait like all of user
//! space. Time in which it sleeps does not count.

use crate::CallMade;
use crate::alarms::Alarm;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use ids::CpuId;
use launch_profile::PlannedStep;
use std::collections::VecDeque;

/// Calls to come, by time, and those that were made.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub to_come: VecDeque<PlannedStep>,
    pub made: Vec<CallMade>,
}

impl Calls {
    /// All of them, in their order; those that the run was too short for were not made.
    pub fn finish(self) -> Vec<CallMade> {
        let rest = self.to_come.into_iter().map(|step| CallMade { call: step.name, made: None });
        self.made.into_iter().chain(rest).collect()
    }
}

impl<M: Model> Run<'_, M> {
    /// From now on this is called.
    pub fn plan_calls(&mut self, planned: Vec<PlannedStep>) {
        self.calls.to_come = planned.into();
        self.await_calls();
    }

    /// Sets the alarm for the next call.
    pub fn await_calls(&mut self) {
        if let Some(next) = self.calls.to_come.front() {
            self.alarms.set(Alarm::Call, (next.at + self.suspended).max(self.now));
        }
    }

    /// It is time for one.
    pub fn call_due(&mut self) {
        self.interrupt(BOOT_CPU, Some(Interrupt::Call));
    }

    /// Makes all calls that are due on `cpu`, which is free.
    pub fn make_calls(&mut self, cpu: CpuId) {
        let loader = self.loader.as_ref().expect("a scheduler was loaded");
        let awake = self.now.since(self.suspended);
        while self.load.is_none()
            && !self.model.is_disabling()
            && self.calls.to_come.front().is_some_and(|step| step.at <= awake)
            && let Some(step) = self.calls.to_come.pop_front()
        {
            let returned = self.model.call_program(cpu, &loader.object, &step.call);
            self.calls.made.push(CallMade { call: step.name, made: Some((self.now, returned)) });
        }
        // Of a scheduler that comes or goes, `EndAttach` looks again.
        if self.load.is_none() && !self.model.is_disabling() {
            self.await_calls();
        }
    }
}
