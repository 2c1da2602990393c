// SPDX-License-Identifier: GPL-2.0-only
//! `weir check`: runs one scheduler in generated test cases and checks the built-in invariants and the promises of
//! its launch profile.

use crate::args::{Args, Check, Command, Format, Sim};
use crate::output::{self, quote};
use crate::plan::Single;
use crate::progress::Progress;
use crate::{select, sim};
use anyhow::{Result, bail};
use clap::Parser;
use random_runs::{Case, Needs};
use report::{Outcome, RunReport};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of reproducing command lines shown for each violated property; several show whether the violations are of
/// one kind.
const SHOWN: usize = 3;

/// Results of one property over all runs.
#[derive(Default)]
struct Tally {
    /// Number of runs in which the property was applicable.
    seen: usize,
    /// Command lines of the runs that violated it.
    broken: Vec<String>,
}

/// Runs the cases and prints the report. Returns false if anything was violated or the scheduler was ejected.
pub fn check(args: &Check) -> Result<bool> {
    let scheduler = select::schedulers(std::slice::from_ref(&args.scheduler), args.profile.as_deref())?.remove(0);
    let needs = Needs::of(&scheduler.promises());
    let numbers = args.first..args.first + args.seeds;
    let cases: Vec<Case> = numbers.map(|number| Case::generate(number, needs)).collect::<Result<_, _>>()?;
    let lines: Vec<Vec<String>> = cases.iter().map(|case| words(args, case)).collect();
    let runs = lines.iter().map(|words| parse(words)).collect::<Result<Vec<Sim>>>()?;
    if args.format == Format::Csv {
        bail!("--format csv is not supported here; expected text or json");
    }
    if args.list {
        return output::print(&lines.iter().map(|words| line(words) + "\n").collect::<String>()).map(|_| true);
    }
    let reports = run_all(&runs, &scheduler)?;
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let looked_for = scheduler.looked_for();
    for (words, report) in lines.iter().zip(&reports) {
        let broken = broken(report);
        let violations = report.ending.violations.as_ref();
        for name in looked_for.iter().map(|property| property.name()).chain(["ending"]) {
            let unseen = violations.is_some_and(|found| found.not_seen.iter().any(|unseen| unseen == name));
            let tally = tallies.entry(name).or_default();
            tally.seen += usize::from(!unseen);
            if broken.contains(&name) {
                tally.broken.push(line(words));
            }
        }
    }
    let text = match args.format {
        Format::Json => to_json(args, &tallies),
        _ => to_text(args, &tallies),
    };
    output::print(&text)?;
    Ok(tallies.values().all(|tally| tally.broken.is_empty()))
}

/// Names of the properties that a run violated; `ending` stands for an ejection or a deadlock.
fn broken(report: &RunReport) -> Vec<&str> {
    let first = report.ending.violations.iter().flat_map(|found| &found.first);
    let mut names: Vec<&str> = first.map(|violation| violation.property.as_str()).collect();
    if report.ending.deadlocked || report.ending.outcome() == Outcome::Ejected {
        names.push("ending");
    }
    names
}

/// Command line of a case. The run itself is set up by parsing this line, so the line reproduces it exactly.
fn words(args: &Check, case: &Case) -> Vec<String> {
    let mut words = ["weir", "sim", &args.scheduler, "--check"].map(str::to_owned).to_vec();
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    option("machine", &case.machine);
    option("workload", &case.workload);
    option("for", &format!("{}ms", case.duration_ms));
    option("seed", &case.seed.to_string());
    case.faults.iter().for_each(|faults| option("faults", faults));
    if case.undisturbed && case.seed != 0 {
        option("noise-off", "threads");
    }
    words
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

fn parse(words: &[String]) -> Result<Sim> {
    match Args::try_parse_from(words)?.command {
        Command::Sim(sim) => Ok(sim),
        _ => bail!("{}: not a simulation", line(words)),
    }
}

/// Executes all runs, one worker thread for each host CPU; results are in the order of `runs`.
fn run_all(runs: &[Sim], scheduler: &select::Scheduler) -> Result<Vec<RunReport>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let (next, progress) = (AtomicUsize::new(0), Progress::new(runs.len()));
    let results: Vec<Mutex<Option<Result<RunReport>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((run, result)) = at(&next, runs, &results) {
                    *result.lock().expect("only this thread locks it") = Some(one(run, scheduler, &progress));
                }
            });
        }
    });
    progress.end();
    let done =
        |result: Mutex<Option<_>>| result.into_inner().expect("no thread panicked").expect("every run was executed");
    results.into_iter().map(done).collect()
}

fn one(args: &Sim, scheduler: &select::Scheduler, progress: &Progress) -> Result<RunReport> {
    sim::one(Single::of(args)?.run(scheduler), progress)
}

/// Takes the next index, which no other worker has taken, and returns the run and its result slot.
fn at<'a, A, B>(next: &AtomicUsize, these: &'a [A], those: &'a [B]) -> Option<(&'a A, &'a B)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    these.get(index).zip(those.get(index))
}

fn to_text(args: &Check, tallies: &BTreeMap<&str, Tally>) -> String {
    let mut text = format!("{}: {}, first seed {}\n\n", args.scheduler, report::counted(args.seeds, "run"), args.first);
    let _ = writeln!(text, "{:<26}{:>20}{:>10}", "property", "applicable runs", "violated");
    for (name, tally) in tallies {
        let _ = writeln!(text, "{name:<26}{:>20}{:>10}", tally.seen, tally.broken.len());
    }
    for (name, tally) in tallies.iter().filter(|(_, tally)| !tally.broken.is_empty()) {
        let _ = writeln!(text, "\nBROKEN: {name}");
        tally.broken.iter().take(SHOWN).for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

fn to_json(args: &Check, tallies: &BTreeMap<&str, Tally>) -> String {
    let property = |(name, tally): (&&str, &Tally)| json!({ "property": name, "seen": tally.seen, "broken": tally.broken.len(), "commands": tally.broken });
    let properties: Vec<_> = tallies.iter().map(property).collect();
    let document = json!({
        "weir": 1, "scheduler": args.scheduler, "first": args.first, "seeds": args.seeds, "properties": properties,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use invariants::{GangsBy, WeightedShare, Weights};
    use random_runs::Jobs;

    /// Every generated case can be run: its names and its CPUs exist.
    #[test]
    fn generated_cases_are_valid_command_lines() {
        let groups = Needs { groups: true, windows: true, ..Needs::default() };
        let share = |by| WeightedShare { by, ..WeightedShare::new(2, 1) };
        let [shares, by_groups] = [Weights::Nice, Weights::Groups].map(|by| Needs { share: Some(share(by)), ..groups });
        let whole = Needs { share: Some(WeightedShare { whole: true, ..share(Weights::Groups) }), ..groups };
        let settles = ids::Nanos::from_ms(500);
        let jobs = Needs { jobs: Some(Jobs { by: GangsBy::Groups, settles }), ..groups };
        let capped = Needs { caps: true, ..Needs::default() };
        let all = [Needs::default(), groups, shares, by_groups, jobs, whole, capped];
        let generated = |number| all.map(|needs| Case::generate(number, needs).unwrap());
        for case in (1..100).flat_map(generated) {
            let cpus = select::machine(&case.machine).unwrap().online_cpus().len() as u32;
            select::workload(&case.workload, cpus).unwrap_or_else(|error| panic!("{case:?}: {error:#}"));
            assert!(case.faults.iter().all(|faults| select::faults(faults).is_ok()), "{case:?}");
        }
    }
}
