// SPDX-License-Identifier: GPL-2.0-only
//! How a CPU without work gets a fair task that waits elsewhere.
//!
//! 1. A CPU about to idle searches for one at once (newidle balancing). Since Linux 7.0, 6.18.5 and 6.12.65 it
//!    searches with a probability that follows the recent success rate ("sched/fair: Proportional newidle balance");
//!    on a machine where tasks rarely wait it almost never searches. Since 7.1 a CPU that rarely becomes idle
//!    searches anyway ("sched/fair: More complex proportional newidle balance").
//! 2. A busy CPU with waiting tasks wakes an idle CPU at its tick, to balance on behalf of all idle CPUs
//!    (`nohz_balancer_kick`). That happens after the switch caused by the same tick: the task preempted there is
//!    cache-hot and stays until two attempts have failed.
//! 3. The next time for that depends on when idle CPUs were last balanced. A CPU that has become idle since then is
//!    noticed at one tick and served at the next. A CPU that was busy for less than a tick does not count as newly
//!    idle.
//! 4. A pass that moves no waiting task may move a running one ([`super::active_balance`]).
//!
//! Not modelled: the balance interval of an idle CPU, which the kernel varies between one and two milliseconds per
//! CPU of the span, is the shorter one only after a pass that failed to move a running task; the cost of the search,
//! which keeps a briefly idle CPU from starting it.

use super::Core;
use super::active_balance::{Scan, domain_widths};
use super::balance::{BUSY_FACTOR, Balance, NewidleStats, RATIO_ONE, SPANS, nice_tries};
use super::random::Random;
use super::task::Class;
use event_log::DetailKind;
use ids::{CpuId, Locality, Nanos, TaskId, Topology};
use std::cmp::Reverse;

/// First version in which a CPU that rarely becomes idle searches whatever the success rate (feature NI_RATE).
const RATE_SINCE: (u16, u16) = (7, 1);

/// Idle load balancing state shared by all CPUs (the kernel's `nohz`).
#[derive(Clone, Copy, Debug, Default)]
struct Nohz {
    /// No idle balancing before this time.
    next: Nanos,
    /// A CPU has become idle since `next` was computed.
    stale: bool,
}

/// State of load balancing, shared by all CPUs.
#[derive(Debug)]
pub(super) struct Balancing {
    nohz: Nohz,
    /// The kernel's own random numbers (newidle balancing).
    random: Random,
    /// Number of CPUs of each scheduling domain, by CPU; 0 for a domain as large as the next smaller one.
    widths: Vec<[u64; SPANS.len()]>,
    /// Searches for running tasks to move.
    pub scan: Scan,
}

impl Balancing {
    /// State before any balancing; the seed determines the random numbers.
    pub fn new(seed: u64, topology: &Topology) -> Balancing {
        let (nohz, random, widths) = (Nohz::default(), Random::new(seed), domain_widths(topology));
        Balancing { nohz, random, widths, scan: Scan::default() }
    }
}

impl Core {
    /// Records that a CPU becomes idle or busy.
    pub(super) fn fair_note_idle(&mut self, cpu: CpuId, idle: bool) {
        let fair = &mut self.cpus[cpu.index()].fair;
        fair.kicked = false;
        if idle {
            self.balancing.scan.stale = true;
            self.balancing.nohz.stale |= !std::mem::replace(&mut fair.tickless, true);
        }
    }

    /// Pulls a fair task to a CPU without work. Returns false if there is none, or if the CPU does not search.
    pub(super) fn fair_pull(&mut self, cpu: CpuId) -> bool {
        if std::mem::take(&mut self.cpus[cpu.index()].fair.kicked) {
            return self.fair_balance_idle(cpu);
        }
        match self.config.newidle_ratio {
            None => self.fair_pull_within(cpu, Locality::Far),
            Some(ratio) => (0..SPANS.len()).any(|index| self.fair_pull_at_times(cpu, index, ratio)),
        }
    }

