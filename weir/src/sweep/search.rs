// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep --minimize`: the best scheduler of a campaign by successive halving. The runs of a round are kept as those
//! of any campaign, and what leaves follows from the results alone: after a kill the same command goes on.

use super::args::{Place, Sweep};
use super::execute::{self, Done};
use super::planned::Planned;
use super::{Asked, COMPLETED, results, tables};
use crate::args::Format;
use crate::{output, parallel, select};
use anyhow::{Result, bail};
use campaign::{Appender, Axis, Store};
use measures::catalogue::{CATALOGUE, Measure};
use report::{Found, fate_name};
use serde_json::{Value, json};
use statistics::{Direction, Fate, Halving, LEVEL_PPM};
use std::collections::BTreeSet;

/// Candidates that no rank removes, by default.
const FINALISTS: u16 = 4;
/// Most seeds of a candidate: the exact test of a pair takes time with their cube.
const MOST_SEEDS: usize = 500;
/// Axes that separate searches.
const OTHERS: [Axis; 5] = [Axis::Machine, Axis::Workload, Axis::Kernel, Axis::Cpus, Axis::Without];

/// What is searched for.
pub struct Goal {
    measure: usize,
    maximize: bool,
    finalists: usize,
}

impl Goal {
    /// The goal of the command line, if it has one.
    ///
    /// # Errors
    /// If there is no such measure, or an option is without effect on a search.
    pub fn of(args: &Sweep) -> Result<Option<Goal>> {
        let (key, maximize) = match (&args.minimize, &args.maximize) {
            (Some(key), _) => (key, false),
            (None, Some(key)) => (key, true),
            (None, None) => return Ok(None),
        };
        if args.on != Place::Local {
            bail!(
                "--on slurm: a search does its runs on this computer; expected --on local, or first the whole campaign by \
                 Slurm"
            );
        }
        if args.format == Format::Csv {
            bail!("--format csv: a search has no rows of runs; expected text or json");
        }
        let finalists = args.finalists.unwrap_or(FINALISTS).into();
        Ok(Some(Goal { measure: select::measure(key)?, maximize, finalists }))
    }

    fn measure(&self) -> &'static Measure {
        &CATALOGUE[self.measure]
    }
}

/// A search among the schedulers of one combination of the other axes.
struct Search<'a> {
    title: String,
    names: Vec<String>,
    /// The runs of each candidate, by seed.
    runs: Vec<Vec<&'a Planned<'a>>>,
    halving: Halving,
    /// Why candidates have no value; empty for the others.
    failures: Vec<String>,
}

/// Searches, round by round. Returns false if some finished run did not complete.
///
/// # Errors
/// If the campaign has samples, or different seeds for its schedulers, or runs cannot be done or kept.
pub fn execute(asked: &Asked<'_>, goal: &Goal) -> Result<bool> {
    let mut searches = searches(asked, goal)?;
    // Takes over the finished runs of other directories.
    drop(execute::open_directory(asked.args, asked.all)?);
    loop {
        let mut store = asked.store()?;
        let mut seen = BTreeSet::new();
        let runs = searches.iter().flat_map(Search::runs_of_round);
        let todo: Vec<&Planned<'_>> =
            runs.filter(|planned| !store.has(planned.id) && seen.insert(planned.id)).collect();
        if !todo.is_empty() {
            let appender = Appender::new(&asked.args.out, &results::keys())?;
            // After a signal the process ends when this has told how far the search is.
            let told = |done: Done| match done.is_interrupted {
                true => finish(asked, goal, &searches, Some(todo.len() - done.count)).map(|_| ()),
                false => Ok(()),
            };
            execute::execute_some(asked.args, asked.all, appender, &todo, told)?;
            store = asked.store()?;
        }
        if searches.iter().all(|search| search.halving.next().is_none()) {
            return finish(asked, goal, &searches, None);
        }
        for search in &mut searches {
            search.end_round(goal, &mut store)?;
        }
    }
}

