// SPDX-License-Identifier: GPL-2.0-only
//! The fair class: EEVDF as in Linux 6.18 and 7.2, for tasks that the scheduler does not manage and for runs without
//! a scheduler.
//!
//! 1. The virtual runtime of a task is its CPU time divided by its weight. Its *lag* is how far it is behind the
//!    weighted average of its queue. A task that is not ahead of the average is eligible.
//! 2. A task requests one slice after another. The deadline of a request is the virtual runtime at which it will be
//!    served. The eligible task with the earliest deadline runs.
//! 3. Lag is kept while a task sleeps (PLACE_LAG). A task that goes to sleep with negative lag stays on the queue
//!    until it is picked, when the others have caught up: it cannot drop its debt by sleeping (DELAY_DEQUEUE).
//! 4. A newly picked task runs until its deadline as long as it is eligible (RUN_TO_PARITY).
//!
//! CPU selection is in `balance`, the slice timer in `hrtick`, the effect of cgroup weights in `groups`. `naive`
//! implements the same rule in the simplest way, and `matches` compares the two. Not modelled: custom slices of a
//! task (PREEMPT_SHORT therefore has no effect). NEXT_BUDDY is off in both kernels.

use super::Core;
use super::balance::Balances;
use super::deadline::server::Served;
use super::task::{Class, SCALE, TaskKey, load_weight};
use ids::{CpuId, Nanos, Policy, TaskId};
use std::collections::BTreeSet;

mod groups;
mod hrtick;
#[cfg(test)]
mod matches;
#[cfg(test)]
mod naive;
mod reasons;

/// `sched_base_slice` with one CPU; it grows with the base-2 logarithm of the number of CPUs, up to 8 CPUs.
const SLICE_NS: u64 = 700_000;
/// Weight of nice 0.
const NICE_0: u64 = 1024 << SCALE;
/// Initial virtual time of queues: far above any lag, which is at most 2 s for the lightest task.
const CLOCK_START: u64 = 1 << 40;

/// `sched_prio_to_wmult`: 2^32 divided by a weight.
pub(super) fn inverse_of(weight: u32) -> u32 {
    u32::try_from((1u64 << 32) / u64::from(weight)).unwrap_or(u32::MAX)
}

/// State of the fair class on a CPU, without its waiting tasks.
#[derive(Debug)]
pub(crate) struct FairQueue {
    /// Sleeping tasks that are still on the queue (delayed dequeue), by deadline.
    pub delayed: BTreeSet<TaskKey>,
    /// Sum of the weights of all competing tasks except the running one.
    load: u64,
    /// Sum of virtual runtime times weight, over all competing tasks except the running one.
    sum: u128,
    /// Average virtual runtime when it was last saved.
    clock: u64,
    /// Expiry of the slice timer, if armed.
    hrtick: Option<Nanos>,
    /// Load-balancing state.
    pub(super) balances: Balances,
    /// The CPU is idle and was woken to balance on behalf of all idle CPUs.
    pub(super) kicked: bool,
    /// The CPU has become idle since its last tick, or has never had one (`nohz_tick_stopped`).
    pub(super) tickless: bool,
    /// CPU to which the stopper thread must move a task of this CPU (`push_cpu` of active balancing).
    pub(super) push_to: Option<CpuId>,
}

impl FairQueue {
    pub fn new() -> FairQueue {
        let (delayed, balances) = (BTreeSet::new(), Balances::default());
        FairQueue {
            delayed,
            load: 0,
            sum: 0,
            clock: CLOCK_START,
            hrtick: None,
            balances,
            kicked: false,
            tickless: true,
            push_to: None,
        }
    }
}

impl Core {
    /// Effective weight of a task on its CPU, after the shares of its cgroups.
    pub fn fair_weight(&self, task: TaskId) -> u64 {
        match self.task(task).fair.weight {
            0 => self.fair_full_weight(task),
            part => part,
        }
    }

    /// Weight of a task by policy and nice value.
    fn fair_full_weight(&self, task: TaskId) -> u64 {
        let entry = self.task(task);
        u64::from(load_weight(entry.policy, entry.nice)) << SCALE
    }

    /// `sched_base_slice`.
    pub(super) fn fair_slice(&self) -> u64 {
        SLICE_NS * u64::from(1 + self.cpus().min(8).ilog2())
    }

