// SPDX-License-Identifier: GPL-2.0-only
//! `--save`: everything that is known of runs in one file. `docs/reference/saved-runs.md` says what each part holds.
//!
//! A simulated run is not stored event by event: with the same inputs it can be made again, and its hash tells whether
//! it is the same. A real run cannot, so its events are in the file.

use crate::select::Scheduler;
use crate::{input, output};
use anyhow::{Context, Result};
use machine_model::Machine;
use report::RunReport;
use saved_run::SavedRun;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The part that holds the document which `--format json` prints.
pub const RUNS: &str = "runs.json";
/// The part that says what was run.
pub const SETUP: &str = "setup.json";
/// The part that holds the files of sysfs from which the machine `host` was made.
const SYSFS: &str = "sysfs.json";

/// What was run, beside the files that were read for it.
pub struct Setup<'a> {
    /// The command line with all defaults filled in.
    pub command_line: String,
    /// The schedulers, in the order of the command line.
    pub schedulers: &'a [Scheduler],
    /// The machines, with the effects that took part, and without draws.
    pub machines: &'a [Machine],
    /// The events of real runs, as binary logs.
    pub events: Vec<Vec<u8>>,
}

/// Writes the file.
pub fn save(path: &Path, setup: &Setup<'_>, runs: &[RunReport]) -> Result<()> {
    let place = || format!("cannot save {}", path.display());
    let bytes = container(setup, runs).with_context(place)?.to_bytes();
    std::fs::write(path, bytes).with_context(place)
}

/// The file that keeps these runs.
pub fn container(setup: &Setup<'_>, runs: &[RunReport]) -> Result<SavedRun> {
    let mut saved = SavedRun::new();
    saved.add(RUNS, report::to_json(runs).as_bytes())?;
    let mut schedulers = Vec::new();
    for (index, scheduler) in setup.schedulers.iter().enumerate() {
        let mut entry = json!({ "name": scheduler.name, "object": null, "object_hash": null });
        // The kernel's own has no object.
        if let Some(object) = scheduler.object() {
            let part = format!("object/{index}");
            saved.add(&part, object)?;
            entry["object_hash"] = json!(worlds::object_hash(object));
            entry["object"] = json!(part);
        }
        schedulers.push(entry);
    }
    let mut machines: Vec<Value> = Vec::new();
    for (index, machine) in setup.machines.iter().enumerate() {
        let part = format!("machine/{index}");
        saved.add(&part, machine.to_toml().as_bytes())?;
        machines.push(json!({ "name": machine.name, "machine": part }));
    }
    let mut files: Vec<Value> = Vec::new();
    let (sysfs, read): (Vec<_>, Vec<_>) =
        input::read_so_far().into_iter().partition(|(path, _)| path.starts_with("/sys/"));
    for (index, (path, bytes)) in read.into_iter().enumerate() {
        let part = format!("file/{index}");
        saved.add(&part, &bytes)?;
        files.push(json!({ "path": path, "file": part }));
    }
    if !sysfs.is_empty() {
        let texts = sysfs.into_iter().map(|(path, bytes)| (path, json!(String::from_utf8_lossy(&bytes))));
        saved.add(SYSFS, serde_json::to_string_pretty(&texts.collect::<Map<_, _>>())?.as_bytes())?;
    }
    for (index, events) in setup.events.iter().enumerate() {
        saved.add(&format!("events/{index}"), events)?;
    }
    let text = json!({
        "weir": output::FULL_VERSION,
        "command_line": setup.command_line,
        "schedulers": schedulers,
        "machines": machines,
        "files": files,
    });
    saved.add(SETUP, serde_json::to_string_pretty(&text)?.as_bytes())?;
    Ok(saved)
}
