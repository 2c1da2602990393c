// SPDX-License-Identifier: GPL-2.0-only
//! A process that executes its program anew, which no thread of the player can do: it would end all others.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, thread};

/// The argument that makes this program that process.
pub const ARGUMENT: &str = "execute";
/// Longer than a director needs to its first mark.
const BEFORE: Duration = Duration::from_millis(400);
/// Between two programs.
const BETWEEN: Duration = Duration::from_millis(100);
/// Longer than a director needs to its last mark.
const AFTERWARDS: Duration = Duration::from_millis(3_000);
/// Number of times that it executes its program.
const TIMES: u32 = 2;

/// Starts it. The kernel calls a task by the file that it executes: so that is a link of this name to this program.
pub fn start(name: &str) -> Result<Child> {
    let link: PathBuf = env::temp_dir().join(name);
    let program = env::current_exe().context("this program's file")?;
    _ = fs::remove_file(&link);
    symlink(&program, &link).with_context(|| link.display().to_string())?;
    Command::new(&link).arg(ARGUMENT).arg("0").spawn().with_context(|| link.display().to_string())
}

/// What it does: at first it goes home to CPU 1 and may then use CPU 2 too; it sleeps, and executes itself.
pub fn perform(times: u32) -> Result<()> {
    if times == 0 {
        for cpus in [&[1][..], &[1, 2]] {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|&cpu| set.set(cpu));
            sched_setaffinity(None, &set).context("CPUs of a process")?;
        }
    }
    let sleep = if times == 0 { BEFORE } else { BETWEEN };
    thread::sleep(if times == TIMES { AFTERWARDS } else { sleep });
    if times == TIMES {
        return Ok(());
    }
    // Executed by the same path, so that the process keeps its name.
    let link = env::args_os().next().context("a program has a name")?;
    Err(Command::new(link).arg(ARGUMENT).arg((times + 1).to_string()).exec()).context("execute this program anew")
}
