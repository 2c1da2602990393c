// SPDX-License-Identifier: GPL-2.0-only
//! The fair class: EEVDF as in Linux 6.18, for tasks that are not the scheduler's and for runs without one.
//!
//! 1. A task has a virtual runtime: its CPU time, the slower the heavier it is. *Lag* is how far it is behind the
//!    average of its queue, weighted by load. Who is not ahead of the average is eligible.
//! 2. A task asks for one slice after another. The deadline of a request is where the virtual runtime will be when it
//!    is served. Of those that are eligible, the one with the earliest deadline runs.
//! 3. Lag is kept while a task sleeps. Who sleeps while it is ahead stays in competition until the others have caught
//!    up: it cannot lose its debt by sleeping, but by waiting.
//! 4. Who is picked anew is safe from others for a slice of its own, or until its deadline if that comes first.
//! 5. A waking task looks for an idle CPU below the last-level cache; a new one everywhere. A CPU that goes idle pulls.
//!
//! Not modelled: groups of tasks, load tracking (a CPU's load is the weight of who is there now), balancing of busy
//! CPUs with each other, slices of a task's own, and what later kernels do with buddies.

use super::Core;
use super::task::{Class, Entity, TaskKey, load_weight};
use ids::{CpuId, Locality, Nanos, Policy, TaskId};

/// `sched_base_slice` for one CPU; it grows with the logarithm of their number, up to that of 8 CPUs.
const SLICE_NS: u64 = 700_000;
/// Weight of nice 0.
const NICE_0: u64 = 1024;
/// Where the virtual clocks of queues begin: far above any lag, which is at most 2 s for the lightest task.
pub(super) const CLOCK_START: u64 = 1 << 40;

impl Core {
    /// Position of a fair task among those that wait.
    pub(super) fn fair_key(&self, task: TaskId) -> u64 {
        self.task(task).fair.deadline
    }

    fn fair_weight(&self, task: TaskId) -> u64 {
        let entry = self.task(task);
        u64::from(load_weight(entry.policy, entry.nice))
    }

    /// A slice in the virtual time of this task.
    fn fair_request(&self, task: TaskId) -> u64 {
        let cpus = self.cpus().min(8);
        SLICE_NS * u64::from(1 + cpus.ilog2()) * NICE_0 / self.fair_weight(task)
    }

    /// Fair tasks that wait on `cpu`, by deadline.
    fn fair_waiting(&self, cpu: CpuId) -> impl Iterator<Item = TaskId> {
        let fair = self.cpus[cpu.index()].higher.range((Class::Fair, 0, 0, TaskId(0))..);
        fair.map(|&(_, _, _, task)| task)
    }

    /// The one that runs there and is not back among those that wait.
    fn fair_running(&self, cpu: CpuId) -> Option<TaskId> {
        let task = self.current(cpu).some()?;
        let entry = self.task(task);
        let competes = entry.class == Class::Fair && entry.is_runnable() && entry.cpu == cpu;
        (competes && !self.cpus[cpu.index()].higher.contains(&self.higher_key(task))).then_some(task)
    }

    /// Sum of the weights on `cpu`, and their average virtual runtime; without tasks where that was last.
    fn fair_average(&self, cpu: CpuId) -> (u64, u64) {
        let (mut load, mut sum) = (0, 0_u128);
        for task in self.fair_waiting(cpu).chain(self.fair_running(cpu)) {
            let weight = self.fair_weight(task);
            load += weight;
            sum += u128::from(weight) * u128::from(self.task(task).fair.vruntime);
        }
        match load {
            0 => (0, self.cpus[cpu.index()].fair_clock),
            _ => (load, (sum / u128::from(load)) as u64),
        }
    }

    /// How far a task is behind the average; no more than two slices, or a tick if that is longer.
    fn fair_lag(&self, task: TaskId) -> i64 {
        let entry = self.task(task);
        let tick = 1_000_000_000 / u64::from(self.config.hz) * NICE_0 / self.fair_weight(task);
        let most = (2 * self.fair_request(task)).max(tick) as i64;
        (self.fair_average(entry.cpu).1 as i64 - entry.fair.vruntime as i64).clamp(-most, most)
    }

    /// `place_entity`: a task joins the others of its CPU with the lag that it had elsewhere or before. Its own weight
    /// moves the average, so its distance is made larger by as much.
    pub(super) fn fair_place(&mut self, task: TaskId) {
        let (weight, full) = (self.fair_weight(task), self.fair_request(task));
        let (load, average) = self.fair_average(self.task_cpu(task));
        let fair = &mut self.task_mut(task).fair;
        if std::mem::take(&mut fair.stays) {
            return;
        }
        let whole = |sum: u64| i128::from(fair.lag) * i128::from(sum);
        let lag = if load == 0 { 0 } else { (whole(load + weight) / i128::from(load)) as i64 };
        let request = match fair.request {
            // PLACE_DEADLINE_INITIAL: a new task begins with half a slice, for it joins amidst one.
            0 if !fair.known => full / 2,
            0 => full,
            left => left,
        };
        let vruntime = average.saturating_add_signed(-lag);
        *fair = Entity { vruntime, deadline: vruntime + request, known: true, ..Entity::default() };
    }

    /// A task that waits leaves its queue to come to another, or to come back as somebody else.
    pub(super) fn fair_take_along(&mut self, task: TaskId) {
        let lag = self.fair_lag(task);
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (lag, fair.deadline.saturating_sub(fair.vruntime));
    }

    /// The current task of a CPU goes to sleep, or ends. It is still counted.
    pub fn fair_sleep(&mut self, task: TaskId) {
        self.task_mut(task).fair.lag = self.fair_lag(task);
    }