    /// `sched_balance_newidle` over one scheduling domain. `ratio` is the initial ratio.
    fn fair_pull_at_times(&mut self, cpu: CpuId, index: usize, ratio: u32) -> bool {
        if self.fair_width(cpu, index).is_none() {
            return false;
        }
        let by_rate = self.config.version >= RATE_SINCE;
        let newidle = self.balance_mut(cpu, index).newidle.get_or_insert(NewidleStats::new(ratio)).ratio;
        let mut weight = 1;
        if newidle < RATIO_ONE || !by_rate {
            let probability = 1 + newidle;
            if self.balancing.random.next() % RATIO_ONE > probability {
                self.detail(TaskId::NONE, |_| DetailKind::NewidleSkipped { ratio: newidle });
                return self.fair_note_newidle(cpu, index, 0, by_rate);
            }
            weight = (RATIO_ONE + probability / 2) / probability;
        }
        let pulled = self.fair_pull_within(cpu, SPANS[index]);
        self.fair_note_newidle(cpu, index, if pulled { weight } else { 0 }, by_rate)
    }

    /// Records an attempt; returns whether it succeeded.
    fn fair_note_newidle(&mut self, cpu: CpuId, index: usize, successes: u32, by_rate: bool) -> bool {
        let now = self.time.now();
        let newidle = self.balance_mut(cpu, index).newidle.as_mut().expect("looked at before");
        newidle.note(successes, now, by_rate);
        successes > 0
    }

