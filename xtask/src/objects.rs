// SPDX-License-Identifier: GPL-2.0-only
//! `cargo xtask objects DIR`: every scheduler in a folder on machines of 1 to 64 CPUs, with workloads of several kinds and
//! several seeds, as one table in Markdown: who runs as intended, who does not, and why. A profile beside an object
//! (`NAME.toml` for `NAME.bpf.o`) is used.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One CPU; two cores of two threads; two nodes with two caches each, of two cores with two threads; 64 cores in two nodes.
const MACHINES: [&str; 4] = ["pu:1", "laptop-2c4t", "node:2 l3:2 core:2 pu:2", "server-64"];

/// Workload and length; none is played to its end.
const WORKLOADS: [(&str, Option<&str>); 5] = [
    ("preempt-mix", Some("300ms")),
    ("periodic-4", Some("300ms")),
    ("pingpong", Some("100ms")),
    ("hogs", Some("300ms")),
    ("build", None),
];

const SEEDS: u64 = 4;

/// Above this part of a run, in millionths, in which some CPU idles beside a task that waits, a scheduler does not run as
/// intended: the bound of the report's own warning.
const IDLE_PPM: u64 = 100_000;

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder of objects, NAME.bpf.o, with their profiles, NAME.toml
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The program to run them with
    #[arg(long, value_name = "FILE", default_value = "target/release/weir")]
    weir: PathBuf,
}

/// What came of all runs of an object.
#[derive(Default)]
struct Summary {
    runs: u64,
    completed: u64,
    /// Number of runs by what went wrong.
    wrong: BTreeMap<String, u64>,
    /// Greatest part of a run in which a CPU idled beside a waiting task, in millionths, and in which run.
    idle: Option<(u64, String)>,
}

/// Runs them all and prints the table. False if some object did not run as intended everywhere.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let directory = &arguments.directory;
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut objects: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    objects.retain(|path| path.to_string_lossy().ends_with(".bpf.o"));
    objects.sort();
    if objects.is_empty() {
        bail!("{}: expected objects, NAME.bpf.o, and there are none", directory.display());
    }
    println!("| object | runs | as intended | idle beside waiting, at most | what went wrong |\n|---|---|---|---|---|");
    let mut fine = true;
    for object in &objects {
        let summary = run_all(&arguments.weir, object)?;
        fine &= summary.completed == summary.runs;
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        println!("{}", row(name.trim_end_matches(".bpf.o"), &summary));
    }
    Ok(fine)
}

fn row(name: &str, summary: &Summary) -> String {
    let wrong: Vec<String> = summary.wrong.iter().map(|(why, count)| format!("{why} ({count})")).collect();
    let idle = summary.idle.as_ref().map_or("-".to_owned(), |(ppm, run)| {
        format!(
            "{}.{} %{}",
            ppm / 10_000,
            ppm / 1_000 % 10,
            if *ppm > IDLE_PPM { format!(": {run}") } else { String::new() }
        )
    });
    format!("| {name} | {} | {} | {idle} | {} |", summary.runs, summary.completed, wrong.join("; ").replace('|', "\\|"))
}

fn run_all(weir: &Path, object: &Path) -> Result<Summary> {
    let mut summary = Summary::default();
    for machine in MACHINES {
        for (workload, length) in WORKLOADS {
            for seed in 0..SEEDS {
                let refused = run(weir, object, machine, workload, length, seed, &mut summary)?;
                if refused {
                    return Ok(summary);
                }
            }
        }
    }
    Ok(summary)
}

/// One run. True if the object was refused, which it will be everywhere.
fn run(
    weir: &Path,
    object: &Path,
    machine: &str,
    workload: &str,
    length: Option<&str>,
    seed: u64,
    summary: &mut Summary,
) -> Result<bool> {
    let mut command = Command::new(weir);
    command.arg("sim").arg(object).args(["-m", machine, "-w", workload, "--seed", &seed.to_string()]);
    command.args(["--format", "json"]).args(length.map(|length| ["--for", length]).into_iter().flatten());
    let output = command.output().with_context(|| weir.display().to_string())?;
    summary.runs += 1;
    let mut wrong = |why: String| *summary.wrong.entry(why).or_default() += 1;
    let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) else {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rev().find(|line| line.starts_with("weir: ")).unwrap_or("it said nothing");
        wrong(last.trim_start_matches("weir: ").replace(&*object.to_string_lossy(), "it"));
        return Ok(output.status.code() == Some(2));
    };
    let run = &document["runs"][0];
    let number = |key: &str| run[key].as_u64().unwrap_or(0);
    let here = format!("{workload} on {machine}, seed {seed}");
    let idle = number("idle_while_runnable_ns") * 1_000_000 / number("elapsed_ns").max(1);
    if summary.idle.as_ref().is_none_or(|(most, _)| idle > *most) {
        summary.idle = Some((idle, here));
    }
    match run["outcome"].as_str() {
        Some("completed") if idle > IDLE_PPM => wrong(format!("tasks wait beside idle CPUs on {machine}")),
        Some("completed") => summary.completed += 1,
        _ => {
            let exit = &run["exit"];
            let text = |key: &str| exit[key].as_str().unwrap_or_default();
            wrong(format!("{}: {} on {machine}", text("reason"), without_numbers(text("message"))));
        }
    }
    Ok(false)
}

/// The message with `N` for numbers, so that messages about several tasks are one.
fn without_numbers(message: &str) -> String {
    let mut text = String::new();
    for character in message.lines().next().unwrap_or_default().chars() {
        match character {
            '0'..='9' if text.ends_with('N') => {}
            '0'..='9' => text.push('N'),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_went_wrong_and_how_often() {
        let wrong = BTreeMap::from([("a|b".to_owned(), 2)]);
        let idle = Some((123_456, "build on pu:1, seed 0".to_owned()));
        let summary = Summary { runs: 80, completed: 78, wrong, idle };
        assert_eq!(row("x", &summary), "| x | 80 | 78 | 12.3 %: build on pu:1, seed 0 | a\\|b (2) |");
        assert_eq!(without_numbers("hog[105] failed to run for 30.5s"), "hog[N] failed to run for N.Ns");
    }
}
