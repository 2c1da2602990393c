// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of a run: loads it, reloads it when the kernel asks for a restart, unloads it.

use crate::output;
use crate::select::{Loadable, Scheduler};
use anyhow::Result;
use ids::Nanos;
use kernel_link::scheduler::{Attached, Host, KernelExit, Request, load};
use report::Called;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A scheduler loaded into the kernel.
pub struct Loaded<'a> {
    name: &'a str,
    loadable: &'a Loadable,
    attached: Attached,
    /// Counts of earlier loads, before restarts.
    before: Counts,
    restarts: u64,
    /// Exit that ejected it, once observed.
    ejected: Option<KernelExit>,
    /// Start time of the run.
    begun: Option<Instant>,
    /// Planned calls made so far, in plan order.
    made: Vec<Called>,
}

/// Summary of a scheduler that has been unloaded.
pub struct Ended {
    /// Number of restarts.
    pub restarts: u64,
    /// Final exit.
    pub exit: KernelExit,
    /// Whether the exit was neither requested by the user nor a restart after CPU hotplug.
    pub was_ejected: bool,
    /// Results of the planned calls.
    pub calls: Vec<Called>,
}

impl Ended {
    /// The exit, if it was an ejection.
    pub fn ejection(self) -> Option<KernelExit> {
        self.was_ejected.then_some(self.exit)
    }
}

/// Activity of a scheduler so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// CPU time spent in its programs.
    pub run_time: Nanos,
    /// The kernel's event counters (`SCX_EV_*`), since 6.15.
    pub events: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.run_time += other.run_time;
        for (name, count) in &other.events {
            *self.events.entry(name.clone()).or_default() += count;
        }
    }

    /// Activity since `earlier`; event counters without new events are omitted.
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
    /// Loads the scheduler; `None` for the default scheduler.
    pub fn load(Scheduler { name, loadable }: &'a Scheduler) -> Result<Option<Loaded<'a>>> {
        let Some(loadable) = loadable else { return Ok(None) };
        let attached = attach(name, loadable)?;
        for note in attached.notes() {
            say!("weir: {name}: {note}");
        }
        let (before, restarts, ejected, begun, made) = (Counts::default(), 0, None, None, Vec::new());
        Ok(Some(Loaded { name, loadable, attached, before, restarts, ejected, begun, made }))
    }

    /// Name as given on the command line.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Name in the scheduler's `sched_ext_ops`.
    pub fn own_name(&self) -> &str {
        self.attached.name()
    }

    /// Returns the exit if it was ejected. Reloads it if the kernel asks for a restart after CPU hotplug.
    pub fn ejected(&mut self) -> Result<Option<KernelExit>> {
        if self.ejected.is_none()
            && let Some(exit) = self.attached.exited()?
        {
            self.ejected = if exit.wants_restart() { self.load_again(exit)? } else { Some(exit) };
        }
        Ok(self.ejected.clone())
    }

    /// Starts the run: times of planned calls count from now.
    pub fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Time until the next planned call, if there is one.
    pub fn until_call(&self) -> Option<Duration> {
        let next = self.attached.planned().get(self.made.len())?;
        Some(Duration::from_nanos(next.at.0).saturating_sub(self.begun?.elapsed()))
    }

    /// Makes the planned calls that are due. After a restart the remaining calls go to the new instance.
    pub fn make_calls(&mut self) -> Result<()> {
        while self.until_call().is_some_and(|time| time.is_zero()) {
            let number = self.made.len();
            let made_ns = self.begun.map(|begun| begun.elapsed().as_nanos() as u64);
            let returned = Some(self.attached.call(number)?);
            self.made.push(Called { call: self.attached.planned()[number].name.clone(), made_ns, returned });
        }
        Ok(())
    }

    /// Planned calls made so far.
    pub fn made_calls(&self) -> &[Called] {
        &self.made
    }

    /// Reloads it. If that fails, its exit counts as an ejection.
    fn load_again(&mut self, mut exit: KernelExit) -> Result<Option<KernelExit>> {
        let why = if exit.by_hotplug() { "of CPU hotplug" } else { "it requested a restart" };
        say!("weir: {}: reloading it because {why}", self.name());
        self.before = self.counts()?;
        // The old link is closed first: closing it on Linux 6.16 ends whichever scheduler is loaded by then.
        self.attached.unload()?;
        match attach(self.name, self.loadable) {
            Ok(attached) => {
                self.attached = attached;
                self.restarts += 1;
                Ok(None)
            }
            Err(error) => {
                let before = if exit.message.is_empty() { "" } else { "; " };
                exit.message.push_str(&format!("{before}it cannot be reloaded: {error:#}"));
                Ok(Some(exit))
            }
        }
    }

    /// Activity so far, over all restarts.
    pub fn counts(&self) -> Result<Counts> {
        let statistics = self.attached.statistics()?;
        let mut counts = Counts {
            run_time: Nanos(statistics.ops.iter().map(|op| op.run_time_ns).sum()),
            events: statistics.events.into_iter().collect(),
        };
        counts.add(&self.before);
        Ok(counts)
    }

    /// Unloads it and returns its exit. If the kernel had already begun to eject it, the exit is that ejection,
    /// although it became visible only now.
    pub fn end(self) -> Result<Ended> {
        let not_made = self.attached.planned().get(self.made.len()..).unwrap_or_default().iter();
        let not_made = not_made.map(|step| Called { call: step.name.clone(), made_ns: None, returned: None });
        let calls = self.made.into_iter().chain(not_made).collect();
        let exit = self.attached.detach()?;
        let was_ejected = self.ejected.is_some() || exit.is_ejection();
        Ok(Ended { restarts: self.restarts, exit: self.ejected.unwrap_or(exit), was_ejected, calls })
    }
}

/// Prints the kernel's exit message on standard error, and the name of a file with its debug dump.
pub fn tell_exit(name: &str, exit: &KernelExit) {
    say!("weir: EJECTED {name}: {} (kind {}, code {:#x})", exit.reason, exit.kind, exit.code);
    for line in exit.message.lines() {
        say!("  {line}");
    }
    if exit.dump.is_empty() {
        return;
    }
    match output::dump_file(&exit.dump) {
        Ok(path) => say!("weir: the kernel's debug dump is in {}", report::escape(&path.to_string_lossy())),
        Err(error) => say!("weir: the kernel's debug dump is lost: {error:#}"),
    }
}
