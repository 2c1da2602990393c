// SPDX-License-Identifier: GPL-2.0-only
//! CPU selection, push and pull of deadline tasks: global EDF over the allowed CPUs (kernel/sched/deadline.c, cpudeadline.c).
//!
//! 1. A CPU without deadline tasks is better than any other. Without one, the CPU whose earliest deadline is the
//!    latest is tried. On machines with unlike CPUs one whose capacity fits the task is preferred.
//! 2. A task that wakes up stays on its CPU, unless a deadline task runs there that it does not preempt.
//! 3. A CPU pushes the tasks that wait on it after each switch to a deadline task, and after a wakeup or
//!    replenishment there. A CPU whose deadline task stops running pulls from CPUs where a second one waits.

use super::super::classes::Turn;
use super::super::task::{Class, TaskKey};
use super::Core;
use ids::{CpuId, CpuSet, Locality, Policy, TaskId, Topology};

impl Core {
    /// `earliest_dl.curr`: the earliest deadline of the tasks and servers on `cpu`.
    pub(super) fn dl_earliest(&self, cpu: CpuId) -> Option<u64> {
        let rq = &self.cpus[cpu.index()];
        let waiting = self.dl_waiting(cpu).next().map(|key| key.1);
        let running = self.dl_running(cpu).map(|task| self.task(task).class_key);
        [waiting, running, rq.servers.earliest()].into_iter().flatten().min()
    }

    /// Waiting deadline tasks of `cpu`, earliest first.
    fn dl_waiting(&self, cpu: CpuId) -> impl Iterator<Item = &TaskKey> {
        self.cpus[cpu.index()].higher.iter().take_while(|key| key.0 == Class::Deadline)
    }

    /// The deadline task that runs on `cpu` with runtime left.
    fn dl_running(&self, cpu: CpuId) -> Option<TaskId> {
        let runs = |task: &TaskId| {
            let entry = self.task(*task);
            entry.class == Class::Deadline && entry.is_runnable() && !entry.dl.throttled
        };
        self.current(cpu).some().filter(runs)
    }

    /// `dl_task_is_earliest_deadline`.
    fn dl_is_earliest(&self, task: TaskId, cpu: CpuId) -> bool {
        self.dl_earliest(cpu).is_none_or(|earliest| self.task(task).class_key < earliest)
    }

    /// `dl_task_fits_capacity`.
    fn dl_fits(&self, task: TaskId, cpu: CpuId) -> bool {
        let Policy::Deadline { runtime, deadline, .. } = self.task(task).policy else { return true };
        u128::from(self.capacity(cpu)) * u128::from(deadline.0)
            >= u128::from(runtime.0) * u128::from(Topology::FULL_CAPACITY)
    }

    /// `sched_asym_cpucap_active`.
    fn capacities_differ(&self) -> bool {
        let capacities = &self.config.topology.capacities;
        capacities.iter().any(|capacity| Some(capacity) != capacities.first())
    }

    /// `cpudl_find`: the CPUs to which the task may go.
    fn dl_candidates(&self, task: TaskId) -> CpuSet {
        let usable = |&cpu: &CpuId| self.cpus[cpu.index()].active;
        let allowed = &self.task(task).allowed;
        let free: CpuSet = allowed.iter().filter(usable).filter(|&cpu| self.dl_earliest(cpu).is_none()).collect();
        if !free.is_empty() {
            if !self.capacities_differ() {
                return free;
            }
            let fitting: CpuSet = free.iter().filter(|&cpu| self.dl_fits(task, cpu)).collect();
            let largest = || free.iter().max_by_key(|&cpu| (self.capacity(cpu), std::cmp::Reverse(cpu)));
            return if fitting.is_empty() { largest().into_iter().collect() } else { fitting };
        }
        let all = (0..self.cpus()).map(CpuId).filter(usable);
        let latest = all.max_by_key(|&cpu| (self.dl_earliest(cpu), std::cmp::Reverse(cpu)));
        latest.filter(|&cpu| allowed.contains(cpu) && self.dl_is_earliest(task, cpu)).into_iter().collect()
    }

