// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir list` and `weir generate`, which show and write what ships with Weir.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// `weir generate`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir generate man /usr/local/share/man/man1
  weir generate completions .             weir (bash), _weir (zsh), weir.fish
  weir generate headers include           include/weir/scx.bpf.h and others
  weir generate objects lib/weir          bfs.bpf.o, bfs.toml and others

make install does all of this. Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Generate {
    /// Kind of files to write
    pub what: Generated,
    /// Output directory; created if missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Kinds of files that `weir generate` writes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Generated {
    Man,
    Completions,
    Headers,
    Objects,
}

/// Sections of `weir list`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Kind {
    Policies,
    Machines,
    /// Presets of disks and networks
    Devices,
    Workloads,
    Measures,
}

/// `weir list`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Examples:
  weir list
  weir list policies
  weir list measures                  meaning of each row of a report"
)]
pub struct List {
    /// List this section only
    pub kind: Option<Kind>,
}
