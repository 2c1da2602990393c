// SPDX-License-Identifier: GPL-2.0-only
//! One wait for a CPU, and who ran instead.

use crate::Timeline;
use crate::blame::Suspect;
use crate::task::{Cpu, Departure, Dispatched, Stand, What, Why};
use event_log::CallbackSite;
use ids::{CpuId, CpuSet, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

/// A time in which a task could run and had no CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Who.
    pub task: TaskId,
    /// From when.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// Since what.
    pub why: Why,
    /// The CPU that it got; `None`: it had none when the run or its life ended.
    pub got: Option<CpuId>,
}

impl Wait {
    /// How long it was.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Whether it began with a wakeup.
    pub fn is_wakeup(&self) -> bool {
        matches!(self.why, Why::Woken { .. })
    }
}

/// How somebody who ran came to run before the one that waited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// It had the CPU already.
    Before,
    /// It stood before the other in its queue, or came to that CPU before it.
    Ahead,
    /// It became runnable or was queued later.
    Overtook,
    /// It is no task of the run, and nobody saw since when it waited.
    Unseen,
}

/// Who ran on a CPU on which another one could have run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runner {
    /// Who; [`TaskId::NONE`]: all that are no tasks of the run.
    pub task: TaskId,
    /// For how long, while the other waited.
    pub ran: Nanos,
    /// In how many turns.
    pub turns: u32,
    /// Where.
    pub cpus: CpuSet,
    /// How it came before, at its longest turn.
    pub order: Order,
    /// What gave it its longest turn: the callback and line that took it from a queue for its CPU, or else put it into the
    /// queue of that.
    pub site: CallbackSite,
    /// The slice that it had then, in nanoseconds; `None`: not known.
    pub slice_ns: Option<u64>,
    /// What gave it that slice.
    pub slice_site: CallbackSite,
    /// What had computed it, if that is known.
    pub slice_by: Option<CallbackSite>,
}

/// Where a wait went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Which.
    pub wait: Wait,
    /// Where the task was allowed when it began.
    pub allowed: CpuSet,
    /// Where it stood, in order.
    pub stands: Vec<Stand>,
    /// Who ran on the CPUs where it was allowed, longest first.
    pub runners: Vec<Runner>,
    /// For how long at least one of these CPUs idled.
    pub idle: Nanos,
    /// The CPUs that idled at some time.
    pub idle_cpus: CpuSet,
    /// How often `dispatch` was called for one of these CPUs meanwhile and brought nothing; `None`: not known.
    pub empty_dispatches: Option<u64>,
    /// Who is to blame, most of all first. Empty where nothing is known of the scheduler.
    pub suspects: Vec<Suspect>,
}

impl Timeline {
    /// The wait of this phase, if it is one.
    pub fn wait(&self, task: TaskId, phase: usize) -> Option<Wait> {
        let phases = &self.task(task).phases;
        let (this, next) = (phases.get(phase)?, phases.get(phase + 1));
        let What::Waits { why } = this.what else { return None };
        let got = next.and_then(|next| if let What::Runs { cpu } = next.what { Some(cpu) } else { None });
        Some(Wait { task, from: this.from, to: this.to, why, got })
    }

    /// All waits of a task, in order.
    pub fn waits_of(&self, task: TaskId) -> impl Iterator<Item = Wait> + '_ {
        (0..self.task(task).phases.len()).filter_map(move |phase| self.wait(task, phase))
    }

    /// All waits, by task.
    pub fn waits(&self) -> impl Iterator<Item = Wait> + '_ {
        (0..self.tasks.len() as u32).flat_map(|task| self.waits_of(TaskId(task)))
    }

    /// The `count` longest waits of those that `counts` takes, longest first; among equals the earlier, then the task
    /// of the smaller number.
    pub fn longest_waits(&self, count: usize, counts: impl Fn(&Wait) -> bool) -> Vec<Wait> {
        let mut waits: Vec<Wait> = self.waits().filter(counts).collect();
        waits.sort_by_key(|wait| (std::cmp::Reverse(wait.length()), wait.from, wait.task));
        waits.truncate(count);
        waits
    }

    /// Where a wait went.
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
            stands: task.stands_within(wait.from, wait.to).to_vec(),
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
            let stints = row.stints_within(wait.from, wait.to).iter().map(|stint| (stint.task, stint.from, stint.to));
            let others = row.others_within(wait.from, wait.to).iter().map(|&(from, to)| (TaskId::NONE, from, to));
            for (task, from, to) in stints.chain(others) {
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

    /// How `other` came to run from `began` on before whoever waits; and where it had stood in a row since it was given
    /// its slice, the last place behind the others.
    fn order(&self, wait: Wait, other: TaskId, began: Nanos) -> (Order, &[Stand]) {
        let Some(task) = other.some().and_then(|other| self.tasks.get(other.index())) else {
            return (if began <= wait.from { Order::Before } else { Order::Unseen }, &[]);
        };
        let end = task.stands.partition_point(|stand| stand.to <= began);
        let in_a_row = |pair: &&[Stand]| pair[0].to == pair[1].from && pair[0].slice_ns == pair[1].slice_ns;
        let before = task.stands[..end].windows(2).rev().take_while(in_a_row).count();
        let gave = &task.stands[end.saturating_sub(before + 1)..end];
        if began <= wait.from {
            return (Order::Before, gave);
        }
        // Where it began to wait for this turn.
        let phase = task.phases.partition_point(|phase| phase.from < began);
        let since = phase.checked_sub(1).map(|phase| task.phases[phase]);
        let since = since.filter(|phase| matches!(phase.what, What::Waits { .. }));
        let order = if since.is_some_and(|since| since.from <= wait.from) { Order::Ahead } else { Order::Overtook };
        (order, gave)
    }

    /// How many tasks stood before this one in its queue at `time`; `None`: it stood in none, or that is not known.
    pub fn place_at(&self, stand: &Stand, task: TaskId, time: Nanos) -> Option<usize> {
        let queue = stand.queue.filter(|queue| has_one_order(*queue))?;
        self.queue_at(queue, time).iter().position(|&other| other == task)
    }
}

/// Whether all queues of this id are one: each node has a global queue, each CPU one for bypass.
pub(crate) fn has_one_order(queue: DsqId) -> bool {
    queue != DsqId::GLOBAL && queue != DsqId::BYPASS
}

/// The calls of `dispatch` in this time.
pub(crate) fn dispatches_within(cpu: &Cpu, from: Nanos, to: Nanos) -> impl Iterator<Item = &Dispatched> + '_ {
    let first = cpu.dispatches.partition_point(|call| call.time < from);
    cpu.dispatches[first..].iter().take_while(move |call| call.time < to)
}

/// Length of the union of these times.
pub(crate) fn union(mut times: Vec<(Nanos, Nanos)>) -> Nanos {
    times.sort_unstable();
    let (mut sum, mut until) = (Nanos::ZERO, Nanos::ZERO);
    for (from, to) in times {
        sum += to.since(from.max(until));
        until = until.max(to);
    }
    sum
}
