// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim`: simulates every combination of scheduler, machine, workload and seed in parallel, and reports in
//! order.

use crate::args::{Format, Sim};
use crate::output::{self, Delivery, create};
use crate::plan::{Outputs, Plan, Run, SEEDS};
use crate::printk::{self, Printed, Printer};
use crate::progress::Progress;
use crate::refusals::Refusals;
use crate::{coverage, notes, save};
use anyhow::{Context, Result};
use bpf_object::LinkedObject;
use event_log::{JsonLines, LogWriter, Sink, Tee, perfetto};
use kernel_model::{Coverage, Kernel};
use report::RunReport;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Result of a run.
struct Done {
    report: RunReport,
    printed: Printed,
    coverage: Coverage,
}

/// Simulates and reports. Returns false if a scheduler was ejected, or a run ended in a deadlock.
pub fn sim(args: &Sim) -> Result<bool> {
    let mut plan = Plan::of(args)?;
    if plan.outputs.format == Format::Text {
        notes::tell_recorded(&plan.suites.workloads)?;
        eprintln!("{}", report::escape(&plan.command_line));
        if plan.seeds_are_default {
            let count = plan.count();
            eprintln!(
                "weir: {count} runs, because schedulers are compared with {SEEDS} seeds; --seed 0 makes one run of each"
            );
        }
    }
    let mut refusals = Refusals::default();
    let broken = std::mem::take(&mut plan.broken);
    let is_comparison = plan.schedulers.len() + broken.len() > 1;
    broken.into_iter().for_each(|(scheduler, error)| refusals.add_broken(&scheduler, &plan.machine_names(), error));
    let mut covered = Coverage::default();
    let mut reports = Vec::new();
    let runs = plan.runs();
    for (run, done) in runs.iter().zip(run_all(&runs, Some(&plan.outputs))) {
        let Done { report, printed, coverage } = match done {
            Ok(done) => done,
            Err(error) if is_comparison => {
                refusals.add(&run.scheduler.name, &run.machine.name, error)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        printk::tell(&output::name(&report), &printed);
        covered.add(&coverage);
        reports.push(report);
    }
    refusals.check(&reports)?;
    let Plan { schedulers, nominal, suites, outputs, command_line, .. } = &plan;
    let setup = save::Setup { command_line: command_line.clone(), schedulers, machines: nominal, events: vec![] };
    let (save, report) = (outputs.save.as_deref(), outputs.report.as_deref());
    let how = Delivery { format: outputs.format, all: outputs.all, suites, save, report };
    how.deliver(&reports, &refusals, &setup)?;
    if let Some(to) = &outputs.coverage {
        tell_coverage(&covered, to.as_deref(), outputs.format)?;
    }
    refusals.fail()?;
    Ok(reports.iter().all(RunReport::is_fine))
}

/// Shows line coverage, or writes it to a file. Next to a JSON or CSV document on standard output it goes to standard
/// error.
fn tell_coverage(coverage: &Coverage, to: Option<&Path>, format: Format) -> Result<()> {
    match to {
        Some(path) => {
            let mut out = create(path)?;
            let written = out.write_all(coverage::to_lcov(coverage).as_bytes()).and_then(|()| out.flush());
            written.with_context(|| path.display().to_string())
        }
        None if format == Format::Text => output::print(&coverage::to_text(coverage)).map(|_| ()),
        None => {
            eprint!("{}", coverage::to_text(coverage));
            Ok(())
        }
    }
}

/// Executes a run without outputs.
///
/// # Errors
/// If it cannot start.
pub fn one(run: Run<'_>, progress: &Progress) -> Result<RunReport> {
    Ok(run_one(run, None, progress)?.report)
}

/// Executes all runs without outputs; results are in the order of `runs`.
pub fn reports(runs: &[Run<'_>]) -> Vec<Result<RunReport>> {
    run_all(runs, None).into_iter().map(|done| Ok(done?.report)).collect()
}

/// Executes all runs, each on a single thread without shared state, on one thread for each host CPU; results are in
/// the order of `runs`.
fn run_all(runs: &[Run<'_>], outputs: Option<&Outputs>) -> Vec<Result<Done>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let (next, progress) = (AtomicUsize::new(0), Progress::new(runs.len()));
    let results: Vec<Mutex<Option<Result<Done>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    *results[index].lock().expect("only this thread locks it") =
                        Some(run_one(*run, outputs, &progress));
                }
            });
        }
    });
    progress.end();
    let done =
        |result: Mutex<Option<_>>| result.into_inner().expect("no thread panicked").expect("every run was executed");
    results.into_iter().map(done).collect()
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
    let (trace_to, log_to) = (outputs.and_then(Outputs::trace), outputs.and_then(Outputs::log));
    let trace = trace_to.map(create).transpose()?;
    let trace = trace.map(|out| perfetto::Writer::new(out, &conditions.kernel.to_string()));
    let (lines, log) = match log_to {
        None => (None, None),
        Some(path) if path.extension().is_some_and(|extension| extension == "jsonl") => {
            (Some(JsonLines::new(create(path)?)), None)
        }
        Some(path) => (None, Some(LogWriter::new(create(path)?, &worlds::header(&tags, output::VERSION))?)),
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
    if let Some(path) = trace_to {
        trace.map(perfetto::Writer::finish).transpose().with_context(|| path.display().to_string())?;
    }
    if let Some(path) = log_to {
        lines.map(JsonLines::finish).transpose().with_context(|| path.display().to_string())?;
        log.map(LogWriter::finish).transpose().with_context(|| path.display().to_string())?;
    }
    let findings = checker.finish(outcome.measures.elapsed);
    let mut report = worlds::simulated::report(tags, outcome, end, Some(findings));
    report.measures.divide(workload.labels());
    Ok(Done { report, printed: printer.finish(), coverage })
}
