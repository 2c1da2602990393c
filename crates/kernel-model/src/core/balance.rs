// SPDX-License-Identifier: GPL-2.0-only
//! Where fair tasks go: a waking task looks for an idle CPU below the last-level cache, a new one everywhere, and a CPU
//! that goes idle pulls. Not modelled: load tracking (a CPU's load is the weight of who is there now), and balancing of
//! busy CPUs with each other.

use super::Core;
use super::fair::NICE_0;
use ids::{CpuId, Locality, TaskId};
use std::cmp::Reverse;

impl Core {
    /// `select_task_rq_fair` of a waking task. `from` is the waker's CPU.
    pub fn fair_select_woken(&self, task: TaskId, from: CpuId, sync: bool) -> CpuId {
        let prev = self.task_cpu(task);
        let usable = |cpu: CpuId| self.task(task).allowed.contains(cpu) && self.cpus[cpu.index()].active;
        let idle = |cpu: CpuId| usable(cpu) && self.fair_idle(cpu);
        let load = |cpu| self.fair_load(cpu);
        // wake_affine: near the waker if nobody else is there, or less is to do.
        let alone = sync && self.fair_waiting(from).next().is_none();
        let near = alone || load(from).saturating_sub(if sync { NICE_0 } else { 0 }) < load(prev);
        let target = if !idle(prev) && usable(from) && near { from } else { prev };
        // select_idle_sibling.
        let cpus = self.cpus();
        let round = (0..cpus).map(|step| CpuId((target.0 + step) % cpus));
        let same = |&cpu: &CpuId| self.config.topology.locality(cpu, target) <= Locality::Llc;
        [target, prev].into_iter().chain(round).filter(same).find(|&cpu| idle(cpu)).unwrap_or(target)
    }

    /// `sched_balance_find_dst_cpu` for a new task: the least loaded CPU, near its parent's if there are several.
    pub fn fair_select_new(&self, task: TaskId, from: CpuId) -> CpuId {
        // Threads of its core are no nearer than the rest of its cache.
        let far = |cpu: CpuId| match self.config.topology.locality(from, cpu) {
            Locality::Smt => Locality::Llc,
            locality => locality,
        };
        let usable = self.task(task).allowed.iter().filter(|&cpu| self.cpus[cpu.index()].active);
        usable.min_by_key(|&cpu| (!self.fair_idle(cpu), self.fair_load(cpu), far(cpu), cpu)).unwrap_or(from)
    }

    fn fair_idle(&self, cpu: CpuId) -> bool {
        self.current(cpu) == TaskId::NONE && self.cpus[cpu.index()].higher.is_empty()
    }

    /// The fair task that a CPU without work pulls: of the CPU where most wait, the one that has waited longest.
    pub(super) fn fair_to_pull(&self, cpu: CpuId) -> Option<TaskId> {
        let movable = |from: u32| self.fair_waiting(CpuId(from)).filter(|&task| self.task(task).allowed.contains(cpu));
        let busiest = (0..self.cpus()).max_by_key(|&from| (movable(from).count(), Reverse(from)))?;
        movable(busiest).min_by_key(|&task| self.task(task).class_seq)
    }
}
