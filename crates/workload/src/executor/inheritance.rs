// SPDX-License-Identifier: GPL-2.0-only
//! Priority inheritance of mutexes (`PTHREAD_PRIO_INHERIT`, `rt_mutex_adjust_prio_chain`).
//!
//! 1. The holder of a mutex runs with the policy of its most important waiter if that has precedence over its own. A
//!    waiter that has inherited passes its inherited policy on.
//! 2. The mutex goes to the most important waiter; of equal ones, to the first.
//! 3. The driver applies the changes ([`Executor::take_inherited`]) before the task that caused them continues.

use super::{Executor, NO_TASK};
use crate::Workload;
use ids::{Policy, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Inherited policies. Unused if no mutex inherits.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// Whether any mutex inherits.
    active: bool,
    /// Policies that tasks have chosen after their start.
    own: BTreeMap<u32, (Policy, i8)>,
    /// Policies that tasks have inherited.
    inherited: BTreeMap<u32, Policy>,
    /// Changes for the driver.
    changes: Vec<(TaskId, (Policy, i8))>,
}

impl Inheritance {
    pub fn new(workload: &Workload) -> Inheritance {
        let active = workload.mutexes.iter().any(|mutex| mutex.inherits_priority);
        Inheritance { active, ..Inheritance::default() }
    }
}

impl Executor<'_> {
    /// Registers the policy that the task chooses, and returns it unless the task runs with an inherited one.
    pub(super) fn choose_policy(&mut self, task: u32, policy: Option<(Policy, i8)>) -> Option<(Policy, i8)> {
        if let Some(policy) = policy.filter(|_| self.inheritance.active) {
            self.inheritance.own.insert(task, policy);
            self.settle_inheritance();
        }
        policy.filter(|_| !self.inheritance.inherited.contains_key(&task))
    }

    /// Policy and nice value that the task has chosen.
    fn own_policy(&self, task: u32) -> (Policy, i8) {
        let spec = &self.workload.tasks[self.tasks[task as usize].spec as usize];
        self.inheritance.own.get(&task).copied().unwrap_or((spec.policy, spec.nice))
    }

    /// Precedence of a task with what it has inherited.
    pub(super) fn precedence(&self, task: u32) -> u32 {
        let inherited = self.inheritance.inherited.get(&task).copied();
        inherited.unwrap_or_else(|| self.own_policy(task).0).precedence()
    }

    /// Recomputes inherited policies after a change of holders, waiters, or a policy.
    pub(super) fn settle_inheritance(&mut self) {
        if !self.inheritance.active {
            return;
        }
        let mut inherited: BTreeMap<u32, Policy> = BTreeMap::new();
        // Each pass follows chains by one more mutex.
        while self.inherit_once(&mut inherited) {}
        let before = std::mem::replace(&mut self.inheritance.inherited, inherited);
        let tasks: BTreeSet<u32> = before.keys().chain(self.inheritance.inherited.keys()).copied().collect();
        for task in tasks {
            let (old, new) = (before.get(&task), self.inheritance.inherited.get(&task));
            let (own, nice) = self.own_policy(task);
            let policy = (new.copied().unwrap_or(own), nice);
            if old != new {
                self.inheritance.changes.push((TaskId(task), policy));
            }
        }
    }

    /// Lets each holder inherit from its waiters; returns whether a policy changed.
    fn inherit_once(&self, inherited: &mut BTreeMap<u32, Policy>) -> bool {
        let mut changed = false;
        let mutexes = self.workload.mutexes.iter().zip(&self.mutexes).filter(|(spec, _)| spec.inherits_priority);
        for mutex in mutexes.map(|(_, mutex)| mutex).filter(|mutex| mutex.owner != NO_TASK) {
            let policy = |task: u32| inherited.get(&task).copied().unwrap_or_else(|| self.own_policy(task).0);
            let most = mutex.waiters.iter(&self.tasks).map(policy).max_by_key(|policy| policy.precedence());
            if let Some(most) = most.filter(|most| most.precedence() > policy(mutex.owner).precedence()) {
                inherited.insert(mutex.owner, most);
                changed = true;
            }
        }
        changed
    }

    /// Takes the policies and nice values with which tasks run from now on, in order.
    pub fn take_inherited(&mut self) -> Vec<(TaskId, (Policy, i8))> {
        std::mem::take(&mut self.inheritance.changes)
    }

    /// Whether policies changed by inheritance and were not taken yet.
    pub fn has_changed_inheritance(&self) -> bool {
        !self.inheritance.changes.is_empty()
    }
}
