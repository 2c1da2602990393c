// SPDX-License-Identifier: GPL-2.0-only
//! Capacity of the core that only dispatches for others (`nix@amp`).

use super::ALL;
use super::bench::{Bench, Case, Work, number, short_work, switches_per_second};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;

const WORK_US: [u32; 6] = [1000, 200, 100, 50, 20, 5];
/// Work lengths for which the run without random variation is shown as well.
const IN_STEP_US: [u32; 3] = [50, 20, 5];

/// Minimum number of seeds per row.
const SEEDS: u32 = 8;

const PROSE: &str = "
## What one core can give

The tasks of the first table under `nix@amp` on 32 cores, with less and less work per run, and the seeds 1 to SEEDS: their
run times vary at random. CPU 0's time per pick is its time in the scheduler and in interrupts, divided by the number of
context switches; `at least` is how busy it is with the seed that leaves it most idle time. The columns behind it are
the tasks scanned per pick, the time for which a pick holds the queue's lock and waits for it, and the tasks that CPU 0
assigns in one scan. The last rows are runs without random variation (seed 0): all tasks are exactly alike. `cargo xtask
nix --part central` prints this table alone.

| work | switches | CPU 0 busy | at least | time per pick | 1 / that | scanned | lock held | waits \
| assigned per scan | others idle |
|---|---|---|---|---|---|---|---|---|---|---|";

pub fn print(bench: &Bench) -> Result<()> {
    let bench = &bench.with_seeds(bench.seeds.max(SEEDS));
    println!("{}", PROSE.replace("SEEDS", &bench.seeds.to_string()));
    for us in WORK_US {
        row(bench, &format!("{us} us"), us, &[])?;
    }
    for us in IN_STEP_US {
        row(bench, &format!("{us} us, all alike"), us, &["--seed", "0"])?;
    }
    Ok(())
}

fn row(bench: &Bench, name: &str, us: u32, options: &[&str]) -> Result<()> {
    let case =
        |options| Case { cpus: ALL, machine: &bench.preset, workload: Work::Text(short_work(ALL, 4, us)), options };
    let runs = bench.runs("nix@amp", &case(options))?;
    let of = |what: fn(&Value) -> Result<f64>| Ok::<f64, anyhow::Error>(runs.median(what)?.0);
    let log = bench.file("run.jsonl", "")?;
    let log_option = log.to_str().context("the name of the directory is not UTF-8")?;
    let seed = options.get(1).copied().unwrap_or("1");
    let logged = bench.runs("nix@amp", &case(&["--seed", seed, "--log", log_option]))?;
    let given = number(&logged.0[0], "context_switches")? / looks(&std::fs::read_to_string(&log)?)?.max(1) as f64;
    std::fs::remove_file(&log)?;
    println!(
        "| {name} | {:.0} /s | {:.1} % | {:.1} % | {:.2} us | {:.0} /s | {:.0} | {:.2} us | {:.2} us | {given:.0} | {:.0} % |",
        of(switches_per_second)?,
        100.0 * of(share_busy)?,
        100.0 * runs.0.iter().map(share_busy).try_fold(1.0, |least, share| share.map(|share| share.min(least)))?,
        of(pick)? / 1e3,
        1e9 / of(pick)?,
        of(|run| of_queue(run, "count"))?,
        of(|run| of_queue(run, "hold_total_ns"))? / 1e3,
        of(|run| of_queue(run, "wait_total_ns"))? / 1e3,
        100.0 * of(others_idle)?
    );
    Ok(())
}

fn cpus(run: &Value) -> Result<&[Value]> {
    let cpus = run["cpus"].as_array().context("a run has CPUs")?;
    ensure!(cpus.len() > 1, "the run needs more CPUs than CPU 0");
    Ok(cpus)
}

/// Returns CPU 0's time for dispatching, in nanoseconds.
fn busy(run: &Value) -> Result<f64> {
    let central = &cpus(run)?[0];
    Ok(number(central, "scheduler_ns")? + number(central, "stolen_ns")?)
}

/// Returns the share of its time that CPU 0 spends dispatching.
fn share_busy(run: &Value) -> Result<f64> {
    Ok(busy(run)? / number(run, "elapsed_ns")?)
}

/// Returns CPU 0's time per dispatched task.
fn pick(run: &Value) -> Result<f64> {
    Ok(busy(run)? / number(run, "context_switches")?)
}

/// Returns a value of the queue's lock as used by CPU 0's `dispatch`, per dispatched task.
fn of_queue(run: &Value, key: &str) -> Result<f64> {
    let locks = run["locks"].as_array().context("a run has locks")?;
    let is_look = |lock: &&Value| lock["type"] == "dsq" && lock["caller"] == "dispatch";
    let all: f64 = locks.iter().filter(is_look).map(|lock| number(lock, key)).sum::<Result<f64>>()?;
    Ok(all / number(run, "context_switches")?)
}

/// Returns the share of their time in which the other CPUs were idle.
fn others_idle(run: &Value) -> Result<f64> {
    let others = &cpus(run)?[1..];
    let idle: f64 = others.iter().map(|cpu| number(cpu, "idle_ns")).sum::<Result<f64>>()?;
    Ok(idle / (number(run, "elapsed_ns")? * others.len() as f64))
}

/// Returns the number of CPU 0's scans that dispatched a task; in the model all decisions of one scan have the same
/// time stamp.
fn looks(log: &str) -> Result<usize> {
    let mut times = BTreeSet::new();
    for line in log.lines().filter(|line| line.contains("\"insert\"")) {
        let event: Value = serde_json::from_str(line)?;
        if event["cpu"] == 0 && event["op"] == "dispatch" {
            times.insert(event["time_ns"].as_u64());
        }
    }
    Ok(times.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scans_of_cpu_0_are_counted() {
        let insert = |time: u64, cpu: u32, op: &str| json!({ "time_ns": time, "kind": "insert", "cpu": cpu, "op": op });
        let events =
            [insert(5, 0, "dispatch"), insert(5, 0, "dispatch"), insert(7, 0, "enqueue"), insert(9, 1, "dispatch")];
        let log: Vec<String> = events.iter().map(Value::to_string).collect();
        assert_eq!(looks(&log.join("\n")).unwrap(), 1);
    }

    #[test]
    fn pick_time_is_cpu_0_time_per_dispatched_task() {
        let run = json!({
            "context_switches": 10, "elapsed_ns": 1000,
            "cpus": [{ "scheduler_ns": 700, "stolen_ns": 100, "idle_ns": 200 }, { "idle_ns": 250 }, { "idle_ns": 750 }],
            "locks": [{ "type": "dsq", "caller": "dispatch", "count": 30 }, { "type": "dsq", "caller": "enqueue", "count": 9 }],
        });
        assert_eq!(
            (pick(&run).unwrap(), of_queue(&run, "count").unwrap(), others_idle(&run).unwrap()),
            (80.0, 3.0, 0.5)
        );
    }
}
