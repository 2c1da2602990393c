// SPDX-License-Identifier: GPL-2.0-only
//! `weir record`: runs a command on this machine and writes the behavior of its tasks to a workload file.

mod check;

use crate::args::Record;
use anyhow::{Context, Result, anyhow};
use host::signals::Signals;
use kernel_link::{RecordOptions, RecordScope, RecordSummary};
use output_file::{Privacy, Target};
use report::counted;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Records and writes the file. Returns false if the command failed or events were lost.
pub fn record(args: &Record) -> Result<bool> {
    let scope = match (&args.pid[..], args.all) {
        ([], false) => RecordScope::Command(&args.command),
        ([], true) => RecordScope::Machine,
        (processes, _) => RecordScope::Processes(processes),
    };
    let name = name_of(scope)?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(&name).with_extension("weir"));
    let stem = output.file_stem().unwrap_or(&name).to_string_lossy().into_owned();
    // Command lines may have passwords.
    let target = Target::check(&output, Privacy::Private)?;
    let limit = args.duration.map(|limit| Duration::from_nanos(limit.0));
    let options = RecordOptions { directory: target.directory(), command_lines: !args.no_argv, limit };
    let signals = Signals::block()?;
    let recorded = kernel_link::record(&stem, scope, options, &signals)?;
    let summary = recorded.summary.clone();
    let tasks = &recorded.recording.workload.tasks;
    let command_lines = tasks.iter().filter(|task| task.command.is_some()).count() as u64;
    let written = write(recorded, &target);
    let wrote = |bytes: &u64| say!("weir: wrote {} ({} KB)", output.display(), bytes.div_ceil(1000));
    written.iter().for_each(wrote);
    crate::output::tell(&report(&summary));
    written?;
    // The recording is complete: from here on a signal has its usual effect.
    drop(signals);
    if target.directory().is_some() {
        check::check(&target)?;
    }
    if command_lines > 0 {
        let lines = counted(command_lines, "command line");
        let stored = if command_lines == 1 {
            "is stored in it, including any password or token on it"
        } else {
            "are stored in it, including any password or token on them"
        };
        say!("weir: {lines} {stored}; --no-argv leaves them out");
    }
    Ok((summary.status.success() || summary.was_ended) && summary.lost() == 0)
}

/// Writes the recording and returns its size in bytes.
fn write(recorded: kernel_link::Recorded, target: &Target) -> Result<u64> {
    let mut file = target.create()?;
    recorded.write_to(&mut file).with_context(|| format!("cannot write {}", target.path().display()))?;
    Ok(file.finish()?)
}

/// Default name of a recording.
fn name_of(scope: RecordScope<'_>) -> Result<OsString> {
    match scope {
        RecordScope::Command(command) => {
            let program = Path::new(&command[0]);
            let name = program.file_name().ok_or_else(|| anyhow!("{} is not a program", program.display()))?;
            Ok(name.to_owned())
        }
        RecordScope::Processes(processes) => Ok(format!("process-{}", processes[0]).into()),
        RecordScope::Machine => Ok("machine".into()),
    }
}

/// Summary of the recording for standard error.
fn report(summary: &RecordSummary) -> String {
    let mut text = format!(
        "weir: {}, {} of CPU time in {}\n\
         weir: probes took {:.2} % of all CPU time, their reader {:.2} %; {}, {} lost\n",
        counted(summary.tasks.into(), "task"),
        summary.cpu,
        summary.wall,
        summary.probe_percent(),
        summary.consumer_percent(),
        counted(summary.events, "event"),
        summary.lost(),
    );
    text.push_str(&scheduling(summary));
    if summary.lost() > 0 {
        text.push_str("weir: warning: events were lost: durations and wakers of sleeps may be wrong\n");
        text.extend(summary.lost_where().iter().map(|place| format!("weir: lost {place}\n")));
    }
    if summary.unseen_wakeups > 0 {
        let wakeups = counted(summary.unseen_wakeups, "wakeup");
        text.push_str(&format!("weir: the kernel hid {wakeups}; each is recorded as an outside event\n"));
    }
    if let Some(at) = summary.cut_at {
        text.push_str(&format!("weir: warning: the recording is full: it is cut at {at}\n"));
    }
    if summary.unfinished > 0 {
        let tasks = counted(summary.unfinished.into(), "task");
        text.push_str(&format!("weir: {tasks} still alive at the end of the recording\n"));
    }
    if summary.was_ended {
        text.push_str("weir: the command got SIGTERM after the time limit\n");
    } else if !summary.status.success() {
        text.push_str(&format!("weir: warning: the command failed: {}\n", summary.status));
    }
    text
}

/// Scheduling overhead that was subtracted from the tasks' work, and the costs used for it.
fn scheduling(summary: &RecordSummary) -> String {
    let costs = &summary.costs;
    let named = [
        ("a switch", costs.switch),
        ("a wakeup", costs.wake),
        ("an IPI", costs.interrupt),
        ("an IPI to a halted CPU", costs.interrupt_to_halted),
    ];
    let named = named.iter().filter_map(|(name, cost)| Some(format!("{name} {}", cost.as_ref()?.typical)));
    format!(
        "weir: {} of CPU time was scheduling overhead and was subtracted: {}\n",
        summary.scheduling,
        named.collect::<Vec<_>>().join(", ")
    )
}