    /// A sleeping task is woken. True if it was ahead of the others when it fell asleep and still is: it has never left
    /// its CPU's queue, so it stays there (DELAY_DEQUEUE).
    pub fn fair_wake(&mut self, task: TaskId) -> bool {
        let entry = self.task(task);
        if entry.fair.lag >= 0 {
            return false;
        }
        let (load, average) = self.fair_average(entry.cpu);
        let usable = self.cpus[entry.cpu.index()].active && entry.allowed.contains(entry.cpu);
        let stays = load > 0 && entry.fair.vruntime > average && usable;
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.stays) = (0, stays);
        stays
    }

    /// The task was picked, and did not run before.
    pub fn fair_start(&mut self, task: TaskId) {
        let request = self.fair_request(task);
        let fair = &mut self.task_mut(task).fair;
        fair.safe_until = fair.deadline.min(fair.vruntime + request);
    }

    /// The task that runs changed its weight, or comes from another class.
    pub fn fair_change_running(&mut self, task: TaskId, joins: bool) {
        if joins {
            self.task_mut(task).fair = Entity::default();
            // It must not count while its place is sought.
            self.task_mut(task).class = Class::Idle;
            self.fair_place(task);
            self.task_mut(task).class = Class::Fair;
            self.fair_start(task);
        } else {
            let request = self.fair_request(task);
            let fair = &mut self.task_mut(task).fair;
            fair.deadline = fair.vruntime + request;
        }
    }

    /// `yield_task_fair`: it gives its request up, if it may run at all.
    pub fn fair_yield(&mut self, task: TaskId) {
        let (request, average) = (self.fair_request(task), self.fair_average(self.task_cpu(task)).1);
        let fair = &mut self.task_mut(task).fair;
        if fair.vruntime <= average {
            fair.vruntime = fair.deadline;
        }
        fair.deadline += request;
    }

    /// `update_curr`: charges the running task; true if another one is to be looked at.
    pub(super) fn fair_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        let (weight, request, cpu) = (self.fair_weight(task), self.fair_request(task), self.task_cpu(task));
        let fair = &mut self.task_mut(task).fair;
        fair.vruntime += ran.0 * NICE_0 / weight;
        let served = fair.vruntime >= fair.deadline;
        if served {
            fair.deadline = fair.vruntime + request;
        }
        let over = served || fair.vruntime >= fair.safe_until;
        let average = self.fair_average(cpu).1;
        let clock = &mut self.cpus[cpu.index()].fair_clock;
        *clock = average.max(*clock);
        over && self.fair_waiting(cpu).next().is_some()
    }

    /// `pick_eevdf`: the best of those that wait on `cpu`; `prev` goes on if it is among them and safe.
    pub(super) fn fair_pick(&self, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
        let safe = |task: &TaskId| *task == prev && self.task(prev).fair.vruntime < self.task(prev).fair.safe_until;
        let (_, average) = self.fair_average(cpu);
        let eligible = |task: &TaskId| self.task(*task).fair.vruntime <= average;
        let all = || self.fair_waiting(cpu);
        all().find(safe).or_else(|| all().find(eligible)).or_else(|| all().next())
    }

    /// `check_preempt_wakeup_fair`: whether a task that has just been enqueued takes the CPU from its equal.
    pub fn fair_preempts(&mut self, task: TaskId) -> bool {
        let cpu = self.task_cpu(task);
        let Some(running) = self.fair_running(cpu) else { return false };
        let (new, old) = (self.task(task), self.task(running));
        if old.policy == Policy::Idle && new.policy != Policy::Idle {
            self.task_mut(running).fair.safe_until = 0;
            return true;
        }
        if new.policy != old.policy && matches!(new.policy, Policy::Idle | Policy::Batch) {
            return false;
        }
        let (_, average) = self.fair_average(cpu);
        let better = old.fair.vruntime > average || new.fair.deadline < old.fair.deadline;
        let first = self.fair_waiting(cpu).find(|&task| self.task(task).fair.vruntime <= average);
        old.fair.vruntime >= old.fair.safe_until && better && first == Some(task)
    }

    /// `select_task_rq_fair` of a waking task. `from` is the waker's CPU.
    pub fn fair_select_woken(&self, task: TaskId, from: CpuId, sync: bool) -> CpuId {
        let prev = self.task_cpu(task);
        let usable = |cpu: CpuId| self.task(task).allowed.contains(cpu) && self.cpus[cpu.index()].active;
        let idle = |cpu: CpuId| usable(cpu) && self.fair_idle(cpu);
        let load = |cpu| self.fair_average(cpu).0;
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
        usable.min_by_key(|&cpu| (!self.fair_idle(cpu), self.fair_average(cpu).0, far(cpu), cpu)).unwrap_or(from)
    }

    fn fair_idle(&self, cpu: CpuId) -> bool {
        self.current(cpu) == TaskId::NONE && self.cpus[cpu.index()].higher.is_empty()
    }

    /// The fair task that a CPU without work pulls: of the CPU where most wait, the one that has waited longest.
    pub(super) fn fair_to_pull(&self, cpu: CpuId) -> Option<TaskId> {
        let movable = |from: u32| self.fair_waiting(CpuId(from)).filter(|&task| self.task(task).allowed.contains(cpu));
        let busiest = (0..self.cpus()).max_by_key(|&from| (movable(from).count(), std::cmp::Reverse(from)))?;
        movable(busiest).min_by_key(|&task| self.task(task).class_seq)
    }

    /// Where a task of a class above ext waits.
    pub(super) fn higher_key(&self, task: TaskId) -> TaskKey {
        let entry = self.task(task);
        (entry.class, entry.class_key, entry.class_seq, task)
    }
}
