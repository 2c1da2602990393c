// SPDX-License-Identifier: GPL-2.0-only
//! The fair class: EEVDF as in Linux 6.18 and 7.2, for tasks that are not the scheduler's and for runs without one.
//!
//! 1. A task has a virtual runtime: its CPU time, the slower the heavier it is. *Lag* is how far it is behind the
//!    average of its queue, weighted by load. Who is not ahead of the average is eligible.
//! 2. A task asks for one slice after another. The deadline of a request is where the virtual runtime will be when it
//!    is served. Of those that are eligible, the one with the earliest deadline runs.
//! 3. Lag is kept while a task sleeps (PLACE_LAG). Who falls asleep while it is ahead stays in competition until it is
//!    picked, which happens when the others have caught up: it cannot lose its debt by sleeping (DELAY_DEQUEUE).
//! 4. Who is picked anew goes on until its deadline, as long as it is eligible (RUN_TO_PARITY).
//!
//! Where tasks go is in `balance`, the timer that ends a turn in `hrtick`, what cgroups make of weights in `groups`. `naive` is
//! the same rule, slow and obvious, and `matches` compares the two. Not modelled: slices of a task's own (so PREEMPT_SHORT has
//! nothing to decide). NEXT_BUDDY is off in both kernels.

use super::Core;
use super::balance::Balances;
use super::task::{Class, TaskKey, load_weight};
use ids::{CpuId, Nanos, Policy, TaskId};
use std::collections::BTreeSet;

mod groups;
mod hrtick;
#[cfg(test)]
mod matches;
#[cfg(test)]
mod naive;

/// `sched_base_slice` for one CPU; it grows with the logarithm of their number, up to that of 8 CPUs.
const SLICE_NS: u64 = 700_000;
/// Weights have so many more bits than the table of them, so that parts of small ones can be told apart
/// (SCHED_FIXEDPOINT_SHIFT).
pub(super) const SCALE: u32 = 10;
/// Weight of nice 0.
const NICE_0: u64 = 1024 << SCALE;
/// Where the virtual clocks of queues begin: far above any lag, which is at most 2 s for the lightest task.
const CLOCK_START: u64 = 1 << 40;

/// What the fair class knows of a CPU besides who waits there.
#[derive(Debug)]
pub(crate) struct FairQueue {
    /// Tasks that sleep and still compete, by deadline.
    pub delayed: BTreeSet<TaskKey>,
    /// Sum of the weights of all that compete but the one that runs.
    load: u64,
    /// Sum of their virtual runtimes, each times its weight.
    sum: u128,
    /// Average virtual runtime when it was looked at last.
    clock: u64,
    /// When the timer fires that ends a turn there, if it is started.
    hrtick: Option<Nanos>,
    /// How it balances with other CPUs.
    pub(super) balances: Balances,
    /// It idles, and was woken to balance for all CPUs that do.
    pub(super) kicked: bool,
    /// It has begun to idle since its last tick, or has never had one (`nohz_tick_stopped`).
    pub(super) tickless: bool,
}

impl FairQueue {
    pub fn new() -> FairQueue {
        let (delayed, balances) = (BTreeSet::new(), Balances::default());
        let clock = CLOCK_START;
        FairQueue { delayed, load: 0, sum: 0, clock, hrtick: None, balances, kicked: false, tickless: true }
    }
}

impl Core {
    /// What a task weighs on its CPU: its own weight, or what its groups leave of it there.
    pub fn fair_weight(&self, task: TaskId) -> u64 {
        match self.task(task).fair.weight {
            0 => self.fair_full_weight(task),
            part => part,
        }
    }

    /// Its own weight.
    fn fair_full_weight(&self, task: TaskId) -> u64 {
        let entry = self.task(task);
        u64::from(load_weight(entry.policy, entry.nice)) << SCALE
    }

    /// `sched_base_slice`.
    fn fair_slice(&self) -> u64 {
        SLICE_NS * u64::from(1 + self.cpus().min(8).ilog2())
    }

    /// A slice in the virtual time of this task.
    fn fair_request(&self, task: TaskId) -> u64 {
        self.fair_slice() * NICE_0 / self.fair_weight(task)
    }