/// The searches of a campaign.
fn searches<'a>(asked: &Asked<'a>, goal: &Goal) -> Result<Vec<Search<'a>>> {
    let option = if goal.maximize { "--maximize" } else { "--minimize" };
    if asked.campaign.draws.is_some() {
        bail!("{option}: a search has no samples of the machine's constants; expected a campaign without draws");
    }
    let mut keys: Vec<[String; 5]> = Vec::new();
    let mut searches: Vec<Search<'a>> = Vec::new();
    for planned in asked.all {
        let key = OTHERS.map(|axis| planned.value(axis));
        let place = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            searches.push(Search::default());
            keys.len() - 1
        });
        searches[place].add(planned);
    }
    for (search, key) in searches.iter_mut().zip(&keys) {
        let words = OTHERS.iter().zip(key).filter(|(_, value)| !value.is_empty());
        search.title = words.map(|(axis, value)| format!("{} {value}", axis.name())).collect::<Vec<_>>().join(", ");
        let seeds = |of: usize| search.runs[of].iter().map(|planned| planned.point.seed).collect::<Vec<_>>();
        if let Some(other) = (1..search.runs.len()).find(|&other| seeds(other) != seeds(0)) {
            let [one, other] = [0, other].map(|at| &search.names[at]);
            bail!("{option}: {one} and {other} have different seeds; expected exclusions without seed");
        }
        let count = search.runs[0].len();
        if count > MOST_SEEDS {
            bail!("{option}: {count} seeds; expected at most {MOST_SEEDS}");
        }
        let direction = if goal.maximize { Direction::HigherIsBetter } else { Direction::LowerIsBetter };
        search.halving = Halving::new(search.names.len(), count, goal.finalists, direction);
        search.failures = vec![String::new(); search.names.len()];
    }
    Ok(searches)
}

impl Default for Search<'_> {
    fn default() -> Self {
        let halving = Halving::new(0, 0, 1, Direction::LowerIsBetter);
        Search { title: String::new(), names: Vec::new(), runs: Vec::new(), halving, failures: Vec::new() }
    }
}

