// SPDX-License-Identifier: GPL-2.0-only
//! State of the fault plan: pending faults, steps in progress, and frozen tasks. `faults` executes it.

use crate::interrupt::{Interrupt, Step};
use fault_plan::Fault;
use ids::TaskId;
use std::collections::VecDeque;

/// Whether a CPU has executed the step that it was ordered to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ordered {
    #[default]
    No,
    Waits,
    Done,
}

/// Remaining part of the plan.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Pending faults, by time.
    pub plan: VecDeque<Fault>,
    /// Remaining steps of the current fault.
    pub steps: VecDeque<Step>,
    /// State of the first of these steps, if a CPU must execute it.
    pub ordered: Ordered,
    /// Hotplug kthread of each CPU; empty if no CPU goes offline.
    pub threads: Vec<TaskId>,
    /// Frozen tasks.
    pub frozen: Vec<TaskId>,
    /// Interrupts for tasks that were frozen at the time.
    pub missed: Vec<Interrupt>,
}

impl Faults {
    /// Whether tasks wait only for the end of a suspend.
    pub fn holds_tasks(&self) -> bool {
        !self.frozen.is_empty() || !self.missed.is_empty()
    }
}
