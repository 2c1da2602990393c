// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of the program.

pub mod bench;
pub mod gfs2;
mod maps;
mod memory;
mod plot;
pub mod replay;
mod stopwatch;

use std::io;
pub use std::process::ExitCode;

use clap::ValueEnum;

/// How a command prints its result.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Why a command ends early.
pub enum Failure {
    /// What it was given cannot be used: where, and what was expected.
    Input(String),
    /// It cannot print.
    Output(io::Error),
}
