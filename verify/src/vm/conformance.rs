// SPDX-License-Identifier: GPL-2.0-only
//! Runs the scenarios of `verify/conformance/` in the virtual machine, all in one boot, and compares with the model.

use super::build;
use super::files::Transfer;
use super::kernel::KernelArgument;
use super::machine::{self, Job};
use super::topology::Topology;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Number of CPUs for every scenario.
const CPUS: usize = 4;
/// A quiet host needs a quarter of it for three runs of all scenarios.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Contains `quieten`.
const LIBRARY: &str = include_str!("../../guest/lib.sh");
/// Directory of the share workloads, with the script that runs them.
const SHARES: &str = "verify/conformance/shares";

/// Arguments of `vm conformance`.
#[derive(clap::Args)]
pub struct ConformanceArguments {
    /// Scenarios to run; default: all
    scenarios: Vec<String>,
    /// Compare CPU shares and latencies instead: deterministic machine, 1 CPU
    #[arg(long, conflicts_with = "scenarios")]
    shares: bool,
    /// Run only the quick scenarios
    #[arg(long, conflicts_with_all = ["scenarios", "shares"])]
    smoke: bool,
    /// Number of runs of each scenario
    #[arg(long, default_value_t = 3)]
    plays: u32,
    /// Use the deterministic machine, whose CPUs are never stopped: for a busy host
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    kernel: KernelArgument,
    /// Keep the kernel's recordings in this directory, for comparisons without a kernel
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs, compares and prints the table. Returns 1 if something differs or the machine failed.
pub fn conformance(arguments: &ConformanceArguments) -> Result<u8> {
    machine::provide(&arguments.kernel.kernel)?;
    let compare = build::program("conformance")?;
    let (script, files) = if arguments.shares { shares()? } else { scenarios(arguments, &compare) };
    let outcome = machine::run(&Job {
        script,
        texts: Vec::new(),
        files,
        topology: Topology::flat(if arguments.shares { 1 } else { CPUS }),
        memory_mb: None,
        kernel: arguments.kernel.kernel.clone(),
        timeout: TIMEOUT,
        deterministic: arguments.shares || arguments.deterministic,
        seed: 1,
        append: String::new(),
        show: true,
    })?;
    let (records, keep) = (outcome.out(), arguments.keep.as_deref());
    let run = |words: &mut Command| words.status().with_context(|| format!("{}", compare.host.display()));
    let mut command = Command::new(&compare.host);
    let status = if arguments.shares {
        let file = keep.map(|directory| directory.join("shares"));
        run(command
            .args(["shares"])
            .arg(&records)
            .args(file.iter().flat_map(|file| ["--keep".as_ref(), file.as_os_str()])))?
    } else {
        if let Some(directory) = keep {
            run(Command::new(&compare.host).arg("keep").arg(&records).arg(directory))?;
        }
        run(command.arg("compare").arg(&records).args(&arguments.scenarios))?
    };
    println!("kernel {} ({:.0} s, {:.0} s CPU)", outcome.kernel, outcome.wall.as_secs_f64(), outcome.cpu.as_secs_f64());
    let fine = outcome.success() && status.success();
    match (outcome.success(), status.success()) {
        (true, true) => fs::remove_dir_all(&outcome.directory)?,
        (true, false) => println!("the kernel's recordings are in {}", records.display()),
        (false, _) => outcome.explain(),
    }
    Ok(u8::from(!fine))
}

/// Returns script and files that run scenarios.
fn scenarios(arguments: &ConformanceArguments, program: &Transfer) -> (String, Vec<Transfer>) {
    let ConformanceArguments { plays, smoke, .. } = arguments;
    let smoke = if *smoke { " --smoke" } else { "" };
    let play = format!("conformance kernel -o /out --plays {plays}{smoke} {}\n", arguments.scenarios.join(" "));
    (format!("{LIBRARY}\nquieten\n{play}"), vec![program.clone()])
}

/// Returns script and files that run the workloads for shares and latencies.
fn shares() -> Result<(String, Vec<Transfer>)> {
    let directory = crate::root().join(SHARES);
    let script = fs::read_to_string(directory.join("play.sh")).with_context(|| format!("{SHARES}/play.sh"))?;
    let mut files = vec![build::program("weir")?];
    for entry in fs::read_dir(&directory).context(SHARES)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            files.push(Transfer { host: entry.path(), guest: format!("/in/{name}") });
        }
    }
    Ok((script, files))
}