    /// One slice in the virtual time of this task.
    fn fair_request(&self, task: TaskId) -> u64 {
        self.fair_slice() * NICE_0 / self.fair_weight(task)
    }

    /// Waiting fair tasks of `cpu`, by deadline.
    pub(super) fn fair_waiting(&self, cpu: CpuId) -> impl Iterator<Item = TaskId> {
        let fair = self.cpus[cpu.index()].higher.range((Class::Fair, 0, 0, TaskId(0))..);
        fair.map(|&(_, _, _, task)| task)
    }

    /// The fair task that runs on `cpu`, unless it has been put back among the waiting ones.
    pub(super) fn fair_running(&self, cpu: CpuId) -> Option<TaskId> {
        let task = self.current(cpu).some()?;
        let entry = self.task(task);
        let competes = entry.class == Class::Fair && entry.is_runnable() && entry.cpu == cpu;
        (competes && !self.cpus[cpu.index()].higher.contains(&self.higher_key(task))).then_some(task)
    }

    /// Adds a task to the sums of the competing tasks of `cpu` that do not run, or subtracts it.
    pub(super) fn fair_count(&mut self, cpu: CpuId, task: TaskId, joins: bool) {
        let weight = self.fair_weight(task);
        let part = u128::from(weight) * u128::from(self.task(task).fair.vruntime);
        let queue = &mut self.cpus[cpu.index()].fair;
        (queue.load, queue.sum) =
            if joins { (queue.load + weight, queue.sum + part) } else { (queue.load - weight, queue.sum - part) };
    }

    /// Sum of the weights of all competing tasks of `cpu`, and sum of their virtual runtimes times weight; both
    /// include the running task.
    fn fair_sums(&self, cpu: CpuId) -> (u64, u128) {
        let FairQueue { load, sum, .. } = self.cpus[cpu.index()].fair;
        match self.fair_running(cpu) {
            Some(task) => {
                let weight = self.fair_weight(task);
                (load + weight, sum + u128::from(weight) * u128::from(self.task(task).fair.vruntime))
            }
            None => (load, sum),
        }
    }

    /// Sum of the weights on `cpu`, on the scale of the weight table.
    pub(super) fn fair_load(&self, cpu: CpuId) -> u64 {
        self.fair_sums(cpu).0 >> SCALE
    }

    /// `avg_vruntime`: the average virtual runtime on `cpu`; without tasks, the last saved one.
    fn fair_average(&self, cpu: CpuId) -> u64 {
        match self.fair_sums(cpu) {
            (0, _) => self.cpus[cpu.index()].fair.clock,
            (load, sum) => (sum / u128::from(load)) as u64,
        }
    }

    /// Saves the average virtual runtime, for when the queue becomes empty.
    fn fair_save_average(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.clock = self.fair_average(cpu);
    }

    /// `entity_eligible`, without a division.
    fn fair_eligible(&self, cpu: CpuId, task: TaskId) -> bool {
        let (load, sum) = self.fair_sums(cpu);
        u128::from(self.task(task).fair.vruntime) * u128::from(load) <= sum
    }

    /// `entity_lag`: how far a competing task is behind the average, clamped. The limit was the longer of two slices
    /// and a tick; it is a slice plus a tick in 7.2, and in 6.18 since an update (seen in 6.18.38).
    fn fair_lag(&self, task: TaskId) -> i64 {
        let entry = self.task(task);
        let (tick, slice) = (1_000_000_000 / u64::from(self.config.hz), self.fair_slice());
        let most = if self.config.version < (6, 18) { tick.max(2 * slice) } else { tick + slice };
        let most = (most * NICE_0 / self.fair_weight(task)) as i64;
        (self.fair_average(entry.cpu) as i64 - entry.fair.vruntime as i64).clamp(-most, most)
    }

    /// `place_entity`: places a task among the others of its CPU with the lag that it had before or on another CPU.
    /// Its own weight moves the average, so its distance is enlarged to compensate. The task must not be in the sums
    /// yet.
    pub(super) fn fair_place(&mut self, task: TaskId) {
        let cpu = self.task_cpu(task);
        self.fair_update_weights(cpu, Some(task));
        let (weight, full) = (self.fair_weight(task), self.fair_request(task));
        self.fair_save_average(cpu);
        let (load, average) = (self.fair_sums(cpu).0, self.fair_average(cpu));
        let fair = &mut self.task_mut(task).fair;
        let whole = i128::from(fair.lag) * i128::from(load + weight);
        let lag = if load == 0 { 0 } else { (whole / i128::from(load)) as i64 };
        let request = match fair.request {
            // PLACE_REL_DEADLINE: the task continues its request.
            Some(left) => left,
            // PLACE_DEADLINE_INITIAL: a new task begins with half a slice, as the others are on average halfway
            // through theirs.
            None if !fair.known => (full / 2) as i64,
            None => full as i64,
        };
        let vruntime = average.saturating_add_signed(-lag);
        let deadline = vruntime.saturating_add_signed(request);
        (fair.vruntime, fair.deadline, fair.known, fair.request) = (vruntime, deadline, true, None);
    }

