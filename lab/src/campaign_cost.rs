// SPDX-License-Identifier: GPL-2.0-only
//! What campaigns cost: runs an hour by machine and workload, what `weir sweep` adds to them, tables of many results, and
//! an estimate for a million runs on 1,000 cores.

use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use host::cpu_time;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Options of `cargo xtask campaign-cost`.
#[derive(Args)]
#[command(after_help = "\
It takes some five minutes of CPU time.

Examples:
  cargo xtask campaign-cost > lab/results/campaigns.md")]
pub struct Arguments {
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Runs of the campaign whose results are aggregated
    #[arg(long, default_value_t = 100_000)]
    results: u64,
}

/// Machines, each with a workload that has a few periodic tasks for each of its CPUs, and others for all.
const MACHINES: [(&str, &str); 3] =
    [("laptop-2c4t", "periodic-4"), ("server-64", "periodic-64"), ("server-512", "periodic-512")];
const WORKLOADS: [&str; 2] = ["video", "build"];
/// Interval at which the memory of a process is read.
const SAMPLE: Duration = Duration::from_millis(1);
/// Length of the runs for which an overhead is asked, in seconds of CPU time.
const SHORT_RUN: f64 = 0.05;
/// Runs of a measurement of the overhead, and repetitions of it.
const RUNS: u64 = 40;
const REPETITIONS: usize = 9;
/// A task that runs and sleeps: a run of some milliseconds takes less than a millisecond.
const TINY: &str = r#"{"global": {"duration": 1}, "tasks": {"a": {"run": 900, "sleep": 300}}}"#;
/// Axes of the campaign of many results.
const PLAYER: [&str; 3] = ["['kernel', 'fifo']", "laptop-2c4t", "video"];
/// The campaign of the estimate.
const MILLION: f64 = 1e6;
const CORES: f64 = 1e3;

const PROSE: &str = "\
# What campaigns cost

Written by `cargo xtask campaign-cost`: do not edit. Numbers for planning: how many runs a core does in an hour, what
`weir sweep` adds to them, and what tables of many results take. Time is CPU time of the processes, user and system, which
other load of the machine disturbs little; memory is the peak of resident memory, read every millisecond.
";

/// What a process took.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    /// Peak of resident memory, in MB of 10^6 bytes.
    memory: f64,
}

/// Programs and the directory in which they run.
struct Bench {
    weir: PathBuf,
    directory: tempfile::TempDir,
}

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let bench = Bench { weir, directory: tempfile::tempdir()? };
    fs::write(bench.path("tiny.json"), TINY)?;
    println!("{PROSE}\nMachine: {}.\n", processor()?);
    runs_an_hour(&bench)?;
    let overhead = overhead(&bench)?;
    let tables = aggregation(&bench, arguments.results)?;
    let start = start(&bench)?;
    estimate(&overhead, &tables, &start);
    Ok(())
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs weir with these words.
    fn run(&self, line: &str) -> Result<Cost> {
        let before = cpu_time::of_children()?;
        let mut child = Command::new(&self.weir)
            .args(line.split(' '))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start weir")?;
        let mut memory = 0.0f64;
        let status = loop {
            memory = memory.max(peak_memory(child.id()).unwrap_or(0.0));
            match child.try_wait()? {
                Some(status) => break status,
                None => std::thread::sleep(SAMPLE),
            }
        };
        ensure!(status.success(), "weir {line}: {status}");
        Ok(Cost { cpu: (cpu_time::of_children()? - before).as_secs_f64(), memory })
    }

    /// Writes a campaign.
    fn campaign(&self, [scheduler, machine, workload]: [&str; 3], seeds: u64, time: &str) -> Result<()> {
        let text = format!(
            "[axes]\nscheduler = {scheduler}\nmachine = '{machine}'\nworkload = '{workload}'\nseed = '1-{seeds}'\n\
             [options]\nfor = '{time}'\n"
        );
        Ok(fs::write(self.path("c.toml"), text)?)
    }

    /// Does a campaign in a new directory, on one core.
    fn sweep(&self, out: &str) -> Result<Cost> {
        let _ = fs::remove_dir_all(self.path(out));
        self.run(&format!("sweep c.toml --out {out} --jobs 1"))
    }

    /// CPU time of one more run, and memory of the process.
    fn one_run(&self, axes: [&str; 3], time: &str) -> Result<Cost> {
        let mut each = [Cost { cpu: 0.0, memory: 0.0 }; 2];
        for (cost, seeds) in each.iter_mut().zip([1, 6]) {
            self.campaign(axes, seeds, time)?;
            *cost = self.sweep("one")?;
        }
        Ok(Cost { cpu: (each[1].cpu - each[0].cpu) / 5.0, memory: each[1].memory })
    }
}

