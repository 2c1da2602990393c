// SPDX-License-Identifier: GPL-2.0-only
//! HTML reports: `--report` of `weir sim`, `weir run` and `weir compare`, and `weir report`. All of them are
//! generated from saved runs and therefore have the same content. For one run of each setup the page includes events,
//! which are reproduced by simulation or read from the file.

use crate::args::Report;
use crate::saved::Saved;
use crate::{explain, input, output, save};
use anyhow::{Context, Result, bail};
use event_log::Tee;
use explanation::{RunContext, Source};
use ids::Topology;
use measures::Collector;
use output_file::Target;
use page::Track;
use report::{Details, Outcome, Record};
use saved_run::SavedRun;
use std::path::{Path, PathBuf};

/// The runs that a page shows, with their details and events.
#[derive(Default)]
pub struct Runs {
    pub records: Vec<Record>,
    pub details: Vec<Details>,
    /// Command line that made the runs, if known.
    pub command: Option<String>,
    /// Sources of events: index of the first record of each source, and its file or the reason why it has no events.
    sources: Vec<(usize, Result<Saved, String>)>,
}

impl Runs {
    /// Reads runs from a JSON document written by [`report::to_json`].
    fn from_json(json: &[u8], source: Result<Saved, String>) -> Result<Runs> {
        let (records, details) = (report::read_json(json)?, report::read_details(json)?);
        Ok(Runs { records, details, command: None, sources: vec![(0, source)] })
    }

    /// Reads the runs of a saved run.
    pub fn of(path: &Path, saved: SavedRun) -> Result<Runs> {
        let Some(json) = saved.part(save::RUNS)? else { bail!("a saved run without runs") };
        let source = Saved::of(path, saved).map_err(|error| format!("{error:#}"));
        let command = source.as_ref().ok().map(|saved| saved.command_line().to_owned());
        Ok(Runs { command, ..Runs::from_json(&json, source)? })
    }

    /// Reads the runs of a saved-run file or of a JSON file.
    pub fn read(path: &Path) -> Result<Runs> {
        let bytes = input::read(path, input::RUNS)?;
        let runs = if SavedRun::is_saved_run(&bytes) {
            SavedRun::from_bytes(&bytes).map_err(Into::into).and_then(|saved| Runs::of(path, saved))
        } else {
            Runs::from_json(
                &bytes,
                Err("runs as JSON contain no events; use weir sim --save, which stores what reproduces them".to_owned()),
            )
        };
        runs.with_context(|| path.display().to_string())
    }

    /// Appends the runs of another file.
    pub fn extend(&mut self, other: Runs) {
        let before = self.records.len();
        self.records.extend(other.records);
        self.details.extend(other.details);
        self.sources.extend(other.sources.into_iter().map(|(first, source)| (before + first, source)));
    }

    /// Whether all runs completed.
    pub fn are_complete(&self) -> bool {
        self.records.iter().all(|record| record.ending.outcome() == Outcome::Completed)
    }

    /// Events of the runs that the page shows in detail.
    fn tracks(&self) -> Vec<(usize, Result<Track, String>)> {
        page::close_ups(&self.records).into_iter().map(|run| (run, self.track(run))).collect()
    }

    /// Events of the run at this index of the records.
    fn track(&self, record: usize) -> Result<Track, String> {
        let Some((first, source)) = self.sources.iter().rfind(|(first, _)| *first <= record) else {
            return Err("its source is unknown".to_owned());
        };
        let saved = source.as_ref().map_err(Clone::clone)?;
        let run = self.records[*first..record].iter().filter(|record| record.tags.part.is_none()).count();
        track(saved, run).map_err(|error| format!("{error:#}"))
    }
}

/// Events of one run of a file.
fn track(saved: &Saved, run: usize) -> Result<Track> {
    let topology = Topology::flat(saved.cpus(run)? as u32);
    let mut sinks = Tee(saved.recorder(run)?, Collector::with_idle_gaps(&topology));
    let object = saved.tell(run, &mut sinks)?;
    let Tee(recorder, collector) = sinks;
    let one = &saved.runs[run];
    let timeline = one.timeline(recorder);
    let source = object.as_ref().map(Source::of).unwrap_or_default();
    let story = RunContext { timeline: &timeline, source: &source };
    let (ejection, explanations) = (explain::ejection_for_page(&story, one), explanation::overview(&story));
    Ok(Track { timeline, idle_gaps: collector.idle_gaps(one.end()), ejection, explanations })
}

/// Writes the page and prints its path.
pub fn write(target: &Target, runs: &Runs, refused: &[String]) -> Result<()> {
    let page = page::page(&page::Report {
        version: output::VERSION,
        command: runs.command.as_deref(),
        records: &runs.records,
        details: &runs.details,
        tracks: &runs.tracks(),
        refused,
    });
    output::write_page(target, &page)
}

/// Runs `weir report`. Returns false if some run in the file did not complete.
pub fn report(args: &Report) -> Result<bool> {
    let page = args.output.clone().unwrap_or_else(|| beside(&args.file));
    let [target] = output::check([("--output", Some(&page))])?;
    input::note_input(&args.file);
    output::refuse_inputs([&target])?;
    let runs = Runs::read(&args.file)?;
    write(&target.expect("it was given"), &runs, &[])?;
    Ok(runs.are_complete())
}

/// Path with the extension replaced by `.html`.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("html")
}
