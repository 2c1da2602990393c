// SPDX-License-Identifier: GPL-2.0-only
//! Loads BPF programs into the running kernel. The only user of libbpf.
//!
//! - [`record`] runs a command and records what its processes do: CPU time between sleeps, the cause of each sleep, forks.
//!   Its programs are in `bpf/record.bpf.c`; the crate `recording` turns their events into a workload.
//! - [`scheduler`] loads a sched_ext object with its launch profile, watches it, and unloads it.
//! - [`meter`] measures runs with the events of the simulator; [`watch`] counts switches and latencies for the live view.

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
pub mod watch;

pub use error::LinkError;
pub use recorder::{RecordSummary, Whom};

use host::signals::Signals;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use workload::{Earlier, Recording, RecordingMeta, Start, WorkloadError};

/// A recorded workload and what recording it was like.
#[derive(Debug)]
pub struct Recorded {
    /// What was recorded; of a long recording the last part of what the tasks did, but all tasks.
    pub recording: Recording,
    /// What came before that.
    pub earlier: Option<Earlier<File>>,
    /// What recording it was like.
    pub summary: RecordSummary,
}

impl Recorded {
    /// Writes the recording's file, and says how many bytes these were.
    ///
    /// # Errors
    /// If `out` does not take them.
    pub fn write_to(self, out: impl Write) -> Result<u64, WorkloadError> {
        match self.earlier {
            None => self.recording.write_to(out),
            Some(earlier) => self.recording.write_after(earlier, out),
        }
    }
}

/// How to record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordOptions<'a> {
    /// Where a long recording is kept while it goes on, in a file without a name; without, where temporary files are.
    pub folder: Option<&'a Path>,
    /// Keep the command line of each process, with whatever stands in it: names of files, tokens, passwords.
    pub command_lines: bool,
    /// The command gets SIGTERM after this time, and the recording ends with it.
    pub limit: Option<Duration>,
}

/// Records a command, which gets this process's standard streams, or what runs already. `name` will be the workload's.
///
/// The tree is the command and all its descendants, also those that outlive their parents. The recording ends when all
/// of them have ended, or when the command has and none of the others has run for two seconds: those are daemons.
/// What runs already begins with what it does then, running or asleep; the recording ends when all of it has ended, or after a
/// signal. Threads of the kernel are not recorded so.
///
/// `signals` are passed on to the command; once it has ended after one, the recording ends too.
///
/// Lost events are no error: they are in the summary and in the recording, and the caller should say so loudly. A run that
/// is longer than a workload may be is cut, see [`RecordSummary::cut_at`].
///
/// # Errors
/// If this process is not root, the kernel lacks BTF or a tracepoint, or the command cannot be started.
pub fn record(
    name: &str,
    whom: Whom<'_>,
    options: RecordOptions<'_>,
    signals: &Signals,
) -> Result<Recorded, LinkError> {
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Of those that are there already, nobody will see what they were started with.
    let commands: BTreeMap<u32, String> = match whom {
        Whom::Command(_) => BTreeMap::new(),
        Whom::Processes(_) | Whom::Machine => kernel::command_lines()?,
    };
    let (parts, summary) = recorder::run(name, whom, options, signals)?;
    let recorder::Parts { mut workload, observed, earlier } = parts;
    for task in workload.tasks.iter_mut().filter(|task| task.command.is_none() && task.start != Start::Forked) {
        task.command = task.who.tgid.and_then(|tgid| commands.get(&tgid).cloned());
    }
    if !options.command_lines {
        workload.tasks.iter_mut().for_each(|task| task.command = None);
    }
    let command = match whom {
        Whom::Command(command) => {
            let kept = if options.command_lines { command } else { &command[..1] };
            recording::convert::command_line(kept.iter().map(|one| one.to_string_lossy()))
        }
        Whom::Processes(processes) => {
            let numbers = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            format!("(running already: {numbers})")
        }
        Whom::Machine => "(the whole machine)".to_owned(),
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