    /// Saves the lag and the rest of the request of a competing task that is about to change its queue or its class.
    /// The task is still in the sums.
    pub fn fair_save_lag(&mut self, task: TaskId) {
        let lag = self.fair_lag(task);
        self.fair_save_average(self.task_cpu(task));
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (lag, Some(fair.deadline as i64 - fair.vruntime as i64));
    }

    /// `reweight_entity` of a task that does not compete: converts its saved virtual times from its old weight. Its
    /// effective weight is computed when it joins a queue.
    pub fn fair_reweight(&mut self, task: TaskId, old: u64) {
        self.task_mut(task).fair.weight = 0;
        self.fair_rescale_saved(task, old);
    }

    /// Converts the saved lag and request from the virtual time of the old weight.
    fn fair_rescale_saved(&mut self, task: TaskId, old: u64) {
        let weight = i128::from(self.fair_weight(task));
        let scaled = |virtual_ns: i64| (i128::from(virtual_ns) * i128::from(old) / weight) as i64;
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (scaled(fair.lag), fair.request.map(scaled));
    }

    /// Blocks the running task, which is still in the sums. A task with negative lag stays on the queue (delayed
    /// dequeue), unless it exits.
    pub fn fair_sleep(&mut self, task: TaskId, exits: bool) {
        let cpu = self.task_cpu(task);
        let (lag, ahead) = (self.fair_lag(task), !self.fair_eligible(cpu, task));
        self.fair_save_average(cpu);
        self.task_mut(task).fair.lag = lag;
        if ahead && !exits && self.cpus[cpu.index()].active {
            self.fair_delay(task, true);
        }
    }

    /// Takes a delayed task off its queue, to change its weight, affinity or CPU.
    pub fn fair_save_delayed(&mut self, task: TaskId) {
        let fair = &self.task(task).fair;
        let request = fair.deadline as i64 - fair.vruntime as i64;
        let lag = self.fair_delayed_lag(task);
        self.fair_save_average(self.task_cpu(task));
        self.fair_delay(task, false);
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (lag, Some(request));
    }

    /// Puts a delayed task back on a queue; it still sleeps.
    pub fn fair_restore_delayed(&mut self, task: TaskId) {
        self.fair_place(task);
        self.fair_delay(task, true);
        self.hrtick_joined(self.task_cpu(task));
    }

    /// `update_entity_lag` of a delayed task: since 7.0 its lag does not fall below that at which it went to sleep,
    /// and is at most 0 (`DELAY_ZERO`).
    fn fair_delayed_lag(&self, task: TaskId) -> i64 {
        let lag = self.fair_lag(task);
        if self.config.version >= (7, 0) { lag.max(self.task(task).fair.lag).min(0) } else { lag }
    }

    /// Puts a sleeping task on its queue as delayed, or takes it off.
    fn fair_delay(&mut self, task: TaskId, competes: bool) {
        if competes {
            let arrival = self.arrival();
            let entry = self.task_mut(task);
            (entry.class_key, entry.class_seq) = (entry.fair.deadline, arrival);
        }
        let (cpu, key) = (self.task_cpu(task), self.higher_key(task));
        self.task_mut(task).fair.delayed = competes;
        let delayed = &mut self.cpus[cpu.index()].fair.delayed;
        let changed = if competes { delayed.insert(key) } else { delayed.remove(&key) };
        assert!(changed, "a task that sleeps competes on one CPU");
        self.fair_count(cpu, task, competes);
    }

    /// Takes a delayed task off its queue, with a lag of at most 0 (`DELAY_ZERO`).
    pub fn fair_dequeue_delayed(&mut self, task: TaskId) {
        let lag = self.fair_delayed_lag(task).min(0);
        self.fair_save_average(self.task_cpu(task));
        self.task_mut(task).fair.lag = lag;
        self.fair_delay(task, false);
    }

