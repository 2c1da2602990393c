// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of a run: loaded, loaded again when the kernel asks for that, unloaded.

use crate::select::{Loadable, Scheduler};
use anyhow::Result;
use ids::Nanos;
use kernel_link::scheduler::{Attached, Host, KernelExit, Request, load};
use report::Called;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A scheduler in the kernel.
pub struct Loaded<'a> {
    name: &'a str,
    loadable: &'a Loadable,
    attached: Attached,
    /// What was counted before it was loaded again.
    before: Counts,
    restarts: u64,
    /// Why it was ejected, once that was seen.
    ejected: Option<KernelExit>,
    /// When the run began.
    begun: Option<Instant>,
    /// The first of the planned calls, made.
    made: Vec<Called>,
}

/// How its time in the kernel ended.
pub struct Ended {
    /// How often it was loaded again.
    pub restarts: u64,
    /// Why it is gone.
    pub exit: KernelExit,
    /// That was not its user's wish, nor for a CPU that came or went.
    pub was_ejected: bool,
    /// What came of the planned calls of its programs.
    pub calls: Vec<Called>,
}

impl Ended {
    /// Why it was ejected, if it was.
    pub fn ejection(self) -> Option<KernelExit> {
        self.was_ejected.then_some(self.exit)
    }
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

fn attach(name: &str, loadable: &Loadable) -> Result<Attached> {
    let host = Host::read()?;
    let Loadable { bytes, profile, .. } = loadable;
    Ok(load(&Request { name, object: bytes, profile, host: &host, measure: true })?)
}

impl<'a> Loaded<'a> {
    /// Loads it, unless it is the kernel's own.
    pub fn load(Scheduler { name, loadable }: &'a Scheduler) -> Result<Option<Loaded<'a>>> {
        let Some(loadable) = loadable else { return Ok(None) };
        let attached = attach(name, loadable)?;
        for note in attached.notes() {
            eprintln!("weir: {name}: {note}");
        }
        let (before, restarts, ejected, begun, made) = (Counts::default(), 0, None, None, Vec::new());
        Ok(Some(Loaded { name, loadable, attached, before, restarts, ejected, begun, made }))
    }

    /// As it was asked for.
    pub fn name(&self) -> &str {
        self.name
    }

    /// As it calls itself.
    pub fn own_name(&self) -> &str {
        self.attached.name()
    }

    /// Why it was ejected, if it was. When a CPU came or went and the kernel wants it back, it is loaded again.
    pub fn ejected(&mut self) -> Result<Option<KernelExit>> {
        if self.ejected.is_none()
            && let Some(exit) = self.attached.exited()?
        {
            self.ejected = if exit.wants_restart() { self.load_again(exit)? } else { Some(exit) };
        }
        Ok(self.ejected.clone())
    }

    /// The run begins: times of planned calls count from now.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// How long it is until the next planned call, if there is one.
    pub fn until_call(&self) -> Option<Duration> {
        let next = self.attached.planned().get(self.made.len())?;
        Some(Duration::from_nanos(next.at.0).saturating_sub(self.begun?.elapsed()))
    }

    /// Makes the planned calls that are due. A scheduler that was loaded again gets those that are left.
    pub fn make_calls(&mut self) -> Result<()> {
        while self.until_call().is_some_and(|time| time.is_zero()) {
            let number = self.made.len();
            let made_ns = self.begun.map(|begun| begun.elapsed().as_nanos() as u64);
            let returned = Some(self.attached.call(number)?);
            self.made.push(Called { call: self.attached.planned()[number].name.clone(), made_ns, returned });
        }
        Ok(())
    }

    /// The planned calls that were made.
    pub fn made_calls(&self) -> &[Called] {
        &self.made
    }

    /// Loads it again. That this cannot be done makes an ejection of its end.
    fn load_again(&mut self, mut exit: KernelExit) -> Result<Option<KernelExit>> {
        let why = if exit.by_hotplug() { "a CPU came or went" } else { "it asks for that" };
        eprintln!("weir: {}: loading it again, because {why}", self.name());
        self.before = self.counts()?;
        // The old link goes first: when it is closed, a kernel of 6.16 ends whatever scheduler is there by then.
        self.attached.unload()?;
        match attach(self.name, self.loadable) {
            Ok(attached) => {
                self.attached = attached;
                self.restarts += 1;
                Ok(None)
            }
            Err(error) => {
                let before = if exit.message.is_empty() { "" } else { "; " };
                exit.message.push_str(&format!("{before}it cannot be loaded again: {error:#}"));
                Ok(Some(exit))
            }
        }
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

    /// Unloads it, and says why it ended. Whoever is first gives the reason: a scheduler that the kernel began to eject
    /// before was ejected, although nobody could see that until it was gone.
    pub fn end(self) -> Result<Ended> {
        let not_made = self.attached.planned().get(self.made.len()..).unwrap_or_default().iter();
        let not_made = not_made.map(|step| Called { call: step.name.clone(), made_ns: None, returned: None });
        let calls = self.made.into_iter().chain(not_made).collect();
        let exit = self.attached.detach()?;
        let was_ejected = self.ejected.is_some() || exit.is_ejection();
        Ok(Ended { restarts: self.restarts, exit: self.ejected.unwrap_or(exit), was_ejected, calls })
    }
}

/// Tells the kernel's words on why a scheduler is gone, and its dump, on standard error.
pub fn tell_exit(name: &str, exit: &KernelExit) {
    eprintln!("weir: EJECTED {name}: {} (kind {}, code {:#x})", exit.reason, exit.kind, exit.code);
    for line in exit.message.lines() {
        eprintln!("  {line}");
    }
    for line in exit.dump.trim_end().lines() {
        eprintln!("{}", report::escape(line));
    }
}
