// SPDX-License-Identifier: GPL-2.0-only
//! `--save`: stores everything known about runs in one file. `docs/reference/saved-runs.md` describes its parts.
//!
//! A simulated run is not stored event by event: the same inputs reproduce it, and its hash tells whether the
//! reproduction is exact. A real run is not reproducible, so its events are stored.

use crate::select::Scheduler;
use crate::{input, output};
use anyhow::{Context, Result};
use machine_model::Machine;
use output_file::Target;
use report::RunReport;
use saved_run::SavedRun;
use serde_json::{Map, Value, json};

/// Part with the document that `--format json` prints.
pub const RUNS: &str = "runs.json";
/// Part that describes the setup of the runs.
pub const SETUP: &str = "setup.json";
/// Part with the sysfs files from which the machine `host` was read.
const SYSFS: &str = "sysfs.json";

/// Setup of the runs, besides the input files.
pub struct Setup<'a> {
    /// Command line with all defaults filled in.
    pub command_line: String,
    /// Schedulers in the order of the command line.
    pub schedulers: &'a [Scheduler],
    /// Machines with the modelled effects, before uncertain constants are sampled.
    pub machines: &'a [Machine],
    /// Events of real runs, as binary logs.
    pub events: Vec<Vec<u8>>,
}

/// Writes the file.
pub fn save(target: &Target, setup: &Setup<'_>, runs: &[RunReport]) -> Result<()> {
    let place = || format!("cannot save {}", target.path().display());
    let bytes = container(setup, runs).with_context(place)?.to_bytes();
    target.write(&bytes).with_context(place)
}

/// Builds the saved-run container.
pub fn container(setup: &Setup<'_>, runs: &[RunReport]) -> Result<SavedRun> {
    let mut saved = SavedRun::new();
    saved.add(RUNS, report::to_json(runs).as_bytes())?;
    let mut schedulers = Vec::new();
    for (index, scheduler) in setup.schedulers.iter().enumerate() {
        let mut entry = json!({ "name": scheduler.name, "object": null, "object_hash": null });
        // The default scheduler has no object.
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
