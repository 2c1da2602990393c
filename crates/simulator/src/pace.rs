// SPDX-License-Identifier: GPL-2.0-only
//! Pace of the current task of a CPU: the one place where the effects of the machine on a task are combined.
//!
//! 1. *Rates* are multiplied: that of the CPU (frequency, kind of core, SMT), then that of the task's memory (distance,
//!    bandwidth). Each product is rounded down.
//! 2. *Debts* are added: time that the task needs before it works again. Run time first pays the debt.
//! 3. Run time is divided exactly: work + reload (debt paid) + memory (lost to the memory rate) + slowed (lost to the
//!    rate of the CPU).
//!
//! A further effect on tasks adds a rate or a debt here, and its share of the account.

use ids::Nanos;
use speed::Rate;

/// Pace of the current task of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    cpu: Rate,
    memory: Rate,
    /// Product of all rates.
    rate: Rate,
    /// Time that the task needs before it works again.
    debt: Nanos,
    /// Fraction of a nanosecond lost to memory that was not accounted yet, in units of 2^-16.
    lost: u32,
}

/// Division of run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shares {
    /// Reloading caches.
    pub reload: Nanos,
    /// Waiting for memory longer than for idle memory of the own node.
    pub memory: Nanos,
    /// Lost because the CPU is slower than the reference.
    pub slowed: Nanos,
}

impl Pace {
    /// The reference pace, without debt.
    pub const ONE: Pace = Pace { cpu: Rate::ONE, memory: Rate::ONE, rate: Rate::ONE, debt: Nanos::ZERO, lost: 0 };

    /// Work done per nanosecond after the debt is paid.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Rate of the CPU alone.
    pub fn cpu(&self) -> Rate {
        self.cpu
    }

    /// Sets the rate of the CPU.
    pub fn set_cpu(&mut self, rate: Rate) {
        self.cpu = rate;
        self.rate = self.cpu.times(self.memory);
    }

    /// Sets the rate of the current task's memory.
    pub fn set_memory(&mut self, rate: Rate) {
        self.memory = rate;
        self.rate = self.cpu.times(self.memory);
    }

    /// Time that the current task needs before it works again.
    #[inline]
    pub fn debt(&self) -> Nanos {
        self.debt
    }

    /// Adds to the debt of the current task.
    pub fn owe(&mut self, time: Nanos) {
        self.debt += time;
    }

    /// Takes the debt of the task that leaves the CPU.
    pub fn take_debt(&mut self) -> Nanos {
        std::mem::take(&mut self.debt)
    }

    /// Pays debt with run time; returns the part that was paid.
    #[inline]
    pub fn pay(&mut self, run: Nanos) -> Nanos {
        let paid = self.debt.min(run);
        self.debt -= paid;
        paid
    }

    /// Divides run time in which this work was done and `reload` was paid.
    #[inline]
    pub fn divide(&mut self, run: Nanos, reload: Nanos, work: Nanos) -> Shares {
        let beyond = run - reload - work;
        let memory = self.lost_to_memory(run - reload).min(beyond);
        Shares { reload, memory, slowed: beyond - memory }
    }

    fn lost_to_memory(&mut self, time: Nanos) -> Nanos {
        if self.memory == Rate::ONE {
            return Nanos::ZERO;
        }
        let lost = u128::from(time.0) * u128::from(Rate::ONE.bits() - self.memory.bits()) + u128::from(self.lost);
        self.lost = (lost & 0xffff) as u32;
        Nanos((lost >> 16) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_multiplied_and_debts_are_added() {
        let mut pace = Pace::ONE;
        pace.set_cpu(Rate::ratio(1, 2));
        pace.set_memory(Rate::ratio(3, 4));
        assert_eq!(pace.rate(), Rate::ratio(3, 8));
        pace.owe(Nanos(10));
        pace.owe(Nanos(5));
        assert_eq!([pace.pay(Nanos(12)), pace.pay(Nanos(12)), pace.pay(Nanos(12))], [Nanos(12), Nanos(3), Nanos(0)]);
    }

    #[test]
    fn run_time_is_divided_exactly() {
        let mut pace = Pace::ONE;
        pace.set_cpu(Rate::ratio(1, 2));
        pace.set_memory(Rate::ratio(3, 4));
        let shares = pace.divide(Nanos(1_000), Nanos(200), Nanos(300));
        // Of 800 ns, memory takes a quarter; of the other 600, the CPU does half.
        assert_eq!(shares, Shares { reload: Nanos(200), memory: Nanos(200), slowed: Nanos(300) });
    }
}
