// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: lrzip's letters where lrzip has them.

use clap::{ArgAction, Parser, ValueEnum};
use std::path::PathBuf;

/// Long-range compression with overlapping stages, in the format of lrzip.
#[derive(Debug, Parser)]
#[command(
    name = "lrz",
    version,
    args_override_self = true,
    max_term_width = 80,
    after_help = "Examples:
  lrz big.tar                     makes big.tar.lrz
  lrz -d big.tar.lrz              makes big.tar again
  lrz -L9 -D --recovery 5% a.img  packs, verifies, removes the input, adds parity
  tar c folder | lrz > folder.tar.lrz
  lrz -i big.tar.lrz              tells what is in it
  lrz --repair big.tar.lrz        repairs it with big.tar.lrz.par

Exit status: 0 all is well, 1 an archive is damaged or a file could not be read
or written, 2 bad usage."
)]
pub struct Arguments {
    /// Files; none or `-` for standard input and output
    pub files: Vec<PathBuf>,
    /// Unpack
    #[arg(short, long, conflicts_with_all = ["test", "info"])]
    pub decompress: bool,
    /// Test archives: unpack to nowhere
    #[arg(short, long, conflicts_with = "info")]
    pub test: bool,
    /// Tell what is in archives, without unpacking
    #[arg(short, long)]
    pub info: bool,
    /// Take all files of folders, and of those in them
    #[arg(short, long, conflicts_with = "outfile")]
    pub recursive: bool,
    /// Repair archives with the parity beside them
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
    /// No back end: only repeats are removed
    #[arg(short, long, group = "backend")]
    pub no_compress: bool,
    /// ZPAQ is read, not written
    #[arg(short, long, group = "backend")]
    pub zpaq: bool,
    /// Level of the back end
    #[arg(short = 'L', long, default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=9), value_name = "1-9")]
    pub level: u8,

    /// Chunks of so many hundred megabytes
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub window: Option<u64>,
    /// One chunk for the whole file, also where it is larger than memory
    #[arg(short = 'U', long)]
    pub unlimited: bool,
    /// Use at most so many hundred megabytes of memory
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub maxram: Option<u64>,
    /// Threads
    #[arg(short = 'p', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Do not try whether a block can be compressed
    #[arg(short = 'T', long)]
    pub threshold: bool,
    /// Be as nice as this to other programs, -20 to 19
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-20..=19))]
    pub nice_level: Option<i32>,
    /// Search a chunk only when the one before is packed: to compare
    #[arg(long)]
    pub no_overlap: bool,
    /// Do not search for repeats: to compare
    #[arg(long)]
    pub no_search: bool,

    /// Name of the output
    #[arg(short, long, value_name = "FILE", conflicts_with = "outdir")]
    pub outfile: Option<PathBuf>,
    /// Folder of the output
    #[arg(short = 'O', long, value_name = "DIR")]
    pub outdir: Option<PathBuf>,
    /// What is appended to the name of an archive
    #[arg(short = 'S', long, default_value = ".lrz", value_name = "TEXT")]
    pub suffix: String,
    /// Replace files that are there; unpack to a terminal
    #[arg(short, long)]
    pub force: bool,
    /// Keep the input (default)
    #[arg(short, long, overrides_with = "delete")]
    pub keep: bool,
    /// Remove the input when the output was read back and is right; an archive's parity goes with it
    #[arg(short = 'D', long)]
    pub delete: bool,
    /// Read the archive back before it gets its name (default)
    #[arg(long, overrides_with = "no_verify")]
    pub verify: bool,
    /// Do not read it back: faster, above all with -l, -g and -b
    #[arg(long, overrides_with = "verify")]
    pub no_verify: bool,
    /// Keep what came out of a damaged archive
    #[arg(short = 'K', long)]
    pub keep_broken: bool,
    /// Encrypt, or the password for an archive that is; asked for when it is not given
    #[arg(short, long, value_name = "PASSWORD", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub encrypt: Option<String>,
    /// Write so much parity beside the archive, as FILE.lrz.par
    #[arg(long, value_name = "N%", value_parser = percent)]
    pub recovery: Option<f64>,
    /// Write what the stages did, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Check the output: always done
    #[arg(short, long, short_alias = 'C')]
    pub check: bool,
    /// Tell the MD5
    #[arg(short = 'H', long)]
    pub hash: bool,
    /// Tell how far it is (default on a terminal)
    #[arg(short = 'P', long)]
    pub progress: bool,
    /// Tell no progress; twice: tell nothing
    #[arg(short, long, action = ArgAction::Count)]
    pub quiet: u8,
    /// Tell nothing
    #[arg(short = 'Q', long)]
    pub very_quiet: bool,
    /// Tell what is done about memory
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// How `-i` tells it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write under a temporary name, as where a file system has no files without names: for tests
    #[arg(long, hide = true)]
    pub named_temporary: bool,
    /// Print the manual page, for man
    #[arg(long)]
    pub man: bool,
    /// Print completions for a shell
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
}

/// For people or for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For scripts
    Json,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(value) if (0.1..=100.0).contains(&value) => Ok(value),
        _ => Err("expected a share from 0.1% to 100%".to_owned()),
    }
}
