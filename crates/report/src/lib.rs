// SPDX-License-Identifier: GPL-2.0-only
//! Converts measures to JSON, CSV and text. Runs nothing.
//!
//! One run gives a summary, several runs of one setup give their spread, several setups give their differences.
//! [`to_json`] is a stable interface for other programs; [`read_json`] reads it back, for comparisons with later
//! runs.

mod comparison;
mod content;
mod csv;
mod cyclictest;
mod details;
mod doubts;
mod films;
mod harmless;
mod headline;
mod json;
mod labels;
mod manycore;
mod notes;
mod numbers;
mod order;
mod record;
mod run;
mod sanity;
mod schedtool;
mod search;
mod sentence;
mod setups;
mod spread;
mod summary;
mod table;
mod times;

pub use comparison::comparison;
pub use content::{Cell, Content, Row, Sentence, Setup, Table, Versus, content};
pub use csv::to_csv;
pub use cyclictest::cyclictest;
pub use details::{Buckets, Cpu, Details, Distributions, Latency, Lock, Task, read_details};
pub use doubts::Doubt;
pub use films::{Film, films};
pub use harmless::{cell, clean, escape};
pub use json::{comparisons_to_json, ending_to_json_line, to_json, to_json_with};
pub use manycore::manycore;
pub use notes::Note;
pub use numbers::{count, counted, fraction, wrap};
pub use record::{ReadError, Record, read_json};
pub use run::{Called, Ending, Exit, Meter, Outcome, RunReport, Tags, Violation, Violations, World};
pub use sanity::{Level, Sanity, sanity};
pub use schedtool::affinities;
pub use search::{Found, Search, fate_name};
pub use setups::{Judged, Judgement, judge};
pub use spread::spread;
pub use summary::summary;

use std::collections::BTreeSet;

/// Layout of text.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Width of the terminal, at least 80.
    pub columns: usize,
    /// Shows all measures, not only the important ones.
    pub all: bool,
    /// Compares each pair of setups, not only each setup with the first.
    pub pairs: bool,
}

impl Default for View {
    fn default() -> View {
        View { columns: 80, all: false, pairs: false }
    }
}

/// Text report on these runs: a summary of one run, the spread of one setup, a comparison of several setups.
pub fn to_text(runs: &[RunReport], view: View) -> String {
    let runs: Vec<RunReport> = runs.iter().map(printable).collect();
    match runs.as_slice() {
        [run] => summary(run) + &limits_as_lines([&run.tags]),
        runs => records_to_text(&runs.iter().flat_map(Record::with_parts).collect::<Vec<_>>(), view),
    }
}

/// Like [`to_text`], for runs without task data.
pub fn records_to_text(runs: &[Record], view: View) -> String {
    let runs: Vec<Record> = runs.iter().map(printable_record).collect();
    let groups = setups::groups(&runs);
    let text = match groups.as_slice() {
        [whole, parts @ ..]
            if whole.setups.len() == 1
                && parts.iter().all(|part| part.setups.len() == 1 && part.setups[0].is_part()) =>
        {
            spread(&runs, view)
        }
        _ => comparison(&runs, view),
    };
    text + &limits_as_lines(runs.iter().map(|run| &run.tags))
}

fn limits_as_lines<'a>(tags: impl IntoIterator<Item = &'a Tags> + Clone) -> String {
    limits(tags).iter().map(|text| numbers::wrap("", text) + "\n").collect()
}

/// What limits the trust in the machines, as sentences: effects that were compared with no measurement, effects with
/// assumed constants, and what their descriptions say that was not used.
fn limits<'a>(tags: impl IntoIterator<Item = &'a Tags> + Clone) -> Vec<String> {
    let words = |of: fn(&Tags) -> &Vec<String>| {
        let words: BTreeSet<&str> = tags.clone().into_iter().flat_map(of).map(String::as_str).collect();
        words.into_iter().collect::<Vec<_>>()
    };
    let (unvalidated, assumed) = (words(|tags| &tags.unvalidated), words(|tags| &tags.assumed));
    let mut limits = Vec::new();
    if !unvalidated.is_empty() {
        let list = unvalidated.join(", ");
        let how = "docs/explanation/machine-model.md; --without leaves effects out";
        limits.push(format!("unvalidated: {list} ({how})"));
    }
    if !assumed.is_empty() {
        let list = assumed.join(", ");
        let how = "--draws samples their ranges, weir machine prints them, a machine file replaces them";
        limits.push(format!("assumed for a machine of this class: {list} ({how})"));
    }
    limits.extend(words(|tags| &tags.machine_caveats).into_iter().map(|caveat| format!("machine: {caveat}")));
    limits.extend(words(|tags| &tags.workload_caveats).into_iter().map(|caveat| format!("workload: {caveat}")));
    limits
}

/// Escapes names, so that they cannot control a terminal.
fn printable(run: &RunReport) -> RunReport {
    let mut run = run.clone();
    printable_parts(&mut run.tags, &mut run.ending, run.meter.as_mut());
    for task in &mut run.measures.tasks {
        task.name = escape(&task.name).into_owned();
    }
    for part in &mut run.measures.parts {
        part.label = escape(&part.label).into_owned();
    }
    for group in &mut run.measures.groups {
        group.path = escape(&group.path).into_owned();
    }
    run
}

fn printable_record(run: &Record) -> Record {
    let mut run = run.clone();
    printable_parts(&mut run.tags, &mut run.ending, run.meter.as_mut());
    run.file = run.file.map(|file| escape(&file).into_owned());
    run
}

fn printable_parts(tags: &mut Tags, ending: &mut Ending, meter: Option<&mut Meter>) {
    let names = [&mut tags.scheduler, &mut tags.machine, &mut tags.workload, &mut tags.kernel, &mut tags.calls];
    let calls = ending.calls.iter_mut().map(|called| &mut called.call);
    for name in names
        .into_iter()
        .chain(tags.part.as_mut())
        .chain(calls)
        .chain(&mut tags.machine_caveats)
        .chain(&mut tags.workload_caveats)
    {
        *name = escape(name).into_owned();
    }
    if let Some(failure) = meter.and_then(|meter| meter.failure.as_mut()) {
        *failure = escape(failure).into_owned();
    }
    let Some(exit) = &mut ending.ejected else { return };
    exit.reason = escape(&exit.reason).into_owned();
    // Messages keep their line breaks.
    exit.message = exit.message.lines().map(escape).collect::<Vec<_>>().join("\n");
    for text in [&mut exit.fault, &mut exit.op, &mut exit.kfunc, &mut exit.file].into_iter().flatten() {
        *text = escape(text).into_owned();
    }
}
