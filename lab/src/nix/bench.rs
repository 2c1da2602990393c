// SPDX-License-Identifier: GPL-2.0-only
//! Runs on the machine of NIX, and what they say.

use crate::wall::at_once;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine, and how it is run.
pub struct Bench {
    weir: PathBuf,
    folder: PathBuf,
    /// The machine's file, all tasks at once.
    pub preset: String,
    /// Simulated time of a run that has no end of its own.
    pub milliseconds: u64,
    pub seeds: u32,
}

/// A machine and what it does.
pub struct Case<'a> {
    /// The first ones are there.
    pub cpus: u32,
    /// The machine's file.
    pub machine: &'a str,
    /// Its name, or the text of a file in rt-app's form.
    pub workload: Work<'a>,
    /// Further options of `weir sim`.
    pub options: &'a [&'a str],
}

/// What a machine does.
pub enum Work<'a> {
    /// A workload that ends.
    Named(&'a str),
    /// Text of a file; it runs for as long as the bench says.
    Text(String),
}

impl Bench {
    pub fn new(weir: &Path, milliseconds: u64, seeds: u32) -> Result<Bench> {
        ensure!(milliseconds > 0 && seeds > 0, "runs need time and seeds");
        let path = crate::root().join("machines/nix-32.toml");
        let preset = at_once(&std::fs::read_to_string(&path).with_context(|| path.display().to_string())?)?;
        let folder = crate::root().join("target/nix");
        std::fs::create_dir_all(&folder)?;
        Ok(Bench { weir: weir.to_owned(), folder, preset, milliseconds, seeds })
    }

    /// The same with so many seeds.
    pub fn with_seeds(&self, seeds: u32) -> Bench {
        let Bench { weir, folder, preset, milliseconds, .. } = self;
        let (weir, folder, preset) = (weir.clone(), folder.clone(), preset.clone());
        Bench { weir, folder, preset, milliseconds: *milliseconds, seeds }
    }

    /// A file of the bench's own.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// One run for each seed.
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
        let output = command.args(case.options).env("BPF_CFLAGS", cflags).output().context("weir cannot be run")?;
        ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let runs = document["runs"].as_array().filter(|runs| !runs.is_empty()).context("weir tells of no run")?;
        Ok(Runs(runs.clone()))
    }
}

/// The runs of all seeds.
pub struct Runs(pub Vec<Value>);

impl Runs {
    /// The median of what `of` says of each run, and how far it is to the one furthest away, as a share of it.
    pub fn median(&self, of: impl Fn(&Value) -> Result<f64>) -> Result<(f64, f64)> {
        let mut all = self.0.iter().map(of).collect::<Result<Vec<f64>>>()?;
        all.sort_by(f64::total_cmp);
        let median = (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0;
        let furthest = (all[all.len() - 1] - median).max(median - all[0]);
        Ok((median, if median > 0.0 { furthest / median } else { 0.0 }))
    }
}

/// A number of a run, or of a part of it.
pub fn number(part: &Value, key: &str) -> Result<f64> {
    part[key].as_f64().with_context(|| format!("a run has {key}"))
}

/// Tasks that began to run, for each second.
pub fn switches_per_second(run: &Value) -> Result<f64> {
    Ok(number(run, "context_switches")? * 1e9 / number(run, "elapsed_ns")?)
}

/// Share of all CPU time in which CPUs spun for locks.
pub fn waited(run: &Value) -> Result<f64> {
    let owners = ["run", "idle", "scheduler", "stolen"].map(|owner| number(&run["cpu_ns"], owner));
    let all: f64 = owners.into_iter().collect::<Result<Vec<f64>>>()?.iter().sum();
    Ok(number(run, "lock_wait_ns")? / all)
}

/// Tasks that work and sleep for so long, so many for each CPU.
pub fn short_work(cpus: u32, for_each: u32, us: u32) -> String {
    let tasks = cpus * for_each;
    format!(r#"{{"tasks": {{"t": {{"instance": {tasks}, "loop": -1, "run": {us}, "sleep": {us}}}}}}}"#)
}

/// A pair of tasks for each CPU that hand a token to each other, each with 5 us of work.
pub fn pairs(cpus: u32) -> String {
    let one = |pair: u32, side: &str| {
        format!(
            r#""{side}{pair}": {{"loop": -1, "lock": "m{pair}", "sync": {{"ref": "c{pair}", "mutex": "m{pair}"}}, "unlock": "m{pair}", "run": 5}}"#
        )
    };
    let tasks: Vec<String> = (0..cpus).flat_map(|pair| ["a", "b"].map(|side| one(pair, side))).collect();
    format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(",\n"))
}

/// The head of a table: its first cells, and a column for each of these.
pub fn head(first: &[&str], columns: &[&str]) {
    let columns: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
    let rules = "---|".repeat(first.len() + columns.len());
    println!("\n| {} | {} |\n|{rules}", first.join(" | "), columns.join(" | "));
}
