// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of a run: loaded, loaded again when the kernel asks for that, unloaded.

use crate::select::Scheduler;
use anyhow::Result;
use ids::Nanos;
use live::scheduler::{Attached, Host, KernelExit, Request, load};
use std::collections::BTreeMap;

/// A scheduler in the kernel.
pub struct Loaded<'a> {
    scheduler: &'a Scheduler,
    attached: Attached,
    /// What was counted before it was loaded again.
    before: Counts,
    restarts: u64,
}

/// What a scheduler did so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Time in its programs.
    pub run_time: Nanos,
    /// The kernel's event counters (`SCX_EV_*`), from 6.15 on.
    pub events: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.run_time += other.run_time;
        for (name, count) in &other.events {
            *self.events.entry(name.clone()).or_default() += count;
        }
    }

    /// What was counted since `earlier`; of the events only those that happened.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let new = |(name, count): (&String, &u64)| {
            let more = count.saturating_sub(earlier.events.get(name).copied().unwrap_or(0));
            (more > 0).then(|| (name.clone(), more))
        };
        Counts { run_time: self.run_time.since(earlier.run_time), events: self.events.iter().filter_map(new).collect() }
    }
}

fn attach(scheduler: &Scheduler) -> Result<Attached> {
    let host = Host::read()?;
    let request = Request {
        name: &scheduler.name,
        object: &scheduler.bytes,
        profile: &scheduler.profile,
        host: &host,
        measure: true,
    };
    Ok(load(&request)?)
}

impl<'a> Loaded<'a> {
    /// Loads it.
    pub fn load(scheduler: &'a Scheduler) -> Result<Loaded<'a>> {
        let attached = attach(scheduler)?;
        for note in attached.notes() {
            eprintln!("weir: {}: {note}", scheduler.name);
        }
        Ok(Loaded { scheduler, attached, before: Counts::default(), restarts: 0 })
    }

    /// As it was asked for.
    pub fn name(&self) -> &str {
        &self.scheduler.name
    }

    /// As it calls itself.
    pub fn own_name(&self) -> &str {
        self.attached.name()
    }

    /// How often it was loaded again.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Why it was ejected, if it was. When a CPU came or went and the kernel wants it back, it is loaded again.
    pub fn ejected(&mut self) -> Result<Option<KernelExit>> {
        let Some(exit) = self.attached.exited()? else { return Ok(None) };
        if !exit.wants_restart() {
            return Ok(Some(exit));
        }
        let why = if exit.by_hotplug() { "a CPU came or went" } else { "it asks for that" };
        eprintln!("weir: {}: loading it again, because {why}", self.name());
        self.before = self.counts()?;
        // The old link goes first: when it is closed, a kernel of 6.16 ends whatever scheduler is there by then.
        self.attached.unload()?;
        self.attached = attach(self.scheduler)?;
        self.restarts += 1;
        Ok(None)
    }

    /// What it did so far.
    pub fn counts(&self) -> Result<Counts> {
        let statistics = self.attached.statistics()?;
        let mut counts = Counts {
            run_time: Nanos(statistics.ops.iter().map(|op| op.run_time_ns).sum()),
            events: statistics.events.into_iter().collect(),
        };
        counts.add(&self.before);
        Ok(counts)
    }

    /// Unloads it, and says why it ended: that may be another reason, if it came first.
    pub fn unload(self) -> Result<KernelExit> {
        Ok(self.attached.detach()?)
    }
}

/// Tells the kernel's words on why a scheduler is gone, and its dump, on standard error.
pub fn tell_exit(name: &str, exit: &KernelExit) {
    eprintln!("weir: EJECTED {name}: {} (kind {}, code {:#x})", exit.reason, exit.kind, exit.code);
    for line in exit.message.lines() {
        eprintln!("  {line}");
    }
    tell_dump(exit);
}

/// The dump alone.
pub fn tell_dump(exit: &KernelExit) {
    if !exit.dump.is_empty() {
        eprintln!("{}", exit.dump.trim_end());
    }
}
