// SPDX-License-Identifier: GPL-2.0-only
//! What the effects of memory cost the simulator: instructions of this machine for a context switch, with and without
//! them.

use crate::wall::weir;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `cargo xtask memory-cost`.
#[derive(Args)]
#[command(after_help = "\
It needs valgrind, which counts the instructions, and takes two minutes.

Examples:
  cargo xtask memory-cost > lab/results/memory-cost.md")]
pub struct Arguments {
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
}

/// Machines, with two tasks for each CPU.
const MACHINES: [(&str, u32); 3] = [("laptop-2c4t", 8), ("server-64", 128), ("server-512", 1_024)];
const EFFECTS: &str = "caches,numa,bandwidth";

const PROSE: &str = "\
# What the effects of memory cost the simulator

Written by `cargo xtask memory-cost`: do not edit. Two tasks for each CPU work and sleep for 300 us in turn, with the memory
of the class `compiler`. Instructions of this machine for a context switch, counted by valgrind: the difference of a long
and a short run, so that the start does not count. Asked: at most 20 % more.

| machine | scheduler | without | with the effects | |
|---|---|---|---|---|";

/// Prints the document.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let weir = weir(arguments.weir.as_deref())?.canonicalize().context("--weir")?;
    let directory = tempfile::tempdir()?;
    println!("{PROSE}");
    for (machine, tasks) in MACHINES {
        let task = format!(
            r#"{{ "tasks": {{ "t": {{ "instance": {tasks}, "loop": -1, "memory": "compiler", "run": 300, "sleep": 300 }} }} }}"#
        );
        std::fs::write(directory.path().join("tasks.json"), task)?;
        // The same number of switches on each machine.
        let short_us = 48_000 / u64::from(tasks);
        for scheduler in ["fifo", "bfs"] {
            let each = |without: &[&str]| -> Result<f64> {
                let run = |us: u64| {
                    let time = format!("{us}us");
                    let words =
                        ["sim", scheduler, "-m", machine, "-w", "./tasks.json", "--for", &time, "--format", "json"];
                    count(&weir, directory.path(), &[&words, without].concat())
                };
                let (short, long) = (run(short_us)?, run(5 * short_us)?);
                Ok((long.0 - short.0) as f64 / (long.1 - short.1).max(1) as f64)
            };
            let (without, with) = (each(&["--without", EFFECTS])?, each(&[])?);
            println!(
                "| {machine} | {scheduler} | {without:.0} | {with:.0} | {:+.1} % |",
                100.0 * (with / without - 1.0)
            );
        }
    }
    Ok(())
}

/// Instructions and context switches of a run.
fn count(weir: &Path, directory: &Path, arguments: &[&str]) -> Result<(u64, u64)> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(weir)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .context("cannot start valgrind")?;
    ensure!(output.status.success(), "{arguments:?}: {}", output.status);
    let instructions = collected(&String::from_utf8_lossy(&output.stderr)).context("valgrind counts instructions")?;
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let switches = document["runs"][0]["context_switches"].as_u64().context("a run has switches")?;
    Ok((instructions, switches))
}

/// The number after `Collected :` in callgrind's last lines.
fn collected(messages: &str) -> Option<u64> {
    messages.lines().rev().find_map(|line| line.split("Collected :").nth(1))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_in_the_messages_of_callgrind() {
        let messages = "==7== Events    : Ir\n==7== Collected : 31937929\n==7== \n==7== I   refs:      31,937,929\n";
        assert_eq!(collected(messages), Some(31_937_929));
        assert_eq!(collected("==7== nothing"), None);
    }
}
