// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir claims`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `weir claims`.
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
A claim is what the author of a scheduler published: that one side beats the
other, and by how much. Its runs repeat both sides on samples of the machine's
uncertain constants, with the same seeds, and a sign test over the samples
gives the verdict:
  holds              sign and size are as published (half to double)
  holds in direction the sign is as published, the size is not
  does not hold      there is no such difference, or the opposite one
  depends            it holds for some values of a parameter or constant
  cannot be told     these runs cannot tell
  cannot be judged   no run can, with the reason
docs/reference/claims.md describes the files and the rules.

Examples:
  weir claims                          list the claims
  weir claims bfs-0.360-half-load      judge one
  weir claims bfs-0.360-half-load --first-seed 100
  weir claims --all                    judge all, some 20 minutes
  weir claims --all --format json | jq '.claims[] | [.id, .verdict]'
  weir claims --file mine.toml --all   judge claims of your own
  weir claims --file mine.toml --all --check

Exit status: 0 judged, whatever the verdicts; 2 bad usage or input."
)]
pub struct ClaimsArgs {
    /// Judge these claims
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub ids: Vec<String>,
    /// Judge all claims
    #[arg(long)]
    pub all: bool,
    /// Read claims from this file in place of the shipped ones; repeatable
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only check that all names in the claims can be resolved
    #[arg(long, conflicts_with = "page")]
    pub check: bool,
    /// Begin with this seed in place of 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub first_seed: u64,
    /// Do at most N runs at the same time [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ClaimsFormat::Text)]
    pub format: ClaimsFormat,
    /// Write the page of all verdicts to this file
    #[arg(long, value_name = "OUT.md", requires = "all")]
    pub page: Option<PathBuf>,
    /// Name this commit of the claims in the page and in JSON
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
}

/// Output formats of `weir claims`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum ClaimsFormat {
    Text,
    Json,
}
