// SPDX-License-Identifier: GPL-2.0-only
//! Determines which callback of the scheduler made a task wait, by rules over the events. A rule names the callback
//! that took the decision because of which the task still waited. Whether that decision was wrong is left to the
//! reader.
//!
//! If the CPU that got the task was only leaving its idle state, or if tasks of a higher class or priority held all
//! CPUs that could have served the task, no callback is responsible.
//! Otherwise the queue in which the task spent most of its wait decides:
//!
//! 1. No queue, since `enqueue` did not insert the task: `enqueue`.
//! 2. The local queue of a CPU: the callback that inserted the task there, especially if other CPUs were idle
//!    meanwhile.
//! 3. Another queue, from which no CPU that the task may use took any task in the whole run: the callback that
//!    inserted the task there, or `dispatch` if other CPUs took tasks from it. Another queue, from which `dispatch`
//!    took tasks that were behind this one: `dispatch`.
//! 4. Another queue, while an allowed CPU was idle: `dispatch` if it was called there and found nothing; otherwise
//!    the callback that queued the task and kicked no CPU.
//! 5. Another queue, while all CPUs were busy. If for most of that time tasks ran that had a CPU already: the
//!    callback that queued the task and preempted none of them, and the callback that gave the running task its
//!    slice. If tasks ran that came later: the callback that gave the task its position. If tasks ran that were ahead
//!    in the queue: the same. Also `dispatch`, if it was called for busy CPUs and left them to the running tasks, or
//!    took tasks that came later from other queues.
//! 6. Also the callback that computed the virtual time of the task, or the slice of the running task: the last
//!    callback that wrote exactly this value into the scheduler's storage for the task.
//! 7. If a CPU was idle when the task was woken and remained idle: also the callback that chose another CPU.
//! 8. The callback that gave a CPU to the task that ran longest instead. If the waiting task lost its CPU: also the
//!    callback that took the CPU away.

use crate::Timeline;
use crate::task::{Choice, Departure, QueueStay, Task, WaitReason};
use crate::wait::{Account, Order, Runner, dispatches_within, gaps, has_one_order, union};
use event_log::{CallbackSite, KickFlags, SwitchReason};
use ids::{CpuId, DsqId, Nanos, TaskId};
use std::collections::BTreeMap;

/// Op numbers as in [`event_log::op_name`].
const ENQUEUE: u8 = 2;
const DISPATCH: u8 = 4;

/// A callback that may be the cause of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// Callback and line. The line is that of a kfunc call in the callback, or unknown.
    pub site: CallbackSite,
    /// What the callback did or failed to do.
    pub reason: Reason,
}

