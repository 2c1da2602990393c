// SPDX-License-Identifier: GPL-2.0-only
//! Developer automation.

mod costs;
mod cpu_time;
mod locks;
mod lrz;
mod mutants;
mod nix;
mod noise;
mod objects;
mod predict;
mod sabotage;
mod statistics;
mod tidy;
mod vm;
mod wall;

use clap::{Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer automation")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List what breaks the rules of the house that neither rustfmt nor clippy know
    Tidy,
    /// Record a command, predict other runs of it, and compare the predictions with real runs (root)
    Predict(predict::Arguments),
    /// Record many kinds of programs, predict four other runs of each, and compare with real runs (root)
    Predictions(predict::suite::Arguments),
    /// Run commands with and without a recording in turn, and tell what that costs them (root)
    RecordingCost(predict::cost::Arguments),
    /// Break rules, one at a time, in a copy of the repository, and tell who notices
    Sabotage(sabotage::Arguments),
    /// Make small mistakes in a policy's source, drawn by a seed, and tell which of them its tests notice
    Mutants(mutants::Arguments),
    /// Tell whether `weir explain` names the callbacks in which small mistakes were made that stall or slow a run
    ExplainedMutants(mutants::explain::Arguments),
    /// Tell which promises of policies break by small mistakes in their sources, drawn by a seed
    PromiseMutants(mutants::promises::Arguments),
    /// Compare lrz with lrzip, zstd and xz on files of hundreds of megabytes
    #[command(subcommand)]
    Lrz(lrz::Task),
    /// Measure how far real runs are spread, and compare that with what the model draws
    #[command(subcommand)]
    Noise(noise::Task),
    /// Run the schedulers of a folder on many machines with many workloads, and tell in a table how they do
    Objects(objects::Arguments),
    /// Measure how good the marks of comparisons are
    Statistics(statistics::Arguments),
    /// Show what the three schedulers of NIX do on its machine, as docs/nix.md
    Nix(nix::Arguments),
    /// Show how many tasks a second pass through one queue on 1 to 512 CPUs
    Wall(wall::Arguments),
    /// Show what a decision costs under each scheduler: instructions, time, locks
    Costs(costs::Arguments),
    /// Two threads at a lock, on this host and in the model of it (root)
    Locks(locks::Arguments),
    /// Boot a kernel with sched_ext under QEMU and run things in it
    #[command(subcommand)]
    Vm(vm::Command),
}

fn main() -> ExitCode {
    match Arguments::parse().task {
        Task::Tidy => {
            let complaints = tidy::complaints(root());
            for complaint in &complaints {
                println!("{complaint}");
            }
            ExitCode::from(u8::from(!complaints.is_empty()))
        }
        Task::Predict(arguments) => end("predict", predict::execute(&arguments).map(|()| true)),
        Task::Predictions(arguments) => end("predictions", predict::suite::execute(&arguments).map(|()| true)),
        Task::RecordingCost(arguments) => end("recording-cost", predict::cost::execute(&arguments).map(|()| true)),
        Task::Sabotage(arguments) => end("sabotage", sabotage::execute(&arguments)),
        Task::Mutants(arguments) => end("mutants", mutants::execute(&arguments)),
        Task::ExplainedMutants(arguments) => end("explained-mutants", mutants::explain::execute(&arguments)),
        Task::PromiseMutants(arguments) => end("promise-mutants", mutants::promises::execute(&arguments)),
        Task::Lrz(task) => end("lrz", lrz::execute(&task).map(|()| true)),
        Task::Noise(task) => end("noise", noise::execute(&task).map(|()| true)),
        Task::Objects(arguments) => end("objects", objects::execute(&arguments)),
        Task::Statistics(arguments) => end("statistics", statistics::execute(&arguments).map(|()| true)),
        Task::Costs(arguments) => end("costs", costs::execute(&arguments).map(|()| true)),
        Task::Locks(arguments) => end("locks", locks::execute(&arguments).map(|()| true)),
        Task::Nix(arguments) => end("nix", nix::execute(&arguments).map(|()| true)),
        Task::Wall(arguments) => end("wall", wall::execute(&arguments).map(|()| true)),
        Task::Vm(command) => vm::execute(command),
    }
}

/// What a task says at its end: whether all was fine, or why it could not be done.
fn end(task: &str, result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(fine) => ExitCode::from(u8::from(!fine)),
        Err(error) => {
            eprintln!("{task}: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}
