// SPDX-License-Identifier: GPL-2.0-only
//! State of the fault plan: pending faults, steps in progress, and frozen tasks. `faults` executes it.

use crate::interrupt::{Interrupt, Step};
use fault_plan::{Fault, FaultPlan};
use ids::{CpuId, Nanos, TaskId};
use std::collections::VecDeque;

/// Whether a CPU has executed the step that it was ordered to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Ordered {
    #[default]
    No,
    Waits,
    Done,
}

/// Remaining part of the plan.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Pending faults, by time.
    plan: VecDeque<Fault>,
    /// Remaining steps of the current fault.
    steps: VecDeque<Step>,
    /// State of the first of these steps, if a CPU must execute it.
    ordered: Ordered,
    /// Hotplug kthread of each CPU; empty if no CPU goes offline.
    threads: Vec<TaskId>,
    /// Tasks freeze as soon as they get a CPU: the machine is entering, in, or leaving suspend.
    freezing: bool,
    /// Frozen tasks.
    frozen: Vec<TaskId>,
    /// Interrupts for tasks that were frozen at the time.
    missed: Vec<Interrupt>,
}

impl Faults {
    /// Plans these faults; returns the time of the first one.
    pub fn plan(&mut self, plan: &FaultPlan) -> Option<Nanos> {
        self.plan = plan.faults().iter().copied().collect();
        self.next_fault()
    }

    /// Time of the next pending fault.
    pub fn next_fault(&self) -> Option<Nanos> {
        self.plan.front().map(|fault| fault.at)
    }

    /// Takes the next pending fault if it is due.
    pub fn take_fault(&mut self, now: Nanos) -> Option<Fault> {
        self.plan.front().filter(|fault| fault.at <= now)?;
        self.plan.pop_front()
    }

    /// Begins a fault that consists of these steps.
    pub fn begin(&mut self, steps: VecDeque<Step>) {
        self.steps = steps;
    }

    /// First of the remaining steps of the current fault.
    pub fn step(&self) -> Option<Step> {
        self.steps.front().copied()
    }

    /// Replaces the first step.
    pub fn replace_step(&mut self, step: Step) {
        self.steps[0] = step;
    }

    /// The first step is complete.
    pub fn end_step(&mut self) {
        self.steps.pop_front();
    }

    /// Orders the first step from a CPU unless it is ordered. Returns whether it was not ordered before.
    pub fn order(&mut self) -> bool {
        let is_new = self.ordered == Ordered::No;
        if is_new {
            self.ordered = Ordered::Waits;
        }
        is_new
    }

    /// A CPU has executed the step that it was ordered to.
    pub fn obey(&mut self) {
        self.ordered = Ordered::Done;
    }

    /// Whether a CPU has executed the step that it was ordered to; if so, that order is complete.
    pub fn take_obeyed(&mut self) -> bool {
        let done = self.ordered != Ordered::Waits;
        if done {
            self.ordered = Ordered::No;
        }
        done
    }

    /// Adds the hotplug kthread of the next CPU.
    pub fn add_thread(&mut self, thread: TaskId) {
        self.threads.push(thread);
    }

    /// Hotplug kthread of a CPU.
    pub fn thread(&self, cpu: CpuId) -> TaskId {
        self.threads[cpu.index()]
    }

    /// Whether tasks freeze as soon as they get a CPU.
    #[inline]
    pub fn are_freezing(&self) -> bool {
        self.freezing
    }

    /// Tasks freeze from now on. Returns whether they did not before.
    pub fn begin_freeze(&mut self) -> bool {
        !std::mem::replace(&mut self.freezing, true)
    }

    /// `task` is frozen.
    pub fn add_frozen(&mut self, task: TaskId) {
        self.frozen.push(task);
    }

    /// This interrupt is for a task that is frozen.
    pub fn miss(&mut self, interrupt: Interrupt) {
        self.missed.push(interrupt);
    }

    /// Tasks no longer freeze. Returns the frozen ones in the order of their numbers.
    pub fn end_freeze(&mut self) -> Vec<TaskId> {
        self.freezing = false;
        let mut frozen = std::mem::take(&mut self.frozen);
        frozen.sort_unstable();
        frozen
    }

    /// Takes the interrupts that were for frozen tasks.
    pub fn take_missed(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.missed)
    }

    /// Whether tasks wait only for the end of a suspend.
    pub fn holds_tasks(&self) -> bool {
        !self.frozen.is_empty() || !self.missed.is_empty()
    }
}
