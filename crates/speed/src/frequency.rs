// SPDX-License-Identifier: GPL-2.0-only
//! Frequency domains (CPUs that share one frequency) and packages (cores that share a turbo budget).

use crate::governor::{Ladder, conservative, ondemand, schedutil, step_below};
use crate::processor::{Processor, Signal};
use crate::rate::Rate;
use ids::{CpuId, Nanos};
use machine_model::{Frequency, Governor};
use std::cmp::Reverse;

/// Timer of the processor model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// The requested frequency of this domain takes effect.
    Switch(u32),
    /// The governor samples this domain.
    Sample(u32),
    /// The hardware counts the active cores of this package.
    Turbo(u32),
}

/// Frequencies of the machine and their governor.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    pub ladder: Ladder,
    turbo: Vec<u32>,
    turbo_period: Nanos,
    governor: Governor,
    sampling: Nanos,
    transition: Nanos,
    memory_bound_percent: u64,
}

impl Frequencies {
    pub fn new(frequency: &Frequency) -> Frequencies {
        let turbo: Vec<u32> = frequency.turbo_mhz.iter().map(|mhz| mhz.typical as u32).collect();
        Frequencies {
            ladder: Ladder::new(&frequency.mhz, turbo.first().copied()),
            turbo,
            turbo_period: Nanos::from_us(frequency.turbo_us),
            governor: frequency.governor,
            sampling: Nanos::from_us(frequency.sampling_us),
            transition: Nanos::from_us(frequency.transition_us),
            memory_bound_percent: frequency.memory_bound_percent.typical,
        }
    }

    /// Execution rate at frequency f: 1 / ((1 - m) * highest / f + m), where m is the share of execution time that
    /// waits for memory.
    pub fn rate(&self, mhz: u32) -> Rate {
        let (mhz, highest, waits) = (u64::from(mhz), u64::from(self.ladder.highest()), self.memory_bound_percent);
        Rate::ratio(100 * mhz, (100 - waits) * highest + waits * mhz)
    }

    /// Frequency of a CPU at this step of the ladder while `active` cores of its package are active.
    fn mhz(&self, step: usize, active: u32) -> u32 {
        match self.turbo.last() {
            Some(&last) if step == self.ladder.top() => {
                self.turbo.get(active.saturating_sub(1) as usize).copied().unwrap_or(last)
            }
            _ => self.ladder.mhz(step),
        }
    }

    /// Whether the frequency depends on the number of active cores.
    fn has_turbo(&self) -> bool {
        self.turbo.first() != self.turbo.last()
    }
}

/// CPUs that share one frequency.
#[derive(Clone, Default, Debug)]
pub(crate) struct Domain {
    pub cpus: Vec<u32>,
    step: usize,
    /// Frequency last requested by `conservative`, in MHz.
    asked: u32,
    /// Pending frequency change: time at which it takes effect, and step of the ladder.
    switch: Option<(Nanos, usize)>,
    /// Time of the governor's next sample.
    next: Nanos,
    /// A timer is set for `next`.
    armed: bool,
    /// Time before which `schedutil` makes no further choice (its rate limit).
    limited: Nanos,
    /// Begin of the current sample, and the busy time of each CPU at that time.
    sampled: Nanos,
    used: Vec<Nanos>,
}

/// Cores that share a turbo budget.
#[derive(Clone, Default, Debug)]
pub(crate) struct Package {
    pub cores: Vec<u32>,
    /// Number of active cores when the hardware last counted them.
    active: u32,
    look: Option<Nanos>,
}

impl Processor {
    /// Current frequency of a CPU in MHz.
    pub(crate) fn mhz(&self, cpu: u32) -> u32 {
        let Some(frequencies) = &self.frequencies else { return 1 };
        let cpu = &self.cpus[cpu as usize];
        let package = self.cores[cpu.core as usize].package;
        frequencies.mhz(self.domains[cpu.domain as usize].step, self.packages[package as usize].active)
    }

    /// Sets the initial frequency of each domain: the lowest one, or the governor's constant choice.
    pub(crate) fn choose_first(&mut self) {
        let Some(frequencies) = &self.frequencies else { return };
        let top = frequencies.ladder.top();
        let at_top = match frequencies.governor {
            Governor::Performance => true,
            Governor::Schedutil => self.signal == Signal::Targets,
            Governor::Ondemand | Governor::Conservative => false,
        };
        for domain in &mut self.domains {
            domain.step = if at_top { top } else { 0 };
            domain.asked = frequencies.ladder.mhz(domain.step);
            domain.used = vec![Nanos::ZERO; domain.cpus.len()];
        }
    }

    /// Time at which [`Processor::run_due`] must be called.
    pub fn next_due(&mut self) -> Option<Nanos> {
        while let Some(&Reverse((due, timer))) = self.timers.peek() {
            if self.is_set(due, timer) {
                return Some(due);
            }
            self.timers.pop();
        }
        None
    }

