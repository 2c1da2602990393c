// SPDX-License-Identifier: GPL-2.0-only
//! What the schedule of recorded tasks costs on this machine, measured just before a recording.
//!
//! Some threads switch, wake each other and compute, without the recorder's programs and followed by them like the tasks that
//! come after. The programs measure their own time, then and later ([`crate::own_time`]); what they add to that is found
//! here. It takes less than half a second, beside the loading of the programs.

use crate::LiveError;
use crate::event::{Kind, Scheduled, Slept};
use crate::hardware::Quantiles;
use crate::hardware::handover::{self, Fastest, OnOneCpu};
use crate::kernel;
use crate::overhead::Overheads;
use crate::own_time::{OwnTimes, Runs};
use crate::probes::{Inbox, PERIOD, ProbeSet, Probes, Roots, receive};
use crate::wire;
use ids::{CpuId, CpuSet, Nanos};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use workload::{Cost, Costs};

/// Hand-overs between two CPUs of each kind that are timed.
const FAR_HANDOVERS: u32 = 100;

/// What one of each costs, in nanoseconds of CPU time, over many of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Calibration {
    /// Getting a CPU from another task, without the recorder's programs.
    switch: Quantiles,
    /// Waking another task, and falling asleep before that, also without them.
    wake: Quantiles,
    /// Sending an interrupt to another CPU. `None` if this process may use one CPU only, or nothing was ever sent.
    interrupt: Option<Quantiles>,
    /// The same to a CPU that is halted (`idle.bpf.h`).
    interrupt_to_halted: Option<Quantiles>,
    /// A tick, or another interrupt that a task cannot help.
    tick: Quantiles,
    /// How many of these there are in a second.
    ticks_a_second: f64,
    /// What the recorder's programs add to a switch, a wakeup, and a write or read, beyond the time that they know of: they have
    /// to be called.
    calling: ByEffect,
    /// How long they know themselves to take where nothing else is done.
    running: ByEffect,
}

/// For each that has a program.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ByEffect {
    switch: f64,
    wake: f64,
    pass: f64,
}

/// The least of what several visits found, as for [`Fastest`].
struct Least(f64);

impl Least {
    fn visit(&mut self, found: Option<f64>) {
        self.0 = found.map_or(self.0, |found| self.0.min(found));
    }

    /// 0 if nothing was ever found.
    fn get(&self) -> f64 {
        if self.0.is_finite() { self.0 } else { 0.0 }
    }
}

impl Calibration {
    /// Measures with these programs, which are loaded for it and unloaded again.
    ///
    /// # Errors
    /// If they cannot be loaded.
    pub fn measure(set: &ProbeSet, cpus: &CpuSet) -> Result<Calibration, LiveError> {
        let usable = crate::hardware::usable().map_err(LiveError::file("the affinity of this process"))?;
        let here = usable.first().unwrap_or(CpuId(0));
        let pass = |fastest: &mut Fastest| -> Result<(), LiveError> {
            fastest.visit(handover::pass(here).map_err(LiveError::file("a pipe"))?);
            Ok(())
        };
        let (mut without, mut pass_without) = (OnOneCpu::default(), Fastest::default());
        let (mut with, mut pass_with) = (OnOneCpu::default(), Fastest::default());
        let mut unseen = || {
            without.visit(here);
            pass(&mut pass_without)
        };
        unseen()?;
        let probes = Probes::load(set, cpus, Roots::ChildrenOf(kernel::thread_id()?))?;
        unseen()?;
        let links = probes.attach()?;
        let inbox = Rc::default();
        let ring = probes.listen(&inbox)?;
        // What the programs take in a switch by itself, in a hand-over, and in a write or read.
        let [mut in_switch, mut in_handover, mut in_wake, mut in_pass] = [const { Least(f64::INFINITY) }; 4];
        let mut seen = || -> Result<(), LiveError> {
            let begun = probes.own_times()?;
            with.visit_switches(here);
            let switched = probes.own_times()?;
            in_switch.visit((switched - begun).switch.mean_ns());
            with.visit_handovers(here);
            let handed_over = probes.own_times()?;
            in_handover.visit((handed_over - switched).switch.mean_ns());
            in_wake.visit((handed_over - switched).wake.mean_ns());
            pass(&mut pass_with)?;
            in_pass.visit((probes.own_times()? - handed_over).pass.mean_ns());
            // So that no event is lost.
            receive(&ring, Duration::ZERO)
        };
        seen()?;
        let (tick, ticks_a_second) = handover::ticks(here);
        seen()?;
        // Those between two CPUs, each after so much work, and how many interrupts that count went with each.
        let far = |work: Duration, count: fn(Scheduled) -> u32| -> Result<_, LiveError> {
            let Some(there) = usable.iter().nth(1) else { return Ok(None) };
            receive(&ring, PERIOD)?;
            scheduled(&inbox)?;
            let far = handover::handover(here, there, FAR_HANDOVERS, work);
            receive(&ring, PERIOD)?;
            let sent: u32 = scheduled(&inbox)?.into_iter().map(count).sum();
            let sent = f64::from(sent) / f64::from(2 * FAR_HANDOVERS);
            // Where hardly any was sent, another CPU is woken without.
            Ok((sent >= 0.5).then_some((far, sent)))
        };
        let awake = far(handover::CLOSE, |scheduled| scheduled.interrupts - scheduled.interrupts_to_halted)?;
        seen()?;
        let halted = far(handover::APART, |scheduled| scheduled.interrupts_to_halted)?;
        seen()?;
        drop(links);
        unseen()?;
        let own = with.switch().median + with.wake().median;
        let beyond = |(far, sent): (Quantiles, f64)| far.less(own).divided(sent);
        let more = |with: Quantiles, without: Quantiles| with.median - without.median;
        let calling_switch = more(with.switch(), without.switch()) - in_switch.get();
        Ok(Calibration {
            switch: without.switch(),
            wake: without.wake(),
            interrupt: awake.map(beyond),
            interrupt_to_halted: halted.map(beyond),
            tick,
            ticks_a_second,
            calling: ByEffect {
                switch: calling_switch,
                // A switch that a sleep goes before takes its program longer; that is among what a wakeup adds here.
                wake: more(with.wake(), without.wake()) - in_wake.get() - (in_handover.get() - in_switch.get()),
                pass: more(pass_with.get(), pass_without.get()) - in_pass.get(),
            },
            running: ByEffect { switch: in_handover.get(), wake: in_wake.get(), pass: in_pass.get() },
        })
    }

