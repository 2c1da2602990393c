// SPDX-License-Identifier: GPL-2.0-only
//! The memory model against this machine: what working sets and streams cost when tasks alternate, move, and share the
//! memory.
//!
//! Both worlds execute the same workload file, and a reference without the effect; what an event costs is the difference
//! by event. The machine file has the costs of caches and bandwidth that `weir machine measure` finds on this machine. A
//! real compiler is moved too, and compared with a task of the class `compiler`.

mod compiler;
mod experiments;

use crate::predict::Weir;
use anyhow::{Context, Result, bail};
use clap::Args;
use experiments::Experiment;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Options of `cargo xtask memory-host`.
#[derive(Args)]
#[command(after_help = "\
The machine should be idle. It takes ten to thirty minutes and needs root, gcc and two CPUs.

Examples:
  cargo xtask memory-host > lab/results/memory-host.md")]
pub struct Arguments {
    /// Runs of each experiment on this machine
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(3..=100))]
    runs: u32,
    /// Uses this program instead of an optimized build
    #[arg(long)]
    program: Option<std::path::PathBuf>,
}

/// The machine file for tasks whose loads depend on each other.
const DEPENDENT: &str = "dependent.toml";

const PROSE: &str = "\
# Memory: the model against this machine

Written by `cargo xtask memory-host`: do not edit. Both worlds execute the same workload file, and a reference without
the effect, in turn. Visits of `weir run` depend on each other, so `overlap` is 1 for them. Numbers are what an event
adds, in microseconds: lowest, median and highest of the runs and draws. The model agrees if its median lies between the
lowest and the highest of the machine. Misses are results.
";

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let weir = match &arguments.program {
        Some(program) => Weir::of(program.canonicalize()?, directory.path())?,
        None => Weir::build(directory.path())?,
    };
    let (machine, read_mb_s) = machine(&weir)?;
    fs::write(directory.path().join("host.toml"), &machine)?;
    // Each visit of `weir run` depends on the one before, so one miss is in flight; a compiler is as the model assumes.
    fs::write(directory.path().join(DEPENDENT), replace(&machine, "caches", "overlap", "[1, 1, 1]")?)?;
    let mut groups: Vec<(&str, Vec<Row>)> = Vec::new();
    for experiment in experiments::all(read_mb_s) {
        eprintln!("{}: {}", experiment.group, experiment.label);
        let row = run(&weir, directory.path(), &experiment, arguments.runs)?;
        match groups.last_mut().filter(|(group, _)| *group == experiment.group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((experiment.group, vec![row])),
        }
    }
    groups.push((compiler::GROUP, compiler::rows(&weir, directory.path(), arguments.runs)?));
    print!("{}", document(&groups, &machine)?);
    Ok(())
}

/// Costs of an event in both worlds in microseconds, one for each run or seed.
struct Row {
    label: String,
    real: Vec<f64>,
    model: Vec<f64>,
}

/// Runs an experiment and its reference in turn.
fn run(weir: &Weir<'_>, directory: &Path, experiment: &Experiment, runs: u32) -> Result<Row> {
    fs::write(directory.join("with.json"), &experiment.workload)?;
    fs::write(directory.join("reference.json"), &experiment.reference)?;
    let cost = |with: f64, reference: f64| (with - reference) / experiment.events as f64 / 1e3;
    let mut real = Vec::new();
    for _ in 0..runs {
        let [reference, with] = ["reference.json", "with.json"]
            .map(|file| elapsed(weir, &["run", "--format", "json", "-w", file]).map(|times| times[0]));
        real.push(cost(with?, reference?));
    }
    let simulated = |file| {
        let kernel = ["sim", "kernel", "--format", "json", "-m", DEPENDENT];
        elapsed(weir, &[&kernel[..], &["-w", file, "--draws", "15"]].concat())
    };
    let model = simulated("with.json")?.into_iter().zip(simulated("reference.json")?);
    Ok(Row {
        label: experiment.label.clone(),
        real,
        model: model.map(|(with, reference)| cost(with, reference)).collect(),
    })
}

/// Lowest, median and highest.
fn spread(costs: &[f64]) -> [f64; 3] {
    let mut costs = costs.to_vec();
    costs.sort_by(f64::total_cmp);
    [costs[0], costs[costs.len() / 2], costs[costs.len() - 1]]
}

