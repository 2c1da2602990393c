// SPDX-License-Identifier: GPL-2.0-only
//! Which callback of the scheduler made a task wait, by rules over what happened. A rule names the callback that took
//! the decision by which the task still waited; whether that decision was wrong is for the reader to say.
//!
//! The queue in which the task stood for most of its wait decides:
//!
//! 1. In none, as `enqueue` put it nowhere: `enqueue`.
//! 2. In a CPU's own queue: whoever put it there, above all if other CPUs idled meanwhile.
//! 3. In another queue while `dispatch` took tasks from behind it: `dispatch`.
//! 4. In another queue while a CPU idled where it was allowed: `dispatch` if that was called there and brought nothing;
//!    else whoever put it into the queue and woke no CPU.
//! 5. In another queue while all CPUs were busy. Most of that time somebody ran who had a CPU already: whoever queued
//!    it and took no CPU away, and whoever gave that slice. Or somebody who came later: whoever gave it its place. Or
//!    those before it: the same. Also `dispatch`, if it was called for busy CPUs and left them to whoever ran, or took
//!    tasks that came later from other queues.
//! 6. Also whoever had computed the virtual time of the task, and the slice of the one that ran: the last callback that
//!    wrote that very number into what the scheduler keeps for it.
//! 7. A CPU idled when the task was woken, and went on idling: also whoever chose another CPU.
//! 8. Whoever gave a CPU to the one that ran longest instead. A task that lost its CPU: also whoever took that away.

use crate::Timeline;
use crate::task::{Choice, Departure, Stand, Task, Why};
use crate::wait::{Account, Order, Runner, dispatches_within, has_one_order, union};
use event_log::{CallbackSite, KickFlags, SwitchReason};
use ids::{CpuId, DsqId, Nanos, TaskId};

/// Numbers of ops, as [`event_log::op_name`] counts.
const ENQUEUE: u8 = 2;
const DISPATCH: u8 = 4;

/// Who is to blame for a wait, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// Callback and line. The line is that of a call that it made, or unknown.
    pub site: CallbackSite,
    /// What it did or did not do.
    pub reason: Reason,
}

/// What a suspect did or did not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It put the task into no queue.
    PutNowhere,
    /// It put the task into the queue of this CPU, which others cannot take it from.
    PutOnCpu {
        /// Which.
        cpu: CpuId,
        /// Other CPUs where it was allowed idled for so long meanwhile.
        idle: Nanos,
    },
    /// It was called so often for idle CPUs and brought nothing while the task was queued.
    LeftIdle {
        /// How often.
        calls: u64,
    },
    /// It queued the task while a CPU idled, and no CPU came to take it.
    WokeNobody,
    /// It chose another CPU than this one, which idled and went on idling.
    MissedIdle {
        /// Which.
        cpu: CpuId,
    },
    /// It took so many tasks from behind the one that waited.
    PassedOver {
        /// How many.
        tasks: u64,
    },
    /// It took so many tasks from other queues that had come there later.
    TookOthers {
        /// How many.
        tasks: u64,
    },
    /// It was called so often for CPUs that were busy, and left them to whoever had them.
    KeptBusy {
        /// How often.
        calls: u64,
    },
    /// It queued the task while all CPUs were busy, and took none away from whoever ran.
    PreemptedNobody,
    /// It gave the task a place behind those that came later.
    Overtaken {
        /// How many of them ran first.
        tasks: u64,
    },
    /// It gave the task a place behind others.
    Behind {
        /// How many; `None`: not known.
        tasks: Option<u32>,
    },
    /// It computed the virtual time by which the task had its place.
    ComputedKey,
    /// It computed this slice, of who ran longest instead.
    ComputedSlice {
        /// In nanoseconds.
        slice_ns: u64,
    },
    /// It gave this slice to who ran longest instead.
    LongSlice {
        /// In nanoseconds.
        slice_ns: u64,
    },
    /// It took the task's CPU away.
    TookCpu,
    /// It gave the task this slice, which ended.
    ShortSlice {
        /// In nanoseconds.
        slice_ns: u64,
    },
    /// It gave a CPU to who ran longest instead.
    RanOther,
}

