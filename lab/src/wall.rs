// SPDX-License-Identifier: GPL-2.0-only
//! The wall: how many tasks a second pass through one queue on ever more CPUs, beside queues of each CPU.
//!
//! 1. CPUs are those of `server-512`, from the first on: 8 below one cache, then 4 caches a node, 4 nodes a socket, two
//!    sockets, then the second threads of all cores.
//! 2. Four tasks for each CPU work for 20 us and sleep for 20 us: with nothing in the way every CPU is always busy, at
//!    some 30,000 switches a second. All of them are there at once.
//! 3. Two tables have the same under `muqss`, whose CPUs share queues by a tunable, for a quarter of the time.
//! 4. The next is the same on NIX's machine of 32 CPUs in 8 nodes, with tasks of 5 us, under kernels whose locks are
//!    made in three ways. NIX's queue lock was a test-and-set lock.
//! 5. The next is a case that somebody measured: as many pairs of processes that hand a token to each other as
//!    there are CPUs, 128 of 8 nodes (sched-ext/scx, issue 998).
//! 6. So is the last one: latencies of schbench on 512 CPUs under a scheduler with a queue for each cache.

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
    /// The weir to run; without it, a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each run, in milliseconds
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,
    /// An object of scx_rusty of December 2024, for the table of schbench
    #[arg(long)]
    rusty: Option<PathBuf>,
}

const CPUS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// One queue, one queue with a policy that costs more, a queue for each CPU.
const SCHEDULERS: [&str; 3] = ["fifo", "bfs", "kernel"];
const ALL: u32 = 512;

/// Two sockets of 32 cores in 8 nodes, as the 128 CPUs of the case: EPYC 7001, four cores below each cache.
const TOPOLOGY_OF_CASE: &str = "[topology]
shape = \"node:8 l3:2 core:4 pu:2\"
numbering = \"threads-last\"
";
/// Pairs in the case: UnixBench starts as many copies as there are CPUs.
const PAIRS: u32 = 128;

/// The program to ask: the one that was named, or a release build.
pub fn weir(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(weir) = named {
        return Ok(weir.to_owned());
    }
    let build = ["build", "--release", "--locked", "-q", "-p", "weir"];
    let built = Command::new("cargo").args(build).current_dir(crate::root()).status()?;
    ensure!(built.success(), "weir cannot be built");
    Ok(crate::root().join("target/release/weir"))
}

/// Of the machine on which NIX was measured.
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

/// The machine, but that all tasks are there at once: one after the other, those of 512 CPUs would come for a sixth of the
/// time.
pub fn at_once(preset: &str) -> Result<String> {
    let is_cost = |line: &&str| line.starts_with("clone_ns");
    let line = preset.lines().find(is_cost).context("the preset says what it takes to make a task")?;
    Ok(preset.replacen(line, "clone_ns = 0", 1))
}

/// The numbers of a machine with the topology of another.
fn with_topology(preset: &str, topology: &str) -> Result<String> {
    let begin = preset.find("[topology]").context("the preset has a topology")?;
    let end = preset.find("[costs]").context("the preset has costs")?;
    Ok(format!("{}{topology}\n{}", &preset[..begin], &preset[end..]))
}

/// A machine of which so many CPUs of all are there, and four tasks for each, which work and sleep for some microseconds.
fn write(folder: &Path, preset: &str, cpus: u32, all: u32, us: u32) -> Result<()> {
    let offline = if cpus < all { format!("\noffline = \"{cpus}-{}\"", all - 1) } else { String::new() };
    std::fs::write(folder.join("machine.toml"), preset.replacen("[topology]", &format!("[topology]{offline}"), 1))?;
    let tasks =
        format!(r#"{{"tasks": {{"t": {{"instance": {}, "loop": -1, "run": {us}, "sleep": {us}}}}}}}"#, 4 * cpus);
    std::fs::write(folder.join("workload.json"), tasks)?;
    Ok(())
}

/// Pairs of tasks that give a signal and wait for one in turn, with the microsecond of work that a pipe takes.
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

/// What a run says.
struct Run {
    /// Switches a second.
    rate: f64,
    document: Value,
}

impl Run {
    fn switches(&self) -> String {
        format!("{:.2} M/s", self.rate / 1e6)
    }

    /// The 99th percentile of the time from a wakeup to a CPU.
    fn wakeup_p99(&self) -> String {
        let p99 = self.document["runs"][0]["wakeup_latency_ns"]["p99"].as_u64();
        p99.map_or("-".to_owned(), |ns| Nanos(ns).to_string())
    }

    /// Share of all CPU time in which CPUs waited for locks.
    fn waited(&self) -> String {
        let run = &self.document["runs"][0];
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let owners = ["run", "idle", "scheduler", "stolen"].map(|owner| number(&run["cpu_ns"][owner]));
        format!("{:.1} %", 100.0 * number(&run["lock_wait_ns"]) / owners.iter().sum::<f64>())
    }

    /// Mean wait and mean hold of the dispatch queue that was waited for longest.
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
    let output = command.arg("-w").arg(workload).args(options).output().context("weir cannot be run")?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let switches = document["runs"][0]["context_switches"].as_f64().context("a run has switches")?;
    Ok(Run { rate: switches * 1e3 / milliseconds as f64, document })
}
