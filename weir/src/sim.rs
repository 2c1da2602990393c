// SPDX-License-Identifier: GPL-2.0-only
//! `weir sim`: every scheduler on every machine with every workload, side by side, reported in order.

use crate::args::{Format, Sim};
use crate::select::{self, Scheduler};
use crate::{notes, print};
use anyhow::{Context, Result, bail};
use event_log::{FORMAT, Header, JsonLines, LogWriter, Tee, hash_bytes, perfetto};
use fault_plan::FaultPlan;
use ids::Nanos;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use machine_model::Machine;
use report::{Exit, RunReport};
use simulator::Setup;
use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use workload::Workload;

/// Runs shorter than this show no progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

/// One cell of schedulers × machines × workloads.
#[derive(Clone, Copy)]
struct Run<'a> {
    scheduler: &'a Scheduler,
    machine: &'a Machine,
    workload: &'a Workload,
    faults: &'a FaultPlan,
}

/// Runs and reports. True if a scheduler was ejected, or a run ended in a deadlock.
pub fn sim(args: &Sim) -> Result<bool> {
    let count = args.schedulers.len() * args.machines.len() * args.workloads.len();
    if count > 1 && (args.trace.is_some() || args.log.is_some()) {
        bail!("--trace and --log are for one run, and these are {count}");
    }
    let schedulers = select::schedulers(&args.schedulers, args.profile.as_deref())?;
    notes::tell(&schedulers);
    let machines = args.machines.iter().map(|name| select::machine(name)).collect::<Result<Vec<_>>>()?;
    let workloads = args.workloads.iter().map(|name| select::workload(name)).collect::<Result<Vec<_>>>()?;
    let faults = args.faults.as_deref().map(select::faults).transpose()?.unwrap_or_default();
    let mut runs = Vec::new();
    for workload in &workloads {
        for machine in &machines {
            runs.extend(schedulers.iter().map(|scheduler| Run { scheduler, machine, workload, faults: &faults }));
        }
    }
    if args.format == Format::Text {
        eprintln!("{}", command_line(args));
    }
    let reports = run_all(&runs, args)?;
    let text = match args.format {
        Format::Text => report::to_text(&reports),
        Format::Json => report::to_json(&reports),
    };
    print(&text)?;
    Ok(reports.iter().any(|report| report.ejected.is_some() || report.deadlocked))
}

/// The command line with all defaults filled in: what a bug report needs.
fn command_line(args: &Sim) -> String {
    let mut words = vec!["weir".to_owned(), "sim".to_owned()];
    words.extend(args.schedulers.iter().map(|name| quote(name)));
    let mut option = |name: &str, value: &str| words.extend([format!("--{name}"), quote(value)]);
    args.machines.iter().for_each(|machine| option("machine", machine));
    args.workloads.iter().for_each(|workload| option("workload", workload));
    if let Some(duration) = args.duration {
        option("for", &duration.exact().to_string());
    }
    option("seed", &args.seed.to_string());
    option("kernel", &version(args.kernel));
    if let Some(faults) = &args.faults {
        option("faults", faults);
    }
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    words.join(" ")
}

/// As a shell would need it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./@,=:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn version((major, minor): (u16, u16)) -> String {
    format!("{major}.{minor}")
}

/// Each run is one thread and shares nothing; as many at once as there are CPUs, results in order.
fn run_all(runs: &[Run<'_>], args: &Sim) -> Result<Vec<RunReport>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let (next, bars) = (AtomicUsize::new(0), MultiProgress::new());
    let results: Vec<Mutex<Option<Result<RunReport>>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    *results[index].lock().expect("only this thread locks it") = Some(run_one(*run, args, &bars));
                }
            });
        }
    });
    let done = |result: Mutex<Option<_>>| result.into_inner().expect("no thread panicked").expect("every run was made");
    results.into_iter().map(done).collect()
}

