// SPDX-License-Identifier: GPL-2.0-only
//! How a CPU without work comes to a fair task that waits elsewhere.
//!
//! 1. It is about to idle, and looks for one at once (newidle balancing). Linux 7.0, and 6.12.65 and 6.18.5 before it, look
//!    only as often as that was worth while lately: they throw dice ("sched/fair: Proportional newidle balance"). On a
//!    machine on which little waited, they practically never look. Since 7.1 a CPU that seldom begins to idle looks
//!    nevertheless ("sched/fair: More complex proportional newidle balance").
//! 2. A CPU where somebody waits wakes an idle one at its tick, to balance for all that idle (`nohz_balancer_kick`). That
//!    comes after the switch that the tick has brought: whoever has just lost its CPU there still has its cache, and stays
//!    until two attempts were in vain.
//! 3. Whether it is time for that the kernel knows from when it balanced for idle CPUs last, and a CPU that has begun to idle
//!    since then is counted at one tick and helped at the next one. Who was busy for so short a time that no tick came has
//!    not begun to idle.
//!
//! Not modelled: an idle CPU's interval, which shrinks and grows between one and two milliseconds for each CPU of the span,
//! is always the longer one; what looking costs, by which a CPU that idles only briefly does not begin it.

use super::Core;
use super::balance::{BUSY_FACTOR, Balance, NICE_TRIES, SPANS};
use crate::kfuncs::prandom;
use ids::{CpuId, Locality, Nanos};
use std::cmp::Reverse;

/// The dice of newidle balancing have so many sides: a ratio of as much is always.
const SIDES: u32 = 1024;

/// Since then a CPU that seldom begins to idle looks for tasks whatever came of it (feature NI_RATE).
const RATE_SINCE: (u16, u16) = (7, 1);

/// For that the ratio gets one more for each 2^22 ns that it took to look so often as there are sides.
const RATE_SHIFT: u32 = 22;

/// What came of newidle balancing of one CPU over one of its spans (`newidle_call` and others of `struct sched_domain`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    calls: u32,
    successes: u32,
    /// Of [`SIDES`].
    ratio: u32,
    since: Nanos,
}

impl Worth {
    /// With as many calls as the kernel begins with.
    fn new(ratio: u32) -> Worth {
        Worth { calls: SIDES / 2, successes: ratio / 2, ratio, since: Nanos::ZERO }
    }

    /// `update_newidle_stats`. An attempt that the dice allow stands for all that they did not.
    fn note(&mut self, successes: u32, now: Nanos, by_rate: bool) {
        self.calls += 1;
        self.successes += successes;
        if self.calls < SIDES {
            return;
        }
        self.ratio = self.successes;
        if by_rate {
            let seldom = u32::try_from(now.since(self.since).0 >> RATE_SHIFT).unwrap_or(SIDES);
            self.ratio = self.ratio.saturating_add(seldom).min(SIDES);
        }
        self.since = now;
        self.calls /= 2;
        self.successes /= 2;
    }
}

/// What the kernel keeps for all CPUs that idle (`nohz`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nohz {
    /// No CPU is helped before this time.
    next: Nanos,
    /// A CPU has begun to idle since that was found out.
    stale: bool,
}

impl Core {
    /// A CPU begins to idle, or ends that.
    pub(super) fn fair_note_idle(&mut self, cpu: CpuId, idle: bool) {
        let fair = &mut self.cpus[cpu.index()].fair;
        fair.kicked = false;
        if idle {
            self.nohz.stale |= !std::mem::replace(&mut fair.tickless, true);
        }
    }

    /// A CPU has no work: a fair task comes to it. False if there is none, or it does not look.
    pub(super) fn fair_pull(&mut self, cpu: CpuId) -> bool {
        if std::mem::take(&mut self.cpus[cpu.index()].fair.kicked) {
            return self.fair_balance_idle(cpu);
        }
        match self.config.newidle_ratio {
            None => self.fair_pull_within(cpu, Locality::Far),
            Some(ratio) => (0..SPANS.len()).any(|index| self.fair_pull_at_times(cpu, index, ratio)),
        }
    }