    /// Handles all timers that expire at or before `now`.
    pub fn run_due(&mut self, now: Nanos) {
        while self.next_due().is_some_and(|due| due <= now) {
            let Some(Reverse((_, timer))) = self.timers.pop() else { break };
            match timer {
                Timer::Switch(domain) => self.switch(now, domain),
                Timer::Sample(domain) => self.sample(now, domain),
                Timer::Turbo(package) => self.count_active(now, package),
            }
        }
    }

    /// Whether a popped timer is current: a timer that was set to another time stays in the heap and is ignored.
    fn is_set(&self, due: Nanos, timer: Timer) -> bool {
        match timer {
            Timer::Switch(domain) => self.domains[domain as usize].switch.is_some_and(|(time, _)| time == due),
            Timer::Sample(domain) => {
                let domain = &self.domains[domain as usize];
                domain.armed && domain.next == due
            }
            Timer::Turbo(package) => self.packages[package as usize].look == Some(due),
        }
    }

    /// Sets the performance target of a CPU, from 0 to 1024, as a sched_ext scheduler does with
    /// `scx_bpf_cpuperf_set`.
    pub fn set_target(&mut self, now: Nanos, cpu: CpuId, target: u32) {
        let entry = &mut self.cpus[cpu.index()];
        entry.target = target.min(1024);
        let domain = entry.domain;
        self.schedutil_event(now, domain);
    }

    /// Handles a CPU of the domain becoming busy or idle.
    pub(crate) fn domain_event(&mut self, now: Nanos, domain: u32) {
        let Some(frequencies) = &self.frequencies else { return };
        match frequencies.governor {
            Governor::Performance => {}
            Governor::Ondemand | Governor::Conservative => self.arm(now, domain),
            Governor::Schedutil if self.signal == Signal::Utilization => self.schedutil_event(now, domain),
            Governor::Schedutil => {}
        }
    }

    /// Sets the sampling timer while a CPU of the domain is busy. The timer is deferrable: it does not wake an idle
    /// CPU, and expires late in that case.
    fn arm(&mut self, now: Nanos, domain: u32) {
        if self.is_busy(domain) && !self.domains[domain as usize].armed {
            self.arm_at(self.domains[domain as usize].next.max(now), domain);
        }
    }

    /// Schedules the governor's next sample at `time`, or keeps an earlier one.
    fn arm_at(&mut self, time: Nanos, domain: u32) {
        let entry = &mut self.domains[domain as usize];
        if !entry.armed || time < entry.next {
            (entry.armed, entry.next) = (true, time);
            self.timers.push(Reverse((time, Timer::Sample(domain))));
        }
    }

    fn is_busy(&self, domain: u32) -> bool {
        self.domains[domain as usize].cpus.iter().any(|&cpu| self.cpus[cpu as usize].busy)
    }

    /// Runs the governor on a domain.
    fn sample(&mut self, now: Nanos, domain: u32) {
        self.domains[domain as usize].armed = false;
        let governor = self.frequencies.as_ref().expect("a timer implies frequencies").governor;
        if governor == Governor::Schedutil {
            return self.schedutil_event(now, domain);
        }
        if !self.is_busy(domain) {
            return;
        }
        let load = self.load(now, domain);
        let frequencies = self.frequencies.as_ref().expect("a timer implies frequencies");
        let entry = &mut self.domains[domain as usize];
        let ladder = &frequencies.ladder;
        entry.next = now + frequencies.sampling;
        let step = if governor == Governor::Ondemand {
            ondemand(ladder, entry.step, load)
        } else {
            entry.asked = conservative(ladder, entry.asked, load);
            step_below(ladder, entry.asked)
        };
        self.ask(now, domain, step);
        self.arm(now, domain);
    }

    /// Load of the busiest CPU since the last sample, in percent.
    fn load(&mut self, now: Nanos, domain: u32) -> u64 {
        for index in 0..self.domains[domain as usize].cpus.len() {
            self.accrue(now, self.domains[domain as usize].cpus[index]);
        }
        let entry = &mut self.domains[domain as usize];
        let wall = now - std::mem::replace(&mut entry.sampled, now);
        let mut load = 0;
        for (&cpu, used) in entry.cpus.iter().zip(&mut entry.used) {
            let total = self.cpus[cpu as usize].busy_time;
            let busy = total - std::mem::replace(used, total);
            load = load.max((busy.0 * 100).checked_div(wall.0).unwrap_or(0));
        }
        load
    }

