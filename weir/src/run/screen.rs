// SPDX-License-Identifier: GPL-2.0-only
//! `--tui`: a run as it passes, on the whole terminal.
//!
//! What is shown comes from the events of which the report is made, or, if nothing is started, from the sums of `--stats`.
//! Frames are drawn by the thread that receives the events, between two looks at them and at most five a second, so that
//! no thread of its own stands in the way of the run; its CPU time is part of what the report calls the reader's.

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

/// From one frame to the next.
const FRAME: Duration = Duration::from_millis(200);

/// The last line of what was written is looked for in so many bytes at its end.
const LAST_BYTES: u64 = 512;

const KEYS: &str = "q ends the run";

/// The events of a run, at which the screen looks.
pub type Followed = Rc<RefCell<Follower>>;

/// Where what is shown comes from.
enum Source {
    /// The run's own tasks, from its first event on.
    Run(Followed, Option<Instant>),
    /// The machine.
    Machine(Box<Whole>),
}

/// The terminal, as long as the run lasts.
pub struct Screen {
    // The order of the members is the order in which they go: the terminal is as before when what was written comes.
    terminal: Restored,
    captured: Captured,
    source: Source,
    title: String,
    due: Instant,
}

/// A terminal that is as it was when this goes.
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
    /// Shows a run of so many CPUs, to which the events of [`Screen::followed`] belong; of the machine if `follows` is none.
    ///
    /// # Errors
    /// If the terminal refuses, or the machine's sums cannot be read.
    pub fn start(title: String, follows: Option<usize>) -> Result<Screen> {
        let source = match follows {
            Some(cpus) => Source::Run(Rc::new(RefCell::new(Follower::new(cpus))), None),
            None => Source::Machine(Box::new(Whole::start()?)),
        };
        let captured = Captured::start().context("--tui: cannot keep what is written meanwhile")?;
        let terminal = Restored(ratatui::try_init().context("--tui: cannot use the terminal")?);
        Ok(Screen { terminal, captured, source, title, due: Instant::now() })
    }

    /// The sink that the run's events have to be told to.
    pub fn followed(&self) -> Option<Followed> {
        match &self.source {
            Source::Run(followed, _) => Some(Rc::clone(followed)),
            Source::Machine(_) => None,
        }
    }

    /// Draws a frame if it is time. Keys that ask for an end do what Ctrl-C does without a screen.
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
        // A frame that is late does not make those after it come faster.
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

/// Standard error goes to a file meanwhile, that of commands too: it would stand between the frames. It comes when this goes.
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

    /// What was written last, without the signs that would move the cursor.
    fn last_line(&self) -> String {
        let end = self.file.metadata().map_or(0, |data| data.len());
        let from = end.saturating_sub(LAST_BYTES);
        let mut bytes = vec![0; (end - from) as usize];
        let read = self.file.read_at(&mut bytes, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        // Programs show progress in one line that they write again and again.
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