    /// What the programs take of who switches, wakes, writes or reads, where they run as they did while `own` was counted.
    fn programs(&self, own: &OwnTimes) -> ByEffect {
        let sum = |calling: f64, running: f64, runs: Runs| (calling + runs.mean_ns().unwrap_or(running)).max(0.0);
        let (calling, running) = (self.calling, self.running);
        ByEffect {
            switch: sum(calling.switch, running.switch, own.switch),
            wake: sum(calling.wake, running.wake, own.wake),
            pass: sum(calling.pass, running.pass, own.pass),
        }
    }

    /// What it took to call the programs, in nanoseconds: a call takes as long as that of a switch where it is not known apart.
    pub fn calling_ns(&self, own: &OwnTimes) -> f64 {
        let of = |runs: Runs, calling: f64| runs.runs as f64 * calling.max(0.0);
        let ByEffect { switch, wake, pass } = self.calling;
        of(own.switch, switch) + of(own.wake, wake) + of(own.pass, pass) + of(own.other, switch)
    }

    /// As a recording keeps them.
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

    /// What is typical.
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

/// What each task in these events had done when it was heard of last.
fn scheduled(inbox: &RefCell<Inbox>) -> Result<Vec<Scheduled>, LiveError> {
    let mut last = BTreeMap::new();
    inbox.borrow_mut().drain(|raw| {
        let event = wire::parse(raw).map_err(LiveError::Malformed)?;
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

    /// Timed 100 times, as long as this.
    fn runs(runs: u64, mean_ns: u64) -> Runs {
        Runs { runs, timed: 100, ns: 100 * mean_ns }
    }

    #[test]
    fn programs_take_what_they_found_to_take_while_they_recorded() {
        let own = OwnTimes { switch: runs(1_700, 300), pass: runs(1_700, 90), ..OwnTimes::default() };
        let overheads = calibration().overheads(&own);
        assert_eq!((overheads.switch_ns, overheads.pass_ns), (400 + 30 + 300, 50 + 90));
        // No wakeup was timed: what calibration found counts, but a program never makes anything quicker.
        assert_eq!(overheads.wake_ns, 500);
        assert_eq!((overheads.interrupt_ns, overheads.interrupt_to_halted_ns), (9_000, 9_000));
        assert_eq!(overheads.tick_ns_in_s, 200_000);
        let costs = calibration().costs(&own);
        let cost = |low, typical, high| Cost { low: Nanos(low), typical: Nanos(typical), high: Nanos(high) };
        assert_eq!(costs.switch, Some(cost(720, 730, 740)));
        assert_eq!((costs.wake, costs.pass), (Some(cost(490, 500, 510)), Some(cost(140, 140, 140))));
    }

    #[test]
    fn calls_that_nobody_pays_for_take_time_as_well() {
        let own = OwnTimes { switch: runs(10, 0), wake: runs(10, 0), pass: runs(10, 0), other: runs(100, 0) };
        assert_eq!(calibration().calling_ns(&own), 10.0 * 30.0 + 10.0 * 50.0 + 100.0 * 30.0);
    }

    #[test]
    fn the_least_of_nothing_is_nothing() {
        let mut least = Least(f64::INFINITY);
        least.visit(None);
        assert_eq!(least.get(), 0.0);
        for found in [Some(5.0), None, Some(3.0), Some(4.0)] {
            least.visit(found);
        }
        assert_eq!(least.get(), 3.0);
    }
}
