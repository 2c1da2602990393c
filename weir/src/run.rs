// SPDX-License-Identifier: GPL-2.0-only
//! `weir run`: a command in this machine's kernel, measured as a simulated run is.

use crate::args::{Format, Run};
use crate::print;
use anyhow::{Context, Result};
use event_log::{Sink, perfetto};
use ids::Nanos;
use live::meter::{Measured, Meter, Scope, host_machine};
use live::signals::{self, Signals};
use report::RunReport;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// After the command itself has ended, its descendants may live on. When none of them has run for so long, they are
/// daemons, and the run is over without them.
const QUIET: Duration = Duration::from_secs(2);

const SIGTERM: i32 = 15;

/// Runs and reports. False if something was wrong with the run.
pub fn run(args: &Run) -> Result<bool> {
    let machine = host_machine()?;
    let kernel = live::kernel_release()?;
    let trace = args.trace.as_deref().map(create).transpose()?;
    let trace = trace.map(|out| perfetto::Writer::new(out, &kernel));
    let signals = Signals::block()?;
    let mut meter = Meter::start(&machine, Scope::Command, trace)?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if args.format == Format::Json {
        command.stdout(io::stderr());
    }
    let child = signals.unblocked(|| meter.spawn(&mut command))?;
    let status = follow(&mut meter, child, &signals, args.duration)?;
    let (measured, trace) = meter.finish(Nanos::ZERO)?;
    if let Some(path) = &args.trace {
        trace.map(perfetto::Writer::finish).transpose().with_context(|| path.display().to_string())?;
    }
    let report = report_of(args, &kernel, measured, status);
    let fine = report.meter.as_ref().is_some_and(|meter| meter.failure.is_none() && meter.lost_events == 0);
    let text = match args.format {
        Format::Text => report::to_text(&[report]),
        Format::Json => report::to_json(&[report]),
    };
    print(&text)?;
    Ok(fine)
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
}

/// Measures until the command and its descendants have ended.
fn follow<S: Sink>(
    meter: &mut Meter<S>,
    mut child: Child,
    signals: &Signals,
    duration: Option<Nanos>,
) -> Result<ExitStatus> {
    let deadline = duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let (mut status, mut stopped) = (None, false);
    let (mut seen, mut last_news) = (0, Instant::now());
    loop {
        meter.receive()?;
        if meter.own_events() != seen {
            (seen, last_news) = (meter.own_events(), Instant::now());
        }
        while let Some(stop) = signals.take() {
            stopped = true;
            if stop.only_here {
                signals::send(child.id(), stop.signal);
            }
        }
        if !stopped && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            stopped = true;
            signals::send(child.id(), SIGTERM);
        }
        if status.is_none() {
            status = child.try_wait().context("cannot wait for the command")?;
        }
        let Some(status) = status else { continue };
        if !meter.has_begun() {
            return Err(live::LiveError::NothingSeen.into());
        }
        if meter.is_over() || stopped || last_news.elapsed() >= QUIET {
            return Ok(status);
        }
    }
}

fn report_of(args: &Run, kernel: &str, measured: Measured, status: ExitStatus) -> RunReport {
    let Measured { measures, log_hash, cost } = measured;
    let meter = report::Meter {
        events: cost.events,
        lost_events: cost.lost(),
        probes: cost.probes,
        probe_runs: cost.probe_runs,
        reader: cost.reader,
        unfinished_tasks: cost.unfinished,
        failure: (!status.success()).then(|| status.to_string()),
    };
    RunReport {
        scheduler: "kernel".to_owned(),
        machine: "host".to_owned(),
        workload: live::convert::command_line(args.command.iter().map(|one| one.to_string_lossy())),
        seed: 0,
        kernel: kernel.to_owned(),
        ejected: None,
        deadlocked: false,
        failed_forks: 0,
        refused_changes: 0,
        restarts: 0,
        log_hash,
        meter: Some(meter),
        measures,
    }
}
