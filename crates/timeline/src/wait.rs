// SPDX-License-Identifier: GPL-2.0-only
//! A wait for a CPU, and the tasks that ran instead.

use crate::Timeline;
use crate::blame::Suspect;
use crate::task::{Activity, Cpu, Departure, Dispatched, QueueStay, WaitReason};
use event_log::CallbackSite;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

/// A period in which a task was runnable and had no CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The waiting task.
    pub task: TaskId,
    /// Start of the wait.
    pub from: Nanos,
    /// End of the wait.
    pub to: Nanos,
    /// Why the wait began.
    pub reason: WaitReason,
    /// CPU that the task got; `None` if the run or the task ended before.
    pub got: Option<CpuId>,
}

impl Wait {
    /// Length of the wait.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Whether the wait began with a wakeup.
    pub fn is_wakeup(&self) -> bool {
        matches!(self.reason, WaitReason::Woken { .. })
    }
}

/// Why a task ran before the waiting one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// The other task had the CPU already.
    Before,
    /// The other task was ahead in the queue, or had waited for a CPU for longer.
    Ahead,
    /// The other task became runnable or was queued later.
    Overtook,
    /// The other task is outside the run, and it is unknown since when it waited.
    Unseen,
}

/// A task that ran on a CPU that the waiting task may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runner {
    /// The task; [`TaskId::NONE`] stands for all tasks outside the run.
    pub task: TaskId,
    /// CPU time during the wait.
    pub ran: Nanos,
    /// Number of run intervals.
    pub turns: u32,
    /// CPUs on which it ran.
    pub cpus: CpuSet,
    /// Why its longest run interval came before the waiting task.
    pub order: Order,
    /// Callback and line that started its longest run interval: the dispatch to its CPU, or else the insert into the
    /// queue from which the CPU took it.
    pub site: CallbackSite,
    /// Slice of that run interval in nanoseconds; `None` if unknown.
    pub slice_ns: Option<u64>,
    /// Callback and line that set this slice.
    pub slice_site: CallbackSite,
    /// Callback that computed the slice, if known.
    pub slice_by: Option<CallbackSite>,
}

/// Breakdown of a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The wait.
    pub wait: Wait,
    /// Affinity mask of the task at the start of the wait.
    pub allowed: CpuSet,
    /// Queues that the task was in, in order.
    pub queue_stays: Vec<QueueStay>,
    /// Tasks that ran on the allowed CPUs, longest first.
    pub runners: Vec<Runner>,
    /// Time for which at least one allowed CPU was idle.
    pub idle: Nanos,
    /// Allowed CPUs that were idle at some time.
    pub idle_cpus: CpuSet,
    /// Number of `dispatch` calls for allowed CPUs that found no task; `None` if unknown.
    pub empty_dispatches: Option<u64>,
    /// Callbacks that may have caused the wait, most likely first. Empty if nothing is known of the scheduler.
    pub suspects: Vec<Suspect>,
}

impl Timeline {
    /// The wait of this phase, if the task waits in it.
    pub fn wait(&self, task: TaskId, phase: usize) -> Option<Wait> {
        let phases = &self.task(task).phases;
        let (this, next) = (phases.get(phase)?, phases.get(phase + 1));
        let Activity::Waits { reason } = this.activity else { return None };
        let got = next.and_then(|next| if let Activity::Runs { cpu } = next.activity { Some(cpu) } else { None });
        Some(Wait { task, from: this.from, to: this.to, reason, got })
    }

