// SPDX-License-Identifier: GPL-2.0-only
//! Costs of scheduling operations on this machine, measured just before a recording.
//!
//! Some threads switch, wake each other and compute, first without the recorder's programs and then traced by them
//! like the tasks to be recorded. The programs measure their own run time, then and later ([`crate::own_time`]); the
//! additional cost of calling them is found here. This takes about a second on an idle machine, including the loading
//! of the programs, and a few seconds on a busy one.

use crate::LinkError;
use crate::own_time::{OwnTimes, Runs};
use crate::probes::{Inbox, PERIOD, ProbeSet, Probes, Roots, receive};
use host::hardware::Quantiles;
use host::hardware::handoff::{self, Fastest, OnOneCpu};
use ids::{CpuId, CpuSet, Nanos};
use recording::event::{Kind, Scheduled, Slept};
use recording::overhead::Overheads;
use recording::wire;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use workload::{Cost, Costs};

/// Number of timed handoffs between two CPUs, for each kind.
const FAR_HANDOFFS: u32 = 100;

/// Mean costs of operations, in nanoseconds of CPU time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Calibration {
    /// Context switch, without the recorder's programs.
    switch: Quantiles,
    /// Waking another task and the preceding sleep, without the recorder's programs.
    wake: Quantiles,
    /// IPI to another CPU. `None` if this process may use only one CPU, or no IPI was sent.
    interrupt: Option<Quantiles>,
    /// IPI to a halted CPU (`idle.bpf.h`).
    interrupt_to_halted: Option<Quantiles>,
    /// A tick, or another interrupt of a running task.
    tick: Quantiles,
    /// Number of ticks per second.
    ticks_a_second: f64,
    /// Cost of calling the recorder's programs at a switch, a wakeup, and a write or read, beyond the run time that
    /// they measure themselves.
    calling: ByEffect,
    /// Run time that the programs measure themselves on an otherwise idle machine.
    running: ByEffect,
}

/// A value for each operation that has a program.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ByEffect {
    switch: f64,
    wake: f64,
    pass: f64,
}

/// Minimum over several visits, as in [`Fastest`].
struct Least(f64);

impl Least {
    fn visit(&mut self, found: Option<f64>) {
        self.0 = found.map_or(self.0, |found| self.0.min(found));
    }

    /// The minimum, 0 if there was no visit.
    fn get(&self) -> f64 {
        if self.0.is_finite() { self.0 } else { 0.0 }
    }
}

/// Quantities measured on one CPU, with or without the programs.
#[derive(Default)]
struct Near {
    threads: OnOneCpu,
    pass: Fastest,
}

impl Near {
    fn visit(&mut self, cpu: CpuId) -> Result<(), LinkError> {
        self.threads.visit(cpu);
        self.visit_pass(cpu)
    }

    fn visit_pass(&mut self, cpu: CpuId) -> Result<(), LinkError> {
        self.pass.visit(handoff::pass(cpu).map_err(LinkError::file("a pipe"))?);
        Ok(())
    }
}

/// Run times of the programs: in a plain switch, in a switch of a handoff, and so on.
struct Inside {
    switch: Least,
    handoff: Least,
    wake: Least,
    pass: Least,
}

impl Inside {
    fn new() -> Inside {
        let [switch, handoff, wake, pass] = [const { Least(f64::INFINITY) }; 4];
        Inside { switch, handoff, wake, pass }
    }

    fn visit(&mut self, probes: &Probes, near: &mut Near, cpu: CpuId) -> Result<(), LinkError> {
        let begun = probes.own_times()?;
        near.threads.visit_switches(cpu);
        let switched = probes.own_times()?;
        self.switch.visit((switched - begun).switch.mean_ns());
        near.threads.visit_handoffs(cpu);
        let handed_off = probes.own_times()?;
        self.handoff.visit((handed_off - switched).switch.mean_ns());
        self.wake.visit((handed_off - switched).wake.mean_ns());
        near.visit_pass(cpu)?;
        self.pass.visit((probes.own_times()? - handed_off).pass.mean_ns());
        Ok(())
    }

    /// Additional cost of the programs beyond their own run time.
    fn calling(&self, with: &Near, without: &Near) -> ByEffect {
        let more = |with: Quantiles, without: Quantiles| with.median - without.median;
        // In a switch after a sleep the program does more, which is counted as part of the wakeup.
        let asleep = (self.handoff.get() - self.switch.get()) * with.threads.switches_each_sleep();
        ByEffect {
            switch: more(with.threads.switch(), without.threads.switch()) - self.switch.get(),
            wake: more(with.threads.wake(), without.threads.wake()) - self.wake.get() - asleep,
            pass: more(with.pass.get(), without.pass.get()) - self.pass.get(),
        }
    }

    fn running(&self) -> ByEffect {
        ByEffect { switch: self.handoff.get(), wake: self.wake.get(), pass: self.pass.get() }
    }
}

