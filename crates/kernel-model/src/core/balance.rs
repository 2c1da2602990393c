// SPDX-License-Identifier: GPL-2.0-only
//! CPU selection and load balancing of fair tasks.
//!
//! 1. A waking task stays near its previous CPU or its waker, and searches for an idle CPU in that last-level cache,
//!    preferring a fully idle core. A new task searches the whole machine.
//! 2. A CPU that goes idle pulls one task; at ticks, idle CPUs receive tasks that wait elsewhere
//!    ([`super::idle_balance`]).
//! 3. Busy CPUs balance at ticks, less often over wider spans: a CPU loaded below the average of a span pulls from
//!    the most loaded CPU, but only tasks that weigh no more than the imbalance, unless earlier attempts failed.
//! 4. A task that ran within the last 500 us is cache-hot and is not moved.
//! 5. If nothing else helps, a running task is moved to an idle CPU ([`super::active_balance`]).
//!
//! The load of a task is its weight after the shares of its cgroups (`task_h_load`).
//!
//! Not modelled: load tracking (the load of a CPU is the weight of the tasks on it now, where the kernel averages
//! over about 30 ms), scheduling groups in points 2 and 3 (a CPU is compared with the busiest CPU, not its group with
//! the busiest group; point 5 compares groups).

use super::Core;
use super::classes::Turn;
use super::task::{SCALE, Task};
use ids::{CpuId, Locality, Nanos, Policy, TaskId};
use std::cmp::Reverse;

/// `sysctl_sched_migration_cost`: a task that ran this recently is cache-hot.
const HOT: Nanos = Nanos::from_us(500);
/// `busy_factor`: balance interval of a busy CPU, as a multiple of an idle CPU's.
pub(super) const BUSY_FACTOR: u64 = 16;
/// `imbalance_pct`: the busiest CPU must have more than this percentage of the local load.
const IMBALANCE_PERCENT: u64 = 117;
/// Load that a sync waker is assumed to take away when it sleeps: one nice-0 task.
const NICE_0: u64 = 1024;
/// Scheduling domains over which CPUs balance, from the core to the whole machine.
pub(super) const SPANS: [Locality; 4] = [Locality::Smt, Locality::Llc, Locality::Node, Locality::Far];

/// `cache_nice_tries` of a domain (`sd_init`): after more failed attempts than this, cache-hot tasks are moved too.
pub(super) fn nice_tries(index: usize) -> u32 {
    [0, 1, 1, 2][index]
}

/// Denominator of the newidle ratio; a ratio of 1024 means "always search".
pub(super) const RATIO_ONE: u32 = 1024;

/// NI_RATE adds 1 to the ratio for each 2^22 ns between two updates of the ratio.
const RATE_SHIFT: u32 = 22;

/// Statistics of newidle balancing of one CPU over one scheduling domain (`newidle_call` and others of `struct
/// sched_domain`).
#[derive(Clone, Copy, Debug)]
pub(super) struct NewidleStats {
    calls: u32,
    successes: u32,
    /// Probability of a search, in 1/[`RATIO_ONE`].
    pub ratio: u32,
    since: Nanos,
}

impl NewidleStats {
    /// Initial statistics, with the call count that the kernel starts with.
    pub fn new(ratio: u32) -> NewidleStats {
        NewidleStats { calls: RATIO_ONE / 2, successes: ratio / 2, ratio, since: Nanos::ZERO }
    }

    /// `update_newidle_stats`. A search that was let through counts for those that were skipped.
    pub fn note(&mut self, successes: u32, now: Nanos, by_rate: bool) {
        self.calls += 1;
        self.successes += successes;
        if self.calls < RATIO_ONE {
            return;
        }
        self.ratio = self.successes;
        if by_rate {
            let rarely = u32::try_from(now.since(self.since).0 >> RATE_SHIFT).unwrap_or(RATIO_ONE);
            self.ratio = self.ratio.saturating_add(rarely).min(RATIO_ONE);
        }
        self.since = now;
        self.calls /= 2;
        self.successes /= 2;
    }
}

/// Balancing state of a CPU for one scheduling domain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    /// No balancing before this time.
    next: Nanos,
    /// When the CPU last balanced, or an idle CPU did so for it.
    pub last: Nanos,
    /// Number of consecutive attempts that moved no task.
    pub failed: u32,
    /// The last pass failed to move a running task, and no task waited.
    pub hurries: bool,
    /// When it was last found, at a tick of another CPU, that an idle CPU has nothing to balance.
    pub scanned: Nanos,
    /// Success statistics of newidle balancing; `None` before the first attempt.
    pub newidle: Option<NewidleStats>,
}

