// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling classes above ext, as far as sched_ext can observe them: which tasks run before ext tasks, and for
//! how long. Deadline tasks run as `deadline` says, real-time tasks by priority, fair tasks as `fair` says. A CPU
//! that would otherwise run a lower class pulls waiting real-time tasks; the details of the kernel's balancing of that
//! class are not modelled.

use super::Core;
use super::deadline::server::Served;
use super::task::{Class, TaskKey};
use ids::{CpuId, Nanos, Policy, TaskId};

/// SCHED_RR time slice (`RR_TIMESLICE`) in milliseconds, counted in ticks.
const RR_SLICE_MS: u32 = 100;

/// Where a task of a class above ext is queued among tasks of equal priority. Fair tasks with the same deadline are
/// always queued last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Before its equals.
    First,
    /// After its equals.
    Last,
    /// At the position it had before.
    Kept,
}

impl Core {
    /// The class of a policy, given whether a scheduler is attached and whether it takes all normal tasks.
    pub fn class_of(&self, policy: Policy, switch_all: bool, attached: bool) -> Class {
        match policy {
            Policy::Deadline { .. } => Class::Deadline,
            Policy::Fifo(_) | Policy::RoundRobin(_) => Class::Rt,
            Policy::Ext if attached => Class::Ext,
            _ if attached && switch_all => Class::Ext,
            _ => Class::Fair,
        }
    }

    /// Enqueues a task of a higher class that became runnable.
    pub fn higher_enqueue(&mut self, task: TaskId, turn: Turn) {
        let entry = self.task(task);
        let (fair, delayed) = (entry.class == Class::Fair, entry.fair.delayed);
        let kept = fair && delayed && !self.fair_requeue(task);
        if fair && !delayed {
            self.fair_place(task);
        }
        self.higher_put_back(task, if kept { Turn::Kept } else { turn });
        if fair {
            self.server_start(self.task_cpu(task), Served::Fair);
        }
        if fair && !delayed {
            self.hrtick_joined(self.task_cpu(task));
        }
    }

    /// Enqueues a task of a higher class that ran until now; a fair one keeps its virtual runtime. A throttled deadline
    /// task stays out of the queue.
    pub fn higher_put_back(&mut self, task: TaskId, turn: Turn) {
        if self.task(task).class == Class::Deadline && self.task(task).dl.is_throttled() {
            return;
        }
        let seq = match turn {
            _ if self.task(task).class == Class::Fair && turn != Turn::Kept => self.arrival(),
            Turn::First => self.tasks.head_arrival(),
            Turn::Last => self.arrival(),
            Turn::Kept => self.task(task).class_seq,
        };
        let entry = self.task_mut(task);
        entry.class_seq = seq;
        match entry.policy {
            _ if entry.class == Class::Fair => entry.class_key = entry.fair.deadline,
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => entry.class_key = 99 - u64::from(priority),
            _ => {}
        }
        let (cpu, key) = (self.task_cpu(task), self.higher_key(task));
        self.cpus[cpu.index()].higher.insert(key);
        self.tasks.higher_waiting += 1;
        if key.0 == Class::Fair {
            self.fair_count(cpu, task, true);
            self.fair_tell_queued(cpu, task);
        }
    }

    /// The next arrival number for a tail insert.
    pub(super) fn arrival(&mut self) -> u64 {
        self.tasks.arrival()
    }

    /// Dequeues a waiting task of a higher class.
    pub fn higher_dequeue(&mut self, task: TaskId) {
        if self.task(task).class == Class::Fair {
            self.fair_save_lag(task);
        }
        self.higher_remove(task);
    }

    pub(super) fn higher_remove(&mut self, task: TaskId) {
        let (cpu, key) = (self.task_cpu(task), self.higher_key(task));
        if self.cpus[cpu.index()].higher.remove(&key) {
            self.tasks.higher_waiting -= 1;
            if key.0 == Class::Fair {
                self.fair_count(cpu, task, false);
            }
        }
    }

    /// Priority of the task running on a CPU: class, then key; smaller is more important.
    fn rank_of_current(&self, cpu: CpuId) -> (Class, u64) {
        match self.current(cpu).some() {
            Some(task) => (self.task(task).class, self.task(task).class_key),
            None if self.cpus[cpu.index()].occupied => (Class::Stop, 0),
            None => (Class::Idle, 0),
        }
    }

