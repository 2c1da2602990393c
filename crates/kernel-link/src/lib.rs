// SPDX-License-Identifier: GPL-2.0-only
//! Loads BPF programs into the running kernel. The only user of libbpf.
//!
//! - [`record`] runs a command and records what its processes do: CPU time between sleeps, the cause of each sleep, forks.
//!   Its programs are in `bpf/record.bpf.c`; the crate `recording` turns their events into a workload.
//! - [`scheduler`] loads a sched_ext object with its launch profile, watches it, and unloads it.
//! - [`meter`] measures runs with the events of the simulator; [`watch`] counts switches and latencies for the live view.
//! - [`tables`] adds up states of tasks, waits for locks, wakeups and interrupts.

mod calibrate;
mod complaints;
mod cost;
mod error;
mod kernel;
pub mod meter;
pub mod newidle;
mod own_time;
mod probes;
mod recorder;
pub mod scheduler;
mod stream;
pub mod tables;
pub mod watch;

pub use error::LinkError;
pub use recorder::{RecordScope, RecordSummary};

use host::signals::Signals;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use workload::{Earlier, Recording, RecordingMeta, Start, WorkloadError};

/// A recorded workload with a summary.
#[derive(Debug)]
pub struct Recorded {
    /// The recording. Of a long recording it has only the last part of the tasks' scripts, but all tasks.
    pub recording: Recording,
    /// The earlier part, written during the recording.
    pub earlier: Option<Earlier<File>>,
    /// Summary.
    pub summary: RecordSummary,
}

impl Recorded {
    /// Writes the recording to `out` and returns its size in bytes.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_to(self, out: impl Write) -> Result<u64, WorkloadError> {
        match self.earlier {
            None => self.recording.write_to(out),
            Some(earlier) => self.recording.write_after(earlier, out),
        }
    }
}

/// Options of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordOptions<'a> {
    /// Directory for the unnamed temporary file of a long recording; `None` stands for the default temporary
    /// directory.
    pub directory: Option<&'a Path>,
    /// Record command lines, which may contain file names, tokens and passwords.
    pub command_lines: bool,
    /// Time after which the command gets SIGTERM, which ends the recording.
    pub limit: Option<Duration>,
}

/// Records a command, which inherits this process's standard streams, or running processes. `name` becomes the name
/// of the workload.
///
/// The recorded tree is the command and all its descendants, including those that outlive their parents. The
/// recording ends when all of them have exited, or when the command has exited and no other task of the tree has run
/// for two seconds: those are daemons. Running processes are recorded from their current state on, running or
/// sleeping; that recording ends when all of them have exited, or after a signal, and does not include kthreads.
///
/// `signals` are forwarded to the command; once it has exited after one, the recording ends.
pub fn record(
    name: &str,
    scope: RecordScope<'_>,
    options: RecordOptions<'_>,
    signals: &Signals,
) -> Result<Recorded, LinkError> {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The exec of existing tasks is not observed, so their command lines are read now.
    let commands: BTreeMap<u32, String> = match scope {
        RecordScope::Command(_) => BTreeMap::new(),
        RecordScope::Processes(_) | RecordScope::Machine => kernel::command_lines()?,
    };
    let (parts, summary) = recorder::run(name, scope, options, signals)?;
    let recorder::Parts { mut workload, observed, earlier } = parts;
    for task in workload.tasks.iter_mut().filter(|task| task.command.is_none() && task.start != Start::Forked) {
        task.command = task.who.tgid.and_then(|tgid| commands.get(&tgid).cloned());
    }
    if !options.command_lines {
        workload.tasks.iter_mut().for_each(|task| task.command = None);
    }
    let command = match scope {
        RecordScope::Command(command) => {
            let kept = if options.command_lines { command } else { &command[..1] };
            recording::convert::command_line(kept.iter().map(|one| one.to_string_lossy()))
        }
        RecordScope::Processes(processes) => {
            let numbers = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            format!("(running already: {numbers})")
        }
        RecordScope::Machine => "(the whole machine)".to_owned(),
    };
    let meta = RecordingMeta {
        command,
        recorded_at_unix_s: begin,
        kernel: host::proc::name_and_release()?,
        cpu_model: host::proc::cpu_model()?,
        cpus: kernel::host()?.cpus.len() as u32,
        elapsed: summary.wall,
        lost_events: summary.lost(),
        notes: summary.note(),
        costs: summary.costs,
        scheduling: summary.scheduling,
    };
    Ok(Recorded { recording: Recording { meta, workload, observed }, earlier, summary })
}