/// What a suspected callback did or failed to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No callback: a task of a higher class or priority held the CPU.
    HigherClass {
        /// Task that held the CPU longest.
        task: TaskId,
        /// CPU time of this task meanwhile.
        ran: Nanos,
    },
    /// No callback: the idle CPU that got the task needed this time to leave its idle state.
    LeavesIdle {
        /// The CPU.
        cpu: CpuId,
    },
    /// No CPU that the task may use ever took a task from its queue.
    UnservedQueue {
        /// The queue.
        queue: DsqId,
        /// Whether other CPUs took tasks from it.
        others: bool,
        /// Number of `dispatch` calls for these CPUs meanwhile that took no task.
        calls: u64,
    },
    /// It inserted the task into no queue.
    NotQueued,
    /// It inserted the task into the local queue of a CPU, from which other CPUs cannot take it.
    PutOnCpu {
        /// CPU of the local queue.
        cpu: CpuId,
        /// Time for which other allowed CPUs were idle meanwhile.
        idle: Nanos,
    },
    /// It was called for idle CPUs while the task was queued, and found no task.
    LeftIdle {
        /// Number of calls.
        calls: u64,
    },
    /// It queued the task while a CPU was idle, and no CPU took the task.
    KickedNone,
    /// It chose another CPU although this one was idle and remained idle.
    MissedIdle {
        /// The idle CPU.
        cpu: CpuId,
    },
    /// It took tasks from the queue that were behind the waiting one.
    PassedOver {
        /// Number of tasks.
        tasks: u64,
        /// CPU time of the tasks that came later.
        ran: Nanos,
    },
    /// It took tasks from other queues that had been queued later.
    TookOthers {
        /// Number of tasks.
        tasks: u64,
        /// Queue of most of them.
        queue: DsqId,
        /// CPU time of the tasks that came later.
        ran: Nanos,
    },
    /// It was called for busy CPUs and let the running tasks continue.
    KeptBusy {
        /// Number of calls.
        calls: u64,
    },
    /// It queued the task while all CPUs were busy, and preempted none of the running tasks.
    PreemptedNone,
    /// It gave the task a position behind tasks that came later.
    Overtaken {
        /// Number of later tasks that ran first.
        tasks: u64,
    },
    /// It gave the task a position behind others.
    Behind {
        /// Number of tasks ahead; `None` if unknown.
        tasks: Option<u32>,
    },
    /// It computed the virtual time that determined the task's position.
    ComputedKey,
    /// It computed the slice of the task that ran longest instead.
    ComputedSlice {
        /// Slice in nanoseconds.
        slice_ns: u64,
    },
    /// It gave this slice to the task that ran longest instead.
    LongSlice {
        /// Slice in nanoseconds.
        slice_ns: u64,
    },
    /// It took the CPU from the waiting task.
    TookCpu,
    /// It gave the waiting task a slice that expired, so the task lost the CPU.
    ShortSlice {
        /// Slice in nanoseconds.
        slice_ns: u64,
    },
    /// It gave a CPU to the task that ran longest instead.
    RanOther,
}

impl Timeline {
    pub(crate) fn suspects(&self, account: &Account) -> Vec<Suspect> {
        if let Some(suspect) = self.leaves_idle(account).or_else(|| self.higher_class(account)) {
            return vec![suspect];
        }
        let mut suspects = Vec::new();
        let Some(main) = account.longest_queue_stay() else { return suspects };
        let mut blame = |site: CallbackSite, reason: Reason| {
            let suspect = Suspect { site, reason };
            if site.op != 0 && !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        };
        let (from, to) = (main.from.max(account.wait.from), main.to.min(account.wait.to));
        let idle = self.idle(account, from, to, None);
        match main.queue {
            None => blame(call_of(ENQUEUE), Reason::NotQueued),
            Some(queue) if queue.local_cpu().is_some() => {
                let cpu = queue.local_cpu().expect("checked");
                blame(main.site, Reason::PutOnCpu { cpu, idle: self.idle(account, from, to, Some(cpu)) });
            }
            Some(queue) => {
                if let Some((calls, others)) = self.unserved(account, queue, from, to) {
                    let site = if others { call_of(DISPATCH) } else { main.site };
                    blame(site, Reason::UnservedQueue { queue, others, calls });
                }
                let ran = account.ran(Order::Overtook);
                let passed = self.passed_over(account, queue, from, to);
                if passed > 0 && is_part(ran, to.since(from)) {
                    blame(call_of(DISPATCH), Reason::PassedOver { tasks: passed, ran });
                }
                if idle.0 * 2 >= to.since(from).0 {
                    match self.calls(account, from, to) {
                        0 => blame(main.site, Reason::KickedNone),
                        calls => {
                            blame(call_of(DISPATCH), Reason::LeftIdle { calls });
                            blame(main.site, Reason::KickedNone);
                        }
                    }
                } else {
                    self.while_busy(account, main, from, to).into_iter().for_each(|(site, reason)| blame(site, reason));
                }
            }
        }
        if let Some(site) = main.key_by.filter(|_| main.key > 0) {
            blame(site, Reason::ComputedKey);
        }
        if let Some((site, cpu)) = self.missed_idle(account) {
            blame(site, Reason::MissedIdle { cpu });
        }
        if let Some(runner) = account.longest_runner() {
            if let Some(slice_ns) = runner.slice_ns.filter(|_| runner.order == Order::Before) {
                blame(runner.slice_site, Reason::LongSlice { slice_ns });
                if let Some(site) = runner.slice_by {
                    blame(site, Reason::ComputedSlice { slice_ns });
                }
            }
            blame(runner.site, Reason::RanOther);
        }
        if let Some((site, reason)) = self.took_cpu(account) {
            blame(site, reason);
        }
        if let Departure::Dispatched { site, .. } = main.departure {
            blame(site, Reason::RanOther);
        }
        suspects
    }

