// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep`: the runs of a campaign, each a run of `weir sim`; only those that are missing are done.

pub mod args;
mod execute;
mod planned;
mod results;
mod search;
mod show;
mod slurm;
mod tables;

use crate::args::Format;
use crate::{notes, output, parallel};
use anyhow::{Context, Result, bail};
use args::{Place, Sweep};
use campaign::{Axis, Campaign, Store};
use execute::Done;
use output_file::Target;
use planned::{Planned, Plans, distinct};
use report::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Outcome of runs that did what they should.
const COMPLETED: &str = "completed";

/// How far a campaign is.
struct Status {
    /// Distinct runs.
    runs: usize,
    finished: usize,
    /// Runs finished by this process.
    now: usize,
    /// Finished runs by outcome; of this part only while others are missing.
    outcomes: BTreeMap<String, u64>,
    /// Finished runs in the directory that are not of this campaign, or of another version of an input or of Weir.
    others: usize,
    /// Incomplete or damaged lines.
    torn: u64,
    /// Tables that were written.
    tables: bool,
}

/// Does the runs of a campaign, or shows its results. Returns false if some finished run did not complete.
///
/// # Errors
/// If the usage or an input is bad, or results cannot be kept.
pub fn sweep(args: &Sweep) -> Result<bool> {
    if args.parts.is_some() && args.on != Place::Slurm {
        bail!("--parts: only --on slurm divides the runs; expected --shard I/N");
    }
    let [page] = output::check([("--report", args.report.as_deref())])?;
    let campaign = planned::read(&args.file)?;
    notes::give_each_once();
    let plans = Plans::of(&campaign)?;
    let all = plans.runs().with_context(|| args.file.display().to_string())?;
    output::refuse_inputs([&page])?;
    let asked = Asked { args, campaign: &campaign, all: &all, page: &page };
    if let Some(goal) = search::Goal::of(args)? {
        return search::execute(&asked, &goal);
    }
    match args {
        Sweep { status: true, .. } => {
            let mut store = asked.store()?;
            asked.tell(&Status::of(&asked, 0, &mut store)?, &mut store)?;
            Ok(true)
        }
        Sweep { missing: true, .. } => asked.print_missing().map(|()| true),
        Sweep { show: Some(axis), .. } => {
            let axis = show::axis(axis.as_deref(), &all)?;
            let shown = show::read(&args.out, &all, axis, &mut asked.store()?)?;
            output::print(&shown.to_output(args.format, args.all)?)?;
            page.as_ref().map_or(Ok(()), |target| shown.write_page(target)).map(|()| true)
        }
        Sweep { tables: true, .. } => asked.finish(Done { count: 0, is_interrupted: false }),
        Sweep { on: Place::Slurm, shard: Some(_), .. } => {
            bail!("--shard: --on slurm divides the runs itself; expected --parts N")
        }
        Sweep { on: Place::Slurm, .. } => {
            asked.refuse_host()?;
            slurm::execute(args, &all, |done| asked.finish(done))
        }
        Sweep { on: Place::Local, .. } => execute::execute(args, &all, |done| asked.finish(done)),
    }
}

/// What is asked for, resolved.
struct Asked<'a> {
    args: &'a Sweep,
    campaign: &'a Campaign,
    /// The runs of the campaign.
    all: &'a [Planned<'a>],
    page: &'a Option<Target>,
}

