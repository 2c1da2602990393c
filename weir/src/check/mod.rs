// SPDX-License-Identifier: GPL-2.0-only
//! `weir check`: runs one scheduler in generated test cases, checks the built-in invariants, the promises of its launch
//! profile and the warnings, and makes what fails smaller.

mod output;
mod resume;
mod shrink;
mod story;

use crate::args::{Args, Check, Command, Sim};
use crate::output::{print, quote};
use crate::parallel::{self, End};
use crate::plan::Single;
use crate::progress::Progress;
use crate::select::{self, Scheduler};
use crate::sim;
use anyhow::{Result, bail};
use bpf_object::MemberValue;
use clap::Parser;
use invariants::Property;
use kernel_model::Coverage;
use output_file::{Privacy, Target};
use random_runs::{Case, Needs};
use report::{Outcome, RunReport};
use shrink::{Interruption, Shrunk};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Stands for an ejection or a deadlock among the names of properties.
const ENDING: &str = "ending";
/// Timeout of a watchdog that the scheduler does not set, in ms.
const DEFAULT_WATCHDOG_MS: u64 = 30_000;
/// Number of reproducing command lines kept for each violated property; several show whether the violations are of
/// one kind.
const SHOWN: usize = 3;
/// Most runs of a check that ends by time.
const MOST_RUNS: u64 = 1_000_000;

/// Results of one property over all runs.
#[derive(Clone, Default)]
struct Tally {
    /// Number of runs in which the property was applicable.
    seen: u64,
    /// Number of runs that violated it.
    broken: u64,
    /// Command lines of the first of these.
    commands: Vec<String>,
    /// Seed of the first of these.
    first: Option<u64>,
    /// The smallest run that violates it, if it was looked for.
    shrunk: Option<Shrunk>,
}

/// Results by property.
type Tallies = BTreeMap<String, Tally>;

/// Result of one run.
struct Tried {
    /// Promises were not checked.
    interleaved: bool,
    broken: Vec<String>,
    not_seen: Vec<String>,
}

/// Everything about a check, for its report.
struct Checked<'a> {
    args: &'a Check,
    /// Numbers of the first run and of the one after the last.
    seeds: std::ops::Range<u64>,
    tallies: Tallies,
    coverage: Coverage,
    took: Duration,
    interrupted: bool,
}

/// Whether this property is a warning.
fn is_warning(property: &str) -> bool {
    Property::WARNINGS.iter().any(|warning| warning.name() == property)
}

/// Whether this is a built-in invariant, a warning, or the end of the run.
fn needs_no_promise(property: &str) -> bool {
    let invariants = [Property::Sanity, Property::Affinity, Property::LostWakeup];
    is_warning(property) || property == ENDING || invariants.iter().any(|invariant| invariant.name() == property)
}

/// Runs the cases and prints the report. Returns false if anything was violated or the scheduler was ejected.
pub fn check(args: &Check) -> Result<bool> {
    let scheduler = select::schedulers(std::slice::from_ref(&args.scheduler), args.profile.as_deref())?.remove(0);
    let names = names(&scheduler, &args.ignore)?;
    let needs = needs(args, &scheduler)?;
    if args.list {
        return list(args, needs);
    }
    let target = args.resume.as_deref().map(|path| Target::check_file(path, Privacy::Public)).transpose()?;
    let before = resume::read(args, &scheduler)?;
    let first = before.as_ref().map_or(args.first, |before| before.next);
    let count = args.minutes.map_or(args.seeds, |_| MOST_RUNS);
    let deadline = args.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let (began, progress) = (Instant::now(), args.minutes.is_none().then(|| Progress::new(count as usize)));
    let coverage = Mutex::new(Coverage::default());
    let work = |index: usize| {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return None;
        }
        let tried = attempt(args, &scheduler, first + index as u64, needs, &coverage);
        progress.iter().for_each(|progress| progress.begin(None).end());
        Some(tried)
    };
    let jobs = args.jobs.map_or_else(|| parallel::threads(count as usize), usize::from);
    parallel::run(count as usize, jobs, work, |results, end| {
        progress.iter().for_each(Progress::end);
        let mut tallies = before.as_ref().map_or_else(Tallies::new, |before| before.tallies.clone());
        for name in &names {
            tallies.entry(name.clone()).or_default();
        }
        // Only runs without a gap before them, so that a later check can go on after the last one.
        let mut next = first;
        for tried in results.into_iter().map_while(|tried| tried) {
            count_run(args, &mut tallies, next, needs, tried?)?;
            next += 1;
        }
        let coverage = std::mem::take(&mut *coverage.lock().expect("no thread panics while holding it"));
        let seeds = before.as_ref().map_or(args.first, |before| before.first)..next;
        let (took, interrupted) = (began.elapsed(), end != End::Done);
        let mut checked = Checked { args, seeds, tallies, coverage, took, interrupted };
        if let Some(target) = &target {
            target.write(resume::text(&checked, &scheduler).as_bytes())?;
        }
        if !args.no_shrink && !interrupted {
            let mut interruption = Interruption::watch()?;
            shrink_all(&mut checked, &scheduler, needs, &mut interruption)?;
            if let Some(signal) = interruption.signal {
                print(&output::report(&checked))?;
                say!("weir: interrupted while failures were made smaller; the report has the smallest found so far");
                std::process::exit(parallel::SIGNALLED + signal);
            }
        }
        print(&output::report(&checked))?;
        Ok(checked.tallies.values().all(|tally| tally.broken == 0))
    })
}

