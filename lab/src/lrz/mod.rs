// SPDX-License-Identifier: GPL-2.0-only
//! How well lrz does beside lrzip, zstd, xz and its own back ends: `workhorses/lrz/RESULTS.md` has the results.
//!
//! `corpora` makes the files, `compare` measures and writes the table.

mod compare;
mod corpora;
mod kinds;
mod overlap;
mod stages;
mod table;

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `lrz`.
#[derive(clap::Subcommand, Debug)]
pub enum Task {
    /// Make the files that are packed: two kernel trees, a log, noise, and an image of disks (2 GB of downloads)
    Corpora {
        /// Where they go
        #[arg(long, default_value = "target/lrz-corpora", value_name = "DIR")]
        folder: PathBuf,
        /// Only these
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The two versions of Debian's linux-source-6.12, the older one first
        #[arg(
            long,
            default_value = "6.12.107-1~deb12u1,6.12.117-1~deb12u1",
            value_delimiter = ',',
            value_name = "A,B"
        )]
        kernels: Vec<String>,
    },
    /// Pack and unpack the files with lrz and its rivals, and write the table; goes on where it was stopped
    Compare(compare::Arguments),
    /// Pack small files of many kinds, beside the back ends alone and lrzip, and write the table of sizes
    Kinds(kinds::Arguments),
    /// Record lrz with overlapping stages and without, simulate both, and write the table
    Overlap(overlap::Arguments),
}

/// Does it.
pub fn execute(task: &Task) -> Result<()> {
    match task {
        Task::Corpora { folder, names, kernels } => corpora::make(folder, names, kernels),
        Task::Compare(arguments) => compare::execute(arguments),
        Task::Kinds(arguments) => kinds::execute(arguments),
        Task::Overlap(arguments) => overlap::execute(arguments),
    }
}

/// Runs a line of shell and gives what it prints.
fn shell(line: &str) -> Result<String> {
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", line]).output().context("running bash")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {}", error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// SHA-256 of a file, in hexadecimal digits.
fn sha256(file: &Path) -> Result<String> {
    let line = shell(&format!("sha256sum < '{}'", file.display()))?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}