    /// All waits of a task, in order.
    pub fn waits_of(&self, task: TaskId) -> impl Iterator<Item = Wait> + '_ {
        (0..self.task(task).phases.len()).filter_map(move |phase| self.wait(task, phase))
    }

    /// All waits, by task.
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        (0..self.tasks.len() as u32).flat_map(|task| self.waits_of(TaskId(task)))
    }

    /// The `count` longest waits for which `counts` is true, longest first; equal ones by start, then task number.
    pub fn longest_waits(&self, count: usize, counts: impl Fn(&Wait) -> bool) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self.waits().filter(counts).collect();
        waits.sort_by_key(|wait| (std::cmp::Reverse(wait.length()), wait.from, wait.task));
        waits.truncate(count);
        waits
    }

    /// Breaks down a wait.
    pub fn account(&self, wait: Wait) -> Account {
        let task = self.task(wait.task);
        let allowed = task.allowed_at(wait.from).clone();
        let cpus = || self.cpus.iter().enumerate().filter(|(cpu, _)| allowed.contains(CpuId(*cpu as u32)));
        let mut idle_cpus = CpuSet::new();
        let mut gaps = Vec::new();
        for (number, cpu) in cpus() {
            let own = cpu.idle_within(wait.from, wait.to);
            if !own.is_empty() {
                idle_cpus.insert(CpuId(number as u32));
            }
            gaps.extend(own);
        }
        let empty = |cpu: &Cpu| dispatches_within(cpu, wait.from, wait.to).filter(|call| !call.found).count() as u64;
        let mut account = Account {
            wait,
            queue_stays: task.queue_stays_within(wait.from, wait.to).to_vec(),
            runners: self.runners(wait, &allowed),
            idle: union(gaps),
            idle_cpus,
            empty_dispatches: self.sees_queues.then(|| cpus().map(|(_, cpu)| empty(cpu)).sum()),
            allowed,
            suspects: Vec::new(),
        };
        account.suspects = self.suspects(&account);
        account
    }

    fn runners(&self, wait: Wait, allowed: &CpuSet) -> Vec<Runner> {
        let mut runners: BTreeMap<TaskId, (Runner, Nanos)> = BTreeMap::new();
        for cpu in allowed.iter().filter(|cpu| cpu.index() < self.cpus.len()) {
            let row = &self.cpus[cpu.index()];
            let run_intervals = row
                .run_intervals_within(wait.from, wait.to)
                .iter()
                .map(|interval| (interval.task, interval.from, interval.to));
            let others = row.others_within(wait.from, wait.to).iter().map(|&(from, to)| (TaskId::NONE, from, to));
            for (task, from, to) in run_intervals.chain(others) {
                let ran = to.min(wait.to).since(from.max(wait.from));
                let (order, gave) = self.order(wait, task, from);
                let turn = Runner {
                    task,
                    ran: Nanos::ZERO,
                    turns: 0,
                    cpus: CpuSet::new(),
                    order,
                    site: gave.last().map_or_else(CallbackSite::default, |gave| match gave.departure {
                        Departure::Dispatched { site, .. } if site.op != 0 => site,
                        _ => gave.site,
                    }),
                    slice_ns: gave.last().map(|gave| gave.slice_ns),
                    slice_site: gave.first().map_or_else(CallbackSite::default, |gave| gave.site),
                    slice_by: gave.first().and_then(|gave| gave.slice_by),
                };
                let (runner, longest) = runners.entry(task).or_insert((turn.clone(), Nanos::ZERO));
                runner.ran += ran;
                runner.turns += 1;
                runner.cpus.insert(cpu);
                if ran > *longest {
                    *longest = ran;
                    let Runner { ran, turns, .. } = *runner;
                    let cpus = std::mem::take(&mut runner.cpus);
                    *runner = Runner { ran, turns, cpus, ..turn };
                }
            }
        }
        let mut runners: Vec<Runner> = runners.into_values().map(|(runner, _)| runner).collect();
        runners.sort_by_key(|runner| (std::cmp::Reverse(runner.ran), runner.task));
        runners
    }

    /// Tells why `other`, which ran from `began` on, ran before the waiting task; and its consecutive queue stays
    /// since it was given its slice, the last one at the end.
    fn order(&self, wait: Wait, other: TaskId, began: Nanos) -> (Order, &[QueueStay]) {
        let Some(task) = other.some().and_then(|other| self.tasks.get(other.index())) else {
            return (if began <= wait.from { Order::Before } else { Order::Unseen }, &[]);
        };
        let end = task.queue_stays.partition_point(|stay| stay.to <= began);
        let in_a_row = |pair: &&[QueueStay]| pair[0].to == pair[1].from && pair[0].slice_ns == pair[1].slice_ns;
        let before = task.queue_stays[..end].windows(2).rev().take_while(in_a_row).count();
        let gave = &task.queue_stays[end.saturating_sub(before + 1)..end];
        if began <= wait.from {
            return (Order::Before, gave);
        }
        // Start of the wait that preceded this run interval.
        let phase = task.phases.partition_point(|phase| phase.from < began);
        let since = phase.checked_sub(1).map(|phase| task.phases[phase]);
        let since = since.filter(|phase| matches!(phase.activity, Activity::Waits { .. }));
        let order = if since.is_some_and(|since| since.from <= wait.from) { Order::Ahead } else { Order::Overtook };
        (order, gave)
    }

    /// Number of tasks ahead of this one in its queue at `time`; `None` if it was in no queue or the order is
    /// unknown.
    pub fn position_at(&self, stay: &QueueStay, task: TaskId, time: Nanos) -> Option<usize> {
        let queue = stay.queue.filter(|queue| has_one_order(*queue))?;
        self.queue_at(queue, time).iter().position(|&other| other == task)
    }
}

/// Whether this id denotes a single queue. Each node has a global queue, and each CPU a bypass queue.
pub(crate) fn has_one_order(queue: DsqId) -> bool {
    queue != DsqId::GLOBAL && queue != DsqId::BYPASS
}

/// Calls of `dispatch` in this period.
pub(crate) fn dispatches_within(cpu: &Cpu, from: Nanos, to: Nanos) -> impl Iterator<Item = &Dispatched> + '_ {
    let first = cpu.dispatches.partition_point(|call| call.time < from);
    cpu.dispatches[first..].iter().take_while(move |call| call.time < to)
}

/// Periods between `from` and `to` that none of these periods covers, in order.
pub(crate) fn gaps(mut covered: Vec<(Nanos, Nanos)>, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
    covered.sort_unstable();
    let (mut gaps, mut at) = (Vec::new(), from);
    for (begins, ends) in covered.into_iter().filter(|&(begins, ends)| ends > from && begins < to) {
        if begins > at {
            gaps.push((at, begins));
        }
        at = at.max(ends);
    }
    if at < to {
        gaps.push((at, to));
    }
    gaps
}

/// Length of the union of these periods.
pub(crate) fn union(mut times: Vec<(Nanos, Nanos)>) -> Nanos {
    times.sort_unstable();
    let (mut sum, mut until) = (Nanos::ZERO, Nanos::ZERO);
    for (from, to) in times {
        sum += to.since(from.max(until));
        until = until.max(to);
    }
    sum
}
