// SPDX-License-Identifier: GPL-2.0-only
//! Time of one CPU: its current task, and an account in which every nanosecond belongs to exactly one category.
//!
//! A CPU owes time for what it did at one instant: leaving an idle state, then interrupts, then scheduler code. While
//! it owes time, it is busy and nothing else happens on it. When all is paid, the current task runs (or the CPU
//! idles), minus the time of skipped ticks.

use crate::ahead::Ahead;
use crate::interrupt::Interrupt;
use crate::operations::Pending;
use crate::pace::Pace;
use crate::script::Script;
use crate::ticks::Ticks;
use ids::{CpuId, Nanos, TaskId};
use measures::CpuAccount;
use std::collections::VecDeque;

/// Time that a CPU owes for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Charge {
    /// Leaving an idle state; accounted as idle.
    pub idle_exit: Nanos,
    /// Interrupts; accounted as stolen.
    pub interrupt: Nanos,
    /// Scheduler code and context switches.
    pub scheduler: Nanos,
    /// Part of `scheduler` that is spent with a runqueue locked; not owed in addition.
    pub locked: Nanos,
}

impl Charge {
    /// A charge for scheduler code only.
    pub fn scheduler(scheduler: Nanos) -> Charge {
        Charge { scheduler, ..Charge::default() }
    }

    fn total(&self) -> Nanos {
        self.idle_exit + self.interrupt + self.scheduler
    }
}

/// Share of the current task in a time span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spent {
    /// Time in which the task ran.
    pub run: Nanos,
    /// Time in which its CPU executed scheduler code or interrupts.
    pub stolen: Nanos,
}

/// State of a CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    number: CpuId,
    /// Current task; [`TaskId::NONE`] if idle.
    pub current: TaskId,
    /// Next tick that was not handled yet; [`Nanos::MAX`] while the tick is stopped.
    pub next_tick: Nanos,
    /// Pace of the current task.
    pub pace: Pace,
    /// The CPU counts as busy for the other threads of its core.
    pub executes: bool,
    /// Start of the current idle time, ticks disregarded; [`Nanos::MAX`] if not idle. Used on machines whose idle
    /// CPUs are descheduled by the host.
    pub idle_since: Nanos,
    /// The CPU executes nothing: it is offline, or the whole machine is suspended.
    pub offline: bool,
    /// A reschedule was requested and has arrived.
    pub resched: bool,
    /// Interrupts pending until the CPU is free.
    pub inbox: VecDeque<Interrupt>,
    /// Number of calls of schedule on this CPU.
    pub schedules: u64,
    /// The CPU's next schedule may not return before each of these CPUs has called schedule more often than the given
    /// number (contract K1).
    pub awaits: Vec<(CpuId, u64)>,
    /// Copy of `awaits` while the CPU is in that schedule and spins.
    pub spins_for: Vec<(CpuId, u64)>,
    /// Remaining steps of an operation that takes locks, to be executed after the time owed.
    pub script: Script,
    /// An operation that was executed ahead of time.
    pub ahead: Option<Ahead>,
    /// Kernel operation in progress, in the form in which operations wait for locks.
    pub operation: Option<Box<Pending>>,
    /// The CPU spins until that operation may continue or begin.
    pub parked: bool,
    /// The CPU is queued for the lock that its script takes next.
    pub waits_for_lock: bool,
    /// Time that it owes from `settled` on.
    owes: Charge,
    /// The account covers all time up to here.
    settled: Nanos,
    account: CpuAccount,
}

impl Cpu {
    /// Creates a CPU that idles from time 0 on.
    pub fn new(number: CpuId, next_tick: Nanos) -> Cpu {
        Cpu {
            number,
            current: TaskId::NONE,
            next_tick,
            pace: Pace::ONE,
            executes: false,
            idle_since: Nanos::ZERO,
            offline: false,
            resched: false,
            inbox: VecDeque::new(),
            schedules: 0,
            awaits: Vec::new(),
            spins_for: Vec::new(),
            script: Script::default(),
            ahead: None,
            operation: None,
            parked: false,
            waits_for_lock: false,
            owes: Charge::default(),
            settled: Nanos::ZERO,
            account: CpuAccount::default(),
        }
    }

    /// CPU number.
    pub fn number(&self) -> CpuId {
        self.number
    }

    /// Time at which all that it owes is paid; not before the last [`Cpu::settle`]. Meaningless while it spins.
    pub fn free_at(&self) -> Nanos {
        self.settled + self.owes.total()
    }

    /// Whether the CPU runs nothing, has nothing pending, and owes no time.
    pub fn is_quiet(&self) -> bool {
        self.sleeps() && self.inbox.is_empty() && !self.resched
    }

    /// Whether it owes time or waits for another CPU.
    pub fn is_busy(&self) -> bool {
        self.owes() || self.spins() || self.goes_on()
    }

    /// Whether an operation continues once the time owed is paid.
    pub fn goes_on(&self) -> bool {
        !self.script.is_empty() || self.operation.is_some()
    }

    /// Whether that operation can continue without waiting for another CPU.
    pub fn can_continue(&self) -> bool {
        self.goes_on() && !self.waits_for_lock && !self.parked
    }

    /// Whether charged time remains that the CPU has not spent yet.
    pub fn owes(&self) -> bool {
        self.owes != Charge::default()
    }

    /// Whether it waits for other CPUs: for a switch or for a lock.
    pub fn spins(&self) -> bool {
        self.waits_for_lock || self.parked || !self.spins_for.is_empty()
    }

    /// Whether it is idle with nothing to prevent an idle state.
    pub fn sleeps(&self) -> bool {
        self.current == TaskId::NONE && !self.is_busy()
    }