    /// Pulls one task from the nearest CPU with waiting tasks; of equally near ones, the one with the most.
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
        match found {
            Some(task) => self.fair_move(task, cpu),
            None => self.fair_tell_not_pulled(cpu, from.into_iter().map(|(.., from)| from)),
        }
        found.is_some()
    }

    /// `nohz_balancer_kick`, at a tick of a busy CPU.
    #[inline]
    pub(super) fn fair_kick_idle(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].fair.tickless = false;
        // `next` is 0 until the first idle balancing, which is always due.
        let fair = self.current_class(cpu) == Class::Fair;
        if fair || self.tasks.higher_waiting > 0 || self.balancing.nohz.next > Nanos::ZERO {
            self.fair_kick_one(cpu);
        }
    }

    fn fair_kick_one(&mut self, cpu: CpuId) {
        let now = self.jiffies_now();
        if now < self.balancing.nohz.next {
            if std::mem::take(&mut self.balancing.nohz.stale) {
                self.balancing.nohz.next = now;
            }
            return;
        }
        if self.fair_waiting(cpu).next().is_none() && !self.fair_push_is_due(cpu, now) {
            return;
        }
        let is_idle = |&to: &CpuId| self.cpus[to.index()].active && self.fair_idle(to);
        let to = (0..self.cpus()).map(CpuId).find(is_idle);
        if let Some(to) = to {
            self.balancing.nohz = Nohz { next: now + self.jiffies_in_ns(1), stale: false };
            self.cpus[to.index()].fair.kicked = true;
            self.resched(to);
        }
    }

    /// `nohz_idle_balance`: one idle CPU balances for all idle CPUs, for itself last. Returns whether it has a task
    /// now.
    fn fair_balance_idle(&mut self, cpu: CpuId) -> bool {
        let cpus = self.cpus();
        let is_idle = |&to: &CpuId| self.cpus[to.index()].active && self.fair_idle(to);
        let idle: Vec<CpuId> = (1..=cpus).map(|step| CpuId((cpu.0 + step) % cpus)).filter(is_idle).collect();
        for &to in &idle {
            if (0..SPANS.len()).any(|index| self.fair_balance_idle_over(to, index)) && to != cpu {
                self.resched(to);
            }
        }
        self.balancing.nohz.next = self.fair_next_of(&idle);
        !self.cpus[cpu.index()].higher.is_empty()
    }

    /// `sched_balance_rq` of an idle CPU over one of its scheduling domains. Returns whether it pulled tasks.
    fn fair_balance_idle_over(&mut self, to: CpuId, index: usize) -> bool {
        let now = self.jiffies_now();
        let due = self.fair_next_over(to, index).is_some_and(|next| now >= next);
        if !due {
            return false;
        }
        let topology = &self.config.topology;
        let near = |from: &CpuId| *from != to && topology.locality(*from, to) <= SPANS[index];
        let count = |from: CpuId| self.fair_waiting(from).count();
        let some_may_move = |&from: &CpuId| count(from) > 0 && !self.fair_all_pinned(from, to);
        let from = (0..self.cpus()).map(CpuId).filter(near).filter(some_may_move);
        let busiest = || from.max_by_key(|&from| (count(from), Reverse(from))).map(|from| (from, count(from)));
        let found = if self.tasks.higher_waiting > 0 { busiest() } else { None };
        let failed = self.balance_mut(to, index).failed;
        let mut moved = 0;
        if let Some((from, waiting)) = found {
            // Half of the difference in the number of tasks, the running one included.
            let movable = self.fair_movable(from, to, failed > nice_tries(index));
            for &task in movable.iter().take(waiting.div_ceil(2)) {
                self.fair_move(task, to);
                moved += 1;
            }
        }
        let source = if moved == 0 { self.fair_push_source(to, index) } else { None };
        let failed = if moved == 0 && (found.is_some() || source.is_some()) { failed + 1 } else { 0 };
        let balance = self.balance_mut(to, index);
        (balance.last, balance.failed, balance.hurries) = (now, failed, found.is_none() && source.is_some());
        if let Some(source) = source {
            self.fair_push_after(failed, source, to, index);
        }
        moved > 0
    }

    /// The earliest time at which one of these CPUs balances next.
    fn fair_next_of(&self, cpus: &[CpuId]) -> Nanos {
        let next = |&cpu: &CpuId| (0..SPANS.len()).filter_map(move |index| self.fair_next_over(cpu, index)).min();
        cpus.iter().filter_map(next).min().unwrap_or(Nanos::ZERO)
    }

    /// Time of the next balance pass of a CPU over one of its scheduling domains; `None` if the domain has no more CPUs
    /// than the next smaller one.
    fn fair_next_over(&self, cpu: CpuId, index: usize) -> Option<Nanos> {
        self.fair_next_after(cpu, index, Nanos::ZERO)
    }

    /// As [`Core::fair_next_over`], if a pass over the domain also took place at `last`.
    pub(super) fn fair_next_after(&self, cpu: CpuId, index: usize, last: Nanos) -> Option<Nanos> {
        let width = self.fair_width(cpu, index)?;
        let busy_factor = if self.fair_idle(cpu) { 1 } else { BUSY_FACTOR };
        let balance = &self.cpus[cpu.index()].fair.balances[index];
        let ms = if balance.hurries { width } else { 2 * width } * busy_factor;
        let jiffies = (ms * u64::from(self.config.hz)).div_ceil(1000);
        Some(balance.last.max(last) + self.jiffies_in_ns(jiffies))
    }

    /// Number of CPUs of a scheduling domain; `None` if it has no more CPUs than the next smaller one.
    fn fair_width(&self, cpu: CpuId, index: usize) -> Option<u64> {
        Some(self.balancing.widths[cpu.index()][index]).filter(|&width| width > 0)
    }

    fn balance_mut(&mut self, cpu: CpuId, index: usize) -> &mut Balance {
        &mut self.cpus[cpu.index()].fair.balances[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ratio after `attempts` attempts, each of which counts for `successes`.
    fn ratio_after(ratio: u32, attempts: u32, successes: u32, took: Nanos, by_rate: bool) -> u32 {
        let mut newidle = NewidleStats::new(ratio);
        (0..attempts).for_each(|_| newidle.note(successes, took, by_rate));
        newidle.ratio
    }

    #[test]
    fn newidle_ratio_follows_success_of_recent_attempts() {
        let second = Nanos::from_secs(1);
        assert_eq!(ratio_after(512, 511, 0, second, false), 512, "one attempt before the update");
        assert_eq!(ratio_after(512, 512, 0, second, false), 256);
        assert_eq!(ratio_after(512, 512, 1, second, false), 768);
        // Each update halves the weight of the earlier attempts.
        assert_eq!(ratio_after(512, 1024, 0, second, false), 128);
        assert_eq!(ratio_after(0, 512, 2, second, false), 1024);
    }

    #[test]
    fn cpu_that_rarely_idles_searches_anyway_since_7_1() {
        // NI_RATE adds 1 for each 4.2 ms (2^22 ns) of the 100 ms: 23.
        assert_eq!(ratio_after(0, 512, 0, Nanos::from_ms(100), true), 23);
        assert_eq!(ratio_after(0, 512, 0, Nanos::from_secs(10), true), RATIO_ONE, "capped at 1024");
    }
}
