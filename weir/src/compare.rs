// SPDX-License-Identifier: GPL-2.0-only
//! `weir compare`: runs of other days and other worlds, from saved runs and from JSON, in one table.

use crate::args::{Compare, Format};
use crate::input;
use crate::output;
use anyhow::{Context, Result, bail};
use report::{Outcome, Record};
use saved_run::SavedRun;
use std::path::Path;

/// Compares. False if a run in the files did not come to its end.
pub fn compare(args: &Compare) -> Result<bool> {
    let mut records = Vec::new();
    for path in &args.files {
        let file = path.display().to_string();
        for mut record in read(path)? {
            record.file = Some(file.clone());
            records.push(record);
        }
    }
    let view = output::view(args.all);
    let text = match args.format {
        Format::Text => report::records_to_text(&records, view),
        Format::Json => report::comparisons_to_json(&records),
        Format::Csv => report::to_csv(&records),
    };
    output::print(&text)?;
    Ok(records.iter().all(|record| record.ending.outcome() == Outcome::Completed))
}

/// The runs of a file of either kind.
fn read(path: &Path) -> Result<Vec<Record>> {
    let place = || path.display().to_string();
    let bytes = input::read(path, input::RUNS)?;
    let json = if SavedRun::is_saved_run(&bytes) {
        let saved = SavedRun::from_bytes(&bytes).with_context(place)?;
        let Some(json) = saved.part(crate::save::RUNS).with_context(place)? else {
            bail!("{}: a saved run without runs", place());
        };
        json
    } else {
        bytes
    };
    report::read_json(&json).with_context(place)
}