/// Names of the properties to report.
fn names(scheduler: &Scheduler, ignored: &[String]) -> Result<Vec<String>> {
    let all = scheduler.looked_for().into_iter().chain(Property::WARNINGS).map(Property::name).chain([ENDING]);
    let all: Vec<String> = all.map(str::to_owned).collect();
    if let Some(unknown) = ignored.iter().find(|name| !all.contains(name)) {
        bail!("--ignore {unknown}: not a property of this scheduler; expected one of {}", all.join(", "));
    }
    Ok(all.into_iter().filter(|name| !ignored.contains(name)).collect())
}

/// What the cases need, from the promises and the object. A first run shows whether the scheduler can be loaded.
fn needs(args: &Check, scheduler: &Scheduler) -> Result<Needs> {
    let mut words = ["weir", "sim", &args.scheduler, "-m", "core:1 pu:1", "-w", "hog", "--for", "1us", "--seed", "0"]
        .map(str::to_owned)
        .to_vec();
    if let Some(profile) = &args.profile {
        words.extend(["--profile".to_owned(), profile.to_string_lossy().into_owned()]);
    }
    let (_, object) = sim::reproduce(Single::of(&parse(&words)?)?.run(scheduler), &mut event_log::Null)?;
    let members = object.iter().flat_map(|object| &object.struct_ops).flat_map(|ops| &ops.members);
    let timeout = members.filter(|member| member.name == "timeout_ms").find_map(|member| match member.value {
        MemberValue::Number(ms) => Some(ms),
        _ => None,
    });
    let watchdog_ms = object.as_ref().map_or(0, |_| timeout.unwrap_or(DEFAULT_WATCHDOG_MS));
    Ok(Needs { watchdog_ms, interleaving: true, ..Needs::of(&scheduler.promises()) })
}

/// Prints the command lines of the cases.
fn list(args: &Check, needs: Needs) -> Result<bool> {
    let numbers = args.first..args.first + args.seeds;
    let text = numbers.map(|number| Ok(line(&words(args, &Case::generate(number, needs)?)) + "\n"));
    print(&text.collect::<Result<String>>()?).map(|_| true)
}

/// Runs case `number`.
fn attempt(
    args: &Check,
    scheduler: &Scheduler,
    number: u64,
    needs: Needs,
    coverage: &Mutex<Coverage>,
) -> Result<Tried> {
    let case = Case::generate(number, needs)?;
    let single = Single::of(&parse(&words(args, &case))?)?;
    let (report, covered) = sim::covered(single.run(scheduler))?;
    coverage.lock().expect("no thread panics while holding it").add(&covered);
    let not_seen = report.ending.violations.iter().flat_map(|found| found.not_seen.clone()).collect();
    Ok(Tried { interleaved: case.interleaved, broken: broken(&report), not_seen })
}

fn count_run(args: &Check, tallies: &mut Tallies, number: u64, needs: Needs, tried: Tried) -> Result<()> {
    for (name, tally) in tallies.iter_mut().filter(|(name, _)| !tried.interleaved || needs_no_promise(name)) {
        tally.seen += u64::from(!tried.not_seen.contains(name));
        if tried.broken.contains(name) {
            tally.broken += 1;
            tally.first.get_or_insert(number);
            if tally.commands.len() < SHOWN {
                tally.commands.push(line(&words(args, &Case::generate(number, needs)?)));
            }
        }
    }
    Ok(())
}

/// Finds the smallest run for each violated property that has none yet.
fn shrink_all(
    checked: &mut Checked<'_>,
    scheduler: &Scheduler,
    needs: Needs,
    interruption: &mut Interruption,
) -> Result<()> {
    for (name, tally) in &mut checked.tallies {
        if interruption.has_come() {
            break;
        }
        if let Some(number) = tally.first.filter(|_| tally.shrunk.is_none()) {
            let case = Case::generate(number, needs)?;
            tally.shrunk = Some(shrink::shrink(checked.args, scheduler, case, name, interruption)?);
        }
    }
    Ok(())
}

/// Names of the properties that a run violated.
fn broken(report: &RunReport) -> Vec<String> {
    let first = report.ending.violations.iter().flat_map(|found| &found.first);
    let mut names: Vec<String> = first.map(|violation| violation.property.clone()).collect();
    names.sort();
    names.dedup();
    if report.ending.deadlocked || report.ending.outcome() == Outcome::Ejected {
        names.push(ENDING.to_owned());
    }
    names
}

/// Command line of a case. The run itself is set up by parsing this line, so the line reproduces it exactly.
fn words(args: &Check, case: &Case) -> Vec<String> {
    let mut words = ["weir", "sim", &args.scheduler].map(str::to_owned).to_vec();
    // The limits of promises are those of operations that take effect at one instant.
    words.extend((!case.interleaved).then(|| "--check".to_owned()));
    words.push("--warn".to_owned());
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), value.to_owned()]);
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    option("machine", &case.machine);
    option("workload", &case.workload);
    option("for", &format!("{}ms", case.duration_ms));
    option("seed", &case.seed.to_string());
    case.faults.iter().for_each(|faults| option("faults", faults));
    if case.interleaved {
        option("kernel", "7.2+waiting");
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use invariants::{GangsBy, WeightedShare, Weights};
    use random_runs::Jobs;

    /// Every generated case can be run: its names and its CPUs exist.
    #[test]
    fn generated_cases_are_valid_command_lines() {
        let groups = Needs { groups: true, windows: true, watchdog_ms: 5000, interleaving: true, ..Needs::default() };
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
