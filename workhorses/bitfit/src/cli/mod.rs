// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subcommands of `bitfit`.

pub mod bench;
pub mod bmapspeed;
pub mod gfs2;
mod memory;
mod plot;
pub mod replay;
mod stopwatch;

use std::io;
pub use std::process::ExitCode;

use clap::ValueEnum;

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text.
    Text,
    /// JSON.
    Json,
}

/// Error that ends a command.
pub enum Failure {
    /// Unusable input: the message says where and what was expected.
    Input(String),
    /// The output cannot be written.
    Output(io::Error),
}
