// SPDX-License-Identifier: GPL-2.0-only
//! The runs of claims: each side is a plan of `weir sim`, and sides that several claims share run once.

use super::measure::{self, Key};
use crate::args::Sim;
use crate::parallel::{self, End};
use crate::plan::{Plan, Run};
use crate::progress::Progress;
use crate::sim;
use anyhow::{Context, Result, bail};
use claims::Side;
use std::collections::{BTreeMap, BTreeSet};

/// Runs of one side: on this many samples.
type Setup = (Side, u64);

/// All runs that are wanted, without repetitions.
#[derive(Default)]
pub struct Wanted {
    setups: BTreeMap<Setup, Runs>,
}

/// Runs and measures of a side.
#[derive(Default)]
struct Runs {
    /// Sample and seed of each run.
    points: BTreeSet<(u64, u64)>,
    keys: BTreeSet<Key>,
    /// Claim that wants them first, for errors.
    place: String,
}

/// Values of all runs.
#[derive(Default)]
pub struct Results {
    values: BTreeMap<Setup, BTreeMap<(u64, u64, Key), u64>>,
    facts: BTreeMap<Setup, Facts>,
}

/// What is known of a side before its runs.
#[derive(Clone, Default)]
pub struct Facts {
    /// Effects that its machine models.
    pub effects: Vec<String>,
    /// Groups of uncertain constants, each with its position in each sample.
    pub groups: Vec<(String, Vec<u64>)>,
}

impl Wanted {
    /// Adds runs of a side: sample and seed of each.
    pub fn add(&mut self, side: &Side, draws: u64, points: &[(u64, u64)], keys: &[Key], place: &str) {
        let runs = self.setups.entry((side.clone(), draws)).or_default();
        runs.points.extend(points);
        runs.keys.extend(keys.iter().cloned());
        if runs.place.is_empty() {
            place.clone_into(&mut runs.place);
        }
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.setups.values().map(|runs| runs.points.len()).sum()
    }

    /// Resolves all sides without running them.
    ///
    /// # Errors
    /// Names the claim whose scheduler, machine, workload or option cannot be resolved.
    pub fn check(&self) -> Result<()> {
        self.setups
            .iter()
            .try_for_each(|((side, draws), runs)| plan(side, *draws).map(|_| ()).with_context(|| runs.place.clone()))
    }

    /// Does all runs.
    ///
    /// # Errors
    /// If a side cannot be resolved, a run cannot start, or a signal ends the runs.
    pub fn execute(&self, jobs: Option<u16>) -> Result<Results> {
        let mut results = Results::default();
        let progress = Progress::new(self.count());
        for ((side, draws), wanted) in &self.setups {
            let plan = plan(side, *draws).with_context(|| wanted.place.clone())?;
            let setup = (side.clone(), *draws);
            results.facts.insert(setup.clone(), facts(&plan, *draws));
            let of_sample = |run: Run<'_>| {
                let points = wanted.points.iter().filter(move |(draw, _)| *draw == run.draw);
                points.map(|(_, seed)| *seed).collect::<Vec<u64>>()
            };
            let runs: Vec<Run<'_>> = plan
                .runs()
                .into_iter()
                .flat_map(|run| of_sample(run).into_iter().map(move |seed| Run { seed, ..run }))
                .collect();
            let values = values(&runs, &wanted.keys, jobs, &progress).with_context(|| wanted.place.clone())?;
            results.values.insert(setup, values);
        }
        progress.end();
        Ok(results)
    }
}

/// Values of one run.
type Measured = Vec<(Key, u64)>;

/// Does the runs of one side. Runs that did not complete have no values.
fn values(
    runs: &[Run<'_>],
    keys: &BTreeSet<Key>,
    jobs: Option<u16>,
    progress: &Progress,
) -> Result<BTreeMap<(u64, u64, Key), u64>> {
    let work = |index: usize| {
        let report = sim::result(runs[index], progress);
        Some(report.map(|report| {
            let is_fine = report.is_fine();
            keys.iter()
                .filter(|_| is_fine)
                .filter_map(|key| Some((key.clone(), measure::value(&report, key)?)))
                .collect()
        }))
    };
    let threads = jobs.map_or(parallel::threads(runs.len()), |jobs| usize::from(jobs).min(runs.len()));
    parallel::run(runs.len(), threads, work, |done: Vec<Option<Result<Measured>>>, end| {
        if end != End::Done {
            bail!("interrupted before all runs had finished");
        }
        let mut all = BTreeMap::new();
        for (run, values) in runs.iter().zip(done) {
            let Some(values) = values else { continue };
            all.extend(values?.into_iter().map(|(key, value)| ((run.draw, run.seed, key), value)));
        }
        Ok(all)
    })
}

fn facts(plan: &Plan, draws: u64) -> Facts {
    let machine = &plan.nominal[0];
    let effects = machine.effects.modelled().map(|effect| effect.name().to_owned()).collect();
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for draw in 1..=draws {
        for (group, position) in machine.draw_positions(draw, draws) {
            groups.entry(group.to_owned()).or_default().push(position);
        }
    }
    Facts { effects, groups: groups.into_iter().collect() }
}

impl Results {
    /// Value of a measure in one run; `None` if it has none, or the run did not complete.
    pub fn value(&self, side: &Side, draws: u64, draw: u64, seed: u64, key: &Key) -> Option<u64> {
        self.values.get(&(side.clone(), draws))?.get(&(draw, seed, key.clone())).copied()
    }

    /// What is known of a side.
    pub fn facts(&self, side: &Side, draws: u64) -> Facts {
        self.facts.get(&(side.clone(), draws)).cloned().unwrap_or_default()
    }
}

/// The plan of a side: its runs with seed 0.
fn plan(side: &Side, draws: u64) -> Result<Plan> {
    let mut words = vec!["--seed".to_owned(), "0".to_owned(), "--draws".to_owned(), draws.to_string()];
    words.extend(side.words());
    let mut plan = Plan::of(&Sim::of_words(words.iter().map(String::as_str))?)?;
    if let Some((_, error)) = plan.broken.pop() {
        return Err(error);
    }
    match plan.suites.workloads.as_slice() {
        [one] if *one == side.workload => Ok(plan),
        _ => bail!("{}: expected one workload, not a suite of several", side.workload),
    }
}
