// SPDX-License-Identifier: GPL-2.0-only
//! Runs and measures a command.

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

/// Descendants may outlive the command. If none of them has run for this long, they are taken for daemons, and the
/// run ends without them.
const QUIET: Duration = Duration::from_secs(2);

/// Standard input and output of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// Inherited from this process.
    Same,
    /// Inherited, except that standard output is redirected to standard error.
    Apart,
    /// As `Apart`, and standard input is empty because key presses are for the screen.
    Captured,
}

/// Starts the command, measured from its first instruction on.
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

/// Measures until the command and its descendants have exited, or the scheduler is ejected.
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
            // Being killed by the SIGTERM of --for is not a failure.
            let asked_for = cut && status.signal() == Some(SIGTERM);
            let failure = failure(status).filter(|_| !asked_for);
            return Ok(Followed { ejected: None, status: status_of(status), failure, cut: asked_for });
        }
    }
}

/// Waits for a command that outlives the measurement.
pub fn wait(child: &mut Child, signals: &Signals) -> Result<ExitStatus> {
    loop {
        signals.pass_on(child.id());
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Exit status as in a shell's `$?`.
pub fn status_of(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

/// Failure message of a command.
pub fn failure(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| format!("the command failed: {status}"))
}