    /// Fair tasks that wait on `cpu`, by deadline.
    pub(super) fn fair_waiting(&self, cpu: CpuId) -> impl Iterator<Item = TaskId> {
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

    /// A fair task joins those of `cpu` that compete and do not run, or leaves them.
    pub(super) fn fair_count(&mut self, cpu: CpuId, task: TaskId, joins: bool) {
        let weight = self.fair_weight(task);
        let part = u128::from(weight) * u128::from(self.task(task).fair.vruntime);
        let queue = &mut self.cpus[cpu.index()].fair;
        (queue.load, queue.sum) =
            if joins { (queue.load + weight, queue.sum + part) } else { (queue.load - weight, queue.sum - part) };
    }

    /// Sum of the weights on `cpu`, and of the virtual runtimes, each times its weight.
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

    /// Sum of the weights on `cpu`, as in the table of them.
    pub(super) fn fair_load(&self, cpu: CpuId) -> u64 {
        self.fair_sums(cpu).0 >> SCALE
    }

    /// `avg_vruntime`: the average virtual runtime on `cpu`; without tasks where that was last.
    fn fair_average(&self, cpu: CpuId) -> u64 {
        match self.fair_sums(cpu) {
            (0, _) => self.cpus[cpu.index()].fair.clock,
            (load, sum) => (sum / u128::from(load)) as u64,
        }
    }

    /// Remembers where the average is, for when nobody is left.
    fn fair_look(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.clock = self.fair_average(cpu);
    }

    /// `entity_eligible`, which divides nothing.
    fn fair_eligible(&self, cpu: CpuId, task: TaskId) -> bool {
        let (load, sum) = self.fair_sums(cpu);
        u128::from(self.task(task).fair.vruntime) * u128::from(load) <= sum
    }

    /// `entity_lag`: how far a task that competes is behind the average, within limits. These were two slices or a tick,
    /// whichever is longer; they are a slice and a tick in 7.2, and in 6.18 since an update (seen in 6.18.38).
    fn fair_lag(&self, task: TaskId) -> i64 {
        let entry = self.task(task);
        let (tick, slice) = (1_000_000_000 / u64::from(self.config.hz), self.fair_slice());
        let most = if self.config.version < (6, 18) { tick.max(2 * slice) } else { tick + slice };
        let most = (most * NICE_0 / self.fair_weight(task)) as i64;
        (self.fair_average(entry.cpu) as i64 - entry.fair.vruntime as i64).clamp(-most, most)
    }

    /// `place_entity`: a task joins the others of its CPU with the lag that it had elsewhere or before. Its own weight
    /// moves the average, so its distance is made larger by as much. It must not be counted there yet.
    pub(super) fn fair_place(&mut self, task: TaskId) {
        let cpu = self.task_cpu(task);
        self.fair_regroup(cpu, Some(task));
        let (weight, full) = (self.fair_weight(task), self.fair_request(task));
        self.fair_look(cpu);
        let (load, average) = (self.fair_sums(cpu).0, self.fair_average(cpu));
        let fair = &mut self.task_mut(task).fair;
        let whole = i128::from(fair.lag) * i128::from(load + weight);
        let lag = if load == 0 { 0 } else { (whole / i128::from(load)) as i64 };
        let request = match fair.request {
            // PLACE_REL_DEADLINE: it goes on with what it asked for.
            Some(left) => left,
            // PLACE_DEADLINE_INITIAL: a new task begins with half a slice, for it joins amidst one.
            None if !fair.known => (full / 2) as i64,
            None => full as i64,
        };
        let vruntime = average.saturating_add_signed(-lag);
        let deadline = vruntime.saturating_add_signed(request);
        (fair.vruntime, fair.deadline, fair.known, fair.request) = (vruntime, deadline, true, None);
    }

    /// A task that competes is about to leave its queue, to come to another or to come back as somebody else: what it is
    /// owed and what it asked for go along. It is still counted.
    pub fn fair_take_along(&mut self, task: TaskId) {
        let lag = self.fair_lag(task);
        self.fair_look(self.task_cpu(task));
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (lag, Some(fair.deadline as i64 - fair.vruntime as i64));
    }

    /// `reweight_entity` of a task that does not compete: it had another weight, so its virtual time was another one. What its
    /// groups leave of the new one is reckoned when it joins.
    pub fn fair_reweight(&mut self, task: TaskId, old: u64) {
        self.task_mut(task).fair.weight = 0;
        self.fair_rescale_saved(task, old);
    }

    /// What a task had when it left is in the virtual time of its old weight.
    fn fair_rescale_saved(&mut self, task: TaskId, old: u64) {
        let weight = i128::from(self.fair_weight(task));
        let scaled = |virtual_ns: i64| (i128::from(virtual_ns) * i128::from(old) / weight) as i64;
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (scaled(fair.lag), fair.request.map(scaled));
    }

    /// The current task of a CPU, which is still counted, stops being runnable. If it is ahead of the others it stays
    /// among them, unless it is gone for good.
    pub fn fair_sleep(&mut self, task: TaskId, gone: bool) {
        let cpu = self.task_cpu(task);
        let (lag, ahead) = (self.fair_lag(task), !self.fair_eligible(cpu, task));
        self.fair_look(cpu);
        self.task_mut(task).fair.lag = lag;
        if ahead && !gone && self.cpus[cpu.index()].active {
            self.fair_delay(task, true);
        }
    }

    /// A task that sleeps and competes is taken out, to change its weight, its affinity or its CPU.
    pub fn fair_save_delayed(&mut self, task: TaskId) {
        let fair = &self.task(task).fair;
        let request = fair.deadline as i64 - fair.vruntime as i64;
        let lag = self.fair_delayed_lag(task);
        self.fair_look(self.task_cpu(task));
        self.fair_delay(task, false);
        let fair = &mut self.task_mut(task).fair;
        (fair.lag, fair.request) = (lag, Some(request));
    }

    /// It is put back, and still sleeps.
    pub fn fair_restore_delayed(&mut self, task: TaskId) {
        self.fair_place(task);
        self.fair_delay(task, true);
        self.hrtick_joined(self.task_cpu(task));
    }

    /// `update_entity_lag` of a task that sleeps and competes: from 7.0 on it is not behind where it was when it fell
    /// asleep, nor owed anything (`DELAY_ZERO`).
    fn fair_delayed_lag(&self, task: TaskId) -> i64 {
        let lag = self.fair_lag(task);
        if self.config.version >= (7, 0) { lag.max(self.task(task).fair.lag).min(0) } else { lag }
    }

    /// A task that sleeps begins or ceases to compete.
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

    /// A task that sleeps and competes leaves, with no more than it had when it fell asleep (`DELAY_ZERO`).
    pub fn fair_let_go(&mut self, task: TaskId) {
        let lag = self.fair_delayed_lag(task).min(0);
        self.fair_look(self.task_cpu(task));
        self.task_mut(task).fair.lag = lag;
        self.fair_delay(task, false);
    }

    /// `requeue_delayed_entity`: a task that still competes is woken, on the CPU where it sleeps. It is placed anew if its
    /// lag is not the one that it is left with; in 6.18 only if it would be owed something now. False if it is not.
    pub(super) fn fair_requeue(&mut self, task: TaskId) -> bool {
        let (average, vruntime) = (self.fair_average(self.task_cpu(task)), self.task(task).fair.vruntime);
        let owed = self.fair_lag(task) > 0;
        self.fair_let_go(task);
        let moved = average.checked_add_signed(-self.task(task).fair.lag) != Some(vruntime);
        let again = owed || moved && self.config.version >= (7, 0);
        if again {
            self.fair_place(task);
        }
        again
    }

    /// The task was picked, and did not run before.
    pub fn fair_start(&mut self, task: TaskId) {
        let fair = &mut self.task_mut(task).fair;
        fair.safe_until = fair.deadline;
        self.hrtick_start(self.task_cpu(task), task);
    }

    /// The task that runs is taken out of the competition as it is, and put back when it has changed: with another
    /// weight, or from another class.
    pub fn fair_change_running(&mut self, task: TaskId, joins: bool) {
        // It must not count while its place is sought.
        self.task_mut(task).class = Class::Idle;
        self.fair_place(task);
        let entry = self.task_mut(task);
        entry.class = Class::Fair;
        if joins {
            entry.fair.safe_until = entry.fair.deadline;
        }
        self.hrtick_joined(self.task_cpu(task));
    }

    /// `yield_task_fair`: it gives its request up, if it may run at all.
    pub fn fair_yield(&mut self, task: TaskId) {
        let (request, cpu) = (self.fair_request(task), self.task_cpu(task));
        if self.fair_has_others(cpu) && self.fair_eligible(cpu, task) {
            let fair = &mut self.task_mut(task).fair;
            fair.vruntime = fair.deadline;
            fair.deadline += request;
        }
    }

    /// Whether anybody but the one that runs competes on `cpu`.
    pub fn fair_has_others(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].fair.load > 0
    }