impl Calibration {
    /// Measures with these programs, which are loaded for it and unloaded again.
    ///
    /// # Errors
    /// If they cannot be loaded.
    pub fn measure(set: &ProbeSet, cpus: &CpuSet) -> Result<Calibration, LinkError> {
        let usable = host::hardware::usable().map_err(LinkError::file("the affinity of this process"))?;
        let here = usable.first().unwrap_or(CpuId(0));
        let (mut with, mut without, mut inside) = (Near::default(), Near::default(), Inside::new());
        without.visit(here)?;
        let probes = Probes::load(set, cpus, Roots::ChildrenOf(host::proc::thread_id()?))?;
        without.visit(here)?;
        let links = probes.attach()?;
        let inbox = Rc::default();
        let ring = probes.listen(&inbox)?;
        let mut visit = || {
            inside.visit(&probes, &mut with, here)?;
            // Read the events now, so that the ring buffer cannot overflow.
            receive(&ring, Duration::ZERO)
        };
        visit()?;
        let (tick, ticks_a_second) = handoff::ticks(here);
        visit()?;
        // Handoffs between two CPUs, each after `work`, and the number of IPIs per handoff.
        let far = |work: Duration, count: fn(Scheduled) -> u32| -> Result<_, LinkError> {
            let Some(there) = usable.iter().nth(1) else { return Ok(None) };
            receive(&ring, PERIOD)?;
            scheduled(&inbox)?;
            let far = handoff::handoff(here, there, FAR_HANDOFFS, work);
            receive(&ring, PERIOD)?;
            let sent: u32 = scheduled(&inbox)?.into_iter().map(count).sum();
            let sent = f64::from(sent) / f64::from(2 * FAR_HANDOFFS);
            // If hardly any IPI was sent, this machine wakes other CPUs without one.
            Ok((sent >= 0.5).then_some((far, sent)))
        };
        let awake = far(handoff::CLOSE, |scheduled| scheduled.interrupts - scheduled.interrupts_to_halted)?;
        visit()?;
        let halted = far(handoff::APART, |scheduled| scheduled.interrupts_to_halted)?;
        visit()?;
        drop(links);
        without.visit(here)?;
        let own = with.threads.switch().median + with.threads.wake().median;
        let beyond = |(far, sent): (Quantiles, f64)| far.less(own).divided(sent);
        Ok(Calibration {
            switch: without.threads.switch(),
            wake: without.threads.wake(),
            interrupt: awake.map(beyond),
            interrupt_to_halted: halted.map(beyond),
            tick,
            ticks_a_second,
            calling: inside.calling(&with, &without),
            running: inside.running(),
        })
    }

    /// Cost of the programs to a task that switches, wakes, writes or reads, given the run times counted in `own`.
    fn programs(&self, own: &OwnTimes) -> ByEffect {
        let sum = |calling: f64, running: f64, runs: Runs| (calling + runs.mean_ns().unwrap_or(running)).max(0.0);
        let (calling, running) = (self.calling, self.running);
        ByEffect {
            switch: sum(calling.switch, running.switch, own.switch),
            wake: sum(calling.wake, running.wake, own.wake),
            pass: sum(calling.pass, running.pass, own.pass),
        }
    }

    /// Time for calling the programs, in nanoseconds. A call counts like that at a switch unless measured separately.
    pub fn calling_ns(&self, own: &OwnTimes) -> f64 {
        let of = |runs: Runs, calling: f64| runs.runs as f64 * calling.max(0.0);
        let ByEffect { switch, wake, pass } = self.calling;
        of(own.switch, switch) + of(own.wake, wake) + of(own.pass, pass) + of(own.other, switch)
    }

    /// Run times of the programs in a switch, a wakeup, and a write or read.
    #[cfg(test)]
    pub fn running_ns(&self) -> [f64; 3] {
        [self.running.switch, self.running.wake, self.running.pass]
    }

    /// Costs in the form stored in recordings.
    pub fn costs(&self, own: &OwnTimes) -> Costs {
        let programs = self.programs(own);
        let cost = |Quantiles { p10, median, p90 }: Quantiles, more: f64| {
            let [low, typical, high] = [p10, median, p90].map(|ns| Nanos((ns + more) as u64));
            Cost { low, typical, high }
        };
        let pass = Quantiles { p10: 0.0, median: 0.0, p90: 0.0 };
        Costs {
            switch: Some(cost(self.switch, programs.switch)),
            wake: Some(cost(self.wake, programs.wake)),
            interrupt: self.interrupt.map(|interrupt| cost(interrupt, 0.0)),
            interrupt_to_halted: self.interrupt_to_halted.map(|interrupt| cost(interrupt, 0.0)),
            pass: Some(cost(pass, programs.pass)),
            ticks: Some(cost(self.tick.divided(1.0 / self.ticks_a_second.max(1e-9)), 0.0)),
            probe: None,
        }
    }