    /// Selects a CPU for a waking task of a higher class: its previous CPU if the task preempts there, otherwise the
    /// allowed CPU with the least important current task.
    pub fn higher_select_cpu(&self, task: TaskId) -> CpuId {
        let entry = self.task(task);
        let rank = (entry.class, entry.class_key);
        let usable = |cpu: CpuId| entry.allowed.contains(cpu) && self.cpus[cpu.index()].active;
        if usable(entry.cpu) && self.rank_of_current(entry.cpu) > rank {
            return entry.cpu;
        }
        let all = entry.allowed.iter().filter(|&cpu| usable(cpu));
        all.max_by_key(|&cpu| (self.rank_of_current(cpu), std::cmp::Reverse(cpu))).unwrap_or(entry.cpu)
    }

    /// Dequeues and returns the best waiting task of a higher class for `cpu`: its own, or one pulled from another
    /// CPU. `prev` ran until now. Fair tasks are pulled only if `looks` is set.
    pub fn higher_pick(&mut self, cpu: CpuId, prev: TaskId, below: Class, looks: bool) -> Option<TaskId> {
        self.fair_update_weights(cpu, None);
        if self.cpus[cpu.index()].higher.is_empty() {
            self.fair_dequeue_all_delayed(cpu, prev);
            // An idle CPU that was woken to balance may find a running task to move.
            let balances = self.tasks.higher_waiting > 0 || self.cpus[cpu.index()].fair.kicked;
            if !balances || !self.cpus[cpu.index()].active {
                return None;
            }
            if let Some(task) = self.realtime_pull(cpu) {
                return Some(task);
            }
            if below <= Class::Fair || !looks || !self.fair_pull(cpu) {
                return None;
            }
        }
        let &(class, _, _, first) = self.cpus[cpu.index()].higher.first().expect("it is not empty");
        if class >= below {
            return None;
        }
        let task = if class == Class::Fair { self.fair_pick(cpu, prev)? } else { first };
        self.higher_remove(task);
        Some(task)
    }

    /// Pulls a real-time task to a CPU that has no waiting task in the classes above ext.
    fn realtime_pull(&mut self, cpu: CpuId) -> Option<TaskId> {
        let movable = |entry: &&TaskKey| self.task(entry.3).allowed.contains(cpu);
        let realtime = self.cpus.iter().filter_map(|rq| {
            let mut waiting = rq.higher.iter().skip_while(|key| key.0 < Class::Rt);
            waiting.by_ref().take_while(|key| key.0 == Class::Rt).find(movable)
        });
        let &(class, .., task) = realtime.min()?;
        self.higher_dequeue(task);
        self.migrate(task, cpu);
        // `move_queued_task_locked` ends with `wakeup_preempt`; this CPU is already picking.
        self.raise_class(cpu, class);
        Some(task)
    }

    /// SCHED_RR time slice in ticks.
    pub fn rr_quantum(&self) -> u32 {
        (RR_SLICE_MS * self.config.hz / 1000).max(1)
    }

    /// Handles a tick for a running task of a higher class; returns true if the task must go behind its equals. Only
    /// ticks consume the SCHED_RR slice (`task_tick_rt`); the rest of it survives preemption and sleep.
    pub fn higher_tick(&mut self, task: TaskId) -> bool {
        let (cpu, quantum) = (self.task_cpu(task), self.rr_quantum());
        let entry = self.task_mut(task);
        if !matches!(entry.policy, Policy::RoundRobin(_)) {
            return false;
        }
        entry.quantum_left = entry.quantum_left.saturating_sub(1);
        if entry.quantum_left > 0 {
            return false;
        }
        entry.quantum_left = quantum;
        let equals = (entry.class, entry.class_key);
        self.cpus[cpu.index()].higher.first().is_some_and(|&(class, key, ..)| (class, key) == equals)
    }

    /// Charges a running task of a higher class; returns true if the CPU should pick again.
    pub fn higher_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        match self.task(task).class {
            Class::Fair => self.fair_charge(task, ran),
            Class::Deadline => self.dl_charge(task, ran),
            _ => false,
        }
    }
}
