// SPDX-License-Identifier: GPL-2.0-only
//! Gain of overlapping stages: lrz is recorded with and without overlap, and both recordings are simulated on
//! machines of 2 to 16 CPUs. `lab/results/lrz-overlap.md` has the table.

use super::shell;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `lrz overlap`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Record again (root): `lrz -b -w1 -p16` on the first 400 MB of kern2.tar
    #[arg(long)]
    record: bool,
    /// Directory of the corpora
    #[arg(long, default_value = "target/lrz-corpora", value_name = "DIR")]
    folder: PathBuf,
    /// weir to record and simulate with
    #[arg(long, default_value = "target/release/weir", value_name = "FILE")]
    weir: PathBuf,
    /// lrz to record
    #[arg(long, default_value = "target/release/lrz", value_name = "FILE")]
    lrz: PathBuf,
    /// Number of seeds per row
    #[arg(long, default_value_t = 16, value_name = "N")]
    seeds: u32,
}

const CPUS: [u32; 4] = [2, 4, 8, 16];
const SCHEDULERS: [&str; 2] = ["kernel", "bfs"];
/// Recordings, and the option of lrz recorded in each.
const RECORDINGS: [(&str, &str); 2] =
    [("workloads/recorded/lrz-overlap.weir", ""), ("workloads/recorded/lrz-serial.weir", "--no-overlap")];
const OUTPUT: &str = "lab/results/lrz-overlap.md";

/// Records if requested, simulates, and writes the table.
pub fn execute(arguments: &Arguments) -> Result<()> {
    if arguments.record {
        record(arguments)?;
    }
    let mut text = String::from(
        "# What overlapping stages gain\n\nWritten by `cargo xtask lrz overlap`: do not edit. `lrz -b -w1 -p16` packs four \
         chunks of a tar of sources, with the\nsearch in one chunk going on while blocks of the one before are packed \
         (`workloads/recorded/lrz-overlap.weir`), and\nwith `--no-overlap` (`lrz-serial.weir`). Both recordings are \
         played on machines of equal CPUs without SMT. Seconds are\nmedians of the makespan, with the lowest and the \
         highest.\n\n| CPUs | scheduler | overlap | no overlap | gain |\n|---|---|---|---|---|\n",
    );
    let mut work_s = [0.0; 2];
    for cpus in CPUS {
        for scheduler in SCHEDULERS {
            let [overlap, serial] = RECORDINGS.map(|(file, _)| makespans(arguments, scheduler, cpus, file));
            let ((overlap, work), (serial, serial_work)) = (overlap?, serial?);
            work_s = [work, serial_work];
            let gain = 100.0 * (1.0 - median(&overlap) / median(&serial));
            writeln!(text, "| {cpus} | {scheduler} | {} | {} | {gain:.1} % |", show(&overlap), show(&serial))?;
        }
    }
    writeln!(
        text,
        "\n{} seeds. With few CPUs the threads that pack are always busy, with or without overlap: nothing is left to gain. \
         With many\nCPUs they wait for the search, which the overlap hides. The recordings hold {:.1} and {:.1} CPU seconds \
         of the same work, as other\nprograms took caches and memory from them: that much is no effect of the overlap. \
         What is recorded is the order in which\nthreads woke each other on a machine of 2 CPUs: with more CPUs, the \
         real program would hand blocks on in another order.",
        arguments.seeds, work_s[0], work_s[1]
    )?;
    fs::write(OUTPUT, text).with_context(|| format!("writing {OUTPUT}"))
}

fn record(arguments: &Arguments) -> Result<()> {
    let here = std::env::current_dir().context("the current directory")?;
    let full = |path: &Path| here.join(path).display().to_string();
    let folder = full(&arguments.folder);
    shell(&format!("head -c 400000000 '{folder}/kern2.tar' > '{folder}/four-chunks'"))?;
    let (weir, lrz) = (full(&arguments.weir), full(&arguments.lrz));
    // Recordings contain command lines: short paths reveal nothing about this machine.
    shell(&format!("cp '{lrz}' '{folder}/lrz'"))?;
    for (file, option) in RECORDINGS {
        let output = full(Path::new(file));
        shell(&format!(
            "cd '{folder}' && '{weir}' record -o '{output}' -- \
             ./lrz -q -f -b -w1 -p16 {option} -o four-chunks.lrz four-chunks"
        ))?;
    }
    shell(&format!("cd '{folder}' && rm lrz four-chunks four-chunks.lrz"))?;
    Ok(())
}

/// Returns the makespan of each seed in seconds, and the CPU seconds of the work.
fn makespans(arguments: &Arguments, scheduler: &str, cpus: u32, file: &str) -> Result<(Vec<f64>, f64)> {
    let output = Command::new(&arguments.weir)
        .args(["sim", scheduler, "--machine", &format!("core:{cpus} pu:1"), "--workload", file])
        .args(["--seeds", &arguments.seeds.to_string(), "--format", "json"])
        .output()
        .with_context(|| format!("running {}", arguments.weir.display()))?;
    ensure!(output.status.success(), "weir sim {scheduler}: {}", String::from_utf8_lossy(&output.stderr).trim());
    let document: Value = serde_json::from_slice(&output.stdout).context("reading the runs")?;
    let runs = document["runs"].as_array().context("no runs")?;
    let seconds = runs.iter().map(|run| run["makespan_ns"].as_u64().context("the run does not finish"));
    let mut seconds = seconds.map(|ns| Ok(ns? as f64 / 1e9)).collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    let work_ns = runs.first().and_then(|run| run["work_ns"].as_u64()).context("a run without work")?;
    Ok((seconds, work_ns as f64 / 1e9))
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn show(sorted: &[f64]) -> String {
    format!("{:.2} ({:.2} to {:.2})", median(sorted), sorted[0], sorted[sorted.len() - 1])
}
