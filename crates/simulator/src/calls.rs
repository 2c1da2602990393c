// SPDX-License-Identifier: GPL-2.0-only
//! Planned calls of the scheduler's programs, as its user space makes them during a run.
//!
//! The caller is not a task: as with a loader, the cost is charged to the boot CPU once that is free. While the
//! scheduler is being attached or detached, calls wait until it is attached; during suspend they wait like all of
//! user space, and suspended time does not count.

use crate::CallMade;
use crate::alarms::Alarm;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use ids::CpuId;
use launch_profile::PlannedStep;
use std::collections::VecDeque;

/// Calls to be made, by time, and calls made.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub to_come: VecDeque<PlannedStep>,
    pub made: Vec<CallMade>,
}

impl Calls {
    /// All calls in order; those after the end of the run are marked as not made.
    pub fn finish(self) -> Vec<CallMade> {
        let rest = self.to_come.into_iter().map(|step| CallMade { call: step.name, made: None });
        self.made.into_iter().chain(rest).collect()
    }
}

impl<M: Model> Run<'_, M> {
    /// Plans these calls.
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

    /// The next call is due.
    pub fn call_due(&mut self) {
        self.interrupt(BOOT_CPU, Some(Interrupt::Call));
    }

    /// Makes all calls that are due, on `cpu`, which owes no time.
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
        // While a scheduler is being attached or detached, `EndAttach` checks again.
        if self.load.is_none() && !self.model.is_disabling() {
            self.await_calls();
        }
    }
}