impl<'a> Search<'a> {
    fn add(&mut self, planned: &'a Planned<'a>) {
        let name = planned.value(Axis::Scheduler);
        let place = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.runs.push(Vec::new());
            self.names.len() - 1
        });
        self.runs[place].push(planned);
    }

    /// The runs of the next round, those of earlier rounds included.
    fn runs_of_round(&self) -> impl Iterator<Item = &'a Planned<'a>> + '_ {
        let (seeds, inside) = self.halving.next().unwrap_or_default();
        // By seed, so that a round that is interrupted has complete pairs.
        (0..seeds).flat_map(move |seed| inside.clone().into_iter().map(move |candidate| self.runs[candidate][seed]))
    }

    /// Reads the results of the round, and ends it.
    fn end_round(&mut self, goal: &Goal, store: &mut Store) -> Result<()> {
        let Some((seeds, inside)) = self.halving.next() else { return Ok(()) };
        let mut values = Vec::new();
        for candidate in inside {
            let runs = &self.runs[candidate][..seeds];
            let of_candidate = values_of(runs, goal, store)?;
            values.push(of_candidate.map_err(|why| self.failures[candidate] = why).ok());
        }
        self.halving.end_round(&values);
        Ok(())
    }

    fn of_report<'b>(&'b self, goal: &Goal, store: &Store) -> report::Search<'b> {
        let all = || self.runs.iter().flatten();
        report::Search {
            title: &self.title,
            measure: goal.measure(),
            maximize: goal.maximize,
            names: &self.names,
            halving: &self.halving,
            failures: &self.failures,
            runs: (all().filter(|planned| store.has(planned.id)).count(), all().count()),
        }
    }

    fn to_json(&self, goal: &Goal, store: &Store) -> Value {
        let shown = self.of_report(goal, store);
        let found = shown.found();
        let first = &self.runs[0][0];
        let candidate = |place: usize| {
            let standing = &self.halving.standings()[place];
            let interval = standing.against.map(|(_, interval)| interval);
            json!({
                "scheduler": self.names[place],
                "fate": fate_name(standing.fate, found),
                "round": standing.round,
                "seeds": standing.seeds,
                "rank": standing.rank.map(|rank| rank.place),
                "rank_of": standing.rank.map(|rank| rank.of),
                "median": standing.median,
                "against": standing.against.map(|(leader, _)| &self.names[leader]),
                "diff_ppm": interval.and_then(|interval| interval.diff_ppm),
                "diff_ppm_low": interval.and_then(|interval| interval.low_ppm),
                "diff_ppm_high": interval.and_then(|interval| interval.high_ppm),
                "tellable_ppm": interval.and_then(|interval| interval.tellable_ppm),
                "failure": Some(&self.failures[place]).filter(|why| !why.is_empty()),
            })
        };
        let named = |fate| shown.of_fate(fate).into_iter().map(|place| &self.names[place]).collect::<Vec<_>>();
        json!({
            "machine": first.value(Axis::Machine),
            "workload": first.value(Axis::Workload),
            "kernel": first.run.conditions.kernel.to_string(),
            "cpus": first.run.machine.online_cpus().len(),
            "without": first.without,
            "measure": goal.measure().key,
            "goal": if goal.maximize { "maximize" } else { "minimize" },
            "level_ppm": LEVEL_PPM,
            "seeds_by_round": self.halving.rounds(),
            "rounds_ended": self.halving.ended(),
            "fewest_seeds": self.halving.fewest_seeds(),
            "runs": shown.runs.0,
            "runs_of_all": shown.runs.1,
            "found": found.name(),
            "first": named(Fate::Leads).first(),
            "tied": if found == Found::Unfinished { Vec::new() } else { named(Fate::Stays) },
            "candidates": shown.order().into_iter().map(candidate).collect::<Vec<_>>(),
        })
    }
}

/// The values of a candidate's runs, or why one is missing.
fn values_of(runs: &[&Planned<'_>], goal: &Goal, store: &mut Store) -> Result<Result<Vec<u64>, String>> {
    let mut values = Vec::new();
    for planned in runs {
        let seed = planned.point.seed;
        let Some(run) = store.read(planned.id)? else { bail!("run {} is missing, although it was done", planned.id) };
        if run.outcome != COMPLETED {
            let why =
                if run.exit_reason.is_empty() { run.outcome } else { format!("{}: {}", run.outcome, run.exit_reason) };
            return Ok(Err(format!("{why}, with seed {seed}")));
        }
        match run.values[goal.measure] {
            Some(value) => values.push(value),
            None => return Ok(Err(format!("no value of {} with seed {seed}", goal.measure().key))),
        }
    }
    Ok(Ok(values))
}

/// Writes the tables and reports the searches. `left` is the number of runs that a signal left undone.
fn finish(asked: &Asked<'_>, goal: &Goal, searches: &[Search<'_>], left: Option<usize>) -> Result<bool> {
    let mut store = asked.store()?;
    tables::write(&asked.args.out, asked.all, &mut store)?;
    if let Some(left) = left {
        let now = searches.iter().map(|search| search.runs_of_round().count()).sum::<usize>();
        parallel::tell_interrupted(now.saturating_sub(left), now, "the same command does the others of this round");
    }
    let text = match asked.args.format {
        Format::Json => {
            let all: Vec<Value> = searches.iter().map(|search| search.to_json(goal, &store)).collect();
            serde_json::to_string_pretty(&json!({ "weir": 1, "searches": all }))? + "\n"
        }
        _ => searches.iter().map(|search| search.of_report(goal, &store).to_text()).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text)?;
    let mut is_fine = true;
    for planned in searches.iter().flat_map(|search| search.runs.iter().flatten()) {
        is_fine &= store.read(planned.id)?.is_none_or(|run| run.outcome == COMPLETED);
    }
    Ok(is_fine)
}
