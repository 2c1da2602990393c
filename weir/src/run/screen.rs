// SPDX-License-Identifier: GPL-2.0-only
//! `--tui`: live view of a run on the whole terminal.
//!
//! The view is fed by the events of the report, or, without a command or workload, by the sums of `--stats`. The
//! thread that receives the events also draws the frames, at most five per second, so that no extra thread disturbs
//! the run. Its CPU time is part of what the report attributes to the reader of the probes.

use super::whole::Whole;
use anyhow::{Context, Result};
use host::signals::Signals;
use ids::Nanos;
use live_view::{Follower, Head, Snapshot};
use nix::unistd::dup2_stderr;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time between frames.
const FRAME: Duration = Duration::from_millis(200);

/// Number of bytes at the end of the captured output in which its last line is searched.
const LAST_BYTES: u64 = 512;

const KEYS: &str = "q ends the run";

/// Event sink of the screen.
pub type Followed = Rc<RefCell<Follower>>;

/// Data source of the screen.
enum Source {
    /// The run's own tasks, and the time of the first event.
    Run(Followed, Option<Instant>),
    /// The whole machine.
    Machine(Box<Whole>),
}

/// Full-screen view for the duration of a run.
pub struct Screen {
    // Members are dropped in this order: the terminal is restored before captured output is printed.
    terminal: Restored,
    captured: Captured,
    source: Source,
    title: String,
    due: Instant,
}

/// Terminal that is restored when this is dropped.
struct Restored(DefaultTerminal);

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Whether there is a terminal that can show frames.
pub fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb
}

impl Screen {
    /// Shows a run on `follows` CPUs, whose events must be passed to [`Screen::followed`]; the whole machine if
    /// `follows` is `None`.
    ///
    /// # Errors
    /// If the terminal cannot be used, or the machine's sums cannot be read.
    pub fn start(title: String, follows: Option<usize>) -> Result<Screen> {
        let source = match follows {
            Some(cpus) => Source::Run(Rc::new(RefCell::new(Follower::new(cpus))), None),
            None => Source::Machine(Box::new(Whole::start()?)),
        };
        let captured = Captured::start().context("--tui: cannot capture standard error")?;
        let terminal = Restored(ratatui::try_init().context("--tui: cannot use the terminal")?);
        Ok(Screen { terminal, captured, source, title, due: Instant::now() })
    }

    /// Sink to which the run's events must be passed.
    pub fn followed(&self) -> Option<Followed> {
        match &self.source {
            Source::Run(followed, _) => Some(Rc::clone(followed)),
            Source::Machine(_) => None,
        }
    }

    /// Handles keys, and draws a frame if one is due. Keys that end the run have the effect of Ctrl-C without a
    /// screen.
    pub fn look(&mut self, signals: &Signals) -> Result<()> {
        let mut is_due = Instant::now() >= self.due;
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('q' | 'Q') => signals.interrupt(),
                        KeyCode::Char('c' | 'C') if control => signals.interrupt(),
                        _ => {}
                    }
                }
                Event::Resize(..) => is_due = true,
                _ => {}
            }
        }
        if !is_due {
            return Ok(());
        }
        // A late frame does not shorten the interval to the next.
        self.due = Instant::now() + FRAME;
        let snapshot = self.snapshot()?;
        let foot = match self.captured.last_line() {
            line if line.is_empty() => KEYS.to_owned(),
            line => format!("{KEYS} │ {line}"),
        };
        let head = Head { title: self.title.clone(), foot };
        self.terminal.0.draw(|frame| live_view::draw(frame, &head, &snapshot))?;
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        let frame = Nanos(FRAME.as_nanos() as u64);
        match &mut self.source {
            Source::Run(followed, began) => {
                let mut follower = followed.borrow_mut();
                if follower.has_begun() && began.is_none() {
                    *began = Some(Instant::now());
                }
                let now = began.map_or(Duration::ZERO, |began| began.elapsed());
                Ok(follower.snapshot(Nanos(now.as_nanos() as u64), frame))
            }
            Source::Machine(whole) => whole.snapshot(frame),
        }
    }
}

/// Redirects standard error, including that of commands, to a file, because it would corrupt the frames. Dropping
/// this prints the captured text.
struct Captured {
    file: File,
    before: OwnedFd,
}

impl Captured {
    fn start() -> Result<Captured> {
        let file = tempfile::tempfile()?;
        let before = io::stderr().as_fd().try_clone_to_owned()?;
        dup2_stderr(&file)?;
        Ok(Captured { file, before })
    }

    /// Last captured line, with control characters escaped.
    fn last_line(&self) -> String {
        let end = self.file.metadata().map_or(0, |data| data.len());
        let from = end.saturating_sub(LAST_BYTES);
        let mut bytes = vec![0; (end - from) as usize];
        let read = self.file.read_at(&mut bytes, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        // Programs redraw progress lines with carriage returns.
        report::escape(last.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or(last).trim()).into_owned()
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        let _ = dup2_stderr(&self.before);
        let mut out = io::stderr().lock();
        if self.file.rewind().is_ok() {
            let mut file = io::BufReader::new(&self.file);
            let mut bytes = vec![0; 1 << 16];
            while let Ok(read @ 1..) = file.read(&mut bytes) {
                if out.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
        }
    }
}
