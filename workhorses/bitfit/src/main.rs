// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `bitfit` command: benchmarks the searches of 2-bit block maps and inspects GFS2 images.

mod cli;

use std::io::ErrorKind;

use clap::{Parser, Subcommand};
use cli::{ExitCode, Failure};

/// Search 2-bit block maps, measure the searches, and inspect GFS2 images.
///
/// Exit status: 0 success, 1 inconsistent image, 2 bad usage or input.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Repeat the experiment of Red Hat bug 446085 with all searches and many map sizes, relative to plain reads.
    Bench(cli::bench::Options),
    /// Print the lines of the test program of Red Hat bug 446085: times of six searches by its author's trandfactor.
    Bmapspeed(cli::bmapspeed::Options),
    /// Show the layout of free blocks in a GFS2 image, and counters or checksums that do not match the maps.
    Gfs2(cli::gfs2::Options),
    /// Allocate and free blocks like a file system, and show the share of the searches in the total time.
    Replay(cli::replay::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(options) => cli::bench::run(&options).map(|()| true),
        Command::Bmapspeed(options) => cli::bmapspeed::run(&options).map(|()| true),
        Command::Gfs2(options) => cli::gfs2::run(&options),
        Command::Replay(options) => cli::replay::run(&options).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // The reader closed the pipe: not an error.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => fail(&format!("cannot print: {error}")),
        Err(Failure::Input(what)) => fail(&what),
    }
}

fn fail(what: &str) -> ExitCode {
    eprintln!("bitfit: {what}");
    ExitCode::from(2)
}
