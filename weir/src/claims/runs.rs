// SPDX-License-Identifier: GPL-2.0-only
//! The runs of claims: each side is a plan of `weir sim` or a timed search, and sides that several claims share run once.

use super::measure::{self, Key};
use super::searches;
use crate::args::Sim;
use crate::parallel::{self, End};
use crate::plan::{Plan, Run};
use crate::progress::Progress;
use crate::sim;
use anyhow::{Context, Result, bail};
use claims::{Search, Setup, Side};
use std::collections::{BTreeMap, BTreeSet};

/// Number of sides whose runs share the worker threads: a thread waits for the others only after so many.
const TOGETHER: usize = 24;

/// Runs of one side: on this many samples.
type Sampled = (Side, u64);

/// Values of a side, by sample, seed and measure.
type Values = BTreeMap<(u64, u64, Key), u64>;

/// All runs that are wanted, without repetitions.
#[derive(Default)]
pub struct Wanted {
    sides: BTreeMap<Sampled, Runs>,
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
    values: BTreeMap<Sampled, Values>,
    facts: BTreeMap<Sampled, Facts>,
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
        let runs = self.sides.entry((side.clone(), draws)).or_default();
        runs.points.extend(points);
        runs.keys.extend(keys.iter().cloned());
        if runs.place.is_empty() {
            place.clone_into(&mut runs.place);
        }
    }

    /// Number of runs.
    pub fn count(&self) -> usize {
        self.sides.values().map(|runs| runs.points.len()).sum()
    }

    /// Resolves all sides without running them.
    ///
    /// # Errors
    /// Names the claim whose scheduler, machine, workload or option cannot be resolved.
    pub fn check(&self) -> Result<()> {
        self.sides.iter().try_for_each(|((side, draws), runs)| {
            match side {
                Side::Run(setup) => plan(setup, *draws).map(|_| ()),
                Side::Search(search) => searches::check(search),
            }
            .with_context(|| runs.place.clone())
        })
    }

    /// Does all runs, and then all searches, whose times runs would disturb.
    ///
    /// # Errors
    /// If a side cannot be resolved, a run cannot start, or a signal ends the runs.
    pub fn execute(&self, jobs: Option<u16>) -> Result<Results> {
        let mut results = Results::default();
        let progress = Progress::new(self.count());
        let mut sides: Vec<Planned<'_>> = Vec::new();
        for (sampled, runs) in &self.sides {
            if let (Side::Run(setup), draws) = sampled {
                sides.push(Planned { sampled, setup, draws: *draws, runs });
            }
        }
        for some in sides.chunks(TOGETHER) {
            self::execute(some, jobs, &progress, &mut results)?;
        }
        self.search(&mut results, &progress)?;
        progress.end();
        Ok(results)
    }

    /// Times all searches, those of the same map together.
    fn search(&self, results: &mut Results, progress: &Progress) -> Result<()> {
        // By seed, sample and map: the searches, each with its number of samples.
        let mut of_maps: BTreeMap<_, Vec<(&Search, u64)>> = BTreeMap::new();
        for ((side, draws), wanted) in &self.sides {
            let Side::Search(search) = side else { continue };
            for (draw, seed) in &wanted.points {
                of_maps.entry((*seed, *draw, &search.map)).or_default().push((search, *draws));
            }
        }
        for ((seed, draw, _), searches) in of_maps {
            let each: Vec<&Search> = searches.iter().map(|(search, _)| *search).collect();
            let elapsed = searches::elapsed_ns(&each, seed, progress)?;
            for ((search, draws), elapsed) in searches.into_iter().zip(elapsed) {
                let values = results.values.entry((Side::Search(search.clone()), draws)).or_default();
                values.insert((draw, seed, searches::KEY.to_owned()), elapsed);
            }
        }
        Ok(())
    }
}

/// A side that runs schedulers.
struct Planned<'a> {
    sampled: &'a Sampled,
    setup: &'a Setup,
    draws: u64,
    runs: &'a Runs,
}

/// Does the runs of these sides, and adds their values.
fn execute(sides: &[Planned<'_>], jobs: Option<u16>, progress: &Progress, results: &mut Results) -> Result<()> {
    let plan_of = |side: &Planned<'_>| plan(side.setup, side.draws).with_context(|| side.runs.place.clone());
    let plans = sides.iter().map(plan_of).collect::<Result<Vec<Plan>>>()?;
    let mut runs: Vec<(usize, Run<'_>)> = Vec::new();
    for (at, plan) in plans.iter().enumerate() {
        runs.extend(sides[at].runs.of_plan(plan).into_iter().map(|run| (at, run)));
    }
    let values = values(&runs, sides, jobs, progress)?;
    for (side, (plan, values)) in sides.iter().zip(plans.iter().zip(values)) {
        results.facts.insert(side.sampled.clone(), facts(plan, side.draws));
        results.values.insert(side.sampled.clone(), values);
    }
    Ok(())
}

impl Runs {
    /// The runs of a plan on the wanted samples with the wanted seeds.
    fn of_plan<'a>(&self, plan: &'a Plan) -> Vec<Run<'a>> {
        let of_sample = |run: Run<'_>| {
            let points = self.points.iter().filter(move |(draw, _)| *draw == run.draw);
            points.map(|(_, seed)| *seed).collect::<Vec<u64>>()
        };
        let runs = plan.runs().into_iter();
        runs.flat_map(|run| of_sample(run).into_iter().map(move |seed| Run { seed, ..run })).collect()
    }
}

/// Values of one run.
type Measured = Vec<(Key, u64)>;

/// Values of the runs of these sides: index of the side, and run. Runs that did not complete have no values.
///
/// # Errors
/// If a run cannot start: names its claim.
fn values(
    runs: &[(usize, Run<'_>)],
    sides: &[Planned<'_>],
    jobs: Option<u16>,
    progress: &Progress,
) -> Result<Vec<Values>> {
    let work = |index: usize| {
        let (side, run) = runs[index];
        let wanted = sides[side].runs;
        let report = sim::result(run, progress).with_context(|| wanted.place.clone());
        Some(report.map(|report| {
            let keys = wanted.keys.iter().filter(|_| report.is_fine());
            keys.filter_map(|key| Some((key.clone(), measure::value(&report, key)?))).collect()
        }))
    };
    let threads = jobs.map_or(parallel::threads(runs.len()), |jobs| usize::from(jobs).min(runs.len()));
    parallel::run(runs.len(), threads, work, |done: Vec<Option<Result<Measured>>>, end| {
        if end != End::Done {
            bail!("interrupted before all runs had finished");
        }
        let mut all = vec![Values::new(); sides.len()];
        for ((side, run), values) in runs.iter().zip(done) {
            let Some(values) = values else { continue };
            all[*side].extend(values?.into_iter().map(|(key, value)| ((run.draw, run.seed, key), value)));
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
fn plan(setup: &Setup, draws: u64) -> Result<Plan> {
    let mut words = vec!["--seed".to_owned(), "0".to_owned(), "--draws".to_owned(), draws.to_string()];
    words.extend(setup.words());
    let mut plan = Plan::of(&Sim::of_words(words.iter().map(String::as_str))?)?;
    if let Some((_, error)) = plan.broken.pop() {
        return Err(error);
    }
    match plan.suites.workloads.as_slice() {
        [one] if *one == setup.workload => Ok(plan),
        _ => bail!("{}: expected one workload, not a suite of several", setup.workload),
    }
}
