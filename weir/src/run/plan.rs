// SPDX-License-Identifier: GPL-2.0-only
//! The plan of `weir run`: everything that the command line names, resolved and checked before the run.

use crate::args::{Format, Run};
use crate::output::{self, quote};
use crate::run::screen;
use crate::select::{self, Scheduler};
use crate::{input, notes};
use anyhow::{Result, anyhow, bail};
use executor::DiskDirectory;
use fault_plan::FaultPlan;
use ids::Nanos;
use output_file::Target;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use workload::Workload;

/// What a run measures.
enum Subject {
    /// A command with its arguments.
    Command(Vec<OsString>),
    /// A workload that is executed with real tasks.
    Workload(Box<Workload>),
    /// The whole machine, whose statistics are printed until the run is interrupted.
    Machine,
}

/// Output files, checked.
pub struct Outputs {
    pub trace: Option<Target>,
    pub save: Option<Target>,
    pub page: Option<Target>,
}

/// A resolved command line.
pub struct Plan {
    /// The scheduler to load; empty if the active one is measured.
    pub schedulers: Vec<Scheduler>,
    /// Name of that scheduler; `kernel` stands for the active one.
    pub scheduler_name: String,
    subject: Subject,
    /// Name of the workload, or the quoted command.
    pub subject_name: String,
    /// Maximum duration of the run.
    pub duration: Option<Nanos>,
    pub faults: Option<FaultPlan>,
    /// Directories for the workload's disks.
    pub disks: Vec<DiskDirectory>,
    /// The scheduler's promises are checked.
    pub checks_promises: bool,
    /// Affinities that CPU hotplug widens are restored.
    pub keeps_affinity: bool,
    /// The run is shown live on the terminal.
    pub draws: bool,
    /// Interval of machine-wide statistics; `None`: they are not printed.
    pub statistics: Option<Duration>,
    pub format: Format,
    pub outputs: Outputs,
    /// Command line with the name of the active scheduler filled in.
    pub command_line: String,
}

impl Plan {
    /// Resolves a command line. Notes on the workload go to standard error.
    ///
    /// # Errors
    /// If a name is unknown, a file cannot be read or written, or options contradict each other.
    pub fn of(args: &Run) -> Result<Plan> {
        if args.save.is_some() || args.report.is_some() {
            input::remember();
        }
        let named = args.scheduler.as_slice();
        let mut schedulers = select::schedulers(named, args.profile.as_deref()).map_err(|error| hint(args, error))?;
        plan_calls(args, &mut schedulers)?;
        let subject = subject(args)?;
        let workload = if let Subject::Workload(workload) = &subject { Some(&**workload) } else { None };
        let facts = workload.map_or_else(Default::default, simulator::workload_facts);
        for loadable in schedulers.iter_mut().filter_map(|scheduler| scheduler.loadable.as_mut()) {
            loadable.profile = loadable.profile.for_workload(&facts).into_owned();
        }
        let outputs = outputs(args, matches!(subject, Subject::Machine))?;
        let faults = args.faults.as_deref().map(select::faults).transpose()?.filter(|plan| !plan.is_empty());
        if args.format == Format::Text {
            notes::tell_recorded(args.workload.as_slice())?;
        }
        let draws = args.tui && screen::is_possible();
        // Statistics are the only output of a run that measures the whole machine. They also replace a screen that
        // cannot be drawn.
        let needed = matches!(subject, Subject::Machine) || args.tui;
        let every = args.stats.or(args.monitor).or(needed.then_some(1)).filter(|_| !draws);
        Ok(Plan {
            schedulers,
            scheduler_name: scheduler_name(args),
            subject,
            subject_name: subject_name(args),
            duration: args.duration,
            faults,
            disks: args.disks.iter().map(|text| disk(text)).collect::<Result<_>>()?,
            checks_promises: args.check,
            keeps_affinity: args.keep_affinity,
            draws,
            statistics: every.map(Duration::from_secs),
            format: args.format,
            outputs,
            command_line: command_line(args),
        })
    }