/// Peak of a process's resident memory, in MB.
fn peak_memory(process: u32) -> Option<f64> {
    kilobytes(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

/// The line `VmHWM` of proc(5), in MB.
fn kilobytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1.024e-3)
}

fn processor() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    Ok(name.unwrap_or("unknown").trim().to_owned())
}

/// Bytes of all files below a directory.
fn size(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

fn runs_an_hour(bench: &Bench) -> Result<()> {
    println!(
        "## Runs an hour on a core\n\nRuns of one second of simulated time: CPU time of one more run, runs that a core does in \
         an hour, and\nmemory of a process that does one run at a time.\n\n\
         | machine | workload | scheduler | ms a run | runs an hour | MB |\n|---|---|---|---:|---:|---:|"
    );
    for (machine, own) in MACHINES {
        for workload in WORKLOADS.into_iter().chain([own]) {
            for scheduler in ["kernel", "bfs"] {
                let cost = bench.one_run([&format!("'{scheduler}'"), machine, workload], "1s")?;
                let hour = report::count(rounded(3600.0 / cost.cpu));
                println!(
                    "| {machine} | {workload} | {scheduler} | {:.1} | {hour} | {:.0} |",
                    cost.cpu * 1e3,
                    cost.memory
                );
            }
        }
    }
    Ok(())
}

/// A number with two significant digits: more of them would not repeat.
fn rounded(number: f64) -> u64 {
    let unit = 10f64.powi((number.max(10.0).log10().floor() as i32 - 1).max(0));
    ((number / unit).round() * unit) as u64
}

/// CPU time of a short run, and what the sweep adds to it, in seconds; and bytes of its result.
struct Overhead {
    run: f64,
    added: f64,
    result: f64,
}

/// Compares a sweep with `weir sim` of the same runs.
fn overhead(bench: &Bench) -> Result<Overhead> {
    let axes = ["'bfs'", "laptop-2c4t", "video"];
    // Twice, as the time is not quite proportional to the simulated time.
    let mut length = 1e3;
    for _ in 0..2 {
        length = (length * SHORT_RUN / bench.one_run(axes, &format!("{length}ms"))?.cpu).round();
    }
    let time = format!("{length}ms");
    bench.campaign(axes, RUNS, &time)?;
    let sim = format!("sim bfs -m laptop-2c4t -w video --seeds {RUNS} --for {time}");
    let (mut runs, mut shares) = (Vec::new(), Vec::new());
    // One after the other, so that a change of the machine's load or clock meets both.
    for _ in 0..REPETITIONS {
        let (alone, swept) = (bench.run(&sim)?.cpu, bench.sweep("short")?.cpu);
        runs.push(alone / RUNS as f64);
        shares.push(swept / alone - 1.0);
    }
    runs.sort_by(f64::total_cmp);
    shares.sort_by(f64::total_cmp);
    let (run, share) = (runs[REPETITIONS / 2], shares[REPETITIONS / 2]);
    println!(
        "\n## What the sweep adds\n\n`weir sweep` and `weir sim --seeds {RUNS}` do the same {RUNS} runs of `bfs` on \
         laptop-2c4t with\n`video` for {time}, {:.1} ms of CPU time each. The sweep also plans, keeps and tabulates them. \
         Asked: at most 3 % more\nCPU time. Median of {REPETITIONS} pairs: {:+.1} % (from {:+.1} to {:+.1} %). Less than 0 is \
         what `weir sim` takes for its text.",
        run * 1e3,
        share * 100.0,
        shares[0] * 100.0,
        shares[REPETITIONS - 1] * 100.0
    );
    let result = size(&bench.path("short/results"))? as f64 / RUNS as f64;
    println!("\nA result of such a run takes {result:.0} bytes.");
    Ok(Overhead { run, added: (share * run).max(0.0), result })
}

/// Costs of the tables of many results.
struct Tables {
    count: f64,
    cost: Cost,
}

fn aggregation(bench: &Bench, results: u64) -> Result<Tables> {
    println!(
        "\n## Tables of many results\n\nRuns of `kernel` and `fifo` on laptop-2c4t with `video` for 50 ms, and \
         `weir sweep --tables` over\nthem. Asked for 100,000: less than 5 s and 300 MB.\n\n\
         | results | ms a run | s of the tables | MB | bytes a result | bytes of the tables |\n|---:|---:|---:|---:|---:|---:|"
    );
    let mut last = None;
    for count in [results / 10, results] {
        bench.campaign(PLAYER, count / 2, "50ms")?;
        let swept = bench.sweep("many")?;
        let cost = bench.run("sweep c.toml --out many --tables")?;
        let kept = size(&bench.path("many/results"))?;
        let tables = size(&bench.path("many"))? - kept;
        println!(
            "| {} | {:.2} | {:.2} | {:.0} | {} | {} |",
            report::count(count),
            swept.cpu * 1e3 / count as f64,
            cost.cpu,
            cost.memory,
            report::count(kept / count),
            report::count(tables)
        );
        last = Some(Tables { count: count as f64, cost });
    }
    last.context("results are aggregated")
}

/// Costs of a process of a campaign of a million runs.
struct Start {
    /// Planning, without any finished run.
    plan: Cost,
    /// The same with the finished runs of [`aggregation`]: the status of each is read.
    status: Cost,
}

fn start(bench: &Bench) -> Result<Start> {
    bench.campaign(PLAYER, 500_000, "50ms")?;
    let plan = bench.run("sweep c.toml --out none --status")?;
    let status = bench.run("sweep c.toml --out many --status")?;
    bench.campaign(["['kernel', 'fifo']", "pu:1", "./tiny.json"], 1_000, "3ms")?;
    let whole = bench.sweep("whole")?;
    let _ = fs::remove_dir_all(bench.path("shards"));
    let mut parts = 0.0;
    for part in 1..=20 {
        parts += bench.run(&format!("sweep c.toml --out shards --jobs 1 --shard {part}/20"))?.cpu;
    }
    println!(
        "\n## Processes\n\n| a process | s | MB |\n|---|---:|---:|\n\
         | plans a million runs | {:.2} | {:.0} |\n| the same, and reads the finished runs above | {:.2} | {:.0} |\n\n\
         2,000 runs of a tiny load took {:.2} s in one process and {parts:.2} s in 20 shards, one after the other: {:.0} ms \
         for\neach further process.",
        plan.cpu,
        plan.memory,
        status.cpu,
        status.memory,
        whole.cpu,
        (parts - whole.cpu) * 1e3 / 19.0
    );
    Ok(Start { plan, status })
}

fn estimate(overhead: &Overhead, tables: &Tables, start: &Start) {
    let each = MILLION / CORES;
    let runs = each * (overhead.run + overhead.added);
    let read = (start.status.cpu - start.plan.cpu).max(0.0) / tables.count * MILLION;
    let collect = tables.cost.cpu / tables.count * MILLION;
    let memory = tables.cost.memory / tables.count * MILLION;
    let bytes = overhead.result * MILLION;
    println!(
        "\n## A million runs on 1,000 cores\n\nAn estimate from the numbers above, not a measurement: 1,000 processes with \
         `--shard I/1000`\nand one directory, runs of {:.0} ms.\n\n| what | estimate |\n|---|---|\n\
         | runs of a process | {each:.0}, {runs:.0} s |\n\
         | start of a process, if all start at once | {:.1} s, {:.0} MB: {:.0} % of the runs' time |\n\
         | the tables' process reads all results | {read:.0} s |\n\
         | results | {:.1} GB in 1,000 files, {:.0} lines a second, {:.1} MB a second |\n\
         | syncs | 200 a second: each process syncs every 5 s |\n\
         | tables, once | {collect:.0} s, {:.1} GB of memory |\n\
         | jobs of Slurm | one array of 1,000 tasks; two requests a second to the controller |",
        overhead.run * 1e3,
        start.plan.cpu,
        start.plan.memory,
        100.0 * start.plan.cpu / runs,
        bytes / 1e9,
        MILLION / runs,
        bytes / runs / 1e6,
        memory / 1e3,
    );
    println!(
        "\nWith `--shard`, a process looks for finished runs when it begins and when it ends. For that it reads all results \
         that are\nthere, so that processes which end late read up to {:.1} GB each from the common file system. Where that is \
         too much, give\neach process a directory of its own and collect them with `--import`.",
        bytes / 1e9
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_in_the_status_of_a_process() {
        assert_eq!(kilobytes("VmPeak:\t 9 kB\nVmHWM:\t    2000 kB\n"), Some(2.048));
        assert_eq!(kilobytes("Name:\tweir\n"), None);
        assert!(peak_memory(std::process::id()).is_some_and(|memory| memory > 1.0));
    }

    #[test]
    fn numbers_have_two_digits() {
        assert_eq!([597_927.0, 3_645.0, 99.6, 7.4].map(rounded), [600_000, 3_600, 100, 7]);
    }
}
