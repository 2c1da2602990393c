// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `ixfs`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