    /// `requeue_delayed_entity`: wakes a delayed task on its CPU. The task is placed again if its lag has changed; in
    /// 6.18 only if its lag would be positive. Returns whether it was placed again.
    pub(super) fn fair_requeue(&mut self, task: TaskId) -> bool {
        let (average, vruntime) = (self.fair_average(self.task_cpu(task)), self.task(task).fair.vruntime);
        let behind = self.fair_lag(task) > 0;
        self.fair_dequeue_delayed(task);
        let moved = average.checked_add_signed(-self.task(task).fair.lag) != Some(vruntime);
        let again = behind || moved && self.config.version >= (7, 0);
        if again {
            self.fair_place(task);
        }
        again
    }

    /// Starts a newly picked task: sets its protection and the slice timer.
    pub fn fair_start(&mut self, task: TaskId) {
        let fair = &mut self.task_mut(task).fair;
        fair.protected_until = fair.deadline;
        self.hrtick_start(self.task_cpu(task), task);
    }

    /// Places the running task again after a change of weight or class. `joins` is true if it comes from another
    /// class.
    pub fn fair_change_running(&mut self, task: TaskId, joins: bool) {
        // The task must not be in the sums while it is placed.
        self.task_mut(task).class = Class::Idle;
        self.fair_place(task);
        let entry = self.task_mut(task);
        entry.class = Class::Fair;
        if joins {
            entry.fair.protected_until = entry.fair.deadline;
        }
        self.hrtick_joined(self.task_cpu(task));
    }

    /// `yield_task_fair`: an eligible task gives up the rest of its request.
    pub fn fair_yield(&mut self, task: TaskId) {
        let (request, cpu) = (self.fair_request(task), self.task_cpu(task));
        if self.fair_has_others(cpu) && self.fair_eligible(cpu, task) {
            let fair = &mut self.task_mut(task).fair;
            fair.vruntime = fair.deadline;
            fair.deadline += request;
        }
    }