    /// Suspects for the time that a task spent in a shared queue while all CPUs were busy.
    fn while_busy(&self, account: &Account, main: &QueueStay, from: Nanos, to: Nanos) -> Vec<(CallbackSite, Reason)> {
        let reason = busy_reason(account, main);
        let mut said = vec![(main.site, reason)];
        let ran = account.ran(Order::Overtook);
        if let Some((queue, tasks)) = self.took_from_others(account, main, from, to)
            && is_part(ran, to.since(from))
        {
            // The later tasks were in another queue, so the task's position in its own queue is not the main reason.
            let at = usize::from(!matches!(reason, Reason::Overtaken { .. }));
            said.insert(at, (call_of(DISPATCH), Reason::TookOthers { tasks, queue, ran }));
        }
        let calls = self.calls_that_kept(account, from, to);
        if calls > 0 {
            said.push((call_of(DISPATCH), Reason::KeptBusy { calls }));
        }
        said
    }

    /// Time for which an allowed CPU other than `except` was idle.
    fn idle(&self, account: &Account, from: Nanos, to: Nanos, except: Option<CpuId>) -> Nanos {
        let cpus = account.idle_cpus.iter().filter(|&cpu| Some(cpu) != except);
        union(cpus.flat_map(|cpu| self.cpus[cpu.index()].idle_within(from, to)).collect())
    }

    /// Number of `dispatch` calls for idle CPUs that found no task.
    fn calls(&self, account: &Account, from: Nanos, to: Nanos) -> u64 {
        let calls =
            |cpu: CpuId| dispatches_within(&self.cpus[cpu.index()], from, to).filter(|call| !call.found).count();
        account.idle_cpus.iter().map(|cpu| calls(cpu) as u64).sum()
    }

    /// Number of `dispatch` calls for allowed CPUs that let the running task continue.
    fn calls_that_kept(&self, account: &Account, from: Nanos, to: Nanos) -> u64 {
        let calls = |cpu: CpuId| dispatches_within(&self.cpus[cpu.index()], from, to).filter(|call| call.kept).count();
        account.allowed.iter().filter(|cpu| cpu.index() < self.cpus.len()).map(|cpu| calls(cpu) as u64).sum()
    }

    /// The CPU that got the task, if it was idle for the whole wait and the task was assigned to it from the beginning,
    /// by a local queue or by its runqueue.
    fn leaves_idle(&self, account: &Account) -> Option<Suspect> {
        let wait = &account.wait;
        let cpu = wait.got?;
        let first = account.queue_stays.first();
        let assigned = match (first, wait.reason) {
            (Some(stay), _) => stay.queue.and_then(DsqId::local_cpu),
            (None, WaitReason::Woken { target, .. }) => Some(target),
            (None, WaitReason::Lost { .. }) => None,
        };
        let idle = || self.cpus.get(cpu.index()).map(|cpu| union(cpu.idle_within(wait.from, wait.to)));
        (assigned == Some(cpu) && idle() == Some(wait.length()))
            .then_some(Suspect { site: CallbackSite::default(), reason: Reason::LeavesIdle { cpu } })
    }

