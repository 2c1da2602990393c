// SPDX-License-Identifier: GPL-2.0-only
//! The classes above ext, as far as sched_ext can see them: who is taken before it, and for how long. Deadline tasks
//! run by earliest deadline, real-time ones by priority, fair ones as `fair` says; waiting tasks are pulled to CPUs that
//! would otherwise run something lower. Bandwidth control and load balancing in the kernel's detail are not modelled.

use super::Core;
use super::task::{Class, TaskKey};
use ids::{CpuId, Nanos, Policy, TaskId};

/// SCHED_RR time slice (`RR_TIMESLICE`).
const RR_SLICE_NS: u64 = 100_000_000;

impl Core {
    /// The class of a policy, given which policies the attached scheduler takes.
    pub fn class_of(&self, policy: Policy, switch_all: bool, attached: bool) -> Class {
        match policy {
            Policy::Deadline { .. } => Class::Deadline,
            Policy::Fifo(_) | Policy::RoundRobin(_) => Class::Rt,
            Policy::Ext if attached => Class::Ext,
            _ if attached && switch_all => Class::Ext,
            _ => Class::Fair,
        }
    }

    /// Puts a task of a higher class that became runnable on its CPU's queue.
    pub fn higher_enqueue(&mut self, task: TaskId, at_head: bool) {
        if self.task(task).class == Class::Fair {
            self.fair_place(task);
        }
        self.higher_put_back(task, at_head);
    }

    /// The same for one that ran until now: it keeps its place among the fair ones.
    pub fn higher_put_back(&mut self, task: TaskId, at_head: bool) {
        self.arrivals += 1;
        let (now, deadline) = (self.now, self.fair_key(task));
        let arrival = self.arrivals;
        let entry = self.task_mut(task);
        entry.class_seq = if at_head && entry.class != Class::Fair { 0 } else { arrival };
        match entry.policy {
            _ if entry.class == Class::Fair => entry.class_key = deadline,
            Policy::Deadline { deadline, .. } if entry.class_key <= now.0 => entry.class_key = now.0 + deadline.0,
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => entry.class_key = 99 - u64::from(priority),
            _ => {}
        }
        let (cpu, key) = (self.task_cpu(task), self.higher_key(task));
        self.cpus[cpu.index()].higher.insert(key);
        self.higher_waiting += 1;
    }

    /// Takes a waiting task of a higher class off its queue.
    pub fn higher_dequeue(&mut self, task: TaskId) {
        let key = self.higher_key(task);
        if key.0 == Class::Fair {
            self.fair_take_along(task);
        }
        self.higher_remove(key);
    }

    fn higher_remove(&mut self, key: TaskKey) {
        let cpu = self.task_cpu(key.3);
        if self.cpus[cpu.index()].higher.remove(&key) {
            self.higher_waiting -= 1;
        }
    }

    /// How important what runs on a CPU is: class, then key; smaller wins.
    fn rank_of_current(&self, cpu: CpuId) -> (Class, u64) {
        match self.current(cpu).some() {
            Some(task) => (self.task(task).class, self.task(task).class_key),
            None => (Class::Idle, 0),
        }
    }

    /// Where a waking task of a higher class goes: its CPU if it wins there, else the least important allowed CPU.
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

    /// The best waiting task of a higher class for `cpu`: its own, or one pulled from another CPU. Taken off its queue.
    /// `prev` ran until now.
    pub fn higher_pick(&mut self, cpu: CpuId, prev: TaskId, below: Class) -> Option<TaskId> {
        if self.higher_waiting == 0 {
            return None;
        }
        let own = self.cpus[cpu.index()].higher.first().copied();
        let others = self.cpus.iter().flat_map(|rq| rq.higher.iter());
        let best = match own {
            Some(own) => Some(own),
            None if !self.cpus[cpu.index()].active => None,
            None => others.filter(|entry| self.task(entry.3).allowed.contains(cpu)).min().copied(),
        };
        let (class, _, _, task) = best.filter(|&(class, ..)| class < below)?;
        let task = match class {
            Class::Fair if own.is_some() => self.fair_pick(cpu, prev)?,
            Class::Fair => self.fair_to_pull(cpu)?,
            _ => task,
        };
        if own.is_some() {
            self.higher_remove(self.higher_key(task));
        } else {
            self.higher_dequeue(task);
            self.task_mut(task).cpu = cpu;
            if class == Class::Fair {
                self.fair_place(task);
            }
        }
        Some(task)
    }

    /// Charges a running task of a higher class; true if its turn is over.
    pub fn higher_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        let cpu = self.task_cpu(task);
        let waiting = self.cpus[cpu.index()].higher.first().copied();
        let entry = self.task_mut(task);
        match entry.policy {
            Policy::RoundRobin(_) => {
                entry.class_seq += ran.0;
                let same = waiting.is_some_and(|(class, key, ..)| (class, key) == (entry.class, entry.class_key));
                same && entry.class_seq >= RR_SLICE_NS && {
                    entry.class_seq = 0;
                    true
                }
            }
            Policy::Fifo(_) | Policy::Deadline { .. } => false,
            _ => self.fair_charge(task, ran),
        }
    }
}