    /// Typical overheads.
    pub fn overheads(&self, own: &OwnTimes) -> Overheads {
        let programs = self.programs(own);
        Overheads {
            switch_ns: (self.switch.median + programs.switch) as u64,
            wake_ns: (self.wake.median + programs.wake) as u64,
            interrupt_ns: median_or_0(self.interrupt.or(self.interrupt_to_halted)),
            interrupt_to_halted_ns: median_or_0(self.interrupt_to_halted.or(self.interrupt)),
            pass_ns: programs.pass as u64,
            tick_ns_in_s: (self.tick.median * self.ticks_a_second) as u64,
        }
    }
}

fn median_or_0(quantiles: Option<Quantiles>) -> u64 {
    quantiles.map_or(0, |quantiles| quantiles.median as u64)
}

/// Last known scheduling counters of each task in these events.
fn scheduled(inbox: &RefCell<Inbox>) -> Result<Vec<Scheduled>, LinkError> {
    let mut last = BTreeMap::new();
    inbox.borrow_mut().drain(|raw| {
        let event = wire::parse(raw).map_err(LinkError::Malformed)?;
        if let Kind::Sleep(Slept { scheduled, .. }) | Kind::End(scheduled) = event.kind {
            last.insert(event.task, scheduled);
        }
        Ok(())
    })?;
    Ok(last.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(median: f64) -> Quantiles {
        Quantiles { p10: median - 10.0, median, p90: median + 10.0 }
    }

    fn calibration() -> Calibration {
        Calibration {
            switch: quantiles(400.0),
            wake: quantiles(500.0),
            interrupt: None,
            interrupt_to_halted: Some(quantiles(9_000.0)),
            tick: quantiles(2_000.0),
            ticks_a_second: 100.0,
            calling: ByEffect { switch: 30.0, wake: -40.0, pass: 50.0 },
            running: ByEffect { switch: 100.0, wake: 20.0, pass: 60.0 },
        }
    }

    /// For tests: 100 timed runs of this mean.
    fn runs(runs: u64, mean_ns: u64) -> Runs {
        Runs { runs, timed: 100, ns: 100 * mean_ns }
    }

    #[test]
    fn program_costs_come_from_run_times_while_recording() {
        let own = OwnTimes { switch: runs(1_700, 300), pass: runs(1_700, 90), ..OwnTimes::default() };
        let overheads = calibration().overheads(&own);
        assert_eq!((overheads.switch_ns, overheads.pass_ns), (400 + 30 + 300, 50 + 90));
        // No program run for a wakeup was timed, so the calibrated cost is used; a program never has a negative cost.
        assert_eq!(overheads.wake_ns, 500);
        assert_eq!((overheads.interrupt_ns, overheads.interrupt_to_halted_ns), (9_000, 9_000));
        assert_eq!(overheads.tick_ns_in_s, 200_000);
        let costs = calibration().costs(&own);
        let cost = |low, typical, high| Cost { low: Nanos(low), typical: Nanos(typical), high: Nanos(high) };
        assert_eq!(costs.switch, Some(cost(720, 730, 740)));
        assert_eq!((costs.wake, costs.pass), (Some(cost(490, 500, 510)), Some(cost(140, 140, 140))));
    }

    #[test]
    fn calls_charged_to_no_task_take_time_too() {
        let own = OwnTimes { switch: runs(10, 0), wake: runs(10, 0), pass: runs(10, 0), other: runs(100, 0) };
        assert_eq!(calibration().calling_ns(&own), 10.0 * 30.0 + 10.0 * 50.0 + 100.0 * 30.0);
    }

    #[test]
    fn calling_cost_is_the_difference_not_measured_by_programs() {
        let near = |costs: [f64; 3]| {
            let [switch, wake, pass] = costs.map(|median| Fastest::of(quantiles(median)));
            Near { threads: OnOneCpu::of(switch, wake, 2.0), pass }
        };
        let inside = Inside { switch: Least(50.0), handoff: Least(70.0), wake: Least(80.0), pass: Least(60.0) };
        let calling = inside.calling(&near([500.0, 700.0, 300.0]), &near([400.0, 500.0, 200.0]));
        // Of the wakeup's 200 ns, 80 are its program and twice 20 the program of its two switches.
        assert_eq!(calling, ByEffect { switch: 50.0, wake: 80.0, pass: 40.0 });
        assert_eq!(inside.running(), ByEffect { switch: 70.0, wake: 80.0, pass: 60.0 });
    }

    #[test]
    fn minimum_without_visits_is_zero() {
        let mut least = Least(f64::INFINITY);
        least.visit(None);
        assert_eq!(least.get(), 0.0);
        for found in [Some(5.0), None, Some(3.0), Some(4.0)] {
            least.visit(found);
        }
        assert_eq!(least.get(), 3.0);
    }
}
