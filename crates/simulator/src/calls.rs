// SPDX-License-Identifier: GPL-2.0-only
//! Planned calls of the scheduler's BPF programs, which its user space makes during a run.
//!
//! The caller is not a task: as with a loader, the cost is charged to the boot CPU once that is free. While the
//! scheduler is being attached or detached, calls wait until it is attached; during suspend they wait like all of
//! user space. The planned time of a call excludes suspended time.

use crate::CallMade;
use crate::alarms::Alarm;
use crate::interrupt::Interrupt;
use crate::model::Model;
use crate::run::{BOOT_CPU, Run};
use ids::{CpuId, Nanos};
use launch_profile::PlannedStep;
use std::collections::VecDeque;

/// Calls to be made, by time, and calls made.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    to_come: VecDeque<PlannedStep>,
    made: Vec<CallMade>,
}

impl Calls {
    /// Plans these calls.
    pub fn plan(&mut self, planned: Vec<PlannedStep>) {
        self.to_come = planned.into();
    }

    /// Takes the next call that is due at this time, which excludes suspended time.
    fn take_due(&mut self, awake: Nanos) -> Option<PlannedStep> {
        self.to_come.front().filter(|step| step.at <= awake)?;
        self.to_come.pop_front()
    }

    /// All calls in order; those after the end of the run are marked as not made.
    pub fn finish(self) -> Vec<CallMade> {
        let rest = self.to_come.into_iter().map(|step| CallMade { call: step.name, made: None });
        self.made.into_iter().chain(rest).collect()
    }
}

impl<M: Model> Run<'_, M> {
    /// Sets the alarm for the next call.
    pub fn await_calls(&mut self) {
        if let Some(next) = self.loading.calls.to_come.front() {
            self.alarms.set(Alarm::Call, (next.at + self.clock.suspended()).max(self.clock.now()));
        }
    }

    /// The next call is due.
    pub fn call_due(&mut self) {
        self.interrupt(BOOT_CPU, Some(Interrupt::Call));
    }

    /// Makes all calls that are due, on `cpu`, which owes no time.
    pub fn make_calls(&mut self, cpu: CpuId) {
        let awake = self.clock.kernel_now();
        while self.may_call()
            && let Some(step) = self.loading.calls.take_due(awake)
        {
            let object = self.loading.object().expect("a scheduler was loaded");
            let returned = self.kernel.model.call_program(cpu, object, &step.call);
            let made = Some((self.clock.now(), returned));
            self.loading.calls.made.push(CallMade { call: step.name, made });
        }
        // While a scheduler is being attached or detached, `EndAttach` checks again.
        if self.may_call() {
            self.await_calls();
        }
    }

    /// Whether the scheduler is attached, and neither being attached nor detached.
    fn may_call(&self) -> bool {
        !self.loading.is_in_progress() && !self.kernel.model.is_disabling()
    }
}
