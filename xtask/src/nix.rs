// SPDX-License-Identifier: GPL-2.0-only
//! What the three schedulers of NIX do on its machine: throughput by cores, the locks that explain it, what one core can give,
//! and NIX's own tests.
//!
//! 1. CPUs are the first ones of `nix-32`, 4 in each node. Four tasks for each CPU work and sleep for 20 us each, all there at
//!    once: with nothing in the way every CPU is busy.
//! 2. The table of locks is that of the last row.
//! 3. What the AMP core can give: the same tasks with ever less work on all CPUs. Its time for a pick is what it spends in the
//!    scheduler and in interrupts, divided by the tasks that begin; where it has no time left, the reciprocal of that is the
//!    throughput of the machine.
//! 4. NIX's tests: how long the four workloads take, by cores. On few cores `amp` is `smp`.

use crate::wall::{Run, at_once, simulate, weir, write};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask nix`.
#[derive(Args)]
pub struct Arguments {
    /// The weir to run; without it, a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each run of the first tables, in milliseconds
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,
}

const ALL: u32 = 32;
const CPUS: [u32; 7] = [1, 2, 4, 6, 8, 16, 32];
const SCHEDULERS: [&str; 5] = ["nix@smp", "nix@groups", "nix@groups-2011", "nix@amp", "kernel"];
/// What tasks of the second kind of table work and sleep for, in microseconds.
const WORK_US: [u32; 6] = [1000, 200, 100, 50, 20, 5];
const TESTS: [&str; 4] = ["remote-mk", "ramfs-copy", "ramfs-mk", "ramfs-pmk"];
const TEST_CPUS: [u32; 6] = [2, 4, 6, 8, 16, 32];

/// Prints all tables.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let path = crate::root().join("machines/nix-32.toml");
    let preset = at_once(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)?;
    let weir = weir(arguments.weir.as_deref())?;
    let folder = crate::root().join("target/nix");
    std::fs::create_dir_all(&folder)?;
    let play = |scheduler: &str| simulate(&weir, &folder, arguments.milliseconds, scheduler, &[]);

    let names = SCHEDULERS.map(|name| format!("`{name}` | waited")).join(" | ");
    println!("| CPUs | {names} |\n|---|{}", "---|---|".repeat(SCHEDULERS.len()));
    let mut last = vec![];
    for cpus in CPUS {
        write(&folder, &preset, cpus, ALL, 20)?;
        last = SCHEDULERS.into_iter().map(play).collect::<Result<Vec<Run>>>()?;
        let cells = last.iter().map(|run| format!("{} | {}", run.switches(), run.waited()));
        println!("| {cpus} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    locks(&last)?;
    rates(&folder, &preset, &play)?;
    tests(&weir, &folder, &preset)
}

/// The three locks of each scheduler that were waited for longest.
fn locks(runs: &[Run]) -> Result<()> {
    println!(
        "\n| scheduler | lock | caller | passages | had to wait | mean wait | all waits |\n|---|---|---|---|---|---|---|"
    );
    for (scheduler, run) in SCHEDULERS.iter().zip(runs) {
        for lock in run.first()["locks"].as_array().context("a run has locks")?.iter().take(3) {
            let text = |key: &str| lock[key].as_str().unwrap_or("-").to_owned();
            let number = |key: &str| lock[key].as_f64().unwrap_or(0.0);
            let mean_us = number("wait_total_ns") / number("contended").max(1.0) / 1e3;
            println!(
                "| `{scheduler}` | {} {} | {} | {} | {:.1} % | {mean_us:.2} us | {:.2} ms |",
                text("type"),
                text("lock"),
                text("caller"),
                number("count"),
                100.0 * number("contended") / number("count").max(1.0),
                number("wait_total_ns") / 1e6
            );
        }
    }
    Ok(())
}

/// What CPU 0 can give under `amp`.
fn rates(folder: &Path, preset: &str, play: &impl Fn(&str) -> Result<Run>) -> Result<()> {
    println!(
        "\n| work | tasks that begin | CPU 0 busy | its time for a pick | 1 / that | others idle |\n|---|---|---|---|---|---|"
    );
    for us in WORK_US {
        write(folder, preset, ALL, ALL, us)?;
        let run = play("nix@amp")?;
        let cpus = run.first()["cpus"].as_array().context("a run has CPUs")?;
        let of = |cpu: &Value, owner: &str| cpu[owner].as_f64().unwrap_or(0.0);
        let central = cpus.first().context("there is a CPU 0")?;
        let busy = of(central, "scheduler_ns") + of(central, "stolen_ns");
        let elapsed = run.first()["elapsed_ns"].as_f64().context("a run has a length")?;
        let picks = run.rate * elapsed / 1e9;
        let idle = cpus[1..].iter().map(|cpu| of(cpu, "idle_ns")).sum::<f64>() / (elapsed * f64::from(ALL - 1));
        println!(
            "| {us} us | {:.0} /s | {:.1} % | {:.2} us | {:.0} /s | {:.1} % |",
            run.rate,
            100.0 * busy / elapsed,
            busy / picks / 1e3,
            1e9 * picks / busy,
            100.0 * idle
        );
    }
    Ok(())
}

/// How long NIX's tests take.
fn tests(weir: &Path, folder: &Path, preset: &str) -> Result<()> {
    for test in TESTS {
        let names = SCHEDULERS.map(|name| format!("`{name}`")).join(" | ");
        println!("\n| CPUs, {test} | {names} |\n|---|{}", "---|".repeat(SCHEDULERS.len()));
        for cpus in TEST_CPUS {
            write(folder, preset, cpus, ALL, 20)?;
            let row = SCHEDULERS.map(|scheduler| makespan(weir, folder, scheduler, test));
            let row = row.into_iter().collect::<Result<Vec<String>>>()?;
            println!("| {cpus} | {} |", row.join(" | "));
        }
    }
    Ok(())
}

/// On the machine that is there.
fn makespan(weir: &Path, folder: &Path, scheduler: &str, workload: &str) -> Result<String> {
    let mut command = Command::new(weir);
    command.args(["sim", scheduler, "-w", workload, "--format", "json", "-m"]).arg(folder.join("machine.toml"));
    let output = command.output().context("weir cannot be run")?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let ns = document["runs"][0]["makespan_ns"].as_f64().context("the workload ends")?;
    Ok(format!("{:.3} s", ns / 1e9))
}
