// SPDX-License-Identifier: GPL-2.0-only
//! Real runs of all kinds, alternating with a calibration spin, as JSON lines.

use super::kinds::{KINDS, Kind, Play};
use super::{Place, document, spread};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Steps of the calibration spin: about 25 ms on this kind of machine.
const STEPS: u64 = 20_000_000;

/// Runs all kinds, or the named ones, `rounds` times and appends a line per run to `out`. Then it records each
/// command once, so that the model simulates the machine of the same time.
pub fn play(place: &Place, rounds: u32, only: &[String], out: &Path) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(out).with_context(|| out.display().to_string())?;
    let kinds = || KINDS.iter().filter(|kind| only.is_empty() || only.iter().any(|name| name == kind.name));
    for round in 0..rounds {
        for kind in kinds() {
            let before = spin();
            let mut run = measure(place, kind).and_then(|run| summary(&run)).with_context(|| kind.name)?;
            run["spin_ns"] = ((before + spin()) / 2).into();
            run["kind"] = kind.name.into();
            writeln!(file, "{run}")?;
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    kinds().try_for_each(|kind| record(place, kind))
}

/// Records a command.
fn record(place: &Place, kind: &Kind) -> Result<()> {
    let Play::Command(text) = kind.play else { return Ok(()) };
    let mut command = Command::new(&place.weir);
    command.current_dir(&place.directory).args(["record", "-o"]).arg(place.recording(kind));
    let output = command.args(["--", "sh", "-c", &place.shell(text)]).output()?;
    anyhow::ensure!(output.status.success(), "weir record: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the values that are kept of a run, real or simulated.
pub fn summary(run: &Value) -> Result<Value> {
    let tasks = run["tasks"].as_array().context("no tasks")?.iter().filter(|task| task["kernel_thread"] != true);
    let cpu_ns: u64 = tasks.filter_map(|task| task["cpu_ns"].as_u64()).sum();
    let latency = &run["wakeup_latency_ns"];
    Ok(json!({
        "makespan_ns": run["makespan_ns"], "cpu_ns": cpu_ns, "context_switches": run["context_switches"],
        "wakeups": run["wakeups"], "mean_ns": latency["mean"], "p50_ns": latency["p50"], "p99_ns": latency["p99"],
    }))
}

/// Makes one real run under the default scheduler.
fn measure(place: &Place, kind: &Kind) -> Result<Value> {
    document(&mut real(place, kind))
}

/// Returns the command of a real run of this kind.
pub fn real(place: &Place, kind: &Kind) -> Command {
    let mut command = Command::new(&place.weir);
    command.current_dir(&place.directory).args(["run", "--format", "json"]);
    match kind.play {
        Play::File(_) => command.arg("-w").arg(place.file(kind)),
        Play::Command(text) => command.args(["--", "sh", "-c", &place.shell(text)]),
    };
    command
}

/// Returns the nanoseconds that a fixed number of steps takes: the machine's present speed.
fn spin() -> u64 {
    let begin = Instant::now();
    let mut state = 1u64;
    for step in 0..STEPS {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
    begin.elapsed().as_nanos() as u64
}

/// Shows the spread of the runs in `data`, with and without the machine's speed divided out.
pub fn show(data: &Path) -> Result<()> {
    let runs = super::Runs::read(data)?;
    println!("kind      runs  spin p5..p95     measure       median     p5..p95 of the median, %  at one speed, %");
    for kind in &KINDS {
        let spins = runs.values(kind.name, "spin_ns");
        if spins.is_empty() {
            continue;
        }
        for key in ["makespan_ns", "cpu_ns", "mean_ns", "p50_ns", "p99_ns"] {
            let raw = runs.values(kind.name, key);
            let steady = runs.steady(kind.name, key);
            let (a, b, c) = (spread(&spins), spread(&raw), spread(&steady));
            println!(
                "{:9} {:4}  {:5.1} .. {:5.1}  {key:12} {:12.0}  {:8.1} .. {:8.1}  {:8.1} .. {:8.1}",
                kind.name,
                raw.len(),
                a.low,
                a.high,
                b.median,
                b.low,
                b.high,
                c.low,
                c.high
            );
        }
    }
    Ok(())
}