impl Timeline {
    pub(crate) fn suspects(&self, account: &Account) -> Vec<Suspect> {
        let mut suspects = Vec::new();
        let Some(main) = account.longest_stand() else { return suspects };
        let mut blame = |site: CallbackSite, reason: Reason| {
            let suspect = Suspect { site, reason };
            if site.op != 0 && !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        };
        let (from, to) = (main.from.max(account.wait.from), main.to.min(account.wait.to));
        let idle = self.idle(account, from, to, None);
        match main.queue {
            None => blame(call_of(ENQUEUE), Reason::PutNowhere),
            Some(queue) if queue.local_cpu().is_some() => {
                let cpu = queue.local_cpu().expect("checked");
                blame(main.site, Reason::PutOnCpu { cpu, idle: self.idle(account, from, to, Some(cpu)) });
            }
            Some(queue) => {
                let passed = self.passed_over(account, queue, from, to);
                if passed > 0 {
                    blame(call_of(DISPATCH), Reason::PassedOver { tasks: passed });
                }
                if idle.0 * 2 >= to.since(from).0 {
                    match self.calls(account, from, to) {
                        0 => blame(main.site, Reason::WokeNobody),
                        calls => {
                            blame(call_of(DISPATCH), Reason::LeftIdle { calls });
                            blame(main.site, Reason::WokeNobody);
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

    /// Whose doing it was that a task stood in a queue that several CPUs serve while these were busy.
    fn while_busy(&self, account: &Account, main: &Stand, from: Nanos, to: Nanos) -> Vec<(CallbackSite, Reason)> {
        let reason = busy_reason(account, main);
        let mut said = vec![(main.site, reason)];
        let tasks = self.took_from_others(account, main, from, to);
        if tasks > 0 {
            // Those that came later came to another queue: its place in its own is not what kept it waiting.
            let at = usize::from(!matches!(reason, Reason::Overtaken { .. }));
            said.insert(at, (call_of(DISPATCH), Reason::TookOthers { tasks }));
        }
        let calls = self.kept(account, from, to);
        if calls > 0 {
            said.push((call_of(DISPATCH), Reason::KeptBusy { calls }));
        }
        said
    }

    /// For how long some CPU but `except` idled where the task was allowed.
    fn idle(&self, account: &Account, from: Nanos, to: Nanos, except: Option<CpuId>) -> Nanos {
        let cpus = account.idle_cpus.iter().filter(|&cpu| Some(cpu) != except);
        union(cpus.flat_map(|cpu| self.cpus[cpu.index()].idle_within(from, to)).collect())
    }

    /// How often `dispatch` was called for CPUs that idled, and brought nothing.
    fn calls(&self, account: &Account, from: Nanos, to: Nanos) -> u64 {
        let calls =
            |cpu: CpuId| dispatches_within(&self.cpus[cpu.index()], from, to).filter(|call| !call.found).count();
        account.idle_cpus.iter().map(|cpu| calls(cpu) as u64).sum()
    }

    /// How often `dispatch` was called for CPUs where the task was allowed, and left them to whoever had them.
    fn kept(&self, account: &Account, from: Nanos, to: Nanos) -> u64 {
        let calls = |cpu: CpuId| dispatches_within(&self.cpus[cpu.index()], from, to).filter(|call| call.kept).count();
        account.allowed.iter().filter(|cpu| cpu.index() < self.cpus.len()).map(|cpu| calls(cpu) as u64).sum()
    }

    /// How many tasks that came to another queue after the one that waited had come to its own left that for a CPU where it was
    /// allowed, by a call of `dispatch`.
    fn took_from_others(&self, account: &Account, main: &Stand, from: Nanos, to: Nanos) -> u64 {
        let later = |stand: &&Stand| {
            stand.from > main.from
                && stand.queue != main.queue
                && stand.queue.is_some_and(|queue| queue.local_cpu().is_none())
        };
        let taken = |stand: &&Stand| match stand.departure {
            Departure::Dispatched { to, site } => site.op == DISPATCH && account.allowed.contains(to),
            _ => false,
        };
        let of_task = |task: &Task| {
            task.stands_within(from, to).iter().filter(|stand| stand.to <= to).filter(later).filter(taken).count()
        };
        self.tasks.iter().map(|task| of_task(task) as u64).sum()
    }

    /// How many tasks left the queue from behind the one that waited, for CPUs where that was allowed.
    fn passed_over(&self, account: &Account, queue: DsqId, from: Nanos, to: Nanos) -> u64 {
        if !has_one_order(queue) {
            return 0;
        }
        // To the queue of a CPU where it was allowed, by a call of `dispatch`.
        let to_allowed = |&(time, task): &(Nanos, TaskId)| {
            let stands = &self.task(task).stands;
            let next = stands[stands.partition_point(|stand| stand.from < time)..].iter();
            let mut next = next.take_while(|stand| stand.from == time).filter(|stand| stand.site.op == DISPATCH);
            next.any(|stand| stand.queue.and_then(DsqId::local_cpu).is_some_and(|cpu| account.allowed.contains(cpu)))
        };
        self.left_from_behind(queue, account.wait.task, from, to).iter().filter(|left| to_allowed(left)).count() as u64
    }

    /// The CPU that idled where the task was allowed when it was woken, and for half of the wait from then on, and was
    /// not chosen; and the callback that chose another.
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

    /// The last choice of a CPU before a wait that began with a wakeup.
    fn choice_for(&self, account: &Account) -> Option<&Choice> {
        let wait = &account.wait;
        let choices = &self.task(wait.task).choices;
        choices[..choices.partition_point(|choice| choice.time <= wait.from)].last().filter(|_| wait.is_wakeup())
    }

    /// What took the CPU of a task that lost it.
    fn took_cpu(&self, account: &Account) -> Option<(CallbackSite, Reason)> {
        let Why::Lost { reason, cpu } = account.wait.why else { return None };
        let kicks = &self.cpus[cpu.index()].kicks;
        let last = kicks[..kicks.partition_point(|kick| kick.time <= account.wait.from)].last();
        let stands = &self.task(account.wait.task).stands;
        let gave = stands[..stands.partition_point(|stand| stand.to < account.wait.from)].last();
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
    /// Where the task stood for most of its wait.
    pub fn longest_stand(&self) -> Option<&Stand> {
        let within = |stand: &&Stand| stand.to.min(self.wait.to).since(stand.from.max(self.wait.from));
        self.stands.iter().rev().max_by_key(within)
    }

    /// The task of the run that ran longest instead.
    pub fn longest_runner(&self) -> Option<&Runner> {
        self.runners.iter().find(|runner| runner.task.some().is_some())
    }

    /// For how long those ran who came to run in this way.
    pub fn ran(&self, order: Order) -> Nanos {
        Nanos(self.runners.iter().filter(|runner| runner.order == order).map(|runner| runner.ran.0).sum())
    }
}

/// A callback of which no call is known.
fn call_of(op: u8) -> CallbackSite {
    CallbackSite { op, ..CallbackSite::default() }
}

/// What whoever queued a task did or did not do while all CPUs were busy.
fn busy_reason(account: &Account, stand: &Stand) -> Reason {
    let [before, ahead, overtook] = [Order::Before, Order::Ahead, Order::Overtook].map(|order| account.ran(order));
    let later = account.runners.iter().filter(|runner| runner.order == Order::Overtook).count() as u64;
    if overtook > before && overtook > ahead {
        Reason::Overtaken { tasks: later }
    } else if before >= ahead {
        Reason::PreemptedNobody
    } else {
        Reason::Behind { tasks: stand.ahead }
    }
}
