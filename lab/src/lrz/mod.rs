// SPDX-License-Identifier: GPL-2.0-only
//! Compares lrz with lrzip, zstd, xz and its own back ends: `workhorses/lrz/RESULTS.md` has the results.
//!
//! `corpora` creates the files, `compare` measures and writes the table.

mod compare;
mod corpora;
mod kinds;
mod overlap;
mod stages;
mod table;

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands of `lrz`.
#[derive(clap::Subcommand, Debug)]
pub enum Task {
    /// Create the files to pack: two kernel trees, a log, noise, a disk image (2 GB of downloads)
    Corpora {
        /// Directory for the corpora
        #[arg(long, default_value = "target/lrz-corpora", value_name = "DIR")]
        folder: PathBuf,
        /// Only these corpora
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Two versions of Debian's linux-source-6.12, the older one first
        #[arg(
            long,
            default_value = "6.12.107-1~deb12u1,6.12.117-1~deb12u1",
            value_delimiter = ',',
            value_name = "A,B"
        )]
        kernels: Vec<String>,
    },
    /// Pack and unpack the files with lrz and other programs, and write the table; continues an interrupted run
    Compare(compare::Arguments),
    /// Pack small files of many kinds, with the back ends alone and lrzip, and write the table of sizes
    Kinds(kinds::Arguments),
    /// Record lrz with and without overlapping stages, simulate both, and write the table
    Overlap(overlap::Arguments),
}

/// Runs a command.
pub fn execute(task: &Task) -> Result<()> {
    match task {
        Task::Corpora { folder, names, kernels } => corpora::make(folder, names, kernels),
        Task::Compare(arguments) => compare::execute(arguments),
        Task::Kinds(arguments) => kinds::execute(arguments),
        Task::Overlap(arguments) => overlap::execute(arguments),
    }
}

/// Runs a shell command and returns its output.
fn shell(line: &str) -> Result<String> {
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", line]).output().context("running bash")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the SHA-256 of a file in hexadecimal digits.
fn sha256(file: &Path) -> Result<String> {
    let line = shell(&format!("sha256sum < '{}'", file.display()))?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}
