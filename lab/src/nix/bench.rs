// SPDX-License-Identifier: GPL-2.0-only
//! Runs on the machine of NIX and evaluates them.

use crate::wall::at_once;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine and the parameters of its runs.
pub struct Bench {
    weir: PathBuf,
    directory: PathBuf,
    /// Text of the machine file.
    pub preset: String,
    /// Simulated time of a workload without an end.
    pub milliseconds: u64,
    pub seeds: u32,
}

/// A machine with a workload.
pub struct Case<'a> {
    /// Number of CPUs that are online, from CPU 0 on.
    pub cpus: u32,
    /// Text of the machine file.
    pub machine: &'a str,
    /// Workload to run.
    pub workload: Work<'a>,
    /// Further options of `weir sim`.
    pub options: &'a [&'a str],
}

/// A workload.
pub enum Work<'a> {
    /// Name of a workload that ends.
    Named(&'a str),
    /// Text of an rt-app file; runs for the bench's simulated time.
    Text(String),
}

impl Bench {
    pub fn new(weir: &Path, milliseconds: u64, seeds: u32) -> Result<Bench> {
        ensure!(milliseconds > 0 && seeds > 0, "runs need time and seeds");
        let path = crate::root().join("machines/nix-32.toml");
        let preset = at_once(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)?;
        let directory = crate::root().join("target/nix");
        std::fs::create_dir_all(&directory)?;
        Ok(Bench { weir: weir.to_owned(), directory, preset, milliseconds, seeds })
    }

    /// Returns the same bench with another number of seeds.
    pub fn with_seeds(&self, seeds: u32) -> Bench {
        let Bench { weir, directory, preset, milliseconds, .. } = self;
        let (weir, directory, preset) = (weir.clone(), directory.clone(), preset.clone());
        Bench { weir, directory, preset, milliseconds: *milliseconds, seeds }
    }

    /// Writes a file into the bench's directory.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Runs the case once per seed.
    pub fn runs(&self, scheduler: &str, case: &Case) -> Result<Runs> {
        let offline = match case.cpus {
            cpus if cpus < super::ALL => format!("[topology]\noffline = \"{cpus}-{}\"", super::ALL - 1),
            _ => "[topology]".to_owned(),
        };
        let machine = self.file("machine.toml", &case.machine.replacen("[topology]", &offline, 1))?;
        let mut command = Command::new(&self.weir);
        command.args(["sim", scheduler, "--format", "json", "-m"]).arg(machine);
        if !case.options.contains(&"--seed") {
            command.args(["--seeds", &self.seeds.to_string()]);
        }
        match &case.workload {
            Work::Named(name) => command.args(["-w", name]),
            Work::Text(text) => {
                let duration = format!("{}ms", self.milliseconds);
                command.arg("-w").arg(self.file("workload.json", text)?).args(["--for", &duration])
            }
        };
        let cflags = format!("-I{}", crate::root().join("policies/include").display());
        let output = command.args(case.options).env("BPF_CFLAGS", cflags).output().context("cannot run weir")?;
        ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let runs = document["runs"].as_array().filter(|runs| !runs.is_empty()).context("weir reports no run")?;
        Ok(Runs(runs.clone()))
    }
}

/// Runs of all seeds.
pub struct Runs(pub Vec<Value>);

impl Runs {
    /// Returns the median of a measure, and the largest relative distance of a run from it.
    pub fn median(&self, of: impl Fn(&Value) -> Result<f64>) -> Result<(f64, f64)> {
        let mut all = self.0.iter().map(of).collect::<Result<Vec<f64>>>()?;
        all.sort_by(f64::total_cmp);
        let median = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
        let furthest = (all[all.len() - 1] - median).max(median - all[0]);
        Ok((median, if median > 0.0 { furthest / median } else { 0.0 }))
    }
}

/// Returns a number of a run, or of a part of it.
pub fn number(part: &Value, key: &str) -> Result<f64> {
    part[key].as_f64().with_context(|| format!("a run has {key}"))
}

/// Returns context switches per second.
pub fn switches_per_second(run: &Value) -> Result<f64> {
    Ok(number(run, "context_switches")? * 1e9 / number(run, "elapsed_ns")?)
}

/// Returns the share of all CPU time spent spinning for locks.
pub fn waited(run: &Value) -> Result<f64> {
    let owners = ["run", "idle", "scheduler", "stolen"].map(|owner| number(&run["cpu_ns"], owner));
    let all: f64 = owners.into_iter().collect::<Result<Vec<f64>>>()?.iter().sum();
    Ok(number(run, "lock_wait_ns")? / all)
}

/// Returns a workload of tasks that alternately run and sleep for `us` microseconds, `for_each` per CPU.
pub fn short_work(cpus: u32, for_each: u32, us: u32) -> String {
    let tasks = cpus * for_each;
    format!(r#"{{"tasks": {{"t": {{"instance": {tasks}, "loop": -1, "run": {us}, "sleep": {us}}}}}}}"#)
}

/// Returns a workload with a pair of tasks per CPU that pass a token to each other, with 5 us of work each.
pub fn pairs(cpus: u32) -> String {
    let one = |pair: u32, side: &str| {
        format!(
            r#""{side}{pair}": {{"loop": -1, "lock": "m{pair}", "sync": {{"ref": "c{pair}", "mutex": "m{pair}"}}, "unlock": "m{pair}", "run": 5}}"#
        )
    };
    let tasks: Vec<String> = (0..cpus).flat_map(|pair| ["a", "b"].map(|side| one(pair, side))).collect();
    format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(",\n"))
}

/// Prints the head of a table: its first cells, and a column for each of these.
pub fn head(first: &[&str], columns: &[&str]) {
    let columns: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
    let rules = "---|".repeat(first.len() + columns.len());
    println!("\n| {} | {} |\n|{rules}", first.join(" | "), columns.join(" | "));
}