    /// Whether other tasks than the running one compete on `cpu`.
    pub fn fair_has_others(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].fair.load > 0
    }

    /// `update_curr`: charges the running task; returns true if the CPU should pick again.
    pub(super) fn fair_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        let (weight, request, cpu) = (self.fair_weight(task), self.fair_request(task), self.task_cpu(task));
        let now = self.time.now();
        let fair = &mut self.task_mut(task).fair;
        fair.vruntime += ran.0 * NICE_0 / weight;
        fair.ran_at = Some(now);
        let served = fair.vruntime >= fair.deadline;
        if served {
            fair.deadline = fair.vruntime + request;
        }
        let over = served || fair.vruntime >= fair.protected_until;
        let server_over = self.server_charge(cpu, Served::Fair, ran);
        server_over || over && self.fair_has_others(cpu)
    }

    /// Charges the fair task running on `cpu` up to now, before other tasks are compared with it.
    pub(super) fn fair_catch_up(&mut self, cpu: CpuId) {
        let now = self.time.now();
        let rq = &mut self.cpus[cpu.index()];
        let Some(task) = rq.current.some().filter(|&task| self.tasks[task].class == Class::Fair) else {
            return;
        };
        let ran = now.since(std::mem::replace(&mut rq.exec_start, now));
        self.task_mut(task).sum_exec += ran;
        if ran > Nanos::ZERO && self.fair_charge(task, ran) {
            self.cpus[cpu.index()].preempted = true;
            self.resched_lazily(cpu);
        }
    }

    /// `pick_eevdf`: the best competing task of `cpu`, which may be a delayed one. `running` continues if it is
    /// eligible and protected.
    fn fair_best(&self, cpu: CpuId, running: Option<TaskId>) -> Option<TaskId> {
        let (load, sum) = self.fair_sums(cpu);
        let eligible = |&task: &TaskId| u128::from(self.task(task).fair.vruntime) * u128::from(load) <= sum;
        let running = running.filter(eligible);
        if let Some(task) = running
            && self.task(task).fair.vruntime < self.task(task).fair.protected_until
        {
            return running;
        }
        let delayed = self.cpus[cpu.index()].fair.delayed.iter().map(|key| key.3);
        let first = |mut all: &mut dyn Iterator<Item = TaskId>| {
            (&mut all).filter(|task| Some(*task) != running).find(eligible).map(|task| (self.higher_key(task), task))
        };
        let queued = [first(&mut self.fair_waiting(cpu)), first(&mut { delayed })].into_iter().flatten().min();
        // Of two tasks with equal deadlines, the waiting one wins.
        let deadline = |task: TaskId| self.task(task).fair.deadline;
        match (queued, running) {
            (Some((_, queued)), Some(running)) if deadline(running) < deadline(queued) => Some(running),
            (Some((_, queued)), _) => Some(queued),
            (None, running) => running,
        }
    }

    /// Picks the next of the waiting tasks of `cpu`, of which there is at least one. `prev` ran until now and takes
    /// part as the current task while it competes.
    pub(super) fn fair_pick(&mut self, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
        let waits = |core: &Core, task| core.cpus[cpu.index()].higher.contains(&core.higher_key(task));
        let competes = |core: &Core, task| core.task(task).fair.delayed || waits(core, task);
        let prev = prev.some().filter(|&task| self.task(task).class == Class::Fair);
        loop {
            let best = self.fair_best(cpu, prev.filter(|&prev| competes(self, prev)))?;
            if !self.task(best).fair.delayed {
                self.fair_tell_chosen(cpu, best, Some(best) == prev);
                return Some(best);
            }
            self.fair_dequeue_delayed(best);
        }
    }

    /// Dequeues and returns the next fair task of `cpu` for its deadline server, if there is one.
    pub fn fair_pick_served(&mut self, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
        self.fair_update_weights(cpu, None);
        self.fair_waiting(cpu).next()?;
        let task = self.fair_pick(cpu, prev)?;
        self.higher_remove(task);
        Some(task)
    }

    /// Dequeues all delayed tasks of `cpu`, which has no fair task to run or is going offline. `prev` ran until now.
    pub fn fair_dequeue_all_delayed(&mut self, cpu: CpuId, prev: TaskId) {
        let delayed = |core: &Core, task: &TaskId| core.task(*task).fair.delayed;
        while let Some(&(.., first)) = self.cpus[cpu.index()].fair.delayed.first() {
            let running = prev.some().filter(|prev| delayed(self, prev));
            let best = self.fair_best(cpu, running).filter(|best| delayed(self, best));
            self.fair_dequeue_delayed(best.unwrap_or(first));
        }
    }

    /// `wakeup_preempt_fair`: whether a task that was just enqueued preempts the running fair task. Since 7.0 a new
    /// task, or one that was still on the queue (`fresh`), does not.
    pub fn fair_preempts(&mut self, task: TaskId, fresh: bool) -> bool {
        let cpu = self.task_cpu(task);
        let Some(running) = self.fair_running(cpu) else { return false };
        let (new, old) = (self.task(task).policy, self.task(running).policy);
        if old == Policy::Idle && new != Policy::Idle {
            let fair = &mut self.task_mut(running).fair;
            fair.protected_until = fair.protected_until.min(fair.vruntime);
            return true;
        }
        if matches!(new, Policy::Idle | Policy::Batch) || (fresh && self.config.version >= (7, 0)) {
            self.fair_tell_passed_over(cpu, task, running, true);
            return false;
        }
        loop {
            match self.fair_best(cpu, Some(running)) {
                Some(sleeper) if self.task(sleeper).fair.delayed => self.fair_dequeue_delayed(sleeper),
                Some(best) if best != task => {
                    self.fair_tell_passed_over(cpu, task, best, best == running);
                    return false;
                }
                best => return best.is_some(),
            }
        }
    }

    /// Panics unless the sums of `cpu` match its competing tasks that do not run.
    pub fn check_fair(&self, cpu: CpuId) {
        let FairQueue { delayed, load, sum, .. } = &self.cpus[cpu.index()].fair;
        let mut expected = (0, 0);
        for task in self.fair_waiting(cpu).chain(delayed.iter().map(|key| key.3)) {
            let weight = self.fair_weight(task);
            expected.0 += weight;
            expected.1 += u128::from(weight) * u128::from(self.task(task).fair.vruntime);
        }
        assert_eq!((*load, *sum), expected, "CPU {cpu}: weights and virtual runtimes");
    }

    /// Sort key of a waiting task of a class above ext.
    pub(super) fn higher_key(&self, task: TaskId) -> TaskKey {
        let entry = self.task(task);
        (entry.class, entry.class_key, entry.class_seq, task)
    }
}
