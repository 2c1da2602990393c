// SPDX-License-Identifier: GPL-2.0-only
//! Boots a kernel with sched_ext under QEMU and runs scripts and tests in it; docs/how-to/virtual-machine.md describes
//! its use.

mod apt;
mod btf;
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

/// Exit status if this host cannot run a virtual machine; test harnesses count it as skipped.
const CANNOT_RUN: u8 = 77;
/// Exit status after a timeout, as of timeout(1).
const TIMED_OUT: u8 = 124;
/// Exit status if the machine ended before its script.
const DIED: u8 = 125;

/// Commands for virtual machines.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a shell script; its exit status becomes this command's
    Run(RunArguments),
    /// Test Weir in the kernel, in a minute or two; part of `make test`
    Smoke(smoke::SmokeArguments),
    /// Test each policy in the kernel at length; part of `make test-vm`
    Full(full::FullArguments),
    /// Run scenarios in the kernel and compare the kernel model with it; part of `make test-vm`
    Conformance(conformance::ConformanceArguments),
    /// Write the excerpt of a kernel's BTF that the kernel model uses
    Btf(btf::BtfArguments),
    /// Check real runs against promises and expected shares; part of `make test-vm`
    Promises(promises::PromisesArguments),
}

/// Arguments of `vm run`.
#[derive(Args)]
pub struct RunArguments {
    /// Script for busybox sh; runs as root in /in, and files it leaves in /out are copied back
    script: PathBuf,
    /// Copy this file or directory into the guest, by default to /in/NAME; programs bring their libraries
    #[arg(long = "file", value_name = "HOST[:GUEST]", value_parser = Transfer::parse)]
    files: Vec<Transfer>,
    /// CPU topology of this machine: a preset or a machine file
    #[arg(long, value_name = "NAME.toml", conflicts_with = "smp")]
    machine: Option<String>,
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    smp: u8,
    /// Memory in MB; default: 512 plus three times the size of the files
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(256..=65_536))]
    memory: Option<u64>,
    #[command(flatten)]
    kernel: KernelArgument,
    /// Kill the machine after this number of seconds
    #[arg(long, value_name = "SECS", default_value_t = 120)]
    timeout: u64,
    /// Make every run identical: one instruction takes one nanosecond, nothing is random
    #[arg(long)]
    deterministic: bool,
    /// Seed of the guest's random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the script's /out, console.log and dmesg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Further words for the kernel command line
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
}

/// Runs a command and prints errors on standard error.
pub fn execute(command: Command) -> ExitCode {
    let result = match command {
        Command::Run(arguments) => run(arguments),
        Command::Smoke(arguments) => smoke::smoke(&arguments),
        Command::Full(arguments) => full::full(&arguments),
        Command::Conformance(arguments) => conformance::conformance(&arguments),
        Command::Btf(arguments) => btf::btf(&arguments),
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
        eprintln!("vm: differs from the machine file: {note}");
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
        "vm: kernel {}, script started at {} s of guest time; {:.1} s, {:.1} s CPU",
        if outcome.kernel.is_empty() { "unknown" } else { &outcome.kernel },
        if outcome.booted_s.is_empty() { "?" } else { &outcome.booted_s },
        outcome.wall.as_secs_f64(),
        outcome.cpu.as_secs_f64()
    );
    if outcome.success() {
        fs::remove_dir_all(&outcome.directory)?;
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

/// Copies the results to the user's directory.
fn keep(outcome: &Outcome, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{}", out.display()))?;
    copy_tree(&outcome.out(), out)?;
    for (from, name) in [("console.log", "console.log"), ("result/dmesg", "dmesg")] {
        let from = outcome.directory.join(from);
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