    /// Adds to the time that it owes.
    pub fn charge(&mut self, charge: Charge) {
        self.owes.idle_exit += charge.idle_exit;
        self.owes.interrupt += charge.interrupt;
        self.owes.scheduler += charge.scheduler;
        debug_assert!(charge.locked <= charge.scheduler, "locked is a part of scheduler");
    }

    /// Cancels time owed for scheduler code that is not executed after all.
    pub fn refund(&mut self, scheduler: Nanos) {
        self.owes.scheduler -= scheduler;
    }

    /// Accounts run time of the task in which it did this work and paid `reload` of its debt.
    #[inline]
    pub fn divide(&mut self, run: Nanos, reload: Nanos, work: Nanos) {
        let shares = self.pace.divide(run, reload, work);
        self.account.reload += shares.reload;
        self.account.memory += shares.memory;
        self.account.slowed += shares.slowed;
    }

    /// Accounts run time in which the task polled a lock or waited for its cache line.
    pub fn spin(&mut self, time: Nanos) {
        self.account.spin += time;
    }

    /// The account, complete up to the last [`Cpu::settle`].
    pub fn account(&self) -> &CpuAccount {
        &self.account
    }

    /// Whether the account covers all time up to `time`.
    #[inline]
    pub fn is_settled(&self, time: Nanos) -> bool {
        self.settled == time
    }

    /// Advances the account to `to`, which is at or after the last time, and returns the share of the current task.
    #[inline(always)]
    pub fn settle(&mut self, to: Nanos, ticks: &Ticks) -> Spent {
        let mut left = to - self.settled;
        self.settled = to;
        let mut spent = Spent::default();
        if self.offline {
            self.account.offline += left;
            return spent;
        }
        if left != Nanos::ZERO && self.owes() {
            self.account.idle += pay(&mut self.owes.idle_exit, &mut left);
            let stolen = pay(&mut self.owes.interrupt, &mut left);
            let scheduler = pay(&mut self.owes.scheduler, &mut left);
            self.account.stolen += stolen;
            self.account.scheduler += scheduler;
            spent.stolen = stolen + scheduler;
        }
        if left == Nanos::ZERO {
            return spent;
        }
        if self.spins() {
            self.account.scheduler += left;
            spent.stolen += left;
            return spent;
        }
        debug_assert!(self.next_tick >= to - left, "a tick that was due while the CPU was busy is taken first");
        let passed = ticks.passed(self.next_tick, to, self.number);
        if passed.count > 0 {
            self.next_tick = passed.next;
            self.owes.interrupt = passed.rest;
            self.account.stolen += passed.stolen;
            spent.stolen += passed.stolen;
            left -= passed.stolen;
        }
        if self.current == TaskId::NONE {
            self.account.idle += left;
        } else {
            self.account.run += left;
            spent.run = left;
        }
        spent
    }
}

/// Spends as much of the charged time `debt` as the remaining time `left` allows.
fn pay(debt: &mut Nanos, left: &mut Nanos) -> Nanos {
    let paid = (*debt).min(*left);
    *debt -= paid;
    *left -= paid;
    paid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks() -> Ticks {
        Ticks::new(250, Nanos(1_000)).unwrap()
    }

    #[test]
    fn pending_costs_are_charged_in_order_before_the_task_runs() {
        let mut cpu = Cpu::new(CpuId(0), Nanos::MAX);
        cpu.charge(Charge { idle_exit: Nanos(10), interrupt: Nanos(20), scheduler: Nanos(30), ..Charge::default() });
        cpu.current = TaskId(0);
        assert_eq!(cpu.free_at(), Nanos(60));
        assert_eq!(cpu.settle(Nanos(15), &ticks()), Spent { run: Nanos(0), stolen: Nanos(5) });
        assert!(cpu.is_busy() && !cpu.sleeps());
        assert_eq!(cpu.free_at(), Nanos(60));
        assert_eq!(cpu.settle(Nanos(100), &ticks()), Spent { run: Nanos(40), stolen: Nanos(45) });
        let expected = CpuAccount {
            run: Nanos(40),
            idle: Nanos(10),
            scheduler: Nanos(30),
            stolen: Nanos(20),
            ..Default::default()
        };
        assert_eq!(*cpu.account(), expected);
    }

    #[test]
    fn rest_of_a_tick_is_charged_after_a_span_that_ends_within_it() {
        let mut cpu = Cpu::new(CpuId(0), Nanos(4_000_000));
        cpu.current = TaskId(0);
        let spent = cpu.settle(Nanos(8_000_400), &ticks());
        assert_eq!(spent, Spent { run: Nanos(8_000_400 - 1_400), stolen: Nanos(1_400) });
        assert_eq!((cpu.free_at(), cpu.next_tick), (Nanos(8_001_000), Nanos(12_000_000)));
    }

    #[test]
    fn tick_at_the_end_of_a_span_is_not_charged_to_it() {
        let mut cpu = Cpu::new(CpuId(0), Nanos(4_000_000));
        cpu.current = TaskId(0);
        assert_eq!(cpu.settle(Nanos(4_000_000), &ticks()).run, Nanos(4_000_000));
        assert_eq!(cpu.next_tick, Nanos(4_000_000));
    }

    #[test]
    fn waiting_for_another_cpu_counts_as_scheduler_time() {
        let mut cpu = Cpu::new(CpuId(0), Nanos::MAX);
        cpu.charge(Charge { scheduler: Nanos(5), ..Charge::default() });
        cpu.spins_for.push((CpuId(1), 0));
        cpu.current = TaskId(3);
        assert_eq!(cpu.settle(Nanos(50), &ticks()), Spent { run: Nanos(0), stolen: Nanos(50) });
        assert_eq!(cpu.account().scheduler, Nanos(50));
    }
}
