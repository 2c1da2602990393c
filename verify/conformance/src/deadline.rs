// SPDX-License-Identifier: GPL-2.0-only
//! Compares the deadline class and the deadline server of the fair class with a kernel: the CPU time of each task.
//!
//! `deadline/` has the workloads, `recorded/deadline-7.2` what a 7.2 kernel did in the deterministic virtual machine
//! with 2 CPUs (`deadline/play.sh`). A workload that the kernel refuses is recorded as `refused`. Known differences
//! are in `deadline/misses` with a reason; one that agrees after all is an error.

use crate::classes::{Host, simulate, stem};
use crate::shares::Discard;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use workload::Workload;

const WORKLOADS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/deadline.rs"));
const RECORDED: &str = include_str!("../recorded/deadline-7.2");
const MISSES: &str = include_str!("../deadline/misses");
const HOST: Host = Host { kernel: (7, 2), machine: include_str!("../classes/icount.toml") };

/// CPU times may differ by this part of the recorded one, or by this time if that is more.
const PART: f64 = 0.02;
const LEAST_NS: u64 = 10_000_000;
/// Task name of a workload that is refused.
const REFUSED: &str = "refused";

/// CPU time in nanoseconds by workload and task; tasks that differ only in their number are added.
pub type Times = BTreeMap<(String, String), u64>;

#[derive(Deserialize)]
struct Reports {
    runs: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    tasks: Vec<ReportedTask>,
}

#[derive(Deserialize)]
struct ReportedTask {
    name: String,
    cpu_ns: u64,
}

fn add(times: &mut Times, workload: &str, task: &str, cpu_ns: u64) {
    *times.entry((workload.to_owned(), stem(task).to_owned())).or_default() += cpu_ns;
}

/// Reads the files `WORKLOAD.report` of `deadline/play.sh`; an empty one is that of a refused workload.
///
/// # Errors
/// A missing or malformed file.
pub fn reports(directory: &Path) -> Result<Times> {
    let mut times = Times::new();
    for (workload, _) in WORKLOADS {
        let path = directory.join(format!("{workload}.report"));
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(&path).with_context(place)?;
        if text.trim().is_empty() {
            add(&mut times, workload, REFUSED, 0);
            continue;
        }
        let reports: Reports = serde_json::from_str(&text).with_context(place)?;
        let report = reports.runs.first().ok_or_else(|| anyhow!("{}: no run", place()))?;
        report.tasks.iter().for_each(|task| add(&mut times, workload, &task.name, task.cpu_ns));
    }
    Ok(times)
}

/// Returns the kept records of the kernel.
///
/// # Errors
/// A malformed line.
pub fn recorded() -> Result<Times> {
    let mut times = Times::new();
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [workload, task, cpu_ns] = words[..] else { return Err(anyhow!("{line:?}: expected three columns")) };
        add(&mut times, workload, task, cpu_ns.parse().with_context(|| line.to_owned())?);
    }
    Ok(times)
}

/// Returns the model's results.
///
/// # Errors
/// A workload that cannot run for another reason than admission control.
pub fn simulated() -> Result<Times> {
    let mut times = Times::new();
    for (name, text) in WORKLOADS {
        let workload = Workload::from_rt_app(name, text)?;
        match simulate(HOST, &workload, 0, &mut Discard) {
            Ok(outcome) => {
                outcome.measures.tasks.iter().for_each(|task| add(&mut times, name, &task.name, task.account.run.0));
            }
            Err(error) if error.to_string().contains("is refused") => add(&mut times, name, REFUSED, 0),
            Err(error) => return Err(error),
        }
    }
    Ok(times)
}

/// Formats CPU times as text, one task per line.
pub fn write(times: &Times) -> String {
    let mut text = String::from("# workload task cpu_ns\n");
    for ((workload, task), cpu_ns) in times {
        writeln!(text, "{workload} {task} {cpu_ns}").expect("a string takes all");
    }
    text
}

/// Returns a table, and whether everything agrees except the known differences.
pub fn compare(kernel: &Times, model: &Times) -> (String, bool) {
    let known: BTreeMap<&str, &str> =
        MISSES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
    let mut text = format!("{:24} {:8} {:>10} {:>10}\n", "workload", "task", "kernel ms", "model ms");
    let (mut well, mut found) = (true, BTreeSet::new());
    for key in kernel.keys().chain(model.keys()).collect::<BTreeSet<_>>() {
        let [there, here] = [kernel, model].map(|times| times.get(key).copied());
        let ms = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e6));
        let fits = there
            .zip(here)
            .is_some_and(|(there, here)| there.abs_diff(here) as f64 <= (there as f64 * PART).max(LEAST_NS as f64));
        let name = format!("{} {}", key.0, key.1);
        let note = match (fits, known.get(name.as_str())) {
            (true, None) => String::new(),
            (true, Some(_)) => " FITS AFTER ALL".to_owned(),
            (false, Some(why)) => format!(" {why}"),
            (false, None) => " NOT KNOWN".to_owned(),
        };
        well &= fits != known.contains_key(name.as_str());
        writeln!(text, "{:24} {:8} {:>10} {:>10}{note}", key.0, key.1, ms(there), ms(here))
            .expect("a string takes all");
        found.insert(name);
    }
    for name in known.keys().filter(|name| !found.contains(**name)) {
        well = false;
        writeln!(text, "no such task: {name}").expect("a string takes all");
    }
    (text, well)
}
