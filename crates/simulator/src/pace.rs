// SPDX-License-Identifier: GPL-2.0-only
//! Pace of the current task of a CPU: the one place where the effects of the machine on a task are combined.
//!
//! 1. *Rates* are multiplied: that of the CPU (frequency, kind of core, SMT), then that of the task's memory (distance,
//!    bandwidth). Each product is rounded down.
//! 2. *Debts* are added: time that the task loses to reloads. Until a debt is paid, the task works on, at the part of its
//!    speed that its hits have in the time of a miss. So a task whose slices are shorter than its debt still advances.
//! 3. Run time is divided exactly: work + reload (debt paid) + memory (lost to the memory rate) + slowed (lost to the
//!    rate of the CPU).
//!
//! A further effect on tasks adds a rate or a debt here, and its share of the account.

use ids::Nanos;
use speed::{Part, Rate};

/// Pace of the current task of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    cpu: Rate,
    memory: Rate,
    /// Product of all rates.
    rate: Rate,
    /// Time that the task is still to lose to reloads.
    debt: Nanos,
    /// Share of run time in which the task works while it has a debt; `None`: it does no work until the debt is paid.
    beside: Option<Rate>,
    /// Remainder of dividing run time by `beside`, below 1 ns; the next division includes it.
    part: Part,
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
    pub const ONE: Pace = Pace {
        cpu: Rate::ONE,
        memory: Rate::ONE,
        rate: Rate::ONE,
        debt: Nanos::ZERO,
        beside: None,
        part: Part::ZERO,
        lost: 0,
    };

    /// Work done per nanosecond that pays no debt.
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

    /// Run time that the current task needs for work that takes this time without a debt.
    #[inline]
    pub fn time_for(&self, work: Nanos) -> Nanos {
        let paid_first = self.debt + work;
        match self.beside {
            Some(beside) if self.debt > Nanos::ZERO => paid_first.min(beside.time_for(work, self.part)),
            _ => paid_first,
        }
    }

    /// Adds to the debt of the current task; it works for the time `beside` while it pays what is added.
    pub fn owe(&mut self, debt: Nanos, beside: Nanos) {
        let more = match self.beside {
            // debt : beside = (1 - rate) : rate
            Some(rate) if self.debt > Nanos::ZERO => {
                let (rate, one) = (u128::from(rate.bits()), u128::from(Rate::ONE.bits()));
                (u128::from(self.debt.0) * rate / (one - rate)) as u64
            }
            _ => 0,
        };
        self.debt += debt;
        let beside = beside.0 + more;
        self.beside = (beside > 0 && self.debt > Nanos::ZERO).then(|| Rate::ratio(beside, beside + self.debt.0));
    }

    /// Takes the debt of the task that leaves the CPU.
    pub fn take_debt(&mut self) -> Nanos {
        (self.beside, self.part) = (None, Part::ZERO);
        std::mem::take(&mut self.debt)
    }

    /// Pays debt with run time; returns the part that was paid. In the rest the task works.
    #[inline]
    pub fn pay(&mut self, run: Nanos) -> Nanos {
        if self.debt == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let works = self.beside.map_or(Nanos::ZERO, |beside| beside.work(run, &mut self.part));
        let paid = self.debt.min(run - works);
        self.debt -= paid;
        if self.debt == Nanos::ZERO {
            (self.beside, self.part) = (None, Part::ZERO);
        }
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
    use proptest::prelude::*;

    #[test]
    fn rates_are_multiplied_and_debts_are_added() {
        let mut pace = Pace::ONE;
        pace.set_cpu(Rate::ratio(1, 2));
        pace.set_memory(Rate::ratio(3, 4));
        assert_eq!(pace.rate(), Rate::ratio(3, 8));
        pace.owe(Nanos(10), Nanos::ZERO);
        pace.owe(Nanos(5), Nanos::ZERO);
        assert_eq!(pace.time_for(Nanos(7)), Nanos(22));
        assert_eq!([pace.pay(Nanos(12)), pace.pay(Nanos(12)), pace.pay(Nanos(12))], [Nanos(12), Nanos(3), Nanos(0)]);
    }

    #[test]
    fn task_works_beside_its_reload() {
        let mut pace = Pace::ONE;
        pace.owe(Nanos(900), Nanos(300));
        assert_eq!(pace.time_for(Nanos(100)), Nanos(400), "a quarter of the time is work");
        assert_eq!(pace.time_for(Nanos(1_000)), Nanos(1_900), "the whole debt is paid");
        let paid: u64 = (0..400).map(|_| pace.pay(Nanos(1)).0).sum();
        assert_eq!((paid, pace.time_for(Nanos(1))), (300, Nanos(4)), "however often it is asked");
        // 600 of debt are left beside 200 of work. With 200 and 600 more, it is half.
        pace.owe(Nanos(200), Nanos(600));
        assert_eq!(pace.time_for(Nanos(100)), Nanos(200));
        assert_eq!((pace.pay(Nanos(3_000)), pace.time_for(Nanos(7))), (Nanos(800), Nanos(7)));
        pace.owe(Nanos(900), Nanos(300));
        assert_eq!((pace.take_debt(), pace.time_for(Nanos(7))), (Nanos(900), Nanos(7)));
    }

    proptest! {
        /// In the time that it names, the work is done, and not sooner, whatever the intervals in which it is asked.
        #[test]
        fn time_for_is_the_time_in_which_pay_leaves_the_work(
            debts in prop::collection::vec((0u64..3_000, 0u64..1_000), 1..4), work in 1u64..5_000,
            steps in prop::collection::vec(1u64..900, 0..8)
        ) {
            let mut pace = Pace::ONE;
            for (debt, beside) in debts {
                pace.owe(Nanos(debt), Nanos(beside));
            }
            let mut left = pace.time_for(Nanos(work)).0;
            let mut done = 0;
            for step in steps {
                let step = step.min(left.saturating_sub(1));
                done += step - pace.pay(Nanos(step)).0;
                left -= step;
                prop_assert!(done < work || left == 0);
                prop_assert_eq!(pace.time_for(Nanos(work - done)).0, left);
            }
            prop_assert_eq!(done + left - pace.pay(Nanos(left)).0, work);
        }
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