fn run_one(run: Run<'_>, args: &Sim, bars: &MultiProgress) -> Result<RunReport> {
    let Run { scheduler, machine, workload, faults } = run;
    let setup = Setup {
        machine,
        workload,
        object: &scheduler.object,
        profile: &scheduler.profile,
        seed: args.seed,
        duration: args.duration,
        faults,
        kernel: args.kernel,
    };
    let trace = args.trace.as_deref().map(create).transpose()?;
    let trace = trace.map(|out| perfetto::Writer::new(out, &version(args.kernel)));
    let (lines, log) = match args.log.as_deref() {
        None => (None, None),
        Some(path) if path.extension().is_some_and(|extension| extension == "jsonl") => {
            (Some(JsonLines::new(create(path)?)), None)
        }
        Some(path) => (None, Some(LogWriter::new(create(path)?, &header(run, args))?)),
    };
    let mut sinks = Tee(trace, Tee(lines, log));
    let end = args.duration.or(workload.duration);
    let mut progress = Progress::new(bars, run, end);
    let outcome = simulator::run(&setup, &mut sinks, &mut |now| progress.tell(now));
    progress.end();
    let outcome = outcome.with_context(|| format!("{} on {}", scheduler.name, machine.name))?;
    let Tee(trace, Tee(lines, log)) = sinks;
    if let Some(path) = &args.trace {
        trace.map(perfetto::Writer::finish).transpose().with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.log {
        lines.map(JsonLines::finish).transpose().with_context(|| path.display().to_string())?;
        log.map(LogWriter::finish).transpose().with_context(|| path.display().to_string())?;
    }
    // Without a time to stop at, a run ends when all work is done, unless something is wrong.
    let deadlocked = end.is_none() && outcome.ejected.is_none() && outcome.measures.makespan.is_none();
    Ok(RunReport {
        scheduler: scheduler.name.clone(),
        machine: machine.name.clone(),
        workload: workload.name.clone(),
        seed: args.seed,
        kernel: version(args.kernel),
        ejected: outcome.ejected.map(|exit| Exit {
            kind: exit.kind,
            code: exit.code,
            reason: exit.reason,
            message: exit.message,
            fault: exit.fault,
            dump: exit.dump,
        }),
        deadlocked,
        failed_forks: outcome.failed_forks,
        refused_changes: outcome.refused_changes,
        restarts: outcome.restarts.len() as u64,
        log_hash: outcome.log_hash,
        meter: None,
        measures: outcome.measures,
    })
}

fn header(run: Run<'_>, args: &Sim) -> Header {
    Header {
        weir_log: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scheduler: run.scheduler.name.clone(),
        object_hash: format!("{:032x}", hash_bytes(&run.scheduler.bytes)),
        machine: run.machine.name.clone(),
        workload: run.workload.name.clone(),
        seed: args.seed,
        kernel: version(args.kernel),
    }
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
}

/// A bar on the terminal that appears once a run has taken a second.
struct Progress<'a> {
    bars: &'a MultiProgress,
    name: String,
    end: Option<Nanos>,
    began: Instant,
    bar: Option<ProgressBar>,
}

impl<'a> Progress<'a> {
    fn new(bars: &'a MultiProgress, run: Run<'_>, end: Option<Nanos>) -> Progress<'a> {
        let name = format!("{} on {}", run.scheduler.name, run.machine.name);
        Progress { bars, name, end, began: Instant::now(), bar: None }
    }

    fn tell(&mut self, now: Nanos) {
        if self.bar.is_none() && (!std::io::stderr().is_terminal() || self.began.elapsed() < PROGRESS_AFTER) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let (bar, template) = match self.end {
                Some(end) => (ProgressBar::new(end.0), "{prefix} [{bar:30}] {msg}"),
                None => (ProgressBar::new_spinner(), "{prefix} {spinner} {msg}"),
            };
            let style = ProgressStyle::with_template(template).expect("a fixed template");
            self.bars.add(bar.with_style(style).with_prefix(self.name.clone()))
        });
        bar.set_message(now.to_string());
        bar.set_position(now.0);
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    #[test]
    fn the_first_line_makes_the_run_again() {
        let line = |words: &[&str]| match Args::try_parse_from(words).unwrap().command {
            Command::Sim(args) => command_line(&args),
            _ => unreachable!(),
        };
        let words =
            ["weir", "sim", "bfs,x=1", "fifo", "-m", "core:2 pu:1", "-w", "it's", "--for", "1.5s", "--seed", "9"];
        let first = line(&words);
        assert_eq!(
            first,
            r"weir sim bfs,x=1 fifo --machine 'core:2 pu:1' --workload 'it'\''s' --for 1500ms --seed 9 --kernel 7.2"
        );
        assert_eq!(line(&["weir", "sim", "bfs"]), "weir sim bfs --machine host --workload build --seed 0 --kernel 7.2");
    }
}
