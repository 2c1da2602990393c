// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons of finished runs along one axis.

use super::planned::Planned;
use super::results::{self, REFUSED};
use crate::args::Format;
use crate::output;
use anyhow::{Result, bail};
use campaign::{Axis, Store};
use output_file::Target;
use report::{Details, Record};
use serde_json::{Value, json};
use std::path::Path;

/// Axes along which runs can be compared; seeds and samples are repetitions.
const AXES: [Axis; 6] = [Axis::Scheduler, Axis::Machine, Axis::Workload, Axis::Kernel, Axis::Cpus, Axis::Without];

/// Runs that agree in all axes but one.
pub struct Slice {
    /// The axes in which it differs from other slices, with its values.
    title: String,
    records: Vec<Record>,
    details: Vec<Details>,
}

/// The finished runs of a campaign.
pub struct Shown {
    slices: Vec<Slice>,
    /// Runs whose scheduler could not be loaded, a sentence each.
    refused: Vec<String>,
}

/// The axis to compare along: the named one, or the first with several values.
///
/// # Errors
/// If there is no such axis.
pub fn axis(name: Option<&str>, all: &[Planned<'_>]) -> Result<Axis> {
    let has_several = |axis: &Axis| all.iter().any(|planned| planned.value(*axis) != all[0].value(*axis));
    match name {
        None => Ok(AXES.into_iter().find(has_several).unwrap_or(Axis::Scheduler)),
        Some(name) => match AXES.into_iter().find(|axis| axis.name() == name) {
            Some(axis) => Ok(axis),
            None => bail!("--show {name}: expected one of the axes {}", AXES.map(Axis::name).join(", ")),
        },
    }
}

/// Reads the finished runs of a store of all measures, divided by the values of all other axes.
///
/// # Errors
/// If the store cannot be read, or no run is finished.
pub fn read(out: &Path, all: &[Planned<'_>], axis: Axis, store: &mut Store) -> Result<Shown> {
    let others: Vec<Axis> = AXES.into_iter().filter(|other| *other != axis).collect();
    let mut keys: Vec<Vec<String>> = Vec::new();
    let mut shown = Shown { slices: Vec::new(), refused: Vec::new() };
    for planned in all {
        let Some(run) = store.read(planned.id)? else { continue };
        if run.outcome == REFUSED {
            let (scheduler, machine) = (planned.value(Axis::Scheduler), planned.value(Axis::Machine));
            let line = format!("{scheduler} on {machine}: not loaded: {}", run.exit_reason);
            if !shown.refused.contains(&line) {
                shown.refused.push(line);
            }
            continue;
        }
        let key: Vec<String> = others.iter().map(|axis| planned.value(*axis)).collect();
        let place = keys.iter().position(|other| *other == key).unwrap_or_else(|| {
            keys.push(key.clone());
            shown.slices.push(Slice { title: String::new(), records: Vec::new(), details: Vec::new() });
            keys.len() - 1
        });
        let (record, details) = results::record(planned, run);
        shown.slices[place].records.push(record);
        shown.slices[place].details.push(details);
    }
    if shown.slices.is_empty() && shown.refused.is_empty() {
        bail!("{}: no run of this campaign is finished", out.display());
    }
    let varies = |at: &usize| keys.iter().any(|key| key[*at] != keys[0][*at]);
    let varied: Vec<usize> = (0..others.len()).filter(varies).collect();
    for (slice, key) in shown.slices.iter_mut().zip(&keys) {
        let word =
            |at: &usize| format!("{} {}", others[*at].name(), if key[*at].is_empty() { "nothing" } else { &key[*at] });
        slice.title = varied.iter().map(word).collect::<Vec<_>>().join(", ");
    }
    Ok(shown)
}

impl Shown {
    /// The comparisons in a format.
    pub fn to_output(&self, format: Format, all: bool) -> Result<String> {
        Ok(match format {
            Format::Text => self.to_text(all),
            Format::Json => self.to_json()?,
            Format::Csv => report::to_csv(&self.records()),
        })
    }

    fn records(&self) -> Vec<Record> {
        self.slices.iter().flat_map(|slice| slice.records.iter().cloned()).collect()
    }

    fn to_text(&self, all: bool) -> String {
        let mut text = String::new();
        for slice in &self.slices {
            if !slice.title.is_empty() {
                text += &format!("== {} ==\n\n", report::escape(&slice.title));
            }
            text += &report::records_to_text(&slice.records, output::view(all, false));
            text.push('\n');
        }
        for line in &self.refused {
            text += &format!("{}\n", report::escape(line));
        }
        text
    }

    fn to_json(&self) -> Result<String> {
        let mut whole = json!({ "weir": 1, "comparisons": [], "orders": [] });
        for slice in &self.slices {
            let mut one: Value = serde_json::from_str(&report::comparisons_to_json(&slice.records))?;
            for key in ["comparisons", "orders"] {
                if let (Some(all), Value::Array(more)) = (whole[key].as_array_mut(), one[key].take()) {
                    all.extend(more);
                }
            }
        }
        Ok(serde_json::to_string_pretty(&whole)? + "\n")
    }

    /// Writes the comparisons as a page.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_page(&self, target: &Target) -> Result<()> {
        let records = self.records();
        let details: Vec<Details> = self.slices.iter().flat_map(|slice| slice.details.iter().cloned()).collect();
        let none =
            "a campaign keeps no events; weir sweep --missing in another directory prints the command of each run";
        let tracks: Vec<_> = page::close_ups(&records).into_iter().map(|run| (run, Err(none.to_owned()))).collect();
        let page = page::page(&page::Report {
            version: output::VERSION,
            command: None,
            records: &records,
            details: &details,
            tracks: &tracks,
            refused: &self.refused,
        });
        output::write_page(target, &page)
    }
}