/// Balancing state of a CPU over each of [`SPANS`].
pub(super) type Balances = [Balance; SPANS.len()];

impl Core {
    /// `select_task_rq_fair` of a waking task. `from` is the waker's CPU.
    pub fn fair_select_woken(&self, task: TaskId, from: CpuId, sync: bool) -> CpuId {
        let prev = self.task_cpu(task);
        let usable = |cpu: CpuId| self.task(task).allowed.contains(cpu) && self.cpus[cpu.index()].active;
        let idle = |cpu: CpuId| usable(cpu) && self.fair_idle_for(cpu, self.task(task));
        let load = |cpu| self.fair_load(cpu);
        // wake_affine: near the waker if it is alone on its CPU, or if its CPU has less load.
        let alone = sync && self.fair_waiting(from).next().is_none();
        let near = alone || load(from).saturating_sub(if sync { NICE_0 } else { 0 }) < load(prev);
        let target = if !idle(prev) && usable(from) && near { from } else { prev };
        // select_idle_sibling: an idle CPU of the target's last-level cache, if there is one.
        let below = |&cpu: &CpuId| self.config.topology.locality(cpu, target) <= Locality::Llc;
        if let Some(cpu) = [target, prev].into_iter().filter(below).find(|&cpu| idle(cpu)) {
            return cpu;
        }
        let cpus = self.cpus();
        let round = || (1..cpus).map(|step| CpuId((target.0 + step) % cpus)).filter(below).filter(|&cpu| idle(cpu));
        let siblings = |cpu: CpuId| self.idle.spans.core_of(cpu).iter();
        if siblings(target).nth(1).is_some() {
            let whole = round().find(|&cpu| siblings(cpu).all(|sibling| self.fair_idle(sibling)));
            let half = || siblings(prev).filter(below).find(|&cpu| idle(cpu));
            if let Some(cpu) = whole.or_else(half) {
                return cpu;
            }
        }
        round().next().unwrap_or(target)
    }

    /// `sched_balance_find_dst_cpu` for a new task: an idle CPU if there is one, in the core with the fewest busy
    /// CPUs, with the least load; of equals the one nearest to `from`.
    pub fn fair_select_new(&self, task: TaskId, from: CpuId) -> CpuId {
        // SMT siblings count as no nearer than the rest of the LLC.
        let far = |cpu: CpuId| match self.config.topology.locality(from, cpu) {
            Locality::Smt => Locality::Llc,
            locality => locality,
        };
        let busy = |cpu: CpuId| self.idle.spans.core_of(cpu).iter().filter(|&cpu| !self.fair_idle(cpu)).count();
        let usable = self.task(task).allowed.iter().filter(|&cpu| self.cpus[cpu.index()].active);
        let rank = |&cpu: &CpuId| (!self.fair_idle(cpu), busy(cpu), self.fair_load(cpu), far(cpu), cpu);
        usable.min_by_key(rank).unwrap_or(from)
    }

    pub(super) fn fair_idle(&self, cpu: CpuId) -> bool {
        let rq = &self.cpus[cpu.index()];
        rq.current == TaskId::NONE && !rq.occupied && rq.higher.is_empty()
    }

    /// `choose_idle_cpu`: a CPU that has only SCHED_IDLE tasks is idle for tasks of other policies.
    fn fair_idle_for(&self, cpu: CpuId, task: &Task) -> bool {
        let idles = |task: TaskId| self.task(task).policy == Policy::Idle;
        self.fair_idle(cpu)
            || task.policy != Policy::Idle
                && self.current(cpu).some().is_none_or(idles)
                && self.cpus[cpu.index()].higher.iter().all(|&(.., task)| idles(task))
    }