    /// `sched_balance_newidle` over one span. `ratio` is that of the beginning.
    fn fair_pull_at_times(&mut self, cpu: CpuId, index: usize, ratio: u32) -> bool {
        if self.fair_width(cpu, index).is_none() {
            return false;
        }
        let by_rate = self.config.version >= RATE_SINCE;
        let worth = self.balance_mut(cpu, index).worth.get_or_insert(Worth::new(ratio)).ratio;
        let mut weight = 1;
        if worth < SIDES || !by_rate {
            let chance = 1 + worth;
            if prandom(&mut self.dice) % SIDES > chance {
                return self.fair_note_worth(cpu, index, 0, by_rate);
            }
            weight = (SIDES + chance / 2) / chance;
        }
        let pulled = self.fair_pull_within(cpu, SPANS[index]);
        self.fair_note_worth(cpu, index, if pulled { weight } else { 0 }, by_rate)
    }

    /// Gives whether it was one.
    fn fair_note_worth(&mut self, cpu: CpuId, index: usize, successes: u32, by_rate: bool) -> bool {
        let now = self.now;
        let worth = self.balance_mut(cpu, index).worth.as_mut().expect("looked at before");
        worth.note(successes, now, by_rate);
        successes > 0
    }

    /// Pulls one task, from the CPU where most wait of those that are nearest.
    fn fair_pull_within(&mut self, cpu: CpuId, span: Locality) -> bool {
        let waiting = |from: CpuId| self.fair_waiting(from).count();
        let mut from: Vec<_> = (0..self.cpus())
            .map(CpuId)
            .filter(|&from| from != cpu && self.fair_waiting(from).next().is_some())
            .map(|from| (self.config.topology.locality(from, cpu), Reverse(waiting(from)), from))
            .filter(|&(locality, ..)| locality <= span)
            .collect();
        from.sort_unstable();
        let found = from.iter().find_map(|&(.., from)| self.fair_movable(from, cpu, false).first().copied());
        found.inspect(|&task| self.fair_move(task, cpu)).is_some()
    }

    /// `nohz_balancer_kick`, at a tick of a busy CPU.
    #[inline]
    pub(super) fn fair_kick_idle(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.tickless = false;
        // While no CPU was ever helped, it cannot be too early to help one.
        if self.higher_waiting > 0 || self.nohz.next > Nanos::ZERO {
            self.fair_kick_one(cpu);
        }
    }

    fn fair_kick_one(&mut self, cpu: CpuId) {
        let now = self.jiffies_now();
        if now < self.nohz.next {
            if std::mem::take(&mut self.nohz.stale) {
                self.nohz.next = now;
            }
            return;
        }
        if self.fair_waiting(cpu).next().is_none() {
            return;
        }
        let is_idle = |&to: &CpuId| self.cpus[to.index()].active && self.fair_idle(to);
        let to = (0..self.cpus()).map(CpuId).find(is_idle);
        if let Some(to) = to {
            self.nohz = Nohz { next: now + self.jiffies_in_ns(1), stale: false };
            self.cpus[to.index()].fair.kicked = true;
            self.resched(to);
        }
    }

    /// `nohz_idle_balance`: one idle CPU does it for all, for itself at last. Whether it has a task then.
    fn fair_balance_idle(&mut self, cpu: CpuId) -> bool {
        let cpus = self.cpus();
        let is_idle = |&to: &CpuId| self.cpus[to.index()].active && self.fair_idle(to);
        let idle: Vec<CpuId> = (1..=cpus).map(|step| CpuId((cpu.0 + step) % cpus)).filter(is_idle).collect();
        for &to in &idle {
            if (0..SPANS.len()).any(|index| self.fair_balance_idle_over(to, index)) && to != cpu {
                self.resched(to);
            }
        }
        self.nohz.next = self.fair_next_of(&idle);
        !self.cpus[cpu.index()].higher.is_empty()
    }

