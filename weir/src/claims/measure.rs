// SPDX-License-Identifier: GPL-2.0-only
//! Measures of whole runs, and of a part, group or task of a run, by dotted keys.

use anyhow::{Result, bail};
use measures::catalogue;
use report::{Record, RunReport};

/// A dotted key.
pub type Key = String;

/// Keys of a group.
const OF_GROUP: [&str; 2] = ["cpu_ns", "runnable_ns"];
/// Keys of a task.
const OF_TASK: [&str; 4] = ["cpu_ns", "work_ns", "runnable_ns", "cpus_allowed.count"];
/// Key of a part that the catalogue of whole runs does not have.
const RESPONSES: &str = "response_ns.count";

/// Splits `parts.NAME.KEY`; a name has no dot.
fn split(key: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = key.split_once('.')?;
    let (name, key) = rest.split_once('.')?;
    ["parts", "groups", "tasks"].contains(&kind).then_some((kind, name, key))
}

/// Checks a key.
///
/// # Errors
/// If there is no such measure.
pub fn check(key: &str) -> Result<()> {
    let is_known = match split(key) {
        None => catalogue::find(key).is_some(),
        Some(("parts", _, of)) => of == RESPONSES || catalogue::find(of).is_some(),
        Some(("groups", _, of)) => OF_GROUP.contains(&of),
        Some((_, _, of)) => OF_TASK.contains(&of),
    };
    if !is_known {
        bail!(
            "measure {key:?}: expected a key that weir list measures names, parts.LABEL. and such a key or {RESPONSES}, \
             groups.PATH. and {}, or tasks.NAME. and {}",
            OF_GROUP.join(" or "),
            OF_TASK.join(" or "),
        );
    }
    Ok(())
}

/// Value of a measure; `None` if the run has none.
pub fn value(report: &RunReport, key: &str) -> Option<u64> {
    let measures = &report.measures;
    match split(key) {
        None => (catalogue::find(key)?.value)(measures),
        Some(("parts", label, RESPONSES)) => {
            measures.parts.iter().find(|part| part.label == label).map(|part| part.periods.response.count)
        }
        Some(("parts", label, of)) => {
            let parts = Record::with_parts(report);
            parts.iter().find(|part| part.tags.part.as_deref() == Some(label))?.value(of)
        }
        Some(("groups", path, of)) => {
            let group = measures.groups.iter().find(|group| group.path == path)?;
            Some(if of == "cpu_ns" { group.cpu.0 } else { group.runnable.0 })
        }
        Some((_, name, of)) => {
            let tasks = measures.tasks.iter().filter(|task| task.name == name);
            let values = tasks.map(|task| match of {
                "cpu_ns" => task.account.run.0,
                "work_ns" => task.account.work.0,
                "runnable_ns" => task.account.runnable.0,
                _ => task.cpus_allowed.len() as u64,
            });
            values.reduce(|sum, one| sum + one)
        }
    }
}
