// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `bitfit`: measures the searches of 2-bit block maps on this machine, and looks into GFS2 images.

mod cli;

use std::io::ErrorKind;

use clap::{Parser, Subcommand};
use cli::{ExitCode, Failure};

/// Searches maps of 2-bit block states, measures how fast, and looks into GFS2 images.
///
/// Exit status: 0 fine, 1 an image does not fit together, 2 bad usage or input.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Repeats the experiment of Red Hat bug 446085, for all searches and many sizes, against the read limit.
    Bench(cli::bench::Options),
    /// Shows how the free blocks of a GFS2 image lie, and each counter or checksum that does not fit the maps.
    Gfs2(cli::gfs2::Options),
    /// Takes and frees blocks as a file system does, and shows what the searches cost with everything around them.
    Replay(cli::replay::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(options) => cli::bench::run(&options).map(|()| true),
        Command::Gfs2(options) => cli::gfs2::run(&options),
        Command::Replay(options) => cli::replay::run(&options).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // Who closes the pipe has read enough.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => fail(&format!("cannot print: {error}")),
        Err(Failure::Input(what)) => fail(&what),
    }
}

fn fail(what: &str) -> ExitCode {
    eprintln!("bitfit: {what}");
    ExitCode::from(2)
}