    /// `update_curr`: charges the running task; true if another one is to be looked at.
    pub(super) fn fair_charge(&mut self, task: TaskId, ran: Nanos) -> bool {
        let (weight, request, cpu) = (self.fair_weight(task), self.fair_request(task), self.task_cpu(task));
        let now = self.now;
        let fair = &mut self.task_mut(task).fair;
        fair.vruntime += ran.0 * NICE_0 / weight;
        fair.ran_at = Some(now);
        let served = fair.vruntime >= fair.deadline;
        if served {
            fair.deadline = fair.vruntime + request;
        }
        let over = served || fair.vruntime >= fair.safe_until;
        over && self.fair_has_others(cpu)
    }

    /// Charges a fair task that runs on `cpu` up to now, before others are compared with it.
    pub(super) fn fair_catch_up(&mut self, cpu: CpuId) {
        let now = self.now;
        let rq = &mut self.cpus[cpu.index()];
        let Some(task) = rq.current.some().filter(|&task| self.tasks[task.index()].class == Class::Fair) else {
            return;
        };
        let ran = now.since(std::mem::replace(&mut rq.exec_start, now));
        self.task_mut(task).sum_exec += ran;
        if ran > Nanos::ZERO && self.fair_charge(task, ran) {
            self.cpus[cpu.index()].preempted = true;
            self.resched_lazily(cpu);
        }
    }

