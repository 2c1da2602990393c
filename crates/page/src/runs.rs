// SPDX-License-Identifier: GPL-2.0-only
//! Table of the individual runs.

use crate::Report;
use ids::Nanos;
use maud::{Markup, html};
use measures::catalogue::{Unit, find};
use report::{Outcome, Record, Table, count};

/// Columns, omitted if no run has the measure.
const KEYS: [&str; 6] = [
    "makespan_ns",
    "work_ns",
    "wakeup_latency_ns.mean",
    "wakeup_latency_ns.p99",
    "idle_while_runnable_ns",
    "context_switches",
];

/// One row per run.
pub fn runs(report: &Report<'_>, table: &Table) -> Markup {
    let all: Vec<(&str, usize)> =
        table.setups.iter().flat_map(|setup| setup.runs.iter().map(|&run| (setup.name.as_str(), run))).collect();
    let known = |key: &&&str| all.iter().any(|&(_, run)| report.records[run].value(key).is_some());
    let keys: Vec<&str> = KEYS.iter().filter(known).copied().collect();
    html! {
        details {
            summary {
                @if all.len() == 1 { "Seed, outcome, hash of all events" }
                @else { (count(all.len() as u64)) " runs, one by one" }
            }
            div.scroll {
                table.plain {
                    thead { tr {
                        th scope="col" { (table.axis) }
                        th scope="col" { "seed" }
                        th scope="col" { "outcome" }
                        @for key in &keys { th scope="col" { (find(key).expect("a key of the catalogue").label) } }
                        th scope="col" { "hash of all events" }
                    } }
                    tbody { @for (name, run) in all { (row(report, name, run, &keys)) } }
                }
            }
        }
    }
}

fn row(report: &Report<'_>, name: &str, run: usize, keys: &[&str]) -> Markup {
    let record = &report.records[run];
    let hash = report.details_of(run).map(|details| details.log_hash.as_str()).filter(|_| record.meter.is_none());
    html! {
        tr {
            th scope="row" { (name) }
            td { (seed(record)) }
            td { (outcome(record)) }
            @for key in keys { td data-value=[record.value(key)] { (value(record, key)) } }
            td { @if let Some(hash) = hash { code { (hash) } } }
        }
    }
}

/// The seed, and the number of the machine sample unless nominal.
pub fn seed(record: &Record) -> String {
    match (record.tags.seed, record.tags.draw) {
        (Some(seed), Some(draw)) if draw > 0 => format!("{seed} of sample {draw}"),
        (Some(seed), _) => seed.to_string(),
        (None, _) => "-".to_owned(),
    }
}

fn outcome(record: &Record) -> &'static str {
    match record.ending.outcome() {
        Outcome::Completed => "completed",
        Outcome::Ejected => "ejected",
        Outcome::Violation => "deadlock",
    }
}

fn value(record: &Record, key: &str) -> String {
    let unit = find(key).map(|measure| measure.unit);
    match (record.value(key), unit) {
        (None, _) => "-".to_owned(),
        (Some(value), Some(Unit::Nanoseconds)) => Nanos(value).to_string(),
        (Some(value), _) => count(value),
    }
}
