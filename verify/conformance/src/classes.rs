// SPDX-License-Identifier: GPL-2.0-only
//! Compares the model of the kernel's own classes (`kernel`) with real threads under them: shares, wakeups,
//! latencies, switches.
//!
//! `classes/` has the workloads and the machine, `recorded/classes-6.18` the recordings of a 6.18 kernel on a host
//! with 2 CPUs, as medians of several rounds. Tasks that differ only in their number are one row. Known differences
//! are in [`MISSES`] with a reason, and a test fails if one of them agrees after all.

use crate::shares::Discard;
use anyhow::{Context, Result, anyhow};
use event_log::Sink;
use fault_plan::FaultPlan;
use ids::Nanos;
use machine_model::Machine;
use serde::Deserialize;
use simulator::{Outcome, Scheduler, Setup};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use workload::Workload;

/// Shares of all CPU time may differ by half a percentage point, or a tenth of the share if that is more.
const SHARE_POINTS: f64 = 0.5;
const SHARE_PART: f64 = 0.1;
/// Wakeups may differ by a tenth.
const WAKEUPS_PART: f64 = 0.1;
/// Maximum factor between median latencies, and between 99th percentiles.
const P50_FACTOR: f64 = 2.0;
const P99_FACTOR: f64 = 3.0;
/// Maximum factor between numbers of context switches.
const SWITCHES_FACTOR: f64 = 1.5;
/// Minimum number of wakeups for a comparison of wakeups and percentiles.
const WAKEUPS: u64 = 100;

/// A recorded kernel, and the model of its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// The kernel's version.
    pub kernel: (u16, u16),
    /// The machine file.
    pub machine: &'static str,
}

/// Host of the records.
pub(crate) const HOST: Host = Host { kernel: (6, 18), machine: include_str!("../classes/host.toml") };
const RECORDED: &str = include_str!("../recorded/classes-6.18");
const MISSES: &str = include_str!("../classes/misses");
/// Recorded programs: three processes joined by pipes, and a build of 25 files with four jobs.
pub(crate) const RECORDINGS: [(&str, &[u8]); 2] =
    [("pipes", include_bytes!("../classes/pipes.weir")), ("build", include_bytes!("../classes/build.weir"))];
/// Synthetic workloads.
pub(crate) const WORKLOADS: [(&str, &str); 10] = [
    ("hogs-1", include_str!("../classes/hogs-1.json")),
    ("hogs-2", include_str!("../classes/hogs-2.json")),
    ("three-2", include_str!("../classes/three-2.json")),
    ("light-1", include_str!("../classes/light-1.json")),
    ("periodic-1", include_str!("../classes/periodic-1.json")),
    ("periodic-2", include_str!("../classes/periodic-2.json")),
    ("mix-2", include_str!("../classes/mix-2.json")),
    ("pool-2", include_str!("../classes/pool-2.json")),
    ("pingpong-1", include_str!("../classes/pingpong-1.json")),
    ("pingpong-2", include_str!("../classes/pingpong-2.json")),
];

/// Results of the tasks of one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    /// The workload.
    pub workload: String,
    /// Name without the instance number.
    pub task: String,
    /// CPU time of all of them in ns.
    pub cpu_ns: u64,
    /// Number of wakeups.
    pub wakeups: u64,
    /// Median of their medians of wakeup latency, ns.
    pub p50_ns: u64,
    /// Median of their 99th percentiles, ns.
    pub p99_ns: u64,
    /// Context switches of the whole run.
    pub switches: u64,
}

/// One task: name, CPU time, wakeups, p50, p99.
type Task = (String, u64, u64, u64, u64);

#[derive(Deserialize)]
struct Reports {
    runs: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    context_switches: u64,
    tasks: Vec<ReportedTask>,
}

#[derive(Deserialize)]
struct ReportedTask {
    name: String,
    cpu_ns: u64,
    wakeup_latency_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    count: u64,
    p50: u64,
    p99: u64,
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Returns the name without an instance number.
pub(crate) fn stem(name: &str) -> &str {
    name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok()).map_or(name, |(stem, _)| stem)
}

