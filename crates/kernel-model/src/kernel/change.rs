// SPDX-License-Identifier: GPL-2.0-only
//! Attribute changes of a live task: affinity, nice value, policy (contract T9-T11, T13).

use super::{Kernel, Stage};
use crate::core::classes::Turn;
use crate::core::deadline::{Refusal, Request};
use crate::core::task::{Class, Entity, ExtState, ext_weight, prio_of};
use crate::core::{deq_flags, enq_flags, ops_flags};
use crate::ops::Op;
use event_log::EventKind;
use ids::{CpuId, CpuSet, Policy, TaskId};
use two_forms::two_forms;

/// `-EINVAL`.
const EINVAL: i32 = -22;
/// `-EBUSY`.
const EBUSY: i32 = -16;
/// `-EACCES`.
const EACCES: i32 = -13;

#[two_forms]
impl Kernel {
    /// `sched_change_begin` ... `sched_change_end`: dequeues a runnable task, applies `change`, and enqueues it. A
    /// running task keeps its CPU (contract T9). `with` are dequeue flags besides SAVE and NOCLOCK, and enqueue flags
    /// besides RESTORE and NOCLOCK, which have the same values.
    pub(super) async fn change(&mut self, task: TaskId, with: u64, change: impl AsyncFnOnce(&mut Kernel)) {
        self.change_and_put(task, with, 0, change).await;
    }

    /// Like [`Kernel::change`]; `put` are additional enqueue flags.
    async fn change_and_put(&mut self, task: TaskId, with: u64, put: u64, change: impl AsyncFnOnce(&mut Kernel)) {
        let cpu = self.core.task_cpu(task);
        let runnable = self.core.task(task).is_runnable();
        let running = self.core.current(cpu) == task;
        let (old_class, old_weight) = (self.core.task(task).class, self.core.fair_weight(task));
        let delayed = self.core.task(task).fair.is_delayed();
        if runnable || delayed {
            match old_class {
                Class::Fair if delayed => {
                    self.charge_fair(cpu);
                    self.core.fair_save_delayed(task);
                }
                Class::Ext => self.dequeue_task(task, deq_flags::SAVE | deq_flags::NOCLOCK | with).await,
                Class::Fair if running => {
                    self.charge_fair(cpu);
                    self.core.fair_save_lag(task);
                }
                _ if running => self.update_current(cpu),
                _ => {
                    self.charge_fair(cpu);
                    self.core.higher_dequeue(task);
                }
            }
        }
        change(self).await;
        let class = self.core.task(task).class;
        if class != Class::Fair || old_class != class {
            self.core.task_mut(task).fair = Entity::of_other_class();
        } else {
            self.core.fair_reweight(task, old_weight);
        }
        if delayed && class == Class::Fair {
            self.core.fair_restore_delayed(task);
        }
        if !runnable {
            return;
        }
        if class == Class::Deadline {
            self.core.dl_restore(task);
        }
        if class == Class::Ext {
            self.enqueue_task(task, enq_flags::RESTORE | enq_flags::NOCLOCK | with | put).await;
            if running {
                self.core.dequeue_from(task);
                self.call_task(Op::Running, task, 0).await;
                self.core.clear_runnable(&mut self.machine.memory, task, true);
            }
        } else if !running {
            let turn = match (put & enq_flags::HEAD, with & deq_flags::MOVE) {
                (0, 0) if class == old_class && class != Class::Fair => Turn::Kept,
                (0, _) => Turn::Last,
                _ => Turn::First,
            };
            self.core.higher_enqueue(task, turn);
        } else if class == Class::Fair {
            self.core.fair_change_running(task, old_class != class);
        }
        if running && class < old_class {
            self.core.note_class(cpu, class);
        } else if running && class > old_class {
            self.core.resched(cpu);
        }
    }

    /// Changes the affinity of a task; executed by `cpu`. Fails with -EINVAL if no active CPU remains.
    pub fn set_affinity(&mut self, cpu: CpuId, task: TaskId, allowed: &CpuSet) -> Result<(), i32> {
        let allowed = allowed.intersection(&CpuSet::first_n(self.core.cpus.len()));
        if allowed.is_empty() {
            return Err(EINVAL);
        }
        if allowed == *self.core.task(task).allowed {
            return Ok(());
        }
        let covers = self.core.active_cpus().iter().all(|cpu| allowed.contains(cpu));
        if self.core.task(task).class == Class::Deadline && !covers {
            // `dl_task_check_affinity`: a deadline task must be allowed on all CPUs.
            return Err(EBUSY);
        }
        self.core.context.cpu = cpu;
        let to = self.core.any_distribute(&allowed.intersection(&self.core.active_cpus()));
        if to == self.core.cpus() {
            return Err(EINVAL);
        }
        self.core.begin_locked(self.core.task_cpu(task), "affinity");
        self.change(task, 0, |kernel| kernel.apply_affinity(task, &allowed));
        self.core.log(task, EventKind::Affinity);
        let at = self.core.task_cpu(task);
        if self.core.task(task).is_runnable() && !allowed.contains(at) {
            if self.core.current(at) == task {
                // Wakes the stopper thread there, which is of the stop class.
                self.core.task_mut(task).migrate_to = CpuId(to);
                self.core.note_class(at, Class::Stop);
                self.core.resched(at);
            } else {
                self.push_to(task, CpuId(to));
            }
        } else if self.core.task(task).fair.is_delayed() && !allowed.contains(at) {
            self.push_delayed(task, CpuId(to));
        }
        self.core.unlock_runqueue();
        self.finish();
        Ok(())
    }

