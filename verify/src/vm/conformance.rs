// SPDX-License-Identifier: GPL-2.0-only
//! Plays the scenarios of `verify/conformance/` in the virtual machine, one boot for all, and compares with the model.

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

/// CPUs of every scenario.
const CPUS: usize = 4;
/// All scenarios, three times each, take a quarter of it on a quiet host.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// Has `quieten`.
const LIBRARY: &str = include_str!("../../guest/lib.sh");
/// Its script says which these are.
const SHARES: &str = "verify/conformance/shares";

/// Arguments of `vm conformance`.
#[derive(clap::Args)]
pub struct ConformanceArguments {
    /// Only these scenarios; all by default
    scenarios: Vec<String>,
    /// Compare shares of a CPU and latencies instead: the deterministic machine, 1 CPU
    #[arg(long, conflicts_with = "scenarios")]
    shares: bool,
    /// Only the quick scenarios
    #[arg(long, conflicts_with_all = ["scenarios", "shares"])]
    smoke: bool,
    /// How often each scenario is played
    #[arg(long, default_value_t = 3)]
    plays: u32,
    /// In the deterministic machine, whose CPUs never stand still: for a busy host, which disturbs plays
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    kernel: KernelArgument,
    /// Keep what the kernel did in this folder, for comparisons without a kernel
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Plays, compares, prints the table. 1 if something differs, or something went wrong in the machine.
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
        let file = keep.map(|folder| folder.join("shares"));
        run(command
            .args(["shares"])
            .arg(&records)
            .args(file.iter().flat_map(|file| ["--keep".as_ref(), file.as_os_str()])))?
    } else {
        if let Some(folder) = keep {
            run(Command::new(&compare.host).arg("keep").arg(&records).arg(folder))?;
        }
        run(command.arg("compare").arg(&records).args(&arguments.scenarios))?
    };
    println!("kernel {} ({:.0} s, {:.0} s CPU)", outcome.kernel, outcome.wall.as_secs_f64(), outcome.cpu.as_secs_f64());
    let fine = outcome.success() && status.success();
    match (outcome.success(), status.success()) {
        (true, true) => fs::remove_dir_all(&outcome.folder)?,
        (true, false) => println!("what the kernel did is in {}", records.display()),
        (false, _) => outcome.explain(),
    }
    Ok(u8::from(!fine))
}

/// Script and files that play scenarios.
fn scenarios(arguments: &ConformanceArguments, player: &Transfer) -> (String, Vec<Transfer>) {
    let ConformanceArguments { plays, smoke, .. } = arguments;
    let smoke = if *smoke { " --smoke" } else { "" };
    let play = format!("conformance kernel -o /out --plays {plays}{smoke} {}\n", arguments.scenarios.join(" "));
    (format!("{LIBRARY}\nquieten\n{play}"), vec![player.clone()])
}

/// Script and files that play the workloads for shares and latencies.
fn shares() -> Result<(String, Vec<Transfer>)> {
    let folder = crate::root().join(SHARES);
    let script = fs::read_to_string(folder.join("play.sh")).with_context(|| format!("{SHARES}/play.sh"))?;
    let mut files = vec![build::program("weir")?];
    for entry in fs::read_dir(&folder).context(SHARES)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json") {
            files.push(Transfer { host: entry.path(), guest: format!("/in/{name}") });
        }
    }
    Ok((script, files))
}
