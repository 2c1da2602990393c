// SPDX-License-Identifier: GPL-2.0-only
//! `cargo xtask objects DIR`: runs every scheduler of a directory on machines of 1 to 64 CPUs, with several kinds of
//! workloads and several seeds. Prints a Markdown table of the schedulers that run as intended, and of the failures
//! of the others. A profile beside an object (`NAME.toml` for `NAME.bpf.o`) is used.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// One CPU; two SMT cores; two nodes with two caches each, one SMT core per cache; 64 cores in two nodes.
const MACHINES: [&str; 4] = ["pu:1", "laptop-2c4t", "node:2 l3:2 core:1 pu:2", "server-64"];

/// Workloads and their durations; `build` has none and runs until all its work is done.
const WORKLOADS: [(&str, Option<&str>); 5] = [
    ("preempt-mix", Some("300ms")),
    ("periodic-4", Some("300ms")),
    ("pingpong", Some("100ms")),
    ("hogs", Some("300ms")),
    ("build", None),
];

/// A scheduler does not run as intended if some CPU is idle beside a waiting task for a larger part of a run, in
/// millionths; the same bound as for the report's warning.
const IDLE_PPM: u64 = 100_000;

#[derive(clap::Args)]
/// Arguments of `cargo xtask objects`.
pub struct Arguments {
    /// Directory of objects, NAME.bpf.o, with their profiles, NAME.toml
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// weir to run
    #[arg(long, value_name = "FILE", default_value = "target/release/weir")]
    weir: PathBuf,
    /// Run with the seeds 0 to N - 1
    #[arg(long, value_name = "N", default_value_t = 4)]
    seeds: u64,
}

/// Summary of all runs of an object.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    runs: u64,
    completed: u64,
    /// Number of failed runs by cause.
    wrong: BTreeMap<String, u64>,
    /// Largest part of a run in which a CPU was idle beside a waiting task, in millionths, and that run.
    idle: Option<(u64, String)>,
}

