// SPDX-License-Identifier: GPL-2.0-only
//! How far the fault plan is: what is to come, what is on its way, and whom it holds. `faults` carries it out.

use crate::interrupt::{Interrupt, Step};
use fault_plan::Fault;
use ids::TaskId;
use std::collections::VecDeque;

/// Whether a CPU has done the step that it was told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Ordered {
    #[default]
    No,
    Waits,
    Done,
}

/// What is left of the plan.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Faults to come, by time.
    pub plan: VecDeque<Fault>,
    /// Of the fault that is on its way.
    pub steps: VecDeque<Step>,
    /// What became of the first of them, if a CPU has to do it.
    pub ordered: Ordered,
    /// The kernel's thread of each CPU that takes it down and up; none where no CPU is to go.
    pub threads: Vec<TaskId>,
    /// Tasks that were stopped.
    pub frozen: Vec<TaskId>,
    /// What came for tasks while they were stopped.
    pub missed: Vec<Interrupt>,
}

impl Faults {
    /// Whether tasks wait for nothing but the end of a sleep.
    pub fn holds_tasks(&self) -> bool {
        !self.frozen.is_empty() || !self.missed.is_empty()
    }
}