    /// `pick_eevdf`: the best of those that compete on `cpu`, which may be one that sleeps. `running` has the CPU; if it
    /// is eligible and its turn is not over, it goes on.
    fn fair_best(&self, cpu: CpuId, running: Option<TaskId>) -> Option<TaskId> {
        let (load, sum) = self.fair_sums(cpu);
        let eligible = |&task: &TaskId| u128::from(self.task(task).fair.vruntime) * u128::from(load) <= sum;
        let running = running.filter(eligible);
        if let Some(task) = running
            && self.task(task).fair.vruntime < self.task(task).fair.safe_until
        {
            return running;
        }
        let delayed = self.cpus[cpu.index()].fair.delayed.iter().map(|key| key.3);
        let first = |mut all: &mut dyn Iterator<Item = TaskId>| {
            (&mut all).filter(|task| Some(*task) != running).find(eligible).map(|task| (self.higher_key(task), task))
        };
        let queued = [first(&mut self.fair_waiting(cpu)), first(&mut { delayed })].into_iter().flatten().min();
        // Of equal deadlines, that of the task that waits wins.
        let deadline = |task: TaskId| self.task(task).fair.deadline;
        match (queued, running) {
            (Some((_, queued)), Some(running)) if deadline(running) < deadline(queued) => Some(running),
            (Some((_, queued)), _) => Some(queued),
            (None, running) => running,
        }
    }

    /// The task that runs next of those that wait on `cpu`, of which there are some. `prev` ran until now; it takes part
    /// as the one that has the CPU for as long as it competes.
    pub(super) fn fair_pick(&mut self, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
        let waits = |core: &Core, task| core.cpus[cpu.index()].higher.contains(&core.higher_key(task));
        let competes = |core: &Core, task| core.task(task).fair.delayed || waits(core, task);
        let prev = prev.some().filter(|&task| self.task(task).class == Class::Fair);
        loop {
            let best = self.fair_best(cpu, prev.filter(|&prev| competes(self, prev)))?;
            if !self.task(best).fair.delayed {
                return Some(best);
            }
            self.fair_let_go(best);
        }
    }

    /// `cpu` found no task of the fair class to run, or is about to go: nobody that sleeps competes there any more.
    /// `prev` ran until now.
    pub fn fair_let_all_go(&mut self, cpu: CpuId, prev: TaskId) {
        let delayed = |core: &Core, task: &TaskId| core.task(*task).fair.delayed;
        while let Some(&(.., first)) = self.cpus[cpu.index()].fair.delayed.first() {
            let running = prev.some().filter(|prev| delayed(self, prev));
            let best = self.fair_best(cpu, running).filter(|best| delayed(self, best));
            self.fair_let_go(best.unwrap_or(first));
        }
    }

    /// `wakeup_preempt_fair`: whether a task that has just been enqueued takes the CPU from its equal. In 7.2 one that is
    /// new or never left the competition, which is `fresh` here, does not.
    pub fn fair_preempts(&mut self, task: TaskId, fresh: bool) -> bool {
        let cpu = self.task_cpu(task);
        let Some(running) = self.fair_running(cpu) else { return false };
        let (new, old) = (self.task(task).policy, self.task(running).policy);
        if old == Policy::Idle && new != Policy::Idle {
            let fair = &mut self.task_mut(running).fair;
            fair.safe_until = fair.safe_until.min(fair.vruntime);
            return true;
        }
        if matches!(new, Policy::Idle | Policy::Batch) || (fresh && self.config.version >= (7, 0)) {
            return false;
        }
        loop {
            match self.fair_best(cpu, Some(running)) {
                Some(sleeper) if self.task(sleeper).fair.delayed => self.fair_let_go(sleeper),
                best => return best == Some(task),
            }
        }
    }

    /// Panics unless the sums of `cpu` are those of the tasks that compete there and do not run.
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

    /// Where a task of a class above ext waits.
    pub(super) fn higher_key(&self, task: TaskId) -> TaskKey {
        let entry = self.task(task);
        (entry.class, entry.class_key, entry.class_seq, task)
    }
}
