// SPDX-License-Identifier: GPL-2.0-only
//! Developer commands: `tidy`, and those of the crates `verify` (is the project right?) and `lab` (what do machine and
//! model cost?).

mod architecture;
mod licences;
mod skipped;
mod tidy;
mod words;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List violations of the repository's rules that rustfmt and clippy do not check
    Tidy,
    /// Count the skipped tests of a list, by reason; with CI=true, fail for reasons that CI should not have
    Skipped {
        /// File that the tests wrote (WEIR_SKIPPED_TESTS)
        list: PathBuf,
    },
    /// Boot a kernel with sched_ext under QEMU and run commands in it
    #[command(subcommand)]
    Vm(verify::vm::Command),
    /// Mutation testing of the model, the invariants and the policies
    #[command(subcommand)]
    Mutants(verify::mutation::Command),
    /// Attack the programs with mutated inputs, and their output files
    Attack(verify::attack::Arguments),
    /// Record a command, predict other runs of it, and compare with real runs (root)
    Predict(lab::predict::Arguments),
    /// Record many kinds of programs, predict four runs of each, compare with real runs (root)
    Predictions(lab::predict::suite::Arguments),
    /// Measure what recording costs a command (root)
    RecordingCost(lab::predict::cost::Arguments),
    /// Compare lrz with lrzip, zstd and xz on files of hundreds of megabytes
    #[command(subcommand)]
    Lrz(lab::lrz::Task),
    /// Measure the spread of real runs, and compare it with the model's
    #[command(subcommand)]
    Noise(lab::noise::Task),
    /// Run a directory of schedulers on many machines and workloads, and print a table
    Objects(lab::objects::Arguments),
    /// Measure the error rates of the marks in comparisons
    Statistics(lab::statistics::Arguments),
    /// Compare the NIX schedulers on their machine with the published figures
    Nix(lab::nix::Arguments),
    /// Measure the throughput of one shared queue on 1 to 512 CPUs
    Wall(lab::wall::Arguments),
    /// Compare the memory model with published measurements
    Memory(lab::memory::Arguments),
    /// Compare the memory model with this host: switches, moves, streams, a compiler (root)
    MemoryHost(lab::memory_host::Arguments),
    /// Measure what the effects of memory cost the simulator (valgrind)
    MemoryCost(lab::memory_cost::Arguments),
    /// Compare the model of disks and interrupts with this host (root)
    DiskHost(lab::disk_host::Arguments),
    /// Measure what campaigns cost: runs an hour, the sweep's overhead, tables of many results
    CampaignCost(lab::campaign_cost::Arguments),
    /// Measure the cost of a scheduling decision: instructions, time, locks
    Costs(lab::costs::Arguments),
    /// Compare two threads at a lock on this host with the model (root)
    Locks(lab::locks::Arguments),
    /// Measure what weir meter costs a command (root)
    MeterCost(lab::meter_cost::Arguments),
    /// Compare weir meter with perf and the kernel's counters (root, perf)
    MeterCheck(lab::meter_check::Arguments),
}

fn main() -> ExitCode {
    let (name, result) = match Arguments::parse().task {
        Task::Tidy => {
            let complaints = tidy::complaints(root());
            complaints.iter().for_each(|complaint| println!("{complaint}"));
            ("tidy", Ok(complaints.is_empty()))
        }
        Task::Skipped { list } => {
            let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            ("skipped", skipped::report(&list, is_ci).map(|()| true))
        }
        Task::Vm(command) => return verify::vm::execute(command),
        Task::Mutants(command) => ("mutants", verify::mutation::execute(&command)),
        Task::Attack(arguments) => ("attack", verify::attack::execute(&arguments)),
        Task::Predict(arguments) => ("predict", lab::predict::execute(&arguments).map(|()| true)),
        Task::Predictions(arguments) => ("predictions", lab::predict::suite::execute(&arguments).map(|()| true)),
        Task::RecordingCost(arguments) => ("recording-cost", lab::predict::cost::execute(&arguments).map(|()| true)),
        Task::Lrz(task) => ("lrz", lab::lrz::execute(&task).map(|()| true)),
        Task::Noise(task) => ("noise", lab::noise::execute(&task).map(|()| true)),
        Task::Objects(arguments) => ("objects", lab::objects::execute(&arguments)),
        Task::Statistics(arguments) => ("statistics", lab::statistics::execute(&arguments).map(|()| true)),
        Task::CampaignCost(arguments) => ("campaign-cost", lab::campaign_cost::execute(&arguments).map(|()| true)),
        Task::Costs(arguments) => ("costs", lab::costs::execute(&arguments).map(|()| true)),
        Task::Locks(arguments) => ("locks", lab::locks::execute(&arguments).map(|()| true)),
        Task::Memory(arguments) => ("memory", lab::memory::execute(&arguments).map(|()| true)),
        Task::MemoryCost(arguments) => ("memory-cost", lab::memory_cost::execute(&arguments).map(|()| true)),
        Task::MemoryHost(arguments) => ("memory-host", lab::memory_host::execute(&arguments).map(|()| true)),
        Task::DiskHost(arguments) => ("disk-host", lab::disk_host::execute(&arguments).map(|()| true)),
        Task::MeterCost(arguments) => ("meter-cost", lab::meter_cost::execute(&arguments).map(|()| true)),
        Task::MeterCheck(arguments) => ("meter-check", lab::meter_check::execute(&arguments)),
        Task::Nix(arguments) => ("nix", lab::nix::execute(&arguments).map(|()| true)),
        Task::Wall(arguments) => ("wall", lab::wall::execute(&arguments).map(|()| true)),
    };
    match result {
        Ok(fine) => ExitCode::from(u8::from(!fine)),
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Root directory of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a directory of the repository")
}
