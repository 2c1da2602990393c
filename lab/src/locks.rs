// SPDX-License-Identifier: GPL-2.0-only
//! Two threads contending for a lock, on this host and in its model.
//!
//! 1. `weir machine measure` runs twice. The first run parameterizes the model: cache-line transfer latency,
//!    uncontended lock acquisitions, and an empty system call. Contended acquisitions are not among the parameters.
//!    The costs of a switch, a wakeup and an idle exit, which a mutex needs, are measured as for any prediction
//!    ([`Host`]).
//! 2. The model predicts the contended acquisitions. It agrees if its value lies between the lowest p10 and the
//!    highest p90 of the two measurements.
//! 3. All of it is repeated, because a virtual machine changes from minute to minute.

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
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Number of rounds of measurement and prediction
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
/// Number of critical sections of both tasks together.
const CRITICAL_SECTIONS: u64 = 100_000;
/// Rows from which a machine's `acquire_ns` is built, in its order.
const ALONE: [&str; 6] = ["atomic", "seqlock, readers", "test-and-set", "queued", "rwlock, readers", "mutex"];

/// Prints the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let directory = crate::root().join("target/locks");
    std::fs::create_dir_all(&directory)?;
    let mut rows: Vec<Vec<Found>> = (0..KINDS.len() * HOLDS.len()).map(|_| Vec::new()).collect();
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        rows.iter_mut().zip(run_round(&weir, &directory)?).for_each(|(row, found)| row.push(found));
    }
    println!("| lock | held, ns | measured, ns per critical section | predicted | error | agrees |");
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

/// Result for one lock and hold time in one round.
struct Found {
    /// By the first measurement, in nanoseconds per critical section.
    measured: f64,
    predicted: f64,
    /// Whether the prediction lies within the range of the measurements.
    agrees: bool,
}

/// Runs one round: measures twice, and predicts from the first measurement.
fn run_round(weir: &Path, directory: &Path) -> Result<Vec<Found>> {
    let host = Host::measure(&Weir::of(weir.to_owned(), Path::new("."))?)?;
    let measure = || json(Command::new(weir).args(["machine", "measure", "--format", "json"]));
    let (first, second) = (measure()?, measure()?);
    let machine = directory.join("host.toml");
    std::fs::write(&machine, model(&host, &first)?)?;
    let mut found = Vec::new();
    for (kind, mode, name) in KINDS {
        for hold in HOLDS {
            let what = format!("critical section, {name}, {hold} ns held, 2 CPUs");
            let (a, b) = (Row::find(&first, &what)?, Row::find(&second, &what)?);
            let (low, high) = (a.p10.min(b.p10), a.p90.max(b.p90));
            let predicted = predict(weir, directory, &machine, kind, mode, hold)?;
            found.push(Found { measured: a.median, predicted, agrees: (low..=high).contains(&predicted) });
        }
    }
    Ok(found)
}

/// Median and range over all rounds.
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
        let rows = measured["measured"].as_array().context("no list of measurements")?;
        let row = rows.iter().find(|row| row["what"] == what || row["key"] == what);
        let row = row.with_context(|| format!("{what:?} was not measured; it needs two CPUs"))?;
        let number = |key: &str| row[key].as_f64().with_context(|| format!("{what:?} has no {key}"));
        Ok(Row { p10: number("p10")?, median: number("median")?, p90: number("p90")? })
    }
}

/// Returns the machine file of this host with the measured lock costs.
fn model(host: &Host, measured: &Value) -> Result<String> {
    let path = Path::new(&host.whole);
    let host = std::fs::read_to_string(path).context("this machine has no two CPUs that can be measured")?;
    let whole = |value: f64| (value.round() as u64).max(1);
    // From the nearest two CPUs, between which the critical sections were measured as well.
    let near = ["smt", "llc", "node", "far"].map(|level| format!("locks.line_transfer_ns.{level}"));
    let line = near
        .iter()
        .find_map(|key| Row::find(measured, key).ok())
        .context("no cache-line transfer latency between two CPUs")?;
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

/// Returns the time of a critical section on two CPUs in the model, in nanoseconds.
fn predict(weir: &Path, directory: &Path, machine: &Path, kind: &str, mode: &str, hold: u64) -> Result<f64> {
    let workload = directory.join("workload.json");
    let text = format!(
        r#"{{"locks": {{"l": {{"kind": "{kind}"}}}}, "tasks": {{"t": {{"instance": 2, "loop": 1, "critical_sections":
            {{"lock": "l", "mode": "{mode}", "hold_ns": {hold}, "times": {}}}}}}}}}"#,
        CRITICAL_SECTIONS / 2
    );
    std::fs::write(&workload, text)?;
    let mut command = Command::new(weir);
    command.args(["sim", "kernel", "--format", "json", "-m"]).arg(machine).arg("-w").arg(&workload);
    let run = json(&mut command)?;
    let makespan = run["runs"][0]["makespan_ns"].as_f64().context("the run does not finish")?;
    Ok(makespan / CRITICAL_SECTIONS as f64)
}

fn json(command: &mut Command) -> Result<Value> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