    /// `find_later_rq`: the CPU to which a task that waits, or is about to wake up, should go.
    fn dl_find_later(&mut self, task: TaskId) -> Option<CpuId> {
        if self.task(task).allowed_count < 2 {
            return None;
        }
        let (candidates, prev, here) = (self.dl_candidates(task), self.task_cpu(task), self.context.cpu);
        if candidates.contains(prev) {
            return Some(prev);
        }
        for span in [Locality::Smt, Locality::Llc, Locality::Node, Locality::Far] {
            let near = |&cpu: &CpuId| self.config.topology.locality(prev, cpu) <= span;
            let found: CpuSet = candidates.iter().filter(near).collect();
            if found.contains(here) {
                return Some(here);
            }
            if !found.is_empty() {
                return Some(CpuId(self.any_distribute(&found)));
            }
        }
        None
    }

    /// `select_task_rq_dl` of a waking task. A new task is placed like a fair one, which it was until its policy was
    /// set.
    pub fn dl_select_cpu(&mut self, task: TaskId, is_new: bool) -> CpuId {
        if is_new {
            return self.fair_select_new(task, self.context.cpu);
        }
        let prev = self.task_cpu(task);
        let stays = self.dl_running(prev).is_none_or(|current| {
            self.task(current).allowed_count > 1 && self.task(task).class_key < self.task(current).class_key
        });
        if stays && (!self.capacities_differ() || self.dl_fits(task, prev)) {
            return prev;
        }
        self.dl_find_later(task).filter(|&cpu| self.dl_is_earliest(task, cpu)).unwrap_or(prev)
    }

    /// Whether a task that was just enqueued cannot run on its CPU, so that the CPU should push (`task_woken_dl`).
    pub fn dl_must_push(&self, task: TaskId) -> bool {
        let (cpu, entry) = (self.task_cpu(task), self.task(task));
        let blocked = |current: TaskId| {
            self.task(current).class == Class::Deadline
                && (self.task(current).allowed_count < 2 || entry.class_key >= self.task(current).class_key)
        };
        entry.allowed_count > 1
            && !self.cpus[cpu.index()].need_resched
            && self.current(cpu).some().is_some_and(|current| current != task && blocked(current))
    }

    /// `push_dl_task`: moves the first waiting task of `cpu` to a CPU where it can run; returns it if it moved.
    pub fn dl_push_one(&mut self, cpu: CpuId) -> Option<TaskId> {
        let task = self.dl_waiting(cpu).map(|key| key.3).find(|&task| self.task(task).allowed_count > 1)?;
        let key = self.task(task).class_key;
        if let Some(current) = self.current(cpu).some().map(|current| self.task(current))
            && current.class == Class::Deadline
            && key < current.class_key
            && current.allowed_count > 1
        {
            self.resched(cpu);
            return None;
        }
        let to = self.dl_find_later(task).filter(|&to| to != cpu && self.dl_is_earliest(task, to))?;
        self.dl_move(task, to);
        Some(task)
    }

    fn dl_move(&mut self, task: TaskId, to: CpuId) {
        self.higher_dequeue(task);
        self.migrate(task, to);
        self.higher_put_back(task, Turn::Last);
    }

    /// `pull_dl_task`: moves waiting tasks to `cpu`, whose deadline task has stopped running.
    pub fn dl_pull(&mut self, cpu: CpuId) {
        if self.tasks.higher_waiting == 0 || !self.cpus[cpu.index()].active {
            return;
        }
        for from in (0..self.cpus()).map(CpuId).filter(|&from| from != cpu) {
            let waits = self.dl_waiting(from).count();
            if waits == 0 || waits + usize::from(self.dl_running(from).is_some()) < 2 {
                continue;
            }
            let pulled = self.dl_waiting(from).map(|key| key.3).find(|&task| self.task(task).allowed.contains(cpu));
            let Some(task) = pulled.filter(|&task| self.dl_is_earliest(task, cpu)) else { continue };
            // A task that preempts the one on its own CPU stays there.
            let preempts = |current| self.task(task).class_key < self.task(current).class_key;
            if !self.dl_running(from).is_some_and(preempts) {
                self.dl_move(task, cpu);
                self.raise_class(cpu, Class::Deadline);
            }
        }
    }
}
