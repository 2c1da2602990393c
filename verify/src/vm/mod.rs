// SPDX-License-Identifier: GPL-2.0-only
//! Boots a kernel with sched_ext under QEMU and runs things in it; docs/how-to/virtual-machine.md tells how to use it and what it costs.

mod apt;
mod build;
mod clock;
mod conformance;
mod console;
mod cpio;
mod files;
mod full;
mod kernel;
mod machine;
mod missing;
mod parts;
mod promises;
mod smoke;
mod steps;
mod topology;

use anyhow::{Context, Result};
use clap::Args;
use files::Transfer;
use kernel::KernelArgument;
use machine::{Job, Outcome};
use missing::Missing;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use topology::Topology;

/// Exit status when this host lacks what a virtual machine takes, as test harnesses have it.
const CANNOT_RUN: u8 = 77;
/// Exit status when time was up, as of timeout(1).
const TIMED_OUT: u8 = 124;
/// Exit status when the machine ended before its script did.
const DIED: u8 = 125;

/// What can be done with virtual machines.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a shell script; its exit status becomes this command's
    Run(RunArguments),
    /// Test Weir in the kernel, in a minute or two; part of `make test`
    Smoke(smoke::SmokeArguments),
    /// Test each policy in the kernel at length; part of `make test-vm`
    Full(full::FullArguments),
    /// Play scenarios in the kernel and compare the kernel model with it; part of `make test-vm`
    Conformance(conformance::ConformanceArguments),
    /// Hold real runs to what schedulers promise and to the shares that are due; part of `make test-vm`
    Promises(promises::PromisesArguments),
}

/// Arguments of `vm run`.
#[derive(Args)]
pub struct RunArguments {
    /// The script: for busybox sh, as root, in /in; what it leaves in /out comes back
    script: PathBuf,
    /// Put this file or folder into the guest, as /in/NAME by default; a program brings its libraries
    #[arg(long = "file", value_name = "HOST[:GUEST]", value_parser = Transfer::parse)]
    files: Vec<Transfer>,
    /// CPUs like this machine's: a preset or a machine file
    #[arg(long, value_name = "NAME.toml", conflicts_with = "smp")]
    machine: Option<String>,
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    smp: u8,
    /// Memory in MB; 512 and three times the files by default
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(256..=65_536))]
    memory: Option<u64>,
    #[command(flatten)]
    kernel: KernelArgument,
    /// Kill the machine after this long
    #[arg(long, value_name = "SECS", default_value_t = 120)]
    timeout: u64,
    /// Every run the same to the last byte: one instruction takes one nanosecond, nothing is random
    #[arg(long)]
    deterministic: bool,
    /// Seed of what the guest takes for random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for what the script left in /out, and console.log and dmesg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// More words for the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
}

/// Does it, and says on standard error what went wrong.
pub fn execute(command: Command) -> ExitCode {
    let result = match command {
        Command::Run(arguments) => run(arguments),
        Command::Smoke(arguments) => smoke::smoke(&arguments),
        Command::Full(arguments) => full::full(&arguments),
        Command::Conformance(arguments) => conformance::conformance(&arguments),
        Command::Promises(arguments) => promises::promises(&arguments),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) if error.is::<Missing>() => {
            eprintln!("vm: cannot run here: {error:#}");
            ExitCode::from(CANNOT_RUN)
        }
        Err(error) => {
            eprintln!("vm: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: RunArguments) -> Result<u8> {
    let topology = match &arguments.machine {
        Some(name) => Topology::named(name)?,
        None => Topology::flat(usize::from(arguments.smp)),
    };
    for note in &topology.notes {
        eprintln!("vm: not as in the machine file: {note}");
    }
    let script = fs::read_to_string(&arguments.script).with_context(|| format!("{}", arguments.script.display()))?;
    let outcome = machine::run(&Job {
        script,
        texts: Vec::new(),
        files: arguments.files,
        topology,
        memory_mb: arguments.memory,
        kernel: arguments.kernel.kernel,
        timeout: Duration::from_secs(arguments.timeout),
        deterministic: arguments.deterministic,
        seed: arguments.seed,
        append: arguments.append,
        show: true,
    })?;
    if let Some(out) = &arguments.out {
        keep(&outcome, out)?;
    }
    eprintln!(
        "vm: kernel {}, script begun at {} s of guest time; {:.1} s, {:.1} s CPU",
        if outcome.kernel.is_empty() { "unknown" } else { &outcome.kernel },
        if outcome.booted_s.is_empty() { "?" } else { &outcome.booted_s },
        outcome.wall.as_secs_f64(),
        outcome.cpu.as_secs_f64()
    );
    if outcome.success() {
        fs::remove_dir_all(&outcome.folder)?;
    } else {
        outcome.explain();
    }
    Ok(status_of(&outcome))
}

fn status_of(outcome: &Outcome) -> u8 {
    match (outcome.status, &outcome.problem) {
        (Some(0), Some(_)) => 1,
        (Some(status), _) => status,
        (None, _) if outcome.timed_out => TIMED_OUT,
        (None, _) => DIED,
    }
}

/// Copies what the machine left to where the user wants it.
fn keep(outcome: &Outcome, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    copy_tree(&outcome.out(), out)?;
    for (from, name) in [("console.log", "console.log"), ("result/dmesg", "dmesg")] {
        let from = outcome.folder.join(from);
        if from.is_file() {
            fs::copy(from, out.join(name))?;
        }
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
