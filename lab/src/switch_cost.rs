// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a context switch by the size of the working sets, on this machine and in the model of it (the experiment of
//! Li, Ding and Shen, "Quantifying the Cost of Context Switch", ExpCS 2007).
//!
//! Two tasks alternate on CPU 0. Each visits the lines of its own working set while it works. What a switch costs more
//! than one between tasks without a working set is the reload of what the other task displaced. Both worlds execute the
//! same workload file; the machine file has the cache and bandwidth costs that `weir machine measure` finds.

use crate::predict::Weir;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Working sets of each task in KiB; the first is the reference.
const FOOTPRINTS_KIB: [u64; 8] = [0, 64, 256, 512, 1_024, 2_048, 4_096, 8_192];
/// Work of a task before it gives the CPU to the other one, in microseconds. Four passes over 8 MiB take a quarter of it.
const RUN_US: u64 = 10_000;
/// Turns of each of the two tasks.
const TURNS: u64 = 50;

/// Options of `cargo xtask switch-cost`.
#[derive(Args)]
#[command(after_help = "\
The machine should be idle. It takes two minutes and needs root.

Examples:
  cargo xtask switch-cost > lab/results/switch-cost.md")]
pub struct Arguments {
    /// Runs of each size on this machine
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(3..=100))]
    runs: u32,
}

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let weir = Weir::build(directory.path())?;
    fs::write(directory.path().join("host.toml"), machine(&weir)?)?;
    let mut rows: Vec<Row> = Vec::new();
    for footprint_kib in FOOTPRINTS_KIB {
        let file = format!("switch-{footprint_kib}.json");
        fs::write(directory.path().join(&file), workload(footprint_kib))?;
        eprintln!("working sets of {footprint_kib} KiB");
        let run = |_| elapsed(&weir, &["run", "--format", "json", "-w", &file]).map(|times| times[0]);
        let real = (0..arguments.runs).map(run).collect::<Result<Vec<_>>>()?;
        let simulated =
            elapsed(&weir, &["sim", "kernel", "--format", "json", "-m", "host.toml", "-w", &file, "--seeds", "7"])?;
        rows.push(Row { footprint_kib, real, simulated });
    }
    print!("{}", document(&rows, directory.path())?);
    Ok(())
}

/// Run times of both worlds in nanoseconds, one for each run or seed.
struct Row {
    footprint_kib: u64,
    real: Vec<f64>,
    simulated: Vec<f64>,
}

/// Costs of a switch in microseconds: lowest, median, highest.
fn costs(times: &[f64], reference: f64) -> [f64; 3] {
    let mut costs: Vec<f64> = times.iter().map(|time| (time - reference) / (2 * TURNS) as f64 / 1e3).collect();
    costs.sort_by(f64::total_cmp);
    [costs[0], costs[costs.len() / 2], costs[costs.len() - 1]]
}

fn document(rows: &[Row], directory: &Path) -> Result<String> {
    let mut text = String::from(
        "# Context switches: what the working set adds\n\n\
         Written by `cargo xtask switch-cost`: do not edit. Two tasks alternate on a CPU; each works for 10 ms and visits the\n\
         lines of its own working set. The cost of a switch is what it adds to the time without working sets, in\n\
         microseconds: lowest, median and highest of the runs. The model agrees if its median lies between the lowest and\n\
         highest of the machine.\n\n\
         | working set | this machine | model | |\n|---|---|---|---|\n",
    );
    let references = rows.first().map(|row| [&row.real, &row.simulated].map(|times| costs(times, 0.0)[1]));
    let [real, simulated] = references.context("there is a reference")?.map(|cost| cost * 1e3 * (2 * TURNS) as f64);
    let mut agreeing = 0;
    for row in &rows[1..] {
        let ([low, median, high], model) = (costs(&row.real, real), costs(&row.simulated, simulated));
        let agrees = (low..=high).contains(&model[1]);
        agreeing += u32::from(agrees);
        let verdict = if agrees { "agrees" } else { "**does not agree**" };
        writeln!(
            text,
            "| {} KiB | {low:.1} {median:.1} {high:.1} | {:.1} {:.1} {:.1} | {verdict} |",
            row.footprint_kib, model[0], model[1], model[2]
        )?;
    }
    writeln!(text, "\n{agreeing} of {} sizes agree. Costs of the machine file:\n\n```toml", rows.len() - 1)?;
    let machine = fs::read_to_string(directory.join("host.toml"))?;
    let tables = ["[caches]", "[bandwidth]"].map(|table| machine.find(table).map(|at| &machine[at..]));
    for table in tables.into_iter().flatten() {
        writeln!(text, "{}\n", table.split("\n\n").next().unwrap_or_default())?;
    }
    Ok(text.trim_end().to_owned() + "\n```\n")
}

/// `a` works and wakes `b`, which works and wakes `a`.
fn workload(footprint_kib: u64) -> String {
    let footprint = if footprint_kib > 0 { format!("\"footprint\": \"{footprint_kib}K\", ") } else { String::new() };
    let head = format!("{footprint}\"cpus\": [0], \"loop\": {TURNS}");
    format!(
        "{{ \"tasks\": {{\n  \"a\": {{ {head}, \"delay\": 100000, \"run\": {RUN_US}, \"resume\": \"b\", \"suspend\": \"a\" }},\n  \
         \"b\": {{ {head}, \"suspend\": \"b\", \"run\": {RUN_US}, \"resume\": \"a\" }} }},\n\
         \"global\": {{ \"duration\": -1 }} }}\n"
    )
}

/// Elapsed times of the runs of a command.
fn elapsed(weir: &Weir<'_>, arguments: &[&str]) -> Result<Vec<f64>> {
    let document = weir.document(arguments)?;
    let runs = document["runs"].as_array().context("the report has runs")?;
    runs.iter().map(|run| run["elapsed_ns"].as_f64().context("a run has an elapsed time")).collect()
}

/// The description of this machine with the measured costs of caches and bandwidth in place of the assumed ones.
fn machine(weir: &Weir<'_>) -> Result<String> {
    let mut text = String::from_utf8(weir.output(&["machine", "host"])?)?;
    eprintln!("measuring this machine");
    let measured = weir.document(&["machine", "measure", "--format", "json"])?;
    for quantity in measured["measured"].as_array().context("there are quantities")? {
        let key = quantity["key"].as_str().and_then(|key| key.split_once('.'));
        if let Some((table @ ("caches" | "bandwidth"), key)) = key {
            text = with(&text, table, key, quantity)?;
        }
    }
    Ok(text)
}

/// Replaces the value of a key in a table by the quantiles of a measurement.
fn with(text: &str, table: &str, key: &str, quantity: &Value) -> Result<String> {
    let quantile =
        |name: &str| quantity[name].as_f64().context("a quantity has quantiles").map(|it| it.round().max(1.0));
    let value = format!("[{}, {}, {}]", quantile("p10")?, quantile("median")?, quantile("p90")?);
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
    fn cost_of_a_switch_is_the_additional_time_of_each_turn() {
        let times = [3e8, 1e8, 2e8];
        assert_eq!(costs(&times, 1e8), [0.0, 1_000.0, 2_000.0]);
    }
}