    /// A task of a higher class or priority, if such tasks held for most of the wait all CPUs that could have served
    /// the task: that of its local queue or runqueue, or all allowed ones.
    fn higher_class(&self, account: &Account) -> Option<Suspect> {
        let wait = &account.wait;
        let own = self.task(wait.task).info.policy.precedence();
        let local = account.longest_queue_stay().and_then(|stay| stay.queue).and_then(DsqId::local_cpu);
        let runqueue = || self.fair_account(wait).and_then(|fair| fair.queued.last().map(|&(cpu, _)| cpu));
        let cpus: Vec<CpuId> = match local.or_else(runqueue) {
            Some(cpu) => vec![cpu],
            None => account.allowed.iter().collect(),
        };
        let cpus = cpus.into_iter().filter_map(|cpu| self.cpus.get(cpu.index()));
        let higher = |task: TaskId| {
            task.some()
                .and_then(|task| self.tasks.get(task.index()))
                .is_some_and(|task| task.info.policy.precedence() > own)
        };
        let mut free = Vec::new();
        for cpu in cpus {
            let held = cpu.run_intervals_within(wait.from, wait.to).iter().filter(|interval| higher(interval.task));
            let held = held.map(|interval| (interval.from, interval.to)).chain(cpu.offline.iter().copied());
            free.extend(gaps(held.collect(), wait.from, wait.to));
        }
        let held = wait.length().0.saturating_sub(union(free).0);
        let (task, ran) = account
            .runners
            .iter()
            .filter(|runner| higher(runner.task))
            .map(|runner| (runner.task, runner.ran))
            .next()?;
        (held * 2 >= wait.length().0)
            .then_some(Suspect { site: CallbackSite::default(), reason: Reason::HigherClass { task, ran } })
    }

    /// Number of `dispatch` calls for allowed CPUs in this period that took no task, if none of these CPUs took a task
    /// from the queue in the whole run; and whether others did.
    fn unserved(&self, account: &Account, queue: DsqId, from: Nanos, to: Nanos) -> Option<(u64, bool)> {
        if !has_one_order(queue) {
            return None;
        }
        let allowed = || account.allowed.iter().filter(|cpu| cpu.index() < self.cpus.len());
        // A call that took a task from elsewhere may have looked into this queue next.
        let in_vain = |cpu: CpuId| {
            let calls = dispatches_within(&self.cpus[cpu.index()], from, to);
            calls.filter(|call| !call.found || call.kept).count() as u64
        };
        let calls = allowed().map(in_vain).sum();
        let takers = self.takers.get(&queue);
        if takers.is_some_and(|takers| takers.ran || takers.cpus.iter().any(|cpu| account.allowed.contains(cpu))) {
            return None;
        }
        (calls > 1).then_some((calls, takers.is_some()))
    }

    /// Queue and number of the tasks that were inserted into another queue after the waiting task was inserted into
    /// its own, and that `dispatch` took from there to an allowed CPU; the queue is that of most of them.
    fn took_from_others(&self, account: &Account, main: &QueueStay, from: Nanos, to: Nanos) -> Option<(DsqId, u64)> {
        let later = |stay: &&QueueStay| {
            stay.from > main.from
                && stay.queue != main.queue
                && stay.queue.is_some_and(|queue| queue.local_cpu().is_none())
        };
        let taken = |stay: &&QueueStay| match stay.departure {
            Departure::Dispatched { to, site } => site.op == DISPATCH && account.allowed.contains(to),
            _ => false,
        };
        let of_task = |task: &Task| {
            let stays = task.queue_stays_within(from, to).iter().filter(|stay| stay.to <= to);
            stays.filter(later).filter(taken).filter_map(|stay| stay.queue).collect::<Vec<_>>()
        };
        let mut queues: BTreeMap<DsqId, u64> = BTreeMap::new();
        self.tasks.iter().flat_map(of_task).for_each(|queue| *queues.entry(queue).or_default() += 1);
        let all = queues.values().sum();
        let (queue, _) = queues.into_iter().max_by_key(|&(queue, tasks)| (tasks, std::cmp::Reverse(queue)))?;
        Some((queue, all))
    }

    /// Number of tasks that left the queue from behind the waiting task, for CPUs that the waiting task may use.
    fn passed_over(&self, account: &Account, queue: DsqId, from: Nanos, to: Nanos) -> u64 {
        if !has_one_order(queue) {
            return 0;
        }
        // The task went to the local queue of an allowed CPU by a call of `dispatch`.
        let to_allowed = |&(time, task): &(Nanos, TaskId)| {
            let queue_stays = &self.task(task).queue_stays;
            let next = queue_stays[queue_stays.partition_point(|stay| stay.from < time)..].iter();
            let mut next = next.take_while(|stay| stay.from == time).filter(|stay| stay.site.op == DISPATCH);
            next.any(|stay| stay.queue.and_then(DsqId::local_cpu).is_some_and(|cpu| account.allowed.contains(cpu)))
        };
        self.left_from_behind(queue, account.wait.task, from, to).iter().filter(|left| to_allowed(left)).count() as u64
    }

