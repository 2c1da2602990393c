// SPDX-License-Identifier: GPL-2.0-only
//! Progress bar for all runs of a command, with the estimated time left. It appears on terminals after one second.

use ids::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Delay until the bar appears.
const AFTER: Duration = Duration::from_secs(1);

/// Resolution of the bar: steps per run.
const PARTS: u64 = 1000;

/// Progress bar over all runs.
pub struct Progress {
    runs: u64,
    began: Instant,
    bar: Option<Mutex<Option<ProgressBar>>>,
}

impl Progress {
    /// Bar for this number of runs.
    pub fn new(runs: usize) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| Mutex::new(None));
        Progress { runs: runs as u64, began: Instant::now(), bar }
    }

    /// Whether the command has a single run.
    pub fn is_of_one(&self) -> bool {
        self.runs == 1
    }

    /// Starts to show the progress of a run; `end` is the simulated time of its end, if known.
    pub fn begin(&self, end: Option<Nanos>) -> Part<'_> {
        Part { progress: self, end, told: 0 }
    }

    /// Advances the bar by `parts` steps; `now` is the simulated time reached by the run that advanced.
    fn add(&self, parts: u64, now: Option<Nanos>) {
        let Some(bar) = &self.bar else { return };
        let mut bar = bar.lock().expect("no thread panics while holding it");
        if bar.is_none() && self.began.elapsed() < AFTER {
            return;
        }
        let bar = bar.get_or_insert_with(|| self.draw());
        bar.inc(parts);
        if let Some(now) = now.filter(|_| self.runs == 1) {
            bar.set_message(now.to_string());
        }
    }

    /// Prints a line on standard error, above the bar.
    pub fn say(&self, line: &str) {
        let bar = self.bar.as_ref().map(|bar| bar.lock().expect("no thread panics while holding it"));
        match bar.as_ref().and_then(|bar| bar.as_ref()) {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }

    fn draw(&self) -> ProgressBar {
        let template = "[{bar:30}] {percent} % {prefix}, {eta} left {msg}";
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        let runs = report::counted(self.runs, "run");
        ProgressBar::new(self.runs * PARTS).with_style(style).with_prefix(format!("of {runs}"))
    }

    /// Removes the bar after all runs.
    pub fn end(&self) {
        let bar = self.bar.as_ref().and_then(|bar| bar.lock().expect("no thread panics while holding it").take());
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
}

/// Part of the bar that belongs to one run.
pub struct Part<'a> {
    progress: &'a Progress,
    end: Option<Nanos>,
    told: u64,
}

impl Part<'_> {
    /// Reports that the run has reached simulated time `now`.
    pub fn tell(&mut self, now: Nanos) {
        let part = match self.end {
            Some(end) => (u128::from(now.0) * u128::from(PARTS) / u128::from(end.0.max(1))) as u64,
            None => 0,
        };
        let part = part.clamp(self.told, PARTS);
        if part > self.told || self.progress.runs == 1 {
            self.progress.add(part - self.told, Some(now));
            self.told = part;
        }
    }

    /// Completes the part of this run.
    pub fn end(self) {
        self.progress.add(PARTS - self.told, None);
    }
}
