// SPDX-License-Identifier: GPL-2.0-only
//! A run without its tasks, the input of comparisons. It comes from a run just made, or from the JSON of an earlier
//! one; both are equivalent.

use crate::{Called, Doubt, Ending, Exit, Meter, RunReport, Tags, Violation, Violations, doubts};
use measures::catalogue::CATALOGUE;
use serde::Deserialize;
use serde_json::Value;

/// One run, or one part of its workload, as used in comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Inputs of the run.
    pub tags: Tags,
    /// File that it was read from, if any.
    pub file: Option<String>,
    /// How the run ended.
    pub ending: Ending,
    /// Measurement data, if it ran in a real kernel.
    pub meter: Option<Meter>,
    /// Unreliable measures.
    pub doubtful: Vec<Doubt>,
    /// Values of the measures, in the order of [`CATALOGUE`].
    pub values: Vec<Option<u64>>,
}

impl From<&RunReport> for Record {
    fn from(run: &RunReport) -> Record {
        Record {
            tags: run.tags.clone(),
            file: None,
            ending: run.ending.clone(),
            meter: run.meter.clone(),
            doubtful: doubts::of(run),
            values: CATALOGUE.iter().map(|measure| (measure.value)(&run.measures)).collect(),
        }
    }
}

impl Record {
    /// The run, and each part of its workload.
    pub fn with_parts(run: &RunReport) -> Vec<Record> {
        let whole = Record::from(run);
        let part = |part| whole.of_part("parts", &crate::json::part(part)).expect("the JSON was just written");
        let parts: Vec<Record> = run.measures.parts.iter().map(part).collect();
        std::iter::once(whole).chain(parts).collect()
    }

    /// A part of this run's workload, from the JSON at `place`.
    fn of_part(&self, place: &str, part: &Value) -> Result<Record, ReadError> {
        let Some(label) = part.get("label").and_then(Value::as_str) else {
            return refuse(&format!("{place}.label"), "expected a string");
        };
        let mut values = read_values(place, part)?;
        for (measure, value) in CATALOGUE.iter().zip(&mut values) {
            match measure.key {
                "elapsed_ns" => *value = self.value("elapsed_ns"),
                "cpu_ns.run" => *value = part.get("cpu_ns").and_then(Value::as_u64),
                _ => {}
            }
        }
        let tags = Tags { part: Some(label.to_owned()), ..self.tags.clone() };
        Ok(Record { tags, values, ..self.clone() })
    }

    /// Value of a measure, if known.
    ///
    /// # Panics
    /// If the catalogue has no such key.
    pub fn value(&self, key: &str) -> Option<u64> {
        let index = CATALOGUE.iter().position(|measure| measure.key == key);
        self.values[index.expect("a key of the catalogue")]
    }
}

/// Reason why a text is not a document of runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ReadError {
    /// Place in the document: a path of keys such as `runs[3].machine`, or line and column.
    pub place: String,
    /// What was found there, and what was expected.
    pub problem: String,
}

pub(crate) fn refuse<T>(place: &str, problem: impl Into<String>) -> Result<T, ReadError> {
    Err(ReadError { place: place.to_owned(), problem: problem.into() })
}

/// Reads the output of [`crate::to_json`].
///
/// # Errors
/// If it is not JSON, or not of this format. Measures that are missing, as in documents of earlier versions,
/// are unknown.
pub fn read_json(bytes: &[u8]) -> Result<Vec<Record>, ReadError> {
    let runs = document(bytes)?;
    let read = |(index, run): (usize, &Value)| read_run(&format!("runs[{index}]"), run);
    let runs: Vec<Vec<Record>> = runs.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(runs.into_iter().flatten().collect())
}

/// The runs of a document, at least one.
pub(crate) fn document(bytes: &[u8]) -> Result<Vec<Value>, ReadError> {
    let mut document: Value = serde_json::from_slice(bytes).map_err(|error| ReadError {
        place: format!("line {}, column {}", error.line(), error.column()),
        problem: "not JSON".to_owned(),
    })?;
    match document.get("weir").and_then(Value::as_u64) {
        Some(1) => {}
        Some(version) => return refuse("weir", format!("format {version}; this version reads format 1")),
        None => return refuse("weir", "no such key; expected the JSON of weir sim or weir run"),
    }
    match document.get_mut("runs").map(Value::take) {
        Some(Value::Array(runs)) if runs.is_empty() => refuse("runs", "expected at least one run"),
        Some(Value::Array(runs)) => Ok(runs),
        _ => refuse("runs", "expected a list of runs"),
    }
}

/// Contents of a run other than measures.
#[derive(Deserialize)]
struct Rest {
    #[serde(flatten)]
    tags: Tags,
    exit: Exit,
    #[serde(default)]
    deadlocked: bool,
    #[serde(default)]
    command_status: Option<i32>,
    #[serde(default)]
    failed_forks: u64,
    #[serde(default)]
    refused_changes: u64,
    #[serde(default)]
    restarts: u64,
    #[serde(default)]
    calls: Vec<Called>,
    #[serde(default)]
    violations: Option<Vec<Violation>>,
    #[serde(default)]
    violation_count: Option<u64>,
    #[serde(default)]
    not_seen: Option<Vec<String>>,
    #[serde(default)]
    useless_migrations: Option<u64>,
    #[serde(default)]
    meter: Option<Meter>,
    #[serde(default)]
    doubtful: Vec<Doubt>,
}

/// The run and each part of its workload.
fn read_run(place: &str, run: &Value) -> Result<Vec<Record>, ReadError> {
    let rest = Rest::deserialize(run).or_else(|error| refuse(place, error.to_string()))?;
    let values = read_values(place, run)?;
    let ejected = (run.get("outcome").and_then(Value::as_str) == Some("ejected")).then_some(rest.exit);
    let Rest { mut tags, deadlocked, command_status, failed_forks, refused_changes, restarts, calls, .. } = rest;
    tags.calls = Called::names(&calls);
    let found = rest.violations.zip(rest.violation_count);
    let (not_seen, useless_migrations) = (rest.not_seen.unwrap_or_default(), rest.useless_migrations);
    let violations = found.map(|(first, count)| Violations { count, first, not_seen, useless_migrations });
    let (meter, doubtful) = (rest.meter, rest.doubtful);
    let ending =
        Ending { ejected, deadlocked, command_status, failed_forks, refused_changes, restarts, calls, violations };
    let mut records = vec![Record { tags, file: None, ending, meter, doubtful, values }];
    for (index, part) in run.get("parts").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let part = records[0].of_part(&format!("{place}.parts[{index}]"), part)?;
        records.push(part);
    }
    Ok(records)
}

/// The measures of a run or of a part.
fn read_values(place: &str, object: &Value) -> Result<Vec<Option<u64>>, ReadError> {
    let mut values = Vec::with_capacity(CATALOGUE.len());
    for measure in &CATALOGUE {
        let value = measure.key.split('.').try_fold(object, |value, key| value.get(key));
        values.push(match value {
            None | Some(Value::Null) => None,
            Some(value) if value.is_u64() => value.as_u64(),
            Some(other) => {
                return refuse(&format!("{place}.{}", measure.key), format!("{other}, expected a number or null"));
            }
        });
    }
    Ok(values)
}
