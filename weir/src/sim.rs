// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim`: simulates every combination of scheduler, machine, workload and seed in parallel, and reports in
//! order.

use crate::args::{Args, Command, Format, Sim};
use crate::output::{self, Delivery};
use crate::parallel::{self, End};
use crate::plan::{Outputs, Plan, Run, SEEDS};
use crate::printk::{self, Printed, Printer};
use crate::progress::Progress;
use crate::refusals::Refusals;
use crate::{coverage, notes, save};
use anyhow::{Context, Result, anyhow, bail};
use bpf_object::LinkedObject;
use clap::Parser;
use event_log::{JsonLines, LogWriter, Sink, Tee, perfetto};
use kernel_model::{Coverage, Kernel};
use output_file::{OutputFile, Target};
use report::RunReport;

/// Result of a run.
struct Done {
    report: RunReport,
    printed: Printed,
    coverage: Coverage,
    /// Whether trace and log could be written.
    written: Result<()>,
}

impl Sim {
    /// The options that these words of a command line give: those after `weir sim`.
    ///
    /// # Errors
    /// What `weir sim` itself would say, on one line.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Sim> {
        match Args::try_parse_from(["weir", "sim"].into_iter().chain(words)) {
            Ok(Args { command: Command::Sim(sim) }) => Ok(sim),
            Ok(_) => unreachable!("the words name weir sim"),
            Err(error) => {
                let text = error.render().to_string();
                let line = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                Err(anyhow!("{}", line.split_whitespace().collect::<Vec<_>>().join(" ")))
            }
        }
    }
}

/// Simulates and reports. Returns false if a scheduler was ejected, or a run ended in a deadlock.
pub fn sim(args: &Sim) -> Result<bool> {
    let mut plan = Plan::of(args)?;
    if plan.outputs.format == Format::Text {
        notes::tell_recorded(&plan.suites.workloads)?;
        say!("{}", report::escape(&plan.command_line));
        if plan.seeds_are_default {
            let count = plan.count();
            say!(
                "weir: {count} runs, because schedulers are compared with {SEEDS} seeds; --seed 0 makes one run of each"
            );
        }
    }
    let mut refusals = Refusals::default();
    let broken = std::mem::take(&mut plan.broken);
    let is_comparison = plan.schedulers.len() + broken.len() > 1;
    broken.into_iter().for_each(|(scheduler, error)| refusals.add_broken(&scheduler, &plan.machine_names(), error));
    let runs = plan.runs();
    let progress = Progress::new(runs.len());
    let work = |index: usize| Some(run_one(runs[index], Some(&plan.outputs), &progress));
    parallel::run(runs.len(), parallel::threads(runs.len()), work, |results, end| {
        progress.end();
        let done = runs.iter().zip(results).filter_map(|(run, done)| Some((run, done?)));
        finish(&plan, done.collect(), is_comparison, refusals, end)
    })
}

