// SPDX-License-Identifier: GPL-2.0-only
//! The file of `--resume`: results so far, so that a check can go on after its last seed.

use super::{Checked, Tallies, Tally};
use crate::args::Check;
use crate::input;
use crate::select::Scheduler;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
const FORMAT: u32 = 1;
/// Largest seed that a file may name.
const LAST: u64 = 1 << 40;

#[derive(Serialize, Deserialize)]
struct Document {
    weir_check: u32,
    scheduler: String,
    /// Hash of the object; empty for the default scheduler.
    object_hash: String,
    first: u64,
    next: u64,
    properties: BTreeMap<String, Counts>,
}

#[derive(Serialize, Deserialize)]
struct Counts {
    seen: u64,
    broken: u64,
    first: Option<u64>,
    commands: Vec<String>,
}

/// Results of earlier checks.
pub(super) struct Before {
    /// First seed of all, and the next one.
    pub first: u64,
    pub next: u64,
    pub tallies: Tallies,
}

fn hash(scheduler: &Scheduler) -> String {
    scheduler.object().map(worlds::object_hash).unwrap_or_default()
}

/// Reads the file if it exists.
///
/// # Errors
/// If it is not such a file, or one of another scheduler.
pub(super) fn read(args: &Check, scheduler: &Scheduler) -> Result<Option<Before>> {
    let Some(path) = args.resume.as_deref().filter(|path| path.exists()) else { return Ok(None) };
    let place = || path.display().to_string();
    let text = input::text(path, input::PROFILE)?;
    let document: Document = serde_json::from_str(&text).with_context(place)?;
    if document.weir_check != FORMAT {
        bail!("{}: format {}; expected {FORMAT}", place(), document.weir_check);
    }
    if document.object_hash != hash(scheduler) || document.scheduler != args.scheduler {
        bail!(
            "{}: results of another scheduler or object ({}); expected those of {}; delete the file to start over",
            place(),
            document.scheduler,
            args.scheduler
        );
    }
    if document.first > document.next || document.next > LAST {
        bail!("{}: first {}, next {}; expected first <= next <= {LAST}", place(), document.first, document.next);
    }
    let tally = |counts: Counts| {
        let Counts { seen, broken, first, commands } = counts;
        Tally { seen, broken, first, commands, shrunk: None }
    };
    let tallies = document.properties.into_iter().filter(|(name, _)| !args.ignore.contains(name));
    let tallies = tallies.map(|(name, counts)| (name, tally(counts))).collect();
    Ok(Some(Before { first: document.first, next: document.next, tallies }))
}

/// The file's new content.
pub(super) fn text(checked: &Checked<'_>, scheduler: &Scheduler) -> String {
    let counts = |tally: &Tally| {
        let Tally { seen, broken, first, commands, .. } = tally.clone();
        Counts { seen, broken, first, commands }
    };
    let document = Document {
        weir_check: FORMAT,
        scheduler: checked.args.scheduler.clone(),
        object_hash: hash(scheduler),
        first: checked.seeds.start,
        next: checked.seeds.end,
        properties: checked.tallies.iter().map(|(name, tally)| (name.clone(), counts(tally))).collect(),
    };
    serde_json::to_string_pretty(&document).expect("values with string keys") + "\n"
}