    /// Moves a delayed task to another CPU, where it stays delayed. It preempts no task; an idle CPU dequeues it.
    fn push_delayed(&mut self, task: TaskId, to: CpuId) {
        self.charge_fair(self.core.task_cpu(task));
        self.core.fair_save_delayed(task);
        self.core.migrate(task, to);
        self.charge_fair(to);
        self.core.fair_restore_delayed(task);
        self.core.note_class(to, Class::Fair);
    }

    pub(super) async fn apply_affinity(&mut self, task: TaskId, allowed: &CpuSet) {
        let shared = self.core.tasks.share(allowed.clone());
        let entry = self.core.task_mut(task);
        entry.allowed = shared;
        entry.allowed_count = allowed.len() as u32;
        self.core.objects.set_allowed(&mut self.machine.memory, task, allowed);
        self.call_set_cpumask(task).await;
    }

    /// Calls `set_cpumask` for an enabled task.
    pub(super) async fn call_set_cpumask(&mut self, task: TaskId) {
        if self.core.task(task).ext_state == ExtState::Enabled && self.has(Op::SetCpumask) {
            let allowed = self.core.task(task).allowed.clone();
            let mask = self.core.objects.cpumask(&mut self.machine.memory, &allowed);
            self.call_task(Op::SetCpumask, task, mask).await;
        }
    }

    /// Changes policy and nice value of a task; executed by `cpu`. Fails with -EINVAL for an invalid nice value or
    /// priority, and with -EACCES for SCHED_EXT if `disallow` is set.
    pub fn set_policy(&mut self, cpu: CpuId, task: TaskId, policy: Policy, nice: i8) -> Result<(), i32> {
        let priority_exists = match policy {
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => (1..=99).contains(&priority),
            _ => true,
        };
        if !(-20..=19).contains(&nice) || !priority_exists {
            return Err(EINVAL);
        }
        let entry = self.core.task(task);
        let (same_policy, same_nice, old_class) = (policy == entry.policy, nice == entry.nice, entry.class);
        let attached = self.stage == Stage::Enabled;
        if attached && !same_policy && policy == Policy::Ext && self.core.objects.disallow(&self.machine.memory, task) {
            return Err(EACCES);
        }
        if same_policy && same_nice {
            return Ok(());
        }
        if !same_policy {
            let allowed = &self.core.task(task).allowed;
            let request = Request { task: Some(task), policy, allowed, attached: self.attached_how() };
            self.core.dl_admit(request).map_err(Refusal::errno)?;
        }
        self.core.context.cpu = cpu;
        self.core.begin_locked(self.core.task_cpu(task), "priority");
        let class = self.core.class_of(policy, !self.flag(ops_flags::SWITCH_PARTIAL), attached);
        let (old_prio, prio) = (self.core.task(task).prio(), prio_of(policy, nice));
        if same_policy && old_class < Class::Fair {
            // set_user_nice() only stores the nice value of a real-time task.
            self.core.task_mut(task).nice = nice;
            self.publish(task);
        } else {
            // __sched_setscheduler(): a task whose priority falls is enqueued before its equals.
            let with = if prio == old_prio { 0 } else { deq_flags::MOVE };
            let with = if class == old_class { with } else { with | deq_flags::CLASS };
            let put = if prio > old_prio { enq_flags::HEAD } else { 0 };
            self.change_and_put(task, with, put, |kernel| kernel.apply_policy(task, policy, nice, class));
        }
        self.core.log(task, EventKind::Priority { nice });
        if self.core.task(task).is_runnable() && class != Class::Ext {
            let at = self.core.task_cpu(task);
            // prio_changed_fair(): current keeps running if its priority rises.
            let goes_on = (old_class, class) == (Class::Fair, Class::Fair)
                && (prio <= old_prio || !self.core.fair_has_others(at));
            match self.core.current(at) == task {
                true if goes_on => {}
                true => self.core.resched(at),
                false => self.preempt_lower(task, false),
            }
        }
        self.core.unlock_runqueue();
        self.finish();
        Ok(())
    }

    /// Changes the user of a task (`setuid(2)`). No op is called.
    pub fn set_user(&mut self, task: TaskId, uid: u32) {
        self.core.task_mut(task).uid = uid;
        self.publish(task);
    }

    /// Applies new attributes to a dequeued task: the old class releases it before the change, the new class takes it
    /// over afterwards (contract T11).
    fn apply_policy(&mut self, task: TaskId, policy: Policy, nice: i8, class: Class) {
        let old = self.core.task(task).class;
        if old == Class::Ext && class != Class::Ext {
            self.disable_task(task);
        }
        if old == Class::Deadline && class != old {
            self.core.dl_leave(task);
        } else if class == Class::Deadline && class != old {
            self.core.dl_return(task);
        }
        let entry = self.core.task_mut(task);
        (entry.policy, entry.nice, entry.class, entry.class_key) = (policy, nice, class, 0);
        self.publish(task);
        match (old == Class::Ext, class == Class::Ext) {
            (false, true) => {
                self.enable_task(task);
                self.call_set_cpumask(task);
            }
            (true, true) => self.call_set_weight(task),
            (_, false) => {}
        }
    }

    /// Calls `set_weight` for an enabled task (contract T13).
    pub(super) fn call_set_weight(&mut self, task: TaskId) {
        if self.core.task(task).ext_state == ExtState::Enabled {
            self.call_task(Op::SetWeight, task, self.weight(task));
        }
    }

    /// Weight passed to `set_weight` (contract T13).
    pub(super) fn weight(&self, task: TaskId) -> u64 {
        let entry = self.core.task(task);
        u64::from(ext_weight(entry.policy, entry.nice))
    }
}