fn document(groups: &[(&str, Vec<Row>)], machine: &str) -> Result<String> {
    let mut text = PROSE.to_owned();
    let (mut agreeing, mut count) = (0, 0);
    for (group, rows) in groups {
        writeln!(text, "\n## {group}\n\n| | this machine | model | |\n|---|---|---|---|")?;
        for row in rows {
            let ([low, median, high], model) = (spread(&row.real), spread(&row.model));
            let agrees = (low..=high).contains(&model[1]);
            (agreeing, count) = (agreeing + u32::from(agrees), count + 1);
            let verdict = if agrees { "agrees" } else { "**does not agree**" };
            let [least, typical, most] = model;
            let label = &row.label;
            writeln!(
                text,
                "| {label} | {low:.1} {median:.1} {high:.1} | {least:.1} {typical:.1} {most:.1} | {verdict} |"
            )?;
        }
    }
    writeln!(text, "\n{agreeing} of {count} rows agree. Costs of the machine file:\n\n```toml")?;
    let tables = ["[caches]", "[bandwidth]"].map(|table| machine.find(table).map(|at| &machine[at..]));
    for table in tables.into_iter().flatten() {
        writeln!(text, "{}\n", table.split("\n\n").next().unwrap_or_default())?;
    }
    Ok(text.trim_end().to_owned() + "\n```\n")
}

/// Elapsed times of the runs of a command in nanoseconds.
fn elapsed(weir: &Weir<'_>, arguments: &[&str]) -> Result<Vec<f64>> {
    let document = weir.document(arguments)?;
    let runs = document["runs"].as_array().context("the report has runs")?;
    runs.iter().map(|run| run["elapsed_ns"].as_f64().context("a run has an elapsed time")).collect()
}

/// The description of this machine with the measured costs of caches and bandwidth in place of the assumed ones, and the
/// bandwidth of one CPU in MB/s.
fn machine(weir: &Weir<'_>) -> Result<(String, u64)> {
    let mut text = String::from_utf8(weir.output(&["machine", "host"])?)?;
    eprintln!("measuring this machine");
    let measured = weir.document(&["machine", "measure", "--format", "json"])?;
    let mut read = None;
    for quantity in measured["measured"].as_array().context("there are quantities")? {
        let key = quantity["key"].as_str().and_then(|key| key.split_once('.'));
        match key {
            Some(("caches", "llc_kb")) => {
                let share = quantity["median"].as_f64().context("a quantity has a median")?;
                text = replace(&text, "caches", "llc_kb", &format!("{share:.0}"))?;
            }
            Some((table @ ("caches" | "bandwidth"), key)) => text = with(&text, table, key, quantity)?,
            _ => {}
        }
        if quantity["what"].as_str().is_some_and(|what| what.starts_with("MB/s read by CPU") && what.ends_with("alone"))
        {
            read = quantity["median"].as_f64().map(|read| read as u64);
        }
    }
    Ok((text, read.context("the bandwidth of a CPU is measured")?))
}

/// Replaces the value of a key in a table by the quantiles of a measurement.
fn with(text: &str, table: &str, key: &str, quantity: &Value) -> Result<String> {
    let quantile =
        |name: &str| quantity[name].as_f64().context("a quantity has quantiles").map(|it| it.round().max(1.0));
    replace(text, table, key, &format!("[{}, {}, {}]", quantile("p10")?, quantile("median")?, quantile("p90")?))
}

/// Replaces the value of a key in a table.
fn replace(text: &str, table: &str, key: &str, value: &str) -> Result<String> {
    let mut current = "";
    let mut lines: Vec<String> = Vec::new();
    let mut found = false;
    for line in text.lines() {
        current = line.strip_prefix('[').map_or(current, |rest| rest.trim_end_matches(']'));
        let is_key = current == table && line.split_once(" = ").is_some_and(|(name, _)| name == key);
        found |= is_key;
        lines.push(if is_key { format!("{key} = {value}") } else { line.to_owned() });
    }
    if !found {
        bail!("the description of this machine has no {key} in [{table}]");
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn measured_costs_replace_those_of_their_table_only() {
        let quantity = json!({ "p10": 1.2, "median": 2.6, "p90": 9.0 });
        let text = "[a]\nx = 1\n[caches]\nx = 2 # y\n";
        assert_eq!(with(text, "caches", "x", &quantity).unwrap(), "[a]\nx = 1\n[caches]\nx = [1, 3, 9]\n");
        assert!(with(text, "caches", "z", &quantity).is_err());
    }

    #[test]
    fn model_agrees_if_its_median_is_within_the_spread_of_the_machine() {
        let row = |model: [f64; 3]| Row { label: "x".into(), real: vec![3.0, 1.0, 2.0], model: model.to_vec() };
        let text = document(&[("Moves", vec![row([0.0, 3.0, 9.0]), row([1.0, 3.1, 3.2])])], "").unwrap();
        assert!(text.contains("| x | 1.0 2.0 3.0 | 0.0 3.0 9.0 | agrees |"), "{text}");
        assert!(text.contains("| 1.0 3.1 3.2 | **does not agree** |\n\n1 of 2 rows agree"), "{text}");
    }
}
