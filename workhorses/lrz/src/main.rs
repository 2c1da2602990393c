// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `lrz`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