    /// `can_migrate_task`: the fair tasks that wait on `from` and may move to `to`, in order of arrival.
    pub(super) fn fair_movable(&self, from: CpuId, to: CpuId, hot_too: bool) -> Vec<TaskId> {
        let shares_core = self.config.topology.locality(from, to) == Locality::Smt;
        let cold = |task: &Task| {
            let is_hot = task.fair.ran_at.is_some_and(|ran_at| self.time.now().since(ran_at) < HOT);
            hot_too || shares_core || task.policy == Policy::Idle || !is_hot
        };
        let may = |&task: &TaskId| self.task(task).allowed.contains(to) && cold(self.task(task));
        let mut tasks: Vec<TaskId> = self.fair_waiting(from).filter(may).collect();
        tasks.sort_by_key(|&task| self.task(task).class_seq);
        tasks
    }

    /// LBF_ALL_PINNED: whether no fair task of `from`, the running one included, may run on `to`.
    pub(super) fn fair_all_pinned(&self, from: CpuId, to: CpuId) -> bool {
        let mut tasks = self.fair_waiting(from).chain(self.fair_running(from));
        !tasks.any(|task| self.task(task).allowed.contains(to))
    }

    /// Moves a waiting fair task to another CPU, with its lag and the rest of its request.
    pub fn fair_move(&mut self, task: TaskId, to: CpuId) {
        self.fair_catch_up(self.task_cpu(task));
        self.higher_dequeue(task);
        self.migrate(task, to);
        self.task_mut(task).fair.ran_at = None;
        self.fair_catch_up(to);
        self.higher_enqueue(task, Turn::Last);
    }

    /// Balances at a tick of `cpu`; returns the tasks pulled to it, which may preempt its current task.
    pub fn fair_balance(&mut self, cpu: CpuId) -> Vec<TaskId> {
        if !self.cpus[cpu.index()].active {
            return Vec::new();
        }
        if !self.fair_idle(cpu) {
            self.fair_kick_idle(cpu);
        }
        if self.tasks.higher_waiting == 0 {
            return Vec::new();
        }
        let mut moved = Vec::new();
        for (index, span) in SPANS.into_iter().enumerate() {
            if self.time.now() >= self.cpus[cpu.index()].fair.balances[index].next {
                moved.extend(self.fair_balance_over(cpu, index, span));
            }
        }
        moved
    }

    /// `sched_balance_rq` of `cpu` over one of its scheduling domains; returns the tasks pulled.
    fn fair_balance_over(&mut self, cpu: CpuId, index: usize, span: Locality) -> Vec<TaskId> {
        let topology = &self.config.topology;
        let members = |reach: Locality| {
            let near = move |&other: &CpuId| topology.locality(cpu, other) <= reach;
            (0..self.cpus()).map(CpuId).filter(|other| self.cpus[other.index()].active).filter(near)
        };
        let inner = if index == 0 { Locality::Same } else { SPANS[index - 1] };
        let (width, first) = (members(span).count() as u64, members(inner).next());
        let tick = 1_000_000_000 / u64::from(self.config.hz);
        let interval = (Nanos::from_ms(width * BUSY_FACTOR).0 / tick).saturating_sub(1).max(1) * tick;
        let loads = || members(span).map(|other| self.fair_load(other));
        let (local, average) = (self.fair_load(cpu), loads().sum::<u64>() / width.max(1));
        let outside = members(span).filter(|&other| topology.locality(cpu, other) > inner);
        let busiest = outside
            .filter(|&other| self.fair_waiting(other).next().is_some())
            .max_by_key(|&other| (self.fair_load(other), Reverse(other)));
        let overloaded = self.fair_waiting(cpu).next().is_some();
        let from = busiest.filter(|&from| {
            let load = self.fair_load(from);
            first == Some(cpu) && local < average && (!overloaded || load * 100 > local * IMBALANCE_PERCENT)
        });
        let now = self.time.now();
        let balance = &mut self.cpus[cpu.index()].fair.balances[index];
        (balance.next, balance.last) = (now + Nanos(interval), now);
        let Some(from) = from else {
            balance.failed = 0;
            return Vec::new();
        };
        let failed = balance.failed;
        let mut imbalance = self.fair_load(from).saturating_sub(average).min(average - local);
        let mut moved = Vec::new();
        for task in self.fair_movable(from, cpu, failed > nice_tries(index)) {
            let weight = self.fair_weight(task) >> SCALE;
            if imbalance > 0 && weight >> failed.min(16) <= imbalance {
                imbalance = imbalance.saturating_sub(weight);
                self.fair_move(task, cpu);
                moved.push(task);
            }
        }
        self.cpus[cpu.index()].fair.balances[index].failed = if moved.is_empty() { failed + 1 } else { 0 };
        moved
    }
}
