// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command-line options, named as in lrzip where possible.

use clap::{ArgAction, Parser, ValueEnum};
use lrz::crypto::KEY_ROUNDS;
use std::path::PathBuf;

/// Long-range compression with overlapping stages, in the format of lrzip.
#[derive(Debug, Parser)]
#[command(
    name = "lrz",
    version,
    args_override_self = true,
    max_term_width = 80,
    after_help = "Examples:
  lrz big.tar                     pack into big.tar.lrz
  lrz -d big.tar.lrz              unpack into big.tar
  lrz -L9 -D --recovery 5% a.img  pack, verify, remove the input, add parity
  tar c dir | lrz > dir.tar.lrz   pack a directory
  lrz -i big.tar.lrz              list its contents
  lrz --repair big.tar.lrz        repair it with big.tar.lrz.par

Exit status: 0 success, 1 damaged archive or I/O error, 2 bad usage."
)]
pub struct Arguments {
    /// Files; none or `-` for standard input and output
    pub files: Vec<PathBuf>,
    /// Unpack
    #[arg(short, long, conflicts_with_all = ["test", "info"])]
    pub decompress: bool,
    /// Test archives: unpack and verify without output
    #[arg(short, long, conflicts_with = "info")]
    pub test: bool,
    /// List the contents of archives without unpacking
    #[arg(short, long)]
    pub info: bool,
    /// Process directories recursively
    #[arg(short, long, conflicts_with = "outfile")]
    pub recursive: bool,
    /// Repair archives with their parity files
    #[arg(long, conflicts_with_all = ["test", "info", "decompress"])]
    pub repair: bool,

    /// Back end LZMA (default)
    #[arg(long, group = "backend")]
    pub lzma: bool,
    /// Back end LZO: fastest
    #[arg(short, long, group = "backend")]
    pub lzo: bool,
    /// Back end gzip
    #[arg(short, long, group = "backend")]
    pub gzip: bool,
    /// Back end bzip2
    #[arg(short, long, group = "backend")]
    pub bzip2: bool,
    /// No back end: only remove repeats
    #[arg(short, long, group = "backend")]
    pub no_compress: bool,
    /// ZPAQ: supported for unpacking only
    #[arg(short, long, group = "backend")]
    pub zpaq: bool,
    /// Compression level of the back end
    #[arg(short = 'L', long, default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=9), value_name = "1-9")]
    pub level: u8,

    /// Chunk length in units of 100 MB
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub window: Option<u64>,
    /// Use one chunk for the whole file, even if larger than memory
    #[arg(short = 'U', long)]
    pub unlimited: bool,
    /// Memory limit in units of 100 MB
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub maxram: Option<u64>,
    /// Number of threads
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Compress every block without checking its compressibility
    #[arg(short = 'T', long)]
    pub threshold: bool,
    /// Scheduling priority, -20 to 19
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice_level: Option<i32>,
    /// Do not search a chunk while packing the previous one (for comparison)
    #[arg(long)]
    pub no_overlap: bool,
    /// Pack twice, without and with overlap, discard both, and print the times
    #[arg(long, conflicts_with_all = ["decompress", "test", "info", "repair", "delete", "outfile", "no_overlap", "encrypt", "trace"])]
    pub compare_overlap: bool,
    /// Do not search for repeats (for comparison)
    #[arg(long)]
    pub no_search: bool,

    /// Name of the output
    #[arg(short, long, value_name = "FILE", conflicts_with = "outdir")]
    pub outfile: Option<PathBuf>,
    /// Directory of the output
    #[arg(short = 'O', long, value_name = "DIR")]
    pub outdir: Option<PathBuf>,
    /// Suffix of archive names
    #[arg(short = 'S', long, default_value = ".lrz", value_name = "TEXT")]
    pub suffix: String,
    /// Replace existing files; write archives to a terminal
    #[arg(short, long)]
    pub force: bool,
    /// Keep the input (default)
    #[arg(short, long, overrides_with = "delete")]
    pub keep: bool,
    /// Remove the input (and an archive's parity) after the output is verified
    #[arg(short = 'D', long)]
    pub delete: bool,
    /// Verify the archive against the input before naming it (default)
    #[arg(long, overrides_with = "no_verify")]
    pub verify: bool,
    /// Skip verification: faster, above all with -l, -g and -b
    #[arg(long, overrides_with = "verify")]
    pub no_verify: bool,
    /// Keep the partial output of a damaged archive
    #[arg(short = 'K', long)]
    pub keep_broken: bool,
    /// Encrypt, or decrypt, with a password; prompts if none is given
    #[arg(short, long, value_name = "PASSWORD", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub encrypt: Option<String>,
    /// Refuse archives whose key takes more rounds of hashing
    #[arg(long, value_name = "N", default_value_t = KEY_ROUNDS)]
    pub key_rounds: u64,
    /// Write this share of parity to FILE.lrz.par
    #[arg(long, value_name = "N%", value_parser = percent)]
    pub recovery: Option<f64>,
    /// Write a trace of the stages for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Check the output (always done)
    #[arg(short, long, short_alias = 'C')]
    pub check: bool,
    /// Print the MD5
    #[arg(short = 'H', long)]
    pub hash: bool,
    /// Show progress (default on a terminal)
    #[arg(short = 'P', long)]
    pub progress: bool,
    /// Show no progress; twice: print no messages
    #[arg(short, long, action = ArgAction::Count)]
    pub quiet: u8,
    /// Print no messages
    #[arg(short = 'Q', long)]
    pub very_quiet: bool,
    /// Print memory decisions
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// Output format of -i
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Use a temporary name as on file systems without unnamed files, for tests
    #[arg(long, hide = true)]
    pub named_temporary: bool,
    /// Print the manual page
    #[arg(long)]
    pub man: bool,
    /// Print shell completions
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
}

/// Output format of `-i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(value) if (0.1..=100.0).contains(&value) => Ok(value),
        _ => Err("expected a share from 0.1% to 100%".to_owned()),
    }
}
