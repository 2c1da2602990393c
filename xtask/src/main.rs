// SPDX-License-Identifier: GPL-2.0-only
//! Developer automation.

mod lrz;
mod noise;
mod predict;
mod sabotage;
mod statistics;
mod tidy;
mod vm;

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
    /// Break rules, one at a time, in a copy of the repository, and tell who notices
    Sabotage(sabotage::Arguments),
    /// Compare lrz with lrzip, zstd and xz on files of hundreds of megabytes
    #[command(subcommand)]
    Lrz(lrz::Task),
    /// Measure how far real runs are spread, and compare that with what the model draws
    #[command(subcommand)]
    Noise(noise::Task),
    /// Measure how good the marks of comparisons are
    Statistics(statistics::Arguments),
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
        Task::Predict(arguments) => match predict::execute(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("predict: {error:#}");
                ExitCode::from(2)
            }
        },
        Task::Sabotage(arguments) => match sabotage::execute(&arguments) {
            Ok(fine) => ExitCode::from(u8::from(!fine)),
            Err(error) => {
                eprintln!("sabotage: {error:#}");
                ExitCode::from(2)
            }
        },
        Task::Lrz(task) => match lrz::execute(&task) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("lrz: {error:#}");
                ExitCode::from(2)
            }
        },
        Task::Noise(task) => match noise::execute(&task) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("noise: {error:#}");
                ExitCode::from(2)
            }
        },
        Task::Statistics(arguments) => match statistics::execute(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("statistics: {error:#}");
                ExitCode::from(2)
            }
        },
        Task::Vm(command) => vm::execute(command),
    }
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}