    /// `sched_balance_rq` of an idle CPU over one of its spans. Whether tasks came.
    fn fair_balance_idle_over(&mut self, to: CpuId, index: usize) -> bool {
        let now = self.jiffies_now();
        let due = self.fair_next_over(to, index).is_some_and(|next| now >= next);
        if !due {
            return false;
        }
        let topology = &self.config.topology;
        let near = |from: &CpuId| *from != to && topology.locality(*from, to) <= SPANS[index];
        let count = |from: CpuId| self.fair_waiting(from).count();
        let busiest = (0..self.cpus()).map(CpuId).filter(near).max_by_key(|&from| (count(from), Reverse(from)));
        let found = busiest.map(|from| (from, count(from))).filter(|&(_, waiting)| waiting > 0);
        let failed = self.balance_mut(to, index).failed;
        let mut moved = 0;
        if let Some((from, waiting)) = found {
            // Half of the difference in tasks, of which one runs there.
            let movable = self.fair_movable(from, to, failed > NICE_TRIES);
            for &task in movable.iter().take(waiting.div_ceil(2)) {
                self.fair_move(task, to);
                moved += 1;
            }
        }
        let balance = self.balance_mut(to, index);
        balance.last = now;
        balance.failed = if found.is_some() && moved == 0 { failed + 1 } else { 0 };
        moved > 0
    }

    /// When the first of these CPUs balances next.
    fn fair_next_of(&self, cpus: &[CpuId]) -> Nanos {
        let next = |&cpu: &CpuId| (0..SPANS.len()).filter_map(move |index| self.fair_next_over(cpu, index)).min();
        cpus.iter().filter_map(next).min().unwrap_or(Nanos::ZERO)
    }

    /// When a CPU balances next over one of its spans; `None` if that is no wider than the one before.
    fn fair_next_over(&self, cpu: CpuId, index: usize) -> Option<Nanos> {
        let width = self.fair_width(cpu, index)?;
        let busy_factor = if self.fair_idle(cpu) { 1 } else { BUSY_FACTOR };
        let jiffies = (2 * width * busy_factor * u64::from(self.config.hz)).div_ceil(1000);
        Some(self.cpus[cpu.index()].fair.balances[index].last + self.jiffies_in_ns(jiffies))
    }

    /// CPUs of a span; `None` if it is no wider than the one before.
    fn fair_width(&self, cpu: CpuId, index: usize) -> Option<u64> {
        let width = |reach: Locality| {
            let near = |&other: &CpuId| self.config.topology.locality(cpu, other) <= reach;
            (0..self.cpus()).map(CpuId).filter(near).count() as u64
        };
        let inner = if index == 0 { Locality::Same } else { SPANS[index - 1] };
        let (outer, inner) = (width(SPANS[index]), width(inner));
        (outer > inner).then_some(outer)
    }

    fn balance_mut(&mut self, cpu: CpuId, index: usize) -> &mut Balance {
        &mut self.cpus[cpu.index()].fair.balances[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many attempts, of which each was one for this many; what the ratio is then.
    fn ratio_after(ratio: u32, attempts: u32, successes: u32, took: Nanos, by_rate: bool) -> u32 {
        let mut worth = Worth::new(ratio);
        (0..attempts).for_each(|_| worth.note(successes, took, by_rate));
        worth.ratio
    }

    #[test]
    fn what_came_of_the_last_attempts_is_the_next_ratio() {
        let second = Nanos::from_secs(1);
        assert_eq!(ratio_after(512, 511, 0, second, false), 512, "not yet");
        assert_eq!(ratio_after(512, 512, 0, second, false), 256);
        assert_eq!(ratio_after(512, 512, 1, second, false), 768);
        // After each 512 more, half of what was before counts.
        assert_eq!(ratio_after(512, 1024, 0, second, false), 128);
        assert_eq!(ratio_after(0, 512, 2, second, false), 1024);
    }

    #[test]
    fn who_seldom_begins_to_idle_looks_nevertheless_since_7_1() {
        // 2^22 ns are 4.2 ms.
        assert_eq!(ratio_after(0, 512, 0, Nanos::from_ms(100), true), 23);
        assert_eq!(ratio_after(0, 512, 0, Nanos::from_secs(10), true), SIDES, "more is no more");
    }
}
