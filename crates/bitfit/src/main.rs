// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `bitfit`: measures the searches of 2-bit block maps on this machine.

mod cli;

use clap::{Parser, Subcommand};

/// Searches maps of 2-bit block states, and measures how fast.
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
}

fn main() {
    match Arguments::parse().command {
        Command::Bench(options) => cli::bench::run(&options),
    }
}
