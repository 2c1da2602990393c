// SPDX-License-Identifier: GPL-2.0-only
//! Cost of a scheduling decision under each scheduler: a context switch with everything that leads to it, including
//! wakeups and ticks.
//!
//! 1. The same work is simulated under each scheduler. A decision is a switch to a task.
//! 2. Instructions are those executed by the scheduler's programs; the default scheduler has none, because the model
//!    knows only its cost.
//! 3. Lock times are the total hold and wait times of runqueue locks, dispatch-queue locks and the scheduler's own
//!    locks. A runqueue lock held while the scheduler decides includes the time of the decision.

use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask costs`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask costs > lab/results/costs.md
  cargo xtask costs kernel cfs@4.1 vrq muqss,rqshare=none --weir target/debug/weir")]
pub struct Arguments {
    /// Schedulers: policies with presets and tunables, objects, or kernel for the default scheduler
    #[arg(default_values_t = ["kernel", "cfs", "bfs", "muqss"].map(str::to_owned))]
    schedulers: Vec<String>,
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each run
    #[arg(long, default_value = "2s")]
    duration: String,
}

/// Machines and workloads.
const CASES: [(&str, &str); 5] = [
    ("laptop-2c4t", "preempt-mix"),
    ("laptop-2c4t", "pingpong"),
    ("laptop-2c4t", "build"),
    ("server-64", "periodic-64"),
    ("server-512", "periodic-512"),
];

const PROSE: &str = "\
# What a decision costs

Written by `cargo xtask costs`: do not edit. What the model counts under each scheduler in DURATION of the same work,
divided by the switches to a task: the wakeups and ticks that lead to one are in it. Instructions are those of the
scheduler's programs; `kernel` (EEVDF) has none, as only the time that it takes is known. The scheduler's time is CPU time
in its code, in context switches and at locks. Locks are those of runqueues, of queues of tasks and of the scheduler, all
together: how long they were held, and how long CPUs spun for them.

Who switches less often for the same work has more in each switch: the number of switches stands beside. `bfs` on 512 CPUs
is at the wall of its one queue ([wall.md](wall.md)).
";

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?;
    println!("{}", PROSE.replace("DURATION", &arguments.duration));
    println!(
        "| machine, workload | scheduler | switches | instructions | scheduler's time | locks held | waited for |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (machine, workload) in CASES {
        for scheduler in &arguments.schedulers {
            let run = simulate(&weir, &[scheduler, "-m", machine, "-w", workload, "--for", &arguments.duration])?;
            println!("| `{machine}`, `{workload}` | `{scheduler}` | {} |", row(&run)?);
        }
    }
    Ok(())
}

/// Returns the values of a run per context switch.
fn row(run: &Value) -> Result<String> {
    let switches = run["context_switches"].as_u64().context("a run has switches")?;
    ensure!(switches > 0, "no task ran");
    let locks = run["locks"].as_array().context("a run has locks")?;
    let all = |total: &str| locks.iter().filter_map(|lock| lock[total].as_u64()).sum::<u64>();
    let instructions = run["bpf_instructions"].as_u64().filter(|count| *count > 0);
    let instructions = instructions.map_or("-".to_owned(), |count| (count / switches).to_string());
    let time = run["cpu_ns"]["scheduler"].as_u64().context("a run has the scheduler's time")?;
    let ns = |total: u64| format!("{} ns", total / switches);
    let (held, waited) = (ns(all("hold_total_ns")), ns(all("wait_total_ns")));
    Ok(format!("{switches} | {instructions} | {} | {held} | {waited}", ns(time)))
}

fn simulate(weir: &Path, options: &[&str]) -> Result<Value> {
    let mut command = Command::new(weir);
    command.arg("sim").args(options).args(["--format", "json"]);
    let output = command.output().context("cannot run weir")?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    document["runs"].get(0).cloned().context("weir reports no run")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cost_table_divides_totals_by_the_number_of_context_switches() {
        let lock = |hold: u64, wait: u64| json!({ "hold_total_ns": hold, "wait_total_ns": wait });
        let mut run = json!({
            "context_switches": 10, "bpf_instructions": 4_250, "cpu_ns": { "scheduler": 9_000 },
            "locks": [lock(3_000, 0), lock(1_000, 500), { "hold_total_ns": null, "wait_total_ns": 20 }],
        });
        assert_eq!(row(&run).unwrap(), "10 | 425 | 900 ns | 400 ns | 52 ns");
        run["bpf_instructions"] = json!(0);
        assert_eq!(row(&run).unwrap(), "10 | - | 900 ns | 400 ns | 52 ns");
        run["context_switches"] = json!(0);
        assert!(row(&run).is_err());
    }
}
