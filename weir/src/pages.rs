// SPDX-License-Identifier: GPL-2.0-only
//! Reports as pages: `--report` of `weir sim`, `weir run` and `weir compare`, and `weir report`.

use crate::args::Report;
use crate::{input, output, save};
use anyhow::{Context, Result, bail};
use report::{Details, Outcome, Record};
use saved_run::SavedRun;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a page is made of.
#[derive(Default)]
pub struct Runs {
    pub records: Vec<Record>,
    pub details: Vec<Details>,
    /// The command that made them, if it is known.
    pub command: Option<String>,
}

impl Runs {
    /// The runs of a document, as [`report::to_json`] writes it.
    pub fn from_json(json: &[u8]) -> Result<Runs> {
        let (records, details) = (report::read_json(json)?, report::read_details(json)?);
        Ok(Runs { records, details, command: None })
    }

    /// The runs of a saved run, or of JSON.
    pub fn read(path: &Path) -> Result<Runs> {
        let place = || path.display().to_string();
        let bytes = input::read(path, input::RUNS)?;
        if !SavedRun::is_saved_run(&bytes) {
            return Runs::from_json(&bytes).with_context(place);
        }
        let saved = SavedRun::from_bytes(&bytes).with_context(place)?;
        let Some(json) = saved.part(save::RUNS).with_context(place)? else {
            bail!("{}: a saved run without runs", place());
        };
        let runs = Runs::from_json(&json).with_context(place)?;
        Ok(Runs { command: command_line(&saved).with_context(place)?, ..runs })
    }

    /// Whether all of them came to their end.
    pub fn are_complete(&self) -> bool {
        self.records.iter().all(|record| record.ending.outcome() == Outcome::Completed)
    }
}

/// The command line in a saved run, if it has one.
fn command_line(saved: &SavedRun) -> Result<Option<String>> {
    let Some(setup) = saved.part(save::SETUP)? else { return Ok(None) };
    let setup: Value = serde_json::from_slice(&setup).context(save::SETUP)?;
    Ok(setup.get("command_line").and_then(Value::as_str).map(str::to_owned))
}

/// Writes the page of these runs, and says so.
pub fn write(path: &Path, runs: &Runs, refused: &[String]) -> Result<()> {
    let page = page::page(&page::Report {
        version: output::VERSION,
        command: runs.command.as_deref(),
        records: &runs.records,
        details: &runs.details,
        refused,
    });
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("weir: the report is {}", report::escape(&path.display().to_string()));
    Ok(())
}

/// `weir report`. False if a run in the file did not come to its end.
pub fn report(args: &Report) -> Result<bool> {
    let page = args.output.clone().unwrap_or_else(|| beside(&args.file));
    output::check(&[("FILE", Some(&args.file)), ("--output", Some(&page))])?;
    let runs = Runs::read(&args.file)?;
    write(&page, &runs, &[])?;
    Ok(runs.are_complete())
}

/// The same name with another ending.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("html")
}
