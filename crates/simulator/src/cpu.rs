// SPDX-License-Identifier: GPL-2.0-only
//! One CPU's time: who has it, and an account in which every nanosecond has one owner.
//!
//! A CPU owes time for what it did in an instant: leaving an idle state, then interrupts, then scheduler code. While it
//! owes, it is busy and nothing else happens on it. When all is paid, the current task runs (or the CPU idles), and
//! the ticks that nobody needs to see take their share.

use crate::ahead::Ahead;
use crate::interrupt::Interrupt;
use crate::operations::Pending;
use crate::script::Script;
use crate::ticks::Ticks;
use ids::{CpuId, Nanos, TaskId};
use measures::CpuAccount;
use speed::Rate;
use std::collections::VecDeque;

/// What a CPU owes for what was done on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Charge {
    /// Leaving an idle state; counts as idle.
    pub idle_exit: Nanos,
    /// Interrupts; counts as stolen.
    pub interrupt: Nanos,
    /// Scheduler code and context switches.
    pub scheduler: Nanos,
    /// Of that, done with a runqueue locked. Nothing is owed for it beside that.
    pub locked: Nanos,
}

impl Charge {
    /// For scheduler code alone.
    pub fn scheduler(scheduler: Nanos) -> Charge {
        Charge { scheduler, ..Charge::default() }
    }

    fn total(&self) -> Nanos {
        self.idle_exit + self.interrupt + self.scheduler
    }
}

/// What the current task got of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spent {
    /// Ran.
    pub run: Nanos,
    /// Its CPU was busy with scheduler code or interrupts.
    pub stolen: Nanos,
}

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    number: CpuId,
    /// Who has it; [`TaskId::NONE`]: idle.
    pub current: TaskId,
    /// The next tick of its grid that was not taken yet; [`Nanos::MAX`] while the tick is stopped.
    pub next_tick: Nanos,
    /// At which rate the work of its task gets done.
    pub rate: Rate,
    /// It executes something, as far as others on its core are concerned.
    pub executes: bool,
    /// Since when it idles, ticks left aside; [`Nanos::MAX`]: it does not. Of machines whose CPUs are halted.
    pub idle_since: Nanos,
    /// It does nothing: it is offline, or the whole machine sleeps.
    pub offline: bool,
    /// A reschedule was asked for and has arrived.
    pub resched: bool,
    /// Interrupts that wait until it is free.
    pub inbox: VecDeque<Interrupt>,
    /// It called schedule so often.
    pub schedules: u64,
    /// It may not leave its next schedule before each of these CPUs has called schedule more than so often
    /// (contract K1).
    pub awaits: Vec<(CpuId, u64)>,
    /// It is in that schedule, and spins until these have.
    pub spins_for: Vec<(CpuId, u64)>,
    /// What is left of an operation that takes locks, after what it owes.
    pub script: Script,
    /// An operation that was played ahead of its time.
    pub ahead: Option<Ahead>,
    /// An operation of the kernel that waits, and is amidst it.
    pub operation: Option<Box<Pending>>,
    /// It spins until that may go on, or begin.
    pub parked: bool,
    /// It is in the queue of the lock that its script takes next.
    pub waits_for_lock: bool,
    /// What it owes from `settled` on.
    owes: Charge,
    /// The account holds all time up to here.
    settled: Nanos,
    account: CpuAccount,
}

