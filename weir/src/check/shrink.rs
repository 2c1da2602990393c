// SPDX-License-Identifier: GPL-2.0-only
//! Makes a failing case smaller: as long as one of its smaller versions violates the same property, that is the next
//! one. The number of runs is bounded, so that the result does not depend on the speed of the computer.

use super::{broken, line, parse, story, words};
use crate::args::Check;
use crate::plan::Single;
use crate::select::{self, Scheduler};
use crate::sim;
use anyhow::Result;
use event_log::Null;
use host::signals::Signals;
use random_runs::Case;
use std::collections::BTreeSet;

/// Most runs for one case.
const MOST_RUNS: usize = 400;

/// The smallest run that was found for a violated property.
#[derive(Clone)]
pub(super) struct Shrunk {
    /// Command line that reproduces it.
    pub command: String,
    /// Number of its tasks, if known, and of its CPUs.
    pub tasks: u64,
    pub cpus: u64,
    /// Number of runs that the search took.
    pub runs: usize,
    /// What happened, in at most ten lines.
    pub story: Vec<String>,
}

/// Termination signals while failures are made smaller. The first one ends the search, so that the report has what was
/// found so far; a second one ends the process at once.
pub(super) struct Interruption {
    signals: Option<Signals>,
    /// Number of the signal that came.
    pub signal: Option<i32>,
}

impl Interruption {
    /// Blocks the signals.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch() -> Result<Interruption> {
        Ok(Interruption { signals: Some(Signals::block()?), signal: None })
    }

    /// Whether a signal has come.
    pub fn has_come(&mut self) -> bool {
        if let Some(request) = self.signals.as_ref().and_then(Signals::take) {
            self.signal = Some(request.signal);
            self.signals = None;
        }
        self.signal.is_some()
    }
}

/// Looks for the smallest version of a case that violates `property`.
pub(super) fn shrink(
    args: &Check,
    scheduler: &Scheduler,
    case: Case,
    property: &str,
    interruption: &mut Interruption,
) -> Result<Shrunk> {
    let (mut smallest, mut tried, mut runs) = (case, BTreeSet::new(), 0);
    'search: loop {
        for candidate in smallest.smaller() {
            let words = words(args, &candidate);
            if !tried.insert(line(&words)) {
                continue;
            }
            if runs == MOST_RUNS || interruption.has_come() {
                break 'search;
            }
            runs += 1;
            if violates(&words, scheduler, property) {
                smallest = candidate;
                continue 'search;
            }
        }
        break;
    }
    let words = words(args, &smallest);
    let story = story::of(&words, scheduler, property)?;
    let cpus = select::machine(&smallest.machine)?.online_cpus().len() as u64;
    Ok(Shrunk { command: line(&words), tasks: smallest.tasks(), cpus, runs, story })
}

/// Whether the run violates the property. A case that cannot run, such as one whose CPU does not exist, does not.
fn violates(words: &[String], scheduler: &Scheduler, property: &str) -> bool {
    let run = || -> Result<bool> {
        let single = Single::of(&parse(words)?)?;
        let (report, _) = sim::observed(single.run(scheduler), &mut Null)?;
        Ok(broken(&report).iter().any(|name| name == property))
    };
    run().unwrap_or(false)
}