impl Asked<'_> {
    /// The finished runs, with all measures.
    fn store(&self) -> Result<Store> {
        Ok(Store::open(&[&self.args.out], &results::keys())?)
    }

    /// Refuses values that mean the computer on which a run is done: nodes would do other runs than those that are
    /// missing here.
    ///
    /// # Errors
    /// If there is one.
    fn refuse_host(&self) -> Result<()> {
        let Some(value) = planned::values_of_host(self.campaign).into_iter().next() else { return Ok(()) };
        let file = self.args.file.display().to_string();
        let place = if value.place.is_empty() { file } else { value.place };
        let expected = if value.key == Axis::Machine.name() { "a preset or a file" } else { "a version" };
        bail!("{place}: {} host differs between nodes; expected {expected}", value.key)
    }

    /// Writes the tables and says how far the campaign is.
    fn finish(&self, done: Done) -> Result<bool> {
        let args = self.args;
        let mut store = self.store()?;
        let mut status = Status::of(self, done.count, &mut store)?;
        // Parts would overwrite each other's tables with fewer runs; the one that finds all runs finished writes them.
        if args.shard.is_none() || status.finished == status.runs {
            tables::write(&args.out, self.all, &mut store)?;
            if let Some(mut store) = execute::tasks_store(args)? {
                tables::write_tasks(&args.out, self.all, &mut store)?;
            }
            status.tables = true;
        }
        if done.is_interrupted {
            parallel::tell_interrupted(status.finished, status.runs, "the same command does the others");
        }
        self.tell(&status, &mut store)?;
        Ok(status.outcomes.keys().all(|outcome| outcome == COMPLETED))
    }

    fn tell(&self, status: &Status, store: &mut Store) -> Result<()> {
        let Asked { args, all, page, .. } = self;
        let shown = |store: &mut Store| show::read(&args.out, all, show::axis(None, all)?, store);
        match args.format {
            Format::Text => output::print(&status.to_text(args))?,
            Format::Json => output::print(&(serde_json::to_string_pretty(&status.to_json(self))? + "\n"))?,
            Format::Csv => output::print(&shown(store)?.to_output(Format::Csv, false)?)?,
        };
        match page {
            None => Ok(()),
            Some(target) => shown(store)?.write_page(target),
        }
    }

    /// Prints the command line of each missing run.
    fn print_missing(&self) -> Result<()> {
        let Asked { args, campaign, all, .. } = self;
        let store = self.store()?;
        let runs: Vec<&Planned<'_>> = distinct(all).into_iter().filter(|planned| !store.has(planned.id)).collect();
        let command = |planned: &Planned<'_>| planned.command_line(campaign);
        let text = match args.format {
            Format::Json => {
                let line =
                    |planned: &&Planned<'_>| json!({ "run_id": planned.id.to_string(), "command": command(planned) });
                let lines: Vec<Value> = runs.iter().map(line).collect();
                serde_json::to_string_pretty(&json!({ "weir": 1, "missing": lines }))? + "\n"
            }
            _ => runs.into_iter().map(|planned| command(planned) + "\n").collect(),
        };
        output::print(&text).map(|_| ())
    }
}

/// Paths of the tables that this command line writes.
fn written(args: &Sweep) -> Vec<PathBuf> {
    tables::paths(&args.out).into_iter().chain(args.tasks.then(|| tables::path_of_tasks(&args.out))).collect()
}

impl Status {
    fn of(asked: &Asked<'_>, now: usize, store: &mut Store) -> Result<Status> {
        let runs = distinct(asked.all);
        let finished = runs.iter().filter(|planned| store.has(planned.id)).count();
        // One of a thousand shards must not read the results of all others: it reports the outcomes of its part.
        let shard = asked.args.shard.filter(|_| finished < runs.len());
        let is_mine = |place: usize| shard.is_none_or(|shard| shard.has(place as u64));
        let mut outcomes = BTreeMap::new();
        for (_, planned) in runs.iter().enumerate().filter(|(place, _)| is_mine(*place)) {
            if let Some(run) = store.read(planned.id)? {
                *outcomes.entry(run.outcome).or_insert(0) += 1;
            }
        }
        let (others, torn) = (store.len() - finished, store.torn());
        Ok(Status { runs: runs.len(), finished, now, outcomes, others, torn, tables: false })
    }

    fn to_text(&self, args: &Sweep) -> String {
        let Status { runs, finished, now, outcomes, others, torn, .. } = self;
        let of_all = report::fraction(*finished as u64, *runs as u64, "run");
        let mut text = format!("{}: {of_all} finished", args.file.display());
        if *now > 0 && now < finished {
            text += &format!(", {} of them now", report::count(*now as u64));
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
            text += &format!("{} in results: ignored\n", counted(*torn, "incomplete or damaged line"));
        }
        if self.tables {
            written(args).iter().for_each(|path| text += &format!("{}\n", path.display()));
        }
        if finished < runs {
            let missing = counted((runs - finished) as u64, "run");
            text += &format!("{missing} missing: weir sweep without --status does them, --missing lists them\n");
        }
        report::clean(&text).into_owned()
    }

    fn to_json(&self, asked: &Asked<'_>) -> Value {
        let args = asked.args;
        let of_host: Vec<&str> = planned::values_of_host(asked.campaign).iter().map(|value| value.key).collect();
        let paths: Vec<String> = written(args).iter().map(|path| path.display().to_string()).collect();
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
                "host": of_host,
                "tables": if self.tables { paths } else { Vec::new() },
            },
        })
    }
}