impl Cpu {
    /// Idle from time 0 on.
    pub fn new(number: CpuId, next_tick: Nanos) -> Cpu {
        Cpu {
            number,
            current: TaskId::NONE,
            next_tick,
            rate: Rate::ONE,
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

    /// Its number.
    pub fn number(&self) -> CpuId {
        self.number
    }

    /// When all that it owes is paid; not before the last [`Cpu::settle`]. Meaningless while it spins.
    pub fn free_at(&self) -> Nanos {
        self.settled + self.owes.total()
    }

    /// Whether nothing runs on it, nothing waits for it, and it owes nothing.
    pub fn is_quiet(&self) -> bool {
        self.sleeps() && self.inbox.is_empty() && !self.resched
    }

    /// Whether it owes time, or waits for another CPU.
    pub fn is_busy(&self) -> bool {
        self.owes() || self.spins() || self.goes_on()
    }

    /// Whether an operation is to go on when it has paid what it owes.
    pub fn goes_on(&self) -> bool {
        !self.script.is_empty() || self.operation.is_some()
    }

    /// Whether it is not for others to say when.
    pub fn can_go_on(&self) -> bool {
        self.goes_on() && !self.waits_for_lock && !self.parked
    }

    /// Whether it owes time.
    pub fn owes(&self) -> bool {
        self.owes != Charge::default()
    }

    /// Whether it waits for other CPUs: to switch, or to give back a lock.
    pub fn spins(&self) -> bool {
        self.waits_for_lock || self.parked || !self.spins_for.is_empty()
    }

    /// Idle, and nothing keeps it from an idle state.
    pub fn sleeps(&self) -> bool {
        self.current == TaskId::NONE && !self.is_busy()
    }

    /// Adds to what it owes.
    pub fn charge(&mut self, charge: Charge) {
        self.owes.idle_exit += charge.idle_exit;
        self.owes.interrupt += charge.interrupt;
        self.owes.scheduler += charge.scheduler;
        debug_assert!(charge.locked <= charge.scheduler, "it is a part of it");
    }

    /// So much of the scheduler's code, which is still owed, is not executed after all.
    pub fn refund(&mut self, scheduler: Nanos) {
        self.owes.scheduler -= scheduler;
    }

    /// So much of the time that its task ran was more than the work that got done.
    pub fn slow(&mut self, time: Nanos) {
        self.account.slowed += time;
    }

    /// So much of it a task polled a lock, or waited for a cache line of one.
    pub fn spin(&mut self, time: Nanos) {
        self.account.spin += time;
    }

    /// Its account, complete up to the last [`Cpu::settle`].
    pub fn account(&self) -> &CpuAccount {
        &self.account
    }

    /// Whether the account holds all time up to `time`.
    #[inline]
    pub fn is_settled(&self, time: Nanos) -> bool {
        self.settled == time
    }

    /// Brings the account up to `to`, which is not before the last time, and says what the current task got.
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

/// Pays as much of a debt as is left of the time.
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
    fn debts_are_paid_in_order_and_then_the_task_runs() {
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
    fn a_span_that_ends_within_a_tick_leaves_its_rest_owed() {
        let mut cpu = Cpu::new(CpuId(0), Nanos(4_000_000));
        cpu.current = TaskId(0);
        let spent = cpu.settle(Nanos(8_000_400), &ticks());
        assert_eq!(spent, Spent { run: Nanos(8_000_400 - 1_400), stolen: Nanos(1_400) });
        assert_eq!((cpu.free_at(), cpu.next_tick), (Nanos(8_001_000), Nanos(12_000_000)));
    }

    #[test]
    fn a_tick_at_the_end_of_a_span_is_not_in_it() {
        let mut cpu = Cpu::new(CpuId(0), Nanos(4_000_000));
        cpu.current = TaskId(0);
        assert_eq!(cpu.settle(Nanos(4_000_000), &ticks()).run, Nanos(4_000_000));
        assert_eq!(cpu.next_tick, Nanos(4_000_000));
    }

    #[test]
    fn a_cpu_that_waits_for_another_is_in_scheduler_code() {
        let mut cpu = Cpu::new(CpuId(0), Nanos::MAX);
        cpu.charge(Charge { scheduler: Nanos(5), ..Charge::default() });
        cpu.spins_for.push((CpuId(1), 0));
        cpu.current = TaskId(3);
        assert_eq!(cpu.settle(Nanos(50), &ticks()), Spent { run: Nanos(0), stolen: Nanos(50) });
        assert_eq!(cpu.account().scheduler, Nanos(50));
    }
}