/// Reports the finished runs. In a comparison, schedulers that could not be loaded are listed.
fn finish(
    plan: &Plan,
    results: Vec<(&Run<'_>, Result<Done>)>,
    is_comparison: bool,
    mut refusals: Refusals,
    end: End,
) -> Result<bool> {
    let (mut covered, mut reports, mut written) = (Coverage::default(), Vec::new(), Ok(()));
    for (run, done) in results {
        let done = match done {
            Ok(done) => done,
            Err(error) if is_comparison => {
                refusals.add(&run.scheduler.name, &run.machine.name, error)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        printk::tell(&output::name(&done.report), &done.printed);
        covered.add(&done.coverage);
        reports.push(done.report);
        written = written.and(done.written);
    }
    refusals.check(&reports)?;
    let interrupted = (end != End::Done).then(|| plan.runs().len());
    interrupted
        .iter()
        .for_each(|&planned| parallel::tell_interrupted(reports.len(), planned, "the report covers these"));
    let Plan { schedulers, nominal, suites, outputs, command_line, .. } = plan;
    let setup = save::Setup { command_line: command_line.clone(), schedulers, machines: nominal, events: vec![] };
    let (save, report) = (outputs.save.as_ref(), outputs.report.as_ref());
    let how =
        Delivery { format: outputs.format, all: outputs.all, pairs: outputs.pairs, suites, save, report, interrupted };
    let delivered = how.deliver(&reports, &refusals, &setup);
    if let Some(to) = &outputs.coverage {
        tell_coverage(&covered, to.as_ref(), outputs.format)?;
    }
    written.and(delivered)?;
    refusals.fail()?;
    Ok(reports.iter().all(RunReport::is_fine))
}

/// Shows line coverage, or writes it to a file. Next to a JSON or CSV document on standard output it goes to standard
/// error.
fn tell_coverage(coverage: &Coverage, to: Option<&Target>, format: Format) -> Result<()> {
    match to {
        Some(target) => Ok(target.write(coverage::to_lcov(coverage).as_bytes())?),
        None if format == Format::Text => output::print(&coverage::to_text(coverage)).map(|_| ()),
        None => {
            crate::output::tell(&coverage::to_text(coverage));
            Ok(())
        }
    }
}

/// Executes a run without outputs and counts the lines that it executes.
///
/// # Errors
/// If it cannot start.
pub fn covered(run: Run<'_>) -> Result<(RunReport, Coverage)> {
    let mut checker = run.checker();
    let (outcome, coverage) = simulator::run_covered(&run.setup(), &mut checker, &mut |_| ())?;
    Ok((judged(run, outcome, checker), coverage))
}

/// Executes a run, checks it, and passes its events to `sink`. Returns the scheduler's object too, if it has one.
///
/// # Errors
/// If it cannot start.
pub fn observed(run: Run<'_>, sink: &mut dyn Sink) -> Result<(RunReport, Option<LinkedObject>)> {
    let mut object = None;
    let mut keep = |_: &mut Kernel, linked: &LinkedObject| object = Some(linked.clone());
    let mut sinks = Tee(run.checker(), sink);
    let outcome = simulator::run_then(&run.setup(), &mut sinks, &mut |_| (), &mut keep)?;
    Ok((judged(run, outcome, sinks.0), object))
}

fn judged(run: Run<'_>, outcome: simulator::Outcome, checker: invariants::Checker) -> RunReport {
    let findings = checker.finish(outcome.measures.elapsed);
    let end = run.conditions.duration.or(run.workload.duration);
    worlds::simulated::report(run.tags(), outcome, end, Some(findings))
}

/// Executes a run without outputs.
///
/// # Errors
/// If it cannot start.
pub fn result(run: Run<'_>, progress: &Progress) -> Result<RunReport> {
    run_one(run, None, progress).map(|done| done.report)
}

/// Executes all runs without outputs; results are in the order of `runs`.
///
/// # Errors
/// If a signal ended them before all had finished.
pub fn reports(runs: &[Run<'_>]) -> Result<Vec<Result<RunReport>>> {
    let progress = Progress::new(runs.len());
    let work = |index: usize| Some(run_one(runs[index], None, &progress));
    parallel::run(runs.len(), parallel::threads(runs.len()), work, |results, end| {
        progress.end();
        if end != End::Done {
            bail!("interrupted before all runs had finished");
        }
        Ok(results.into_iter().flatten().map(|done| Ok(done?.report)).collect())
    })
}

/// Executes a run again and passes its events to `sink`. Returns the hash of the events, and the scheduler's object if
/// it has one.
///
/// # Errors
/// If it cannot start.
pub fn reproduce(run: Run<'_>, sink: &mut dyn Sink) -> Result<(u128, Option<LinkedObject>)> {
    let mut object = None;
    let mut keep = |_: &mut Kernel, linked: &LinkedObject| object = Some(linked.clone());
    let outcome = simulator::run_then(&run.setup(), sink, &mut |_| (), &mut keep)?;
    Ok((outcome.log_hash, object))
}

fn run_one(run: Run<'_>, outputs: Option<&Outputs>, progress: &Progress) -> Result<Done> {
    let Run { scheduler, machine, workload, conditions, .. } = run;
    let (tags, setup) = (run.tags(), run.setup());
    let trace_to = outputs.and_then(|outputs| outputs.trace.as_ref());
    let log_to = outputs.and_then(|outputs| outputs.log.as_ref());
    let trace = trace_to.map(Target::create).transpose()?;
    let trace = trace.map(|out| perfetto::Writer::new(out, &conditions.kernel.to_string()));
    let (lines, log) = match log_to {
        None => (None, None),
        Some(target) if target.path().extension().is_some_and(|extension| extension == "jsonl") => {
            (Some(JsonLines::new(target.create()?)), None)
        }
        Some(target) => (None, Some(LogWriter::new(target.create()?, &worlds::header(&tags, output::VERSION))?)),
    };
    let printer = Printer::new(progress.is_of_one().then_some(progress));
    let mut sinks = Tee(run.checker(), Tee(printer, Tee(trace, Tee(lines, log))));
    let end = conditions.duration.or(workload.duration);
    let mut part = progress.begin(end);
    let mut tell = |now| part.tell(now);
    let outcome = match outputs.and_then(|outputs| outputs.coverage.as_ref()) {
        None => simulator::run(&setup, &mut sinks, &mut tell).map(|outcome| (outcome, Coverage::default())),
        Some(_) => simulator::run_covered(&setup, &mut sinks, &mut tell),
    };
    part.end();
    let (outcome, coverage) = outcome.with_context(|| format!("{} on {}", scheduler.name, machine.name))?;
    let Tee(checker, Tee(printer, Tee(trace, Tee(lines, log)))) = sinks;
    let traced = trace.map_or(Ok(()), |trace| place(trace.finish(), trace_to));
    let logged = lines.map_or(Ok(()), |lines| place(lines.finish(), log_to));
    let logged = logged.and(log.map_or(Ok(()), |log| place(log.finish(), log_to)));
    let findings = checker.finish(outcome.measures.elapsed);
    let mut report = worlds::simulated::report(tags, outcome, end, Some(findings));
    report.measures.divide(workload.labels());
    Ok(Done { report, printed: printer.finish(), coverage, written: traced.and(logged) })
}

/// Puts a complete trace or log at its target.
pub fn place(written: std::io::Result<OutputFile>, target: Option<&Target>) -> Result<()> {
    let file = written.with_context(|| target.map(|target| target.path().display().to_string()).unwrap_or_default())?;
    Ok(file.finish().map(|_| ())?)
}