    /// Runs `schedutil`, which the kernel calls at wakeups, when a CPU becomes idle, at ticks, and when a target
    /// changes.
    fn schedutil_event(&mut self, now: Nanos, domain: u32) {
        let Some(frequencies) = self.frequencies.as_ref().filter(|f| f.governor == Governor::Schedutil) else { return };
        let (sampling, tick) = (frequencies.sampling, self.tick);
        let utilization = self.signal == Signal::Utilization;
        let entry = &self.domains[domain as usize];
        if now < entry.limited {
            return self.arm_at(entry.limited, domain);
        }
        for index in 0..entry.cpus.len() {
            self.accrue(now, self.domains[domain as usize].cpus[index]);
        }
        let entry = &self.domains[domain as usize];
        let (cpus, alone) = (&self.cpus, entry.cpus.len() == 1);
        let used = |cpu: &u32| match utilization {
            true => cpus[*cpu as usize].utilization.of_1024(),
            false => cpus[*cpu as usize].target,
        };
        let wanted = entry.cpus.iter().map(used).max().unwrap_or(0);
        let ladder = &self.frequencies.as_ref().expect("the governor is set").ladder;
        let mut step = schedutil(ladder, wanted);
        let now_step = entry.switch.map_or(entry.step, |(_, step)| step);
        // The frequency is not lowered if the CPU has not been idle since the last choice (`sugov_hold_freq`); this
        // does not apply to sched_ext.
        if utilization && alone && step < now_step && !self.cpus[entry.cpus[0] as usize].idled {
            step = now_step;
        }
        let top = ladder.top();
        for index in 0..self.domains[domain as usize].cpus.len() {
            let cpu = self.domains[domain as usize].cpus[index];
            self.cpus[cpu as usize].idled = false;
        }
        if step != now_step {
            self.domains[domain as usize].limited = now + sampling;
            self.ask(now, domain, step);
        }
        // The utilization of a busy CPU only grows, so at the highest step there is nothing to choose.
        if utilization && step < top && self.is_busy(domain) {
            self.arm_at(now + tick, domain);
        }
    }

    /// Requests the frequency that the governor chose.
    fn ask(&mut self, now: Nanos, domain: u32, step: usize) {
        let transition = self.frequencies.as_ref().expect("the governor is set").transition;
        let entry = &mut self.domains[domain as usize];
        if entry.switch.map_or(entry.step, |(_, step)| step) == step {
            return;
        }
        entry.switch = Some((now + transition, step));
        if transition == Nanos::ZERO {
            self.switch(now, domain);
        } else {
            self.timers.push(Reverse((now + transition, Timer::Switch(domain))));
        }
    }

    /// Makes the requested frequency effective.
    fn switch(&mut self, now: Nanos, domain: u32) {
        let (_, step) = self.domains[domain as usize].switch.take().expect("a switch was requested");
        for index in 0..self.domains[domain as usize].cpus.len() {
            self.before_change(now, self.domains[domain as usize].cpus[index]);
        }
        self.domains[domain as usize].step = step;
    }

    /// Accounts a CPU's time and energy at the current frequency, which is about to change.
    fn before_change(&mut self, now: Nanos, cpu: u32) {
        self.accrue(now, cpu);
        self.settle_energy(now, self.cpus[cpu as usize].core);
        if self.cpus[cpu as usize].busy {
            self.changed.push(CpuId(cpu));
        }
    }

    /// Schedules a count of the active cores after a core of the package became busy or idle.
    pub(crate) fn look_at_turbo(&mut self, now: Nanos, package: u32) {
        let Some(frequencies) = self.frequencies.as_ref().filter(|f| f.has_turbo()) else { return };
        let period = frequencies.turbo_period.0;
        let due = Nanos((now.0 / period + 1) * period);
        let entry = &mut self.packages[package as usize];
        if entry.look.is_none_or(|look| due < look) {
            entry.look = Some(due);
            self.timers.push(Reverse((due, Timer::Turbo(package))));
        }
    }

    /// Counts the active cores of a package, and schedules the next count for the time at which the number changes by
    /// itself.
    fn count_active(&mut self, now: Nanos, package: u32) {
        let entry = &self.packages[package as usize];
        let (mut active, mut again) = (0, None::<Nanos>);
        for &core in &entry.cores {
            let (is_active, until) = self.is_active(now, core);
            active += u32::from(is_active);
            again = again.into_iter().chain(until).min();
        }
        let frequencies = self.frequencies.as_ref().expect("the package has turbo states");
        let top = frequencies.ladder.top();
        if frequencies.mhz(top, active) != frequencies.mhz(top, entry.active) {
            for core in 0..entry.cores.len() {
                let core = self.packages[package as usize].cores[core];
                for thread in 0..self.cores[core as usize].cpus.len() {
                    self.before_change(now, self.cores[core as usize].cpus[thread]);
                }
            }
        }
        let entry = &mut self.packages[package as usize];
        (entry.active, entry.look) = (active, None);
        if let Some(again) = again {
            self.look_at_turbo(again.max(now), package);
        }
    }
}
