// SPDX-License-Identifier: GPL-2.0-only
//! What the schedule of recorded tasks costs on this machine, measured just before a recording.
//!
//! Some threads switch, wake each other and compute, followed by the recorder's programs like the tasks that come after
//! them; so these programs' own time is in the numbers. It takes less than half a second.

use crate::LiveError;
use crate::event::{Kind, Scheduled, Slept};
use crate::hardware::{Quantiles, handover};
use crate::kernel;
use crate::overhead::Overheads;
use crate::probes::{Inbox, PERIOD, ProbeSet, Probes, Roots, receive};
use crate::wire;
use ids::{CpuId, CpuSet, Nanos};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use workload::{Cost, Costs};

/// Hand-overs of each kind that are timed.
const HANDOVERS: u32 = 400;

const FAR_HANDOVERS: u32 = 100;

/// What one of each costs, in nanoseconds of CPU time, over many of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Getting a CPU from another task.
    pub switch: Quantiles,
    /// Waking another task, and falling asleep before that.
    pub wake: Quantiles,
    /// Sending an interrupt to another CPU. `None` if this process may use one CPU only, or nothing was ever sent.
    pub interrupt: Option<Quantiles>,
    /// The same to a CPU that is halted (`idle.bpf.h`).
    pub interrupt_to_halted: Option<Quantiles>,
    /// Being seen to write bytes to a pipe or socket, or to read some.
    pub pass: Quantiles,
    /// A tick, or another interrupt that a task cannot help.
    pub tick: Quantiles,
    /// How many of these there are in a second.
    pub ticks_a_second: f64,
}

impl Calibration {
    /// Measures with these programs, which are loaded for it and unloaded again.
    ///
    /// # Errors
    /// If they cannot be loaded.
    pub(crate) fn measure(set: &ProbeSet, cpus: &CpuSet) -> Result<Calibration, LiveError> {
        let usable = crate::hardware::usable().map_err(LiveError::file("the affinity of this process"))?;
        let here = usable.first().unwrap_or(CpuId(0));
        let unseen = handover::pass(here).map_err(LiveError::file("a pipe"))?;
        let probes = Probes::load(set, cpus, Roots::ChildrenOf(kernel::thread_id()?))?;
        let _links = probes.attach()?;
        let inbox = Rc::default();
        let ring = probes.listen(&inbox)?;
        let switch = handover::switch(here);
        let near = handover::handover(here, here, HANDOVERS, Duration::ZERO);
        let wake = near.less(switch.median);
        // Those between two CPUs, each after so much work, and which interrupts count.
        let far = |work: Duration, count: fn(Scheduled) -> u32| -> Result<_, LiveError> {
            let Some(there) = usable.iter().nth(1) else { return Ok(None) };
            receive(&ring, PERIOD)?;
            scheduled(&inbox)?;
            let far = handover::handover(here, there, FAR_HANDOVERS, work);
            receive(&ring, PERIOD)?;
            let sent: u32 = scheduled(&inbox)?.into_iter().map(count).sum();
            let sent = f64::from(sent) / f64::from(2 * FAR_HANDOVERS);
            // Where hardly any was sent, another CPU is woken without.
            Ok((sent >= 0.5).then(|| far.less(near.median).divided(sent)))
        };
        let awake = |scheduled: Scheduled| scheduled.interrupts - scheduled.interrupts_to_halted;
        let interrupt = far(handover::CLOSE, awake)?;
        let interrupt_to_halted = far(handover::APART, |scheduled| scheduled.interrupts_to_halted)?;
        let pass = handover::pass(here).map_err(LiveError::file("a pipe"))?.less(unseen.median);
        let (tick, ticks_a_second) = handover::ticks(here);
        Ok(Calibration { switch, wake, interrupt, interrupt_to_halted, pass, tick, ticks_a_second })
    }

    /// As a recording keeps them.
    pub fn costs(&self) -> Costs {
        let cost = |Quantiles { p10, median, p90 }: Quantiles| {
            let [low, typical, high] = [p10, median, p90].map(|ns| Nanos(ns as u64));
            Cost { low, typical, high }
        };
        Costs {
            switch: Some(cost(self.switch)),
            wake: Some(cost(self.wake)),
            interrupt: self.interrupt.map(cost),
            interrupt_to_halted: self.interrupt_to_halted.map(cost),
            pass: Some(cost(self.pass)),
            ticks: Some(cost(self.tick.divided(1.0 / self.ticks_a_second.max(1e-9)))),
            probe: None,
        }
    }

    /// What is typical.
    pub(crate) fn overheads(&self) -> Overheads {
        Overheads {
            switch_ns: self.switch.median as u64,
            wake_ns: self.wake.median as u64,
            interrupt_ns: median_or_0(self.interrupt.or(self.interrupt_to_halted)),
            interrupt_to_halted_ns: median_or_0(self.interrupt_to_halted.or(self.interrupt)),
            pass_ns: self.pass.median as u64,
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
