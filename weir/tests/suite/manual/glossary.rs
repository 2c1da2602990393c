// SPDX-License-Identifier: GPL-2.0-only
//! `docs/reference/measures.md` explains exactly the keys of the JSON format; names, units and better directions of
//! measures agree with the reports.

use super::root;
use measures::catalogue::{Better, CATALOGUE, Unit};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Keys of a latency summary; in tasks and parts the glossary explains it as one entry.
const SUMMARY: [&str; 7] = ["count", "max", "mean", "p50", "p90", "p99", "p999"];

/// Rows of the glossary's tables that begin with a key: the keys of a row, and its other cells.
fn rows() -> Vec<(Vec<String>, Vec<String>)> {
    let text = fs::read_to_string(root().join("docs/reference/measures.md")).unwrap();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|mut row| {
        let keys = row.remove(0);
        (keys.split(", ").map(|key| key.trim_matches('`').to_owned()).collect(), row)
    })
    .collect()
}

fn keys_of_the_glossary() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for key in rows().into_iter().flat_map(|(keys, _)| keys) {
        assert!(keys.insert(key.clone()), "{key} is explained twice");
    }
    keys
}

/// Path of a key below another one.
fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether these keys are a latency summary of a task or part. In whole runs each of these keys is a measure of its
/// own.
fn is_summary<'a>(path: &str, keys: impl Iterator<Item = &'a String>) -> bool {
    let keys: BTreeSet<&str> = keys.map(String::as_str).collect();
    ["runs.tasks.", "runs.parts."].iter().any(|begin| path.starts_with(begin)) && keys == BTreeSet::from(SUMMARY)
}

/// Follows references and skips alternatives to null.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return resolved(root.pointer(reference.trim_start_matches('#')).unwrap(), root);
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let choice = choices.and_then(|some| some.iter().find(|choice| choice["type"] != "null"));
    choice.map_or(schema, |choice| resolved(choice, root))
}

fn keys_of_the_schema(schema: &Value, root: &Value, path: &str, keys: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    if let Some(items) = schema.get("items") {
        return keys_of_the_schema(items, root, path, keys);
    }
    match schema["properties"].as_object() {
        Some(properties) if !is_summary(path, properties.keys()) => {
            properties.iter().for_each(|(key, value)| keys_of_the_schema(value, root, &join(path, key), keys));
        }
        _ => _ = keys.insert(path.to_owned()),
    }
}

fn keys_of_a_document(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| keys_of_a_document(value, path, keys)),
        Value::Object(object) if !is_summary(path, object.keys()) => {
            object.iter().for_each(|(key, value)| keys_of_a_document(value, &join(path, key), keys));
        }
        Value::Null => {}
        _ => _ = keys.insert(path.to_owned()),
    }
}

/// Drops the prefix `runs.`, as the glossary does. It explains the keys of `orders.pairs` as those of `comparisons`.
fn as_explained(keys: BTreeSet<String>) -> BTreeSet<String> {
    let explained = |key: String| match key.strip_prefix("orders.pairs.") {
        Some(rest) => format!("comparisons.{rest}"),
        None => key.strip_prefix("runs.").map_or(key.clone(), str::to_owned),
    };
    keys.into_iter().map(explained).collect()
}

#[test]
fn glossary_explains_exactly_the_keys_of_the_schema() {
    let schema: Value = serde_json::from_slice(&fs::read(root().join("docs/schema/run.json")).unwrap()).unwrap();
    let mut keys = BTreeSet::new();
    keys_of_the_schema(&schema, &schema, "", &mut keys);
    assert_eq!(keys_of_the_glossary(), as_explained(keys));
}

/// The schema allows additional keys in runs, so printed documents are checked too.
#[test]
fn glossary_explains_every_printed_key() {
    let setups: [&[&str]; 4] = [
        &["kernel", "-m", "laptop-2c4t", "-w", "lock+video", "--for", "300ms"],
        &["fifo", "bfs", "-m", "nix-32", "-w", "periodic-4", "--for", "50ms", "--seeds", "6"],
        &["bfs", "-m", "server-64", "-w", "build", "--for", "50ms"],
        &["kernel", "fifo", "bfs", "-m", "laptop-2c4t", "-w", "video", "--for", "50ms", "--seeds", "6"],
    ];
    let explained = keys_of_the_glossary();
    for setup in setups {
        let weir = Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").args(setup).args(["--format", "json"]).output();
        let mut keys = BTreeSet::new();
        keys_of_a_document(&serde_json::from_slice(&weir.unwrap().stdout).unwrap(), "", &mut keys);
        let missing: Vec<String> = as_explained(keys).difference(&explained).cloned().collect();
        assert_eq!(missing, Vec::<String>::new(), "{setup:?}");
    }
}

#[test]
fn glossary_names_measures_as_reports_do() {
    let rows = rows();
    for measure in &CATALOGUE {
        let row = rows.iter().find(|(keys, _)| keys.iter().any(|key| key == measure.key));
        let (_, cells) = row.unwrap_or_else(|| panic!("{} has no entry", measure.key));
        let unit = if measure.unit == Unit::Nanoseconds { "ns" } else { "1" };
        let better = match measure.better {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "",
        };
        let unit = if measure.key.ends_with("_ppm") {
            "10⁻⁶"
        } else if measure.key.ends_with("_milli") {
            "10⁻³"
        } else {
            unit
        };
        assert_eq!(cells[..3], [measure.label, unit, better], "{}", measure.key);
        assert!(cells[3].len() > 20, "{}: {:?} explains nothing", measure.key, cells[3]);
    }
}