    /// The workload that is executed, if one is.
    pub fn workload(&self) -> Option<&Workload> {
        if let Subject::Workload(workload) = &self.subject { Some(workload) } else { None }
    }

    /// The command that is measured, with its arguments; empty if there is none.
    pub fn command(&self) -> &[OsString] {
        if let Subject::Command(command) = &self.subject { command } else { &[] }
    }

    /// Returns true if the run prints statistics of the whole machine until it is interrupted.
    pub fn watches(&self) -> bool {
        matches!(self.subject, Subject::Machine)
    }
}

fn subject(args: &Run) -> Result<Subject> {
    Ok(match &args.workload {
        Some(name) => Subject::Workload(Box::new(select::workload(name, online_cpus()?)?)),
        None if args.command.is_empty() => Subject::Machine,
        None => Subject::Command(args.command.clone()),
    })
}

fn disk(text: &str) -> Result<DiskDirectory> {
    DiskDirectory::parse(text).map_err(|problem| anyhow!("--disk {text}: {problem}"))
}

/// Checks the output files; there are none if the whole machine is measured.
fn outputs(args: &Run, watches: bool) -> Result<Outputs> {
    let files =
        [("--trace", args.trace.as_deref()), ("--save", args.save.as_deref()), ("--report", args.report.as_deref())];
    let check = args.check.then_some(Path::new(""));
    if let Some((option, _)) = files.iter().chain(&[("--check", check)]).find(|(_, it)| watches && it.is_some()) {
        bail!("{option} needs a command or a workload, and none is given");
    }
    if watches && args.format == Format::Csv {
        bail!("--format csv needs a command or a workload, and none is given");
    }
    let [trace, save, page] = output::check(files)?;
    output::refuse_inputs([&trace, &save, &page])?;
    Ok(Outputs { trace, save, page })
}

/// Adds the planned calls to the scheduler.
fn plan_calls(args: &Run, schedulers: &mut [Scheduler]) -> Result<()> {
    let Some(first) = args.calls.first() else { return Ok(()) };
    if schedulers.is_empty() {
        bail!("--call {first}: no scheduler is loaded; expected a scheduler that has this program");
    }
    select::plan(schedulers, &args.calls)
}

/// Number of online CPUs of this machine.
fn online_cpus() -> Result<u32> {
    Ok(select::machine("host")?.online_cpus().len() as u32)
}

/// Improves the error of `weir run ls`, where a command is given in the place of a scheduler.
fn hint(args: &Run, error: anyhow::Error) -> anyhow::Error {
    match &args.scheduler {
        Some(name) if args.command.is_empty() && args.workload.is_none() && select::is_unknown(name) => {
            anyhow!("{error}; write the command after --: weir run -- {name}")
        }
        _ => error,
    }
}

fn scheduler_name(args: &Run) -> String {
    args.scheduler.clone().unwrap_or_else(|| "kernel".to_owned())
}

fn subject_name(args: &Run) -> String {
    match &args.workload {
        Some(workload) => workload.clone(),
        None => recording::convert::command_line(args.command.iter().map(|one| one.to_string_lossy())),
    }
}

fn command_line(args: &Run) -> String {
    let mut words = vec!["weir run".to_owned(), quote(&scheduler_name(args))];
    let mut option = |name: &str, value: &str| words.push(format!("--{name} {}", quote(value)));
    if let Some(workload) = &args.workload {
        option("workload", workload);
    }
    if let Some(duration) = args.duration {
        option("for", &duration.exact().to_string());
    }
    if let Some(faults) = &args.faults {
        option("faults", faults);
    }
    args.disks.iter().for_each(|disk| option("disk", disk));
    args.calls.iter().for_each(|call| option("call", &call.to_string()));
    if let Some(profile) = &args.profile {
        option("profile", &profile.to_string_lossy());
    }
    if args.check {
        words.push("--check".to_owned());
    }
    if args.keep_affinity {
        words.push("--keep-affinity".to_owned());
    }
    if !args.command.is_empty() {
        words.extend(["--".to_owned(), subject_name(args)]);
    }
    words.join(" ")
}
