// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep`: the runs of a campaign, each a run of `weir sim`; only those that are missing are done.

pub mod args;
mod execute;
mod planned;
mod results;
mod show;
mod slurm;
mod tables;

use crate::args::Format;
use crate::{output, parallel};
use anyhow::{Context, Result, bail};
use args::{Place, Sweep};
use campaign::{Campaign, Store};
use execute::Done;
use output_file::Target;
use planned::{Planned, Plans, distinct};
use report::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Outcome of runs that did what they should.
const COMPLETED: &str = "completed";

/// How far a campaign is.
struct Status {
    /// Distinct runs.
    runs: usize,
    finished: usize,
    /// Runs finished by this process.
    now: usize,
    /// Finished runs by outcome.
    outcomes: BTreeMap<String, u64>,
    /// Finished runs in the directory that are not of this campaign, or of another version of an input or of Weir.
    others: usize,
    /// Lines that a kill has cut off.
    torn: u64,
    /// Tables that were written.
    tables: bool,
}

/// Does the runs of a campaign, or shows its results. Returns false if some finished run did not complete.
///
/// # Errors
/// If the usage or an input is bad, or results cannot be kept.
pub fn sweep(args: &Sweep) -> Result<bool> {
    let [page] = output::check([("--report", args.report.as_deref())])?;
    let campaign = planned::read(&args.file)?;
    let plans = Plans::of(&campaign)?;
    let all = plans.runs().with_context(|| args.file.display().to_string())?;
    output::refuse_inputs([&page])?;
    match args {
        Sweep { status: true, .. } => {
            let status = Status::of(args, &all, 0)?;
            tell_status(args, &status, &page, &all)?;
            Ok(true)
        }
        Sweep { missing: true, .. } => missing(args, &campaign, &all).map(|()| true),
        Sweep { show: Some(axis), .. } => {
            let shown = show::read(&args.out, &all, show::axis(axis.as_deref(), &all)?)?;
            output::print(&shown.to_output(args.format, args.all)?)?;
            page.map_or(Ok(()), |target| shown.write_page(&target)).map(|()| true)
        }
        Sweep { tables: true, .. } => finish(args, &all, Done { count: 0, is_interrupted: false }, &page),
        Sweep { on: Place::Slurm, shard: Some(_), .. } => {
            bail!("--shard: --on slurm divides the runs itself; expected --parts N")
        }
        Sweep { on: Place::Slurm, .. } => slurm::execute(args, &all, |done| finish(args, &all, done, &page)),
        Sweep { on: Place::Local, .. } => execute::execute(args, &all, |done| finish(args, &all, done, &page)),
    }
}

/// Writes the tables and says how far the campaign is.
fn finish(args: &Sweep, all: &[Planned<'_>], done: Done, page: &Option<Target>) -> Result<bool> {
    let mut status = Status::of(args, all, done.count)?;
    // Parts would overwrite each other's tables with fewer runs; the one that finds all runs finished writes them.
    if args.shard.is_none() || status.finished == status.runs {
        tables::write(&args.out, all)?;
        status.tables = true;
    }
    if done.is_interrupted {
        parallel::tell_interrupted(status.finished, status.runs);
    }
    tell_status(args, &status, page, all)?;
    Ok(status.outcomes.keys().all(|outcome| outcome == COMPLETED))
}

fn tell_status(args: &Sweep, status: &Status, page: &Option<Target>, all: &[Planned<'_>]) -> Result<()> {
    match args.format {
        Format::Text => output::print(&status.to_text(args))?,
        Format::Json => output::print(&(serde_json::to_string_pretty(&status.to_json(args))? + "\n"))?,
        Format::Csv => {
            let shown = show::read(&args.out, all, show::axis(None, all)?)?;
            output::print(&shown.to_output(Format::Csv, false)?)?
        }
    };
    match page {
        None => Ok(()),
        Some(target) => show::read(&args.out, all, show::axis(None, all)?)?.write_page(target),
    }
}

/// Prints the command line of each missing run.
fn missing(args: &Sweep, campaign: &Campaign, all: &[Planned<'_>]) -> Result<()> {
    let store = Store::open(&[&args.out], &results::keys())?;
    let runs: Vec<&Planned<'_>> = distinct(all).into_iter().filter(|planned| !store.has(planned.id)).collect();
    let text = match args.format {
        Format::Json => {
            let line = |planned: &&Planned<'_>| json!({ "run_id": planned.id.to_string(), "command": planned.command_line(campaign) });
            let lines: Vec<Value> = runs.iter().map(line).collect();
            serde_json::to_string_pretty(&json!({ "weir": 1, "missing": lines }))? + "\n"
        }
        _ => runs.iter().map(|planned| planned.command_line(campaign) + "\n").collect(),
    };
    output::print(&text).map(|_| ())
}

impl Status {
    fn of(args: &Sweep, all: &[Planned<'_>], now: usize) -> Result<Status> {
        let mut store = Store::open(&[&args.out], &results::keys())?;
        let runs = distinct(all);
        let mut outcomes = BTreeMap::new();
        let mut finished = 0;
        for planned in &runs {
            if let Some(run) = store.read(planned.id)? {
                finished += 1;
                *outcomes.entry(run.outcome).or_insert(0) += 1;
            }
        }
        let (others, torn) = (store.len() - finished, store.torn());
        Ok(Status { runs: runs.len(), finished, now, outcomes, others, torn, tables: false })
    }

    fn to_text(&self, args: &Sweep) -> String {
        let Status { runs, finished, now, outcomes, others, torn, .. } = self;
        let mut text = format!("{}: {finished} of {} finished", args.file.display(), counted(*runs as u64, "run"));
        if *now > 0 && now < finished {
            text += &format!(", {now} of them now");
        }
        text.push('\n');
        for (outcome, count) in outcomes.iter().filter(|(outcome, _)| *outcome != COMPLETED) {
            let verb = match outcome.as_str() {
                "ejected" => "ended with the ejection of the scheduler",
                "refused" => "could not load the scheduler",
                _ => "violated an invariant or a promise",
            };
            text += &format!("{} {verb}\n", counted(*count, "run"));
        }
        if *others > 0 {
            let text_of = counted(*others as u64, "finished run");
            text += &format!("{text_of} of another campaign or version: not used\n");
        }
        if *torn > 0 {
            text += &format!("{} cut off by a kill: not used\n", counted(*torn, "result"));
        }
        if self.tables {
            let [runs, histograms] = tables::paths(&args.out);
            text += &format!("{}\n{}\n", runs.display(), histograms.display());
        }
        if finished < runs {
            let missing = counted((runs - finished) as u64, "run");
            text += &format!("{missing} missing: weir sweep without --status does them, --missing lists them\n");
        }
        report::clean(&text).into_owned()
    }

    fn to_json(&self, args: &Sweep) -> Value {
        let paths = tables::paths(&args.out).map(|path| path.display().to_string());
        json!({
            "weir": 1,
            "sweep": {
                "campaign": args.file.display().to_string(),
                "runs": self.runs,
                "finished": self.finished,
                "finished_now": self.now,
                "missing": self.runs - self.finished,
                "outcomes": self.outcomes,
                "others": self.others,
                "cut_off": self.torn,
                "tables": if self.tables { paths.to_vec() } else { Vec::new() },
            },
        })
    }
}