/// Combines tasks of one name into a row.
fn rows(workload: &str, tasks: Vec<Task>, switches: u64) -> Vec<Got> {
    let mut groups = BTreeMap::<String, Vec<Task>>::new();
    for task in tasks {
        groups.entry(stem(&task.0).to_owned()).or_default().push(task);
    }
    let row = |(task, group): (String, Vec<Task>)| Got {
        workload: workload.to_owned(),
        task,
        cpu_ns: group.iter().map(|task| task.1).sum(),
        wakeups: group.iter().map(|task| task.2).sum(),
        p50_ns: median(group.iter().map(|task| task.3).collect()),
        p99_ns: median(group.iter().map(|task| task.4).collect()),
        switches,
    };
    groups.into_iter().map(row).collect()
}

/// Reads the output of `weir run --format json`, one directory per round with `WORKLOAD.json`; returns medians of the
/// rounds.
pub fn reports(folders: &[PathBuf]) -> Result<Vec<Got>> {
    let mut rounds = Vec::new();
    for folder in folders {
        rounds.push(round(folder)?);
    }
    let first = rounds.first().ok_or_else(|| anyhow!("no folders of reports; expected one for each round"))?;
    let middle = |index: usize| {
        let of = |value: fn(&Got) -> u64| median(rounds.iter().map(|round| value(&round[index])).collect());
        Got {
            cpu_ns: of(|got| got.cpu_ns),
            wakeups: of(|got| got.wakeups),
            p50_ns: of(|got| got.p50_ns),
            p99_ns: of(|got| got.p99_ns),
            switches: of(|got| got.switches),
            ..first[index].clone()
        }
    };
    Ok((0..first.len()).map(middle).collect())
}

fn round(folder: &Path) -> Result<Vec<Got>> {
    let mut got = Vec::new();
    for (workload, _) in WORKLOADS {
        let path = folder.join(format!("{workload}.json"));
        let place = || path.display().to_string();
        let reports: Reports =
            serde_json::from_str(&std::fs::read_to_string(&path).with_context(place)?).with_context(place)?;
        let [Report { tasks, context_switches }] = &reports.runs[..] else {
            return Err(anyhow!("{}: {} runs; expected one", place(), reports.runs.len()));
        };
        let task = |task: &ReportedTask| {
            let Latency { count, p50, p99 } = task.wakeup_latency_ns;
            (task.name.clone(), task.cpu_ns, count, p50, p99)
        };
        got.extend(rows(workload, tasks.iter().map(task).collect(), *context_switches));
    }
    Ok(got)
}

/// Formats rows as text, one per line.
pub fn write(got: &[Got]) -> String {
    let mut text = String::from("# workload task cpu_ns wakeups p50_ns p99_ns switches\n");
    for Got { workload, task, cpu_ns, wakeups, p50_ns, p99_ns, switches } in got {
        writeln!(text, "{workload} {task} {cpu_ns} {wakeups} {p50_ns} {p99_ns} {switches}")
            .expect("a string takes all");
    }
    text
}

/// Returns the kept records of the kernel.
pub fn recorded() -> Result<Vec<Got>> {
    let lines = RECORDED.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
    lines.map(|(line, number)| parse(line).ok_or_else(|| anyhow!("line {number}: expected seven columns"))).collect()
}

fn parse(line: &str) -> Option<Got> {
    let words: Vec<&str> = line.split(' ').collect();
    let [workload, task, numbers @ ..] = &words[..] else { return None };
    let numbers = numbers.iter().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let [cpu_ns, wakeups, p50_ns, p99_ns, switches] = numbers[..] else { return None };
    let (workload, task) = (workload.to_string(), task.to_string());
    Some(Got { workload, task, cpu_ns, wakeups, p50_ns, p99_ns, switches })
}

/// Returns the model's results.
pub fn simulated() -> Result<Vec<Got>> {
    let mut got = Vec::new();
    for (name, text) in WORKLOADS {
        let measures = simulate(HOST, &Workload::from_rt_app(name, text)?, 0, &mut Discard)?.measures;
        let tasks = measures.tasks.iter().map(|task| {
            let latency = &task.wakeup_latency;
            (task.name.clone(), task.account.run.0, latency.count, latency.p50.0, latency.p99.0)
        });
        got.extend(rows(name, tasks.collect(), measures.context_switches));
    }
    Ok(got)
}

