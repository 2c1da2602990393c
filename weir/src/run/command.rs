// SPDX-License-Identifier: GPL-2.0-only
//! A command that is measured.

use super::{Followed, Outside, SIGTERM};
use anyhow::{Context, Result};
use event_log::Sink;
use host::signals::{self, Signals};
use kernel_link::meter::Meter;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// After the command itself has ended, its descendants may live on. When none of them has run for so long, they are
/// daemons, and the run is over without them.
const QUIET: Duration = Duration::from_secs(2);

/// What a command reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// The same as this process.
    Same,
    /// The same, but what it writes to standard output goes to standard error.
    Apart,
    /// That, and it reads nothing: keys are for this process.
    Captured,
}

/// Starts it.
pub fn start<S: Sink>(meter: &Meter<S>, words: &[OsString], channels: Channels, signals: &Signals) -> Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if channels != Channels::Same {
        command.stdout(io::stderr());
    }
    if channels == Channels::Captured {
        command.stdin(Stdio::null());
    }
    Ok(signals.unblocked(|| meter.spawn(&mut command))?)
}

/// Measures until the command and its descendants have ended, or the scheduler was ejected.
pub fn follow<S: Sink>(meter: &mut Meter<S>, child: &mut Child, outside: &mut Outside<'_>) -> Result<Followed> {
    let (mut status, mut stopped, mut cut) = (None, false, false);
    outside.begin();
    let (mut seen, mut last_news) = (0, Instant::now());
    loop {
        meter.receive_within(outside.until_call())?;
        if meter.own_events() != seen {
            (seen, last_news) = (meter.own_events(), Instant::now());
        }
        if let Some(exit) = outside.look()? {
            return Ok(Followed { ejected: Some(exit), status: None, failure: None, cut: false });
        }
        stopped |= outside.signals.pass_on(child.id());
        if !stopped && outside.is_time_up() {
            (stopped, cut) = (true, true);
            signals::send(child.id(), SIGTERM);
        }
        if status.is_none() {
            status = child.try_wait().context("cannot wait for the command")?;
        }
        let Some(status) = status else { continue };
        if !meter.has_begun() {
            return Err(kernel_link::LinkError::NothingSeen.into());
        }
        if meter.is_over() || stopped || last_news.elapsed() >= QUIET {
            // The end that --for asks for is no failure.
            let asked_for = cut && status.signal() == Some(SIGTERM);
            let failure = failure(status).filter(|_| !asked_for);
            return Ok(Followed { ejected: None, status: status_of(status), failure, cut: asked_for });
        }
    }
}

/// Lets a command that outlives the measuring end.
pub fn wait(child: &mut Child, signals: &Signals) -> Result<ExitStatus> {
    loop {
        signals.pass_on(child.id());
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// As a shell has it in `$?`.
pub fn status_of(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

/// What is said of a command that failed.
pub fn failure(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| format!("the command failed: {status}"))
}