    /// Returns an allowed CPU that was idle when the task was woken, remained idle for half of the wait and was not
    /// chosen, with the callback that chose another CPU.
    fn missed_idle(&self, account: &Account) -> Option<(CallbackSite, CpuId)> {
        let wait = &account.wait;
        let choice = self.choice_for(account)?;
        let woken = wait.from.since(choice.time);
        let idles = |cpu: &CpuId| {
            let idle = self.cpus[cpu.index()].idle_within(choice.time, wait.to);
            idle.first()
                .is_some_and(|(from, to)| *from == choice.time && to.since(*from).0 * 2 >= (wait.length() + woken).0)
        };
        let missed = account.idle_cpus.iter().filter(|&cpu| cpu != choice.cpu).find(idles)?;
        Some((choice.site, missed))
    }

    /// The last CPU choice before a wait that began with a wakeup.
    fn choice_for(&self, account: &Account) -> Option<&Choice> {
        let wait = &account.wait;
        let choices = &self.task(wait.task).choices;
        choices[..choices.partition_point(|choice| choice.time <= wait.from)].last().filter(|_| wait.is_wakeup())
    }

    /// The callback that took the CPU from a task that was preempted or whose slice ended.
    fn took_cpu(&self, account: &Account) -> Option<(CallbackSite, Reason)> {
        let WaitReason::Lost { reason, cpu } = account.wait.reason else { return None };
        let kicks = &self.cpus[cpu.index()].kicks;
        let last = kicks[..kicks.partition_point(|kick| kick.time <= account.wait.from)].last();
        let queue_stays = &self.task(account.wait.task).queue_stays;
        let gave = queue_stays[..queue_stays.partition_point(|stay| stay.to < account.wait.from)].last();
        match reason {
            SwitchReason::Preempt => last
                .filter(|kick| kick.flags.0 & KickFlags::PREEMPT != 0)
                .map(|kick| (kick.site, Reason::TookCpu))
                .or_else(|| gave.map(|gave| (gave.site, Reason::ShortSlice { slice_ns: gave.slice_ns }))),
            SwitchReason::SliceEnd => gave.map(|gave| (gave.site, Reason::ShortSlice { slice_ns: gave.slice_ns })),
            _ => None,
        }
    }
}

impl Account {
    /// The queue in which the task spent most of its wait.
    pub fn longest_queue_stay(&self) -> Option<&QueueStay> {
        let within = |stay: &&QueueStay| stay.to.min(self.wait.to).since(stay.from.max(self.wait.from));
        self.queue_stays.iter().rev().max_by_key(within)
    }

    /// The task of the run that ran longest instead.
    pub fn longest_runner(&self) -> Option<&Runner> {
        self.runners.iter().find(|runner| runner.task.some().is_some())
    }

    /// Total CPU time of the tasks that came to run in this way.
    pub fn ran(&self, order: Order) -> Nanos {
        Nanos(self.runners.iter().filter(|runner| runner.order == order).map(|runner| runner.ran.0).sum())
    }
}

/// Whether this is at least a tenth of the wait: less is no cause of it.
fn is_part(ran: Nanos, wait: Nanos) -> bool {
    ran.0 * 10 >= wait.0
}

/// Site of a callback without a known line.
fn call_of(op: u8) -> CallbackSite {
    CallbackSite { op, ..CallbackSite::default() }
}

/// What the callback that queued the task did or failed to do while all CPUs were busy.
fn busy_reason(account: &Account, stay: &QueueStay) -> Reason {
    let [before, ahead, overtook] = [Order::Before, Order::Ahead, Order::Overtook].map(|order| account.ran(order));
    let later = account.runners.iter().filter(|runner| runner.order == Order::Overtook).count() as u64;
    if overtook > before && overtook > ahead {
        Reason::Overtaken { tasks: later }
    } else if before >= ahead {
        Reason::PreemptedNone
    } else {
        Reason::Behind { tasks: stay.ahead }
    }
}
