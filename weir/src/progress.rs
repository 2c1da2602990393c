// SPDX-License-Identifier: GPL-2.0-only
//! One bar for all runs, on a terminal, once they have taken a second: how much is done, and how long the rest takes.

use ids::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Runs shorter than this show no progress.
const AFTER: Duration = Duration::from_secs(1);

/// Parts of a run that the bar tells apart.
const PARTS: u64 = 1000;

/// The bar.
pub struct Progress {
    runs: u64,
    began: Instant,
    bar: Option<Mutex<Option<ProgressBar>>>,
}

impl Progress {
    /// For so many runs.
    pub fn new(runs: usize) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| Mutex::new(None));
        Progress { runs: runs as u64, began: Instant::now(), bar }
    }

    /// Whether there is but one run.
    pub fn is_of_one(&self) -> bool {
        self.runs == 1
    }

    /// A run begins that ends at `end`, if that is known.
    pub fn begin(&self, end: Option<Nanos>) -> Part<'_> {
        Part { progress: self, end, told: 0 }
    }

    /// So many more parts of runs are done; the last one came to `now`.
    fn add(&self, parts: u64, now: Option<Nanos>) {
        let Some(bar) = &self.bar else { return };
        let mut bar = bar.lock().expect("nobody panics in here");
        if bar.is_none() && self.began.elapsed() < AFTER {
            return;
        }
        let bar = bar.get_or_insert_with(|| self.draw());
        bar.inc(parts);
        if let Some(now) = now.filter(|_| self.runs == 1) {
            bar.set_message(now.to_string());
        }
    }

    /// A line on standard error, above the bar.
    pub fn say(&self, line: &str) {
        let bar = self.bar.as_ref().map(|bar| bar.lock().expect("nobody panics in here"));
        match bar.as_ref().and_then(|bar| bar.as_ref()) {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    fn draw(&self) -> ProgressBar {
        let template = "[{bar:30}] {percent} % {prefix}, {eta} left {msg}";
        let style = ProgressStyle::with_template(template).expect("a fixed template");
        let runs = report::counted(self.runs, "run");
        ProgressBar::new(self.runs * PARTS).with_style(style).with_prefix(format!("of {runs}"))
    }

    /// All runs are done.
    pub fn end(self) {
        if let Some(bar) = self.bar.and_then(|bar| bar.into_inner().ok().flatten()) {
            bar.finish_and_clear();
        }
    }
}

/// One run's part of the bar.
pub struct Part<'a> {
    progress: &'a Progress,
    end: Option<Nanos>,
    told: u64,
}

impl Part<'_> {
    /// The run has come to this time.
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

    /// The run is over.
    pub fn end(self) {
        self.progress.add(PARTS - self.told, None);
    }
}
