// SPDX-License-Identifier: GPL-2.0-only
//! Two threads at a lock, on this host and in the model of it.
//!
//! 1. `weir machine measure` runs twice. The first gives the model its numbers: a way of a cache line, passages of one CPU
//!    alone, and a call of the kernel for nothing. What two CPUs need for a passage is not among them. What a switch, a
//!    wakeup and an idle CPU's way back cost, which a mutex needs, is measured as for any prediction ([`Host`]).
//! 2. The model predicts that. It agrees if it lies between the lowest 10 % and the highest 90 % that the two measurements
//!    found for the row.
//! 3. All of it is done some times, since a virtual machine is not the same in two minutes.

use crate::predict::{Host, Weir};
use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask locks`.
#[derive(Args)]
pub struct Arguments {
    /// The weir to run; without it, a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// How often all of it is measured and predicted
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Kind and mode in a workload, and the name in the measurement.
const KINDS: [(&str, &str, &str); 6] = [
    ("atomic", "write", "atomic"),
    ("test-and-set", "write", "test-and-set"),
    ("ticket", "write", "ticket"),
    ("queued", "write", "queued"),
    ("mutex", "write", "mutex"),
    ("rwlock", "read", "rwlock, readers"),
];
const HOLDS: [u64; 3] = [0, 100, 1_000];
/// Of both tasks together.
const PASSAGES: u64 = 100_000;
/// Rows that a machine's `acquire_ns` is made of, in its order.
const ALONE: [&str; 6] = ["atomic", "seqlock, readers", "test-and-set", "queued", "rwlock, readers", "mutex"];

/// Prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let folder = crate::root().join("target/locks");
    std::fs::create_dir_all(&folder)?;
    let mut rows: Vec<Vec<Found>> = (0..KINDS.len() * HOLDS.len()).map(|_| Vec::new()).collect();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        rows.iter_mut().zip(play(&weir, &folder)?).for_each(|(row, found)| row.push(found));
    }
    println!("| lock | held, ns | measured, ns a passage | predicted | off | agrees |");
    println!("|---|---|---|---|---|---|");
    let kinds = KINDS.iter().flat_map(|kind| HOLDS.map(|hold| (kind, hold)));
    for (((kind, mode, _), hold), row) in kinds.zip(&rows) {
        let column = |of: fn(&Found) -> f64| Quantiles::of(row.iter().map(of).collect());
        let off = column(|found| 100.0 * (found.predicted / found.measured - 1.0)).median;
        let agrees = row.iter().filter(|found| found.agrees).count();
        println!(
            "| {kind}, {mode} | {hold} | {} | {} | {off:+.0} % | {agrees} of {} |",
            column(|found| found.measured),
            column(|found| found.predicted),
            row.len()
        );
    }
    Ok(())
}

/// A lock with one hold, in one round.
struct Found {
    /// By the first measurement, in nanoseconds a passage.
    measured: f64,
    predicted: f64,
    /// The prediction lies where the measurements do.
    agrees: bool,
}

/// One round: measured twice, and predicted from the first.
fn play(weir: &Path, folder: &Path) -> Result<Vec<Found>> {
    let host = Host::measure(&Weir::of(weir.to_owned(), Path::new("."))?)?;
    let measure = || json(Command::new(weir).args(["machine", "measure", "--format", "json"]));
    let (first, second) = (measure()?, measure()?);
    let machine = folder.join("host.toml");
    std::fs::write(&machine, model(&host, &first)?)?;
    let mut found = Vec::new();
    for (kind, mode, name) in KINDS {
        for hold in HOLDS {
            let what = format!("critical section, {name}, {hold} ns held, 2 CPUs");
            let (a, b) = (Row::find(&first, &what)?, Row::find(&second, &what)?);
            let (low, high) = (a.p10.min(b.p10), a.p90.max(b.p90));
            let predicted = predict(weir, folder, &machine, kind, mode, hold)?;
            found.push(Found { measured: a.median, predicted, agrees: (low..=high).contains(&predicted) });
        }
    }
    Ok(found)
}

/// Of all rounds, shown as the median, from the least to the greatest.
struct Quantiles {
    least: f64,
    median: f64,
    greatest: f64,
}

impl Quantiles {
    fn of(mut values: Vec<f64>) -> Quantiles {
        values.sort_by(f64::total_cmp);
        let (last, half) = (values.len() - 1, values.len() / 2);
        Quantiles { least: values[0], median: (values[half] + values[last - half]) / 2.0, greatest: values[last] }
    }
}

impl Display for Quantiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} ({:.0} to {:.0})", self.median, self.least, self.greatest)
    }
}

/// A row of a measurement.
struct Row {
    p10: f64,
    median: f64,
    p90: f64,
}

impl Row {
    fn find(measured: &Value, what: &str) -> Result<Row> {
        let rows = measured["measured"].as_array().context("a list of what was measured")?;
        let row = rows.iter().find(|row| row["what"] == what || row["key"] == what);
        let row = row.with_context(|| format!("{what:?} was not measured; two CPUs are needed"))?;
        let number = |key: &str| row[key].as_f64().with_context(|| format!("{what:?} has no {key}"));
        Ok(Row { p10: number("p10")?, median: number("median")?, p90: number("p90")? })
    }
}

/// This host with the locks that were measured.
fn model(host: &Host, measured: &Value) -> Result<String> {
    let path = Path::new(&host.whole);
    let host = std::fs::read_to_string(path).context("this machine has no CPUs of which two can be measured")?;
    let whole = |value: f64| (value.round() as u64).max(1);
    // Of the nearest two CPUs, between which the passages were measured as well.
    let near = ["smt", "llc", "node", "far"].map(|level| format!("locks.line_transfer_ns.{level}"));
    let line = near.iter().find_map(|key| Row::find(measured, key).ok()).context("a way between two CPUs")?;
    let line = whole(line.median);
    let alone = |name: &&str| {
        Row::find(measured, &format!("critical section, {name}, 0 ns held, 1 CPU")).map(|row| whole(row.median))
    };
    let alone: Vec<u64> = ALONE.iter().map(alone).collect::<Result<_>>()?;
    let futex = whole(Row::find(measured, "locks.futex_ns")?.median);
    Ok(format!(
        "{host}\n[locks]\nline_transfer_ns = [{line}, {line}, {line}, {line}]\nwakeup_hold_ns = 200\nacquire_ns = {alone:?}\n\
         spinner_slowdown_percent = 100\nfutex_ns = {futex}\n"
    ))
}

/// What a passage of two CPUs takes in the model, in nanoseconds.
fn predict(weir: &Path, folder: &Path, machine: &Path, kind: &str, mode: &str, hold: u64) -> Result<f64> {
    let workload = folder.join("workload.json");
    let text = format!(
        r#"{{"locks": {{"l": {{"kind": "{kind}"}}}}, "tasks": {{"t": {{"instance": 2, "loop": 1, "critical_sections":
            {{"lock": "l", "mode": "{mode}", "hold_ns": {hold}, "times": {}}}}}}}}}"#,
        PASSAGES / 2
    );
    std::fs::write(&workload, text)?;
    let mut command = Command::new(weir);
    command.args(["sim", "kernel", "--format", "json", "-m"]).arg(machine).arg("-w").arg(&workload);
    let run = json(&mut command)?;
    let makespan = run["runs"][0]["makespan_ns"].as_f64().context("a run that ends")?;
    Ok(makespan / PASSAGES as f64)
}

fn json(command: &mut Command) -> Result<Value> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
