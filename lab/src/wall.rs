// SPDX-License-Identifier: GPL-2.0-only
//! Scalability limit of a single shared queue: tasks per second through one queue with a growing number of CPUs,
//! compared with per-CPU queues.

mod schbench;
mod sharing;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ids::Nanos;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask wall`.
#[derive(Args)]
pub struct Arguments {
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each run, in milliseconds
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,
    /// Object of scx_rusty of December 2024, for the schbench table
    #[arg(long)]
    rusty: Option<PathBuf>,
}

const CPUS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// One queue, one queue with a more expensive policy, per-CPU queues.
const SCHEDULERS: [&str; 3] = ["fifo", "bfs", "kernel"];
const ALL: u32 = 512;

/// Topology of the published case: 128 CPUs, two sockets of 32 SMT cores in 8 nodes (EPYC 7001), four cores per
/// cache.
const TOPOLOGY_OF_CASE: &str = "[topology]
shape = \"node:8 l3:2 core:4 pu:2\"
numbering = \"threads-last\"
";
/// Number of pairs in the published case: UnixBench starts as many copies as there are CPUs.
const PAIRS: u32 = 128;

/// Returns the program to run: the given one, or a release build.
pub fn weir(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(weir) = named {
        return Ok(weir.to_owned());
    }
    let build = ["build", "--release", "--locked", "-q", "-p", "weir"];
    let built = Command::new("cargo").args(build).current_dir(crate::root()).status()?;
    ensure!(built.success(), "weir cannot be built");
    Ok(crate::root().join("target/release/weir"))
}

/// CPU counts of the machine on which NIX was measured.
const NIX_CPUS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const KERNELS: [&str; 3] = ["7.2", "7.2+ticket", "7.2+test-and-set"];

/// Prints all tables.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let root = crate::root();
    let machine_of = |name: &str| {
        let path = root.join(format!("machines/{name}.toml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        at_once(&text)
    };
    let weir = weir(arguments.weir.as_deref())?;
    let folder = root.join("target/wall");
    std::fs::create_dir_all(&folder)?;
    let preset = machine_of("server-512")?;
    let play = |scheduler: &str, options: &[&str]| simulate(&weir, &folder, arguments.milliseconds, scheduler, options);

    println!(
        "| CPUs | `fifo`, without locks | `fifo` | its CPUs waited | `bfs` | they waited | `kernel` | they waited |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for cpus in CPUS {
        write(&folder, &preset, cpus, ALL, 20)?;
        let mut row = format!("| {cpus} | {} |", play("fifo", &["--without", "locks"])?.switches());
        for scheduler in SCHEDULERS {
            let run = play(scheduler, &[])?;
            let _ = write!(row, " {} | {} |", run.switches(), run.waited());
        }
        println!("{row}");
    }

    sharing::execute(&weir, &folder, &preset, arguments.milliseconds / 4)?;

    println!("\n| CPUs of `nix-32` | queued | ticket | test-and-set |\n|---|---|---|---|");
    let nix = machine_of("nix-32")?;
    for cpus in NIX_CPUS {
        write(&folder, &nix, cpus, 32, 5)?;
        let mut row = format!("| {cpus} |");
        for kernel in KERNELS {
            let _ = write!(row, " {} |", play("fifo", &["--kernel", kernel])?.switches());
        }
        println!("{row}");
    }

    println!(
        "\n| 128 pairs on 128 CPUs | switches | of `kernel` | CPUs waited | mean wait for the queue | its mean hold |"
    );
    println!("|---|---|---|---|---|---|");
    let machine = with_topology(&preset, TOPOLOGY_OF_CASE)?;
    std::fs::write(folder.join("machine.toml"), machine)?;
    std::fs::write(folder.join("workload.json"), pairs())?;
    let base = play("kernel", &[])?;
    for scheduler in ["kernel", "fifo", "bfs"] {
        let run = play(scheduler, &[])?;
        let of_base = 100.0 * run.rate / base.rate;
        let (wait, hold) = run.queue();
        println!("| `{scheduler}` | {} | {of_base:.1} % | {} | {wait} | {hold} |", run.switches(), run.waited());
    }
    match &arguments.rusty {
        Some(object) => schbench::execute(&weir, &folder, &preset, object),
        None => Ok(()),
    }
}

/// Returns the machine with free task creation, so that all tasks start at once: otherwise creating the tasks of 512
/// CPUs would take a sixth of the run.
pub fn at_once(preset: &str) -> Result<String> {
    let is_cost = |line: &&str| line.starts_with("clone_ns");
    let line = preset.lines().find(is_cost).context("the preset says what it takes to make a task")?;
    Ok(preset.replacen(line, "clone_ns = 0", 1))
}

/// Returns a machine with the costs of `preset` and another topology.
fn with_topology(preset: &str, topology: &str) -> Result<String> {
    let begin = preset.find("[topology]").context("the preset has a topology")?;
    let end = preset.find("[costs]").context("the preset has costs")?;
    Ok(format!("{}{topology}\n{}", &preset[..begin], &preset[end..]))
}

/// Writes a machine with `cpus` of `all` CPUs online, and a workload of four tasks per CPU that run and sleep for
/// `us` microseconds.
fn write(folder: &Path, preset: &str, cpus: u32, all: u32, us: u32) -> Result<()> {
    let offline = if cpus < all { format!("\noffline = \"{cpus}-{}\"", all - 1) } else { String::new() };
    std::fs::write(folder.join("machine.toml"), preset.replacen("[topology]", &format!("[topology]{offline}"), 1))?;
    let tasks =
        format!(r#"{{"tasks": {{"t": {{"instance": {}, "loop": -1, "run": {us}, "sleep": {us}}}}}}}"#, 4 * cpus);
    std::fs::write(folder.join("workload.json"), tasks)?;
    Ok(())
}

/// Returns a workload of pairs of tasks that signal and wait for each other in turn, with the microsecond of work of
/// a pipe.
fn pairs() -> String {
    let mut tasks = Vec::new();
    for pair in 0..PAIRS {
        for side in ["a", "b"] {
            tasks.push(format!(
                r#""{side}{pair}": {{"loop": -1, "lock": "m{pair}", "sync": {{"ref": "c{pair}", "mutex": "m{pair}"}}, "unlock": "m{pair}", "run": 1}}"#
            ));
        }
    }
    format!(r#"{{"tasks": {{{}}}}}"#, tasks.join(",\n"))
}

/// Values of a run.
struct Run {
    /// Context switches per second.
    rate: f64,
    document: Value,
}

impl Run {
    fn switches(&self) -> String {
        format!("{:.2} M/s", self.rate / 1e6)
    }

    /// 99th percentile of the wakeup latency.
    fn wakeup_p99(&self) -> String {
        let p99 = self.document["runs"][0]["wakeup_latency_ns"]["p99"].as_u64();
        p99.map_or("-".to_owned(), |ns| Nanos(ns).to_string())
    }

    /// Share of all CPU time spent waiting for locks.
    fn waited(&self) -> String {
        let run = &self.document["runs"][0];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let owners = ["run", "idle", "scheduler", "stolen"].map(|owner| number(&run["cpu_ns"][owner]));
        format!("{:.1} %", 100.0 * number(&run["lock_wait_ns"]) / owners.iter().sum::<f64>())
    }

    /// Mean wait and hold of the most contended dispatch queue.
    fn queue(&self) -> (String, String) {
        let locks = self.document["runs"][0]["locks"].as_array().into_iter().flatten();
        let Some(lock) = locks.into_iter().find(|lock| lock["type"] == "dsq") else { return ("-".into(), "-".into()) };
        let mean = |total: &str, count: &str| {
            let (total, count) = (lock[total].as_f64().unwrap_or(0.0), lock[count].as_f64().unwrap_or(0.0));
            if count > 0.0 { format!("{:.2} us", total / count / 1e3) } else { "-".to_owned() }
        };
        (mean("wait_total_ns", "contended"), mean("hold_total_ns", "count"))
    }
}

fn simulate(weir: &Path, folder: &Path, milliseconds: u64, scheduler: &str, options: &[&str]) -> Result<Run> {
    let duration = format!("{milliseconds}ms");
    let (machine, workload) = (folder.join("machine.toml"), folder.join("workload.json"));
    let mut command = Command::new(weir);
    command.args(["sim", scheduler, "--for", &duration, "--format", "json", "-m"]).arg(machine);
    let output = command.arg("-w").arg(workload).args(options).output().context("cannot run weir")?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let switches = document["runs"][0]["context_switches"].as_f64().context("a run has switches")?;
    Ok(Run { rate: switches * 1e3 / milliseconds as f64, document })
}
