// SPDX-License-Identifier: GPL-2.0-only
//! Quick test in the virtual machine, part of `make test`: each interaction of Weir with a kernel once. A second boot
//! has SMT cores.

use super::files::Transfer;
use super::kernel::{Kernel, KernelArgument};
use super::missing::Missing;
use super::steps::{self, Step};
use super::topology::Topology;
use super::{build, machine};
use anyhow::Result;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const CPUS: usize = 4;
/// A quiet host takes a fifth to a third of it.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Arguments of `vm smoke`.
#[derive(clap::Args)]
pub struct SmokeArguments {
    #[command(flatten)]
    kernel: KernelArgument,
}

/// Returns the topologies and their steps.
fn boots() -> [(Topology, Vec<Step>); 2] {
    let laptop = Topology::named("laptop-2c4t").expect("the preset exists");
    let cpus = laptop.cpus().to_string();
    let threads =
        vec![Step::new("kernel", &cpus, 10), Step::new("siblings", "", 180), Step::new("nothing-left", "", 60)];
    [(Topology::flat(CPUS), list()), (laptop, threads)]
}

fn list() -> Vec<Step> {
    vec![
        Step::new("kernel", &CPUS.to_string(), 10),
        Step::new("measure", "", 60),
        Step::new("record", "", 180),
        Step::new("command", "fifo", 60),
        Step::new("command", "bfs", 60),
        Step::new("command", "vrq", 60),
        Step::new("command", "cfs", 60),
        Step::new("command", "muqss", 60),
        Step::new("call", "", 60),
        Step::new("ejection", "", 60),
        Step::new("explain", "fifo", 90),
        Step::new("late", "", 60),
        Step::new("restart", "fifo", 60),
        Step::new("conformance", "", 240),
        Step::new("suspend", "bfs", 90),
        Step::new("nothing-left", "", 60),
    ]
}

/// Runs the test. A host that cannot run it prints one line and passes; in CI as root, where everything can be
/// installed, only a missing network is accepted.
pub fn smoke(arguments: &SmokeArguments) -> Result<u8> {
    match machine::provide(&arguments.kernel.kernel) {
        Ok(()) => {}
        Err(error) => match error.downcast_ref::<Missing>() {
            Some(Missing::Thing(_)) if must_run() => {
                return Err(error.context("the virtual machine must run in CI"));
            }
            Some(Missing::Network(_)) if must_run() => {
                eprintln!("vm: WARNING: THE KERNEL WAS NOT TESTED: {error:#}");
                return Ok(0);
            }
            Some(_) => {
                eprintln!("vm: skipped, the kernel was not tested: {error:#}");
                return Ok(0);
            }
            None => return Err(error),
        },
    }
    let mut files = build::programs()?;
    files.push(build::program("conformance")?);
    let mut fine = true;
    for (topology, steps) in boots() {
        fine &= boot(topology, &steps, files.clone(), &arguments.kernel.kernel)?;
    }
    Ok(u8::from(!fine))
}

/// Returns whether all steps passed.
fn boot(topology: Topology, steps: &[Step], files: Vec<Transfer>, kernel: &Kernel) -> Result<bool> {
    let outcome = machine::run(&steps::job(steps, files, topology, kernel, TIMEOUT))?;
    let results = steps::results(steps, &outcome)?;
    let passed = results.iter().filter(|result| result.status == Some(0)).count();
    let fine = outcome.success() && passed == steps.len();
    println!(
        "vm: {passed} of {} steps passed in kernel {} ({:.0} s, {:.0} s CPU)",
        steps.len(),
        outcome.kernel,
        outcome.wall.as_secs_f64(),
        outcome.cpu.as_secs_f64()
    );
    if fine {
        fs::remove_dir_all(&outcome.directory)?;
    } else {
        outcome.explain();
    }
    Ok(fine)
}

/// CI runs as root in its own machine, where `tools/deps.sh` installs what is missing.
fn must_run() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    root && env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}