/// Runs a workload in the model of a host.
pub(crate) fn simulate(host: Host, workload: &Workload, seed: u64, sink: &mut dyn Sink) -> Result<Outcome> {
    let machine = Machine::from_toml("host.toml", host.machine)?;
    let faults = FaultPlan::default();
    let setup = Setup {
        machine: &machine,
        workload,
        scheduler: Scheduler::Kernel,
        seed,
        duration: Some(workload.duration.unwrap_or(Nanos::from_secs(5))),
        faults: &faults,
        kernel: host.kernel.into(),
        types: None,
        map_bytes: simulator::MAP_BYTES,
    };
    Ok(simulator::run(&setup, sink, &mut |_| ())?)
}

/// Returns the values that do not agree, as `workload task column`, with both values.
fn misses(there: &Got, here: &Got, totals: (u64, u64)) -> Vec<(String, String)> {
    let mut missed = Vec::new();
    let mut miss = |fits: bool, column: &str, size: String| {
        if !fits {
            missed.push((format!("{} {} {column}", there.workload, there.task), size));
        }
    };
    let share = |got: &Got, total: u64| got.cpu_ns as f64 * 100.0 / total as f64;
    let (real, model) = (share(there, totals.0), share(here, totals.1));
    miss((real - model).abs() <= SHARE_POINTS.max(SHARE_PART * real), "share", format!("{real:.2} {model:.2} %"));
    if there.wakeups >= WAKEUPS {
        let part = here.wakeups.abs_diff(there.wakeups) as f64 / there.wakeups as f64;
        miss(part <= WAKEUPS_PART, "wakeups", format!("{} {}", there.wakeups, here.wakeups));
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let fits =
            |(there, here): (u64, u64), factor| (there.max(here) as f64) <= there.min(here).max(1) as f64 * factor;
        let columns =
            [("p50", (there.p50_ns, here.p50_ns), P50_FACTOR), ("p99", (there.p99_ns, here.p99_ns), P99_FACTOR)];
        for (column, both, factor) in columns {
            miss(fits(both, factor), column, format!("{} {} us", us(both.0), us(both.1)));
        }
    }
    let (most, least) = (there.switches.max(here.switches), there.switches.min(here.switches));
    let size = format!("{} {}", there.switches, here.switches);
    miss(most as f64 <= least as f64 * SWITCHES_FACTOR, "switches", size);
    missed
}

/// Returns a table, and whether everything agrees except the known differences.
pub fn compare(kernel: &[Got], model: &[Got]) -> (String, bool) {
    let mut text = format!(
        "{:11} {:8} {:>13} {:>13} {:>19} {:>21} {:>13}\n",
        "workload", "task", "share %", "wakeups", "p50 us", "p99 us", "switches"
    );
    let mut found = Vec::new();
    for there in kernel {
        let Some(here) = model.iter().find(|here| here.workload == there.workload && here.task == there.task) else {
            found.push((format!("{} {}", there.workload, there.task), "not in the model".to_owned()));
            continue;
        };
        let total = |all: &[Got]| all.iter().filter(|got| got.workload == there.workload).map(|got| got.cpu_ns).sum();
        let totals: (u64, u64) = (total(kernel), total(model));
        let share = |got: &Got, total: u64| got.cpu_ns as f64 * 100.0 / total as f64;
        let us = |ns: u64| ns as f64 / 1e3;
        writeln!(
            text,
            "{:11} {:8} {:6.2} {:6.2} {:6} {:6} {:9.1} {:9.1} {:10.1} {:10.1} {:6} {:6}",
            there.workload,
            there.task,
            share(there, totals.0),
            share(here, totals.1),
            there.wakeups,
            here.wakeups,
            us(there.p50_ns),
            us(here.p50_ns),
            us(there.p99_ns),
            us(here.p99_ns),
            there.switches,
            here.switches,
        )
        .expect("a string takes all");
        found.extend(misses(there, here, totals));
    }
    let known: BTreeMap<&str, &str> =
        MISSES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
    let mut well = true;
    for (what, size) in &found {
        let why = known.get(what.as_str());
        well &= why.is_some();
        writeln!(text, "misses: {what}: {size}: {}", why.unwrap_or(&"NOT KNOWN")).expect("a string takes all");
    }
    for what in known.keys().filter(|what| !found.iter().any(|(other, _)| other == *what)) {
        well = false;
        writeln!(text, "FITS AFTER ALL: {what}").expect("a string takes all");
    }
    (text, well)
}