/// Runs all objects and prints the table. Returns false if some object did not run as intended everywhere.
pub fn execute(arguments: &Arguments) -> Result<bool> {
    let directory = &arguments.directory;
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut objects: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    objects.retain(|path| path.to_string_lossy().ends_with(".bpf.o"));
    objects.sort();
    if objects.is_empty() {
        bail!("{}: no objects; expected files NAME.bpf.o", directory.display());
    }
    println!("| object | runs | as intended | idle beside waiting, at most | what went wrong |\n|---|---|---|---|---|");
    let mut fine = true;
    for object in &objects {
        let summary = run_all(arguments, object)?;
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

fn run_all(arguments: &Arguments, object: &Path) -> Result<Summary> {
    let mut summary = Summary::default();
    for machine in MACHINES {
        for (workload, length) in WORKLOADS {
            for seed in 0..arguments.seeds {
                let mut command = Command::new(&arguments.weir);
                command.arg("sim").arg(object).args(["-m", machine, "-w", workload, "--seed", &seed.to_string()]);
                command.args(["--format", "json"]).args(length.map(|length| ["--for", length]).into_iter().flatten());
                let output = command.output().with_context(|| arguments.weir.display().to_string())?;
                let name = object.to_string_lossy();
                if !summary.add(&output, &name, machine, &format!("{workload} on {machine}, seed {seed}")) {
                    return Ok(summary);
                }
            }
        }
    }
    Ok(summary)
}

impl Summary {
    /// Adds the result of a run. Returns false if the object was refused before it could run: further runs would be
    /// refused, too.
    fn add(&mut self, output: &Output, object: &str, machine: &str, run: &str) -> bool {
        self.runs += 1;
        let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = said.lines().rev().find(|line| line.starts_with("weir: ")).unwrap_or("no message");
            self.blame(last.trim_start_matches("weir: ").replace(object, "it"));
            // A profile may require what only this machine lacks; the error then names a place in the profile.
            return output.status.code() != Some(2) || last.contains(".toml:");
        };
        let outcome = &document["runs"][0];
        let number = |key: &str| outcome[key].as_u64().unwrap_or(0);
        let idle = number("idle_while_runnable_ns") * 1_000_000 / number("elapsed_ns").max(1);
        if self.idle.as_ref().is_none_or(|(most, _)| idle > *most) {
            self.idle = Some((idle, run.to_owned()));
        }
        match outcome["outcome"].as_str() {
            Some("completed") if idle > IDLE_PPM => self.blame(format!("tasks wait beside idle CPUs on {machine}")),
            Some("completed") => self.completed += 1,
            _ => {
                let text = |key: &str| outcome["exit"][key].as_str().unwrap_or_default();
                self.blame(format!("{}: {} on {machine}", text("reason"), without_numbers(text("message"))));
            }
        }
        true
    }

    fn blame(&mut self, why: String) {
        *self.wrong.entry(why).or_default() += 1;
    }
}

/// Replaces numbers in a message with `N`, so that messages about several tasks count as one.
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
    fn row_lists_failures_with_their_counts() {
        let wrong = BTreeMap::from([("a|b".to_owned(), 2)]);
        let idle = Some((123_456, "build on pu:1, seed 0".to_owned()));
        let summary = Summary { runs: 80, completed: 78, wrong, idle };
        assert_eq!(row("x", &summary), "| x | 80 | 78 | 12.3 %: build on pu:1, seed 0 | a\\|b (2) |");
        assert_eq!(without_numbers("hog[105] failed to run for 30.5s"), "hog[N] failed to run for N.Ns");
    }

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let status = std::process::ExitStatus::from_raw(code << 8);
        Output { status, stdout: stdout.into(), stderr: stderr.into() }
    }

    fn ran(outcome: &str, idle: u64, message: &str) -> Output {
        let exit = serde_json::json!({"reason": "scx_bpf_error", "message": message});
        let run = serde_json::json!({"outcome": outcome, "elapsed_ns": 1_000_000, "idle_while_runnable_ns": idle,
            "exit": exit});
        output(0, &serde_json::json!({"runs": [run]}).to_string(), "weir: a note\n")
    }

    #[test]
    fn runs_are_counted_by_failure() {
        let mut summary = Summary::default();
        for (output, run) in [
            (ran("completed", 100_000, ""), "a"),
            (ran("completed", 100_001, ""), "b"),
            (ran("ejected", 0, "no cpu_ctx for cpu 3\nBacktrace"), "c"),
            (ran("ejected", 0, "no cpu_ctx for cpu 12"), "d"),
            (output(2, "", "weir: error: x.bpf.o on pu:1: x.toml:1: `n`: 0 modulo 0\n"), "e"),
        ] {
            assert!(summary.add(&output, "x.bpf.o", "pu:1", run), "{run}");
        }
        assert_eq!(
            row("x", &summary),
            "| x | 5 | 1 | 10.0 %: b | error: it on pu:1: x.toml:1: `n`: 0 modulo 0 (1); scx_bpf_error: no cpu_ctx for \
             cpu N on pu:1 (2); tasks wait beside idle CPUs on pu:1 (1) |"
        );
    }

    #[test]
    fn refused_object_is_not_tried_again() {
        let mut summary = Summary::default();
        let refused = output(2, "", "a warning\nweir: error: x.bpf.o on pu:1: weir does not model arenas (map `a`)\n");
        assert!(!summary.add(&refused, "x.bpf.o", "pu:1", "a"));
        assert_eq!(
            row("x", &summary),
            "| x | 1 | 0 | - | error: it on pu:1: weir does not model arenas (map `a`) (1) |"
        );
        // Killed or out of memory: the next machine may succeed.
        assert!(summary.add(&output(9, "", ""), "x.bpf.o", "pu:1", "b"));
        assert_eq!(summary.wrong["no message"], 1);
    }
}
