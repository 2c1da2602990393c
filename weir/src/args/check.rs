// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `weir check`.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Output formats of `weir check`; JUnit's XML is read by CI systems.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum CheckFormat {
    Text,
    Json,
    Junit,
}

/// `weir check`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
SCHED is written as for weir sim; its launch profile lists its promises
(docs/reference/launch-profile.md). Each seed generates a machine, a workload,
and in some cases CPUs that go offline, for good or for a while, or interleaved
operations of the kernel. Warnings need no promise. The first run that violates
a property is made smaller, and the report shows the command line of the smallest
one, and what happened in it.

Examples:
  weir check bfs
  weir check ./my.bpf.c --seeds 50
  weir check kernel --first 1001 --seeds 1000
  weir check ./my.bpf.c --minutes 10 --resume my.check   and again, to continue
  weir check ./my.bpf.c --format junit > check.xml       for CI
  weir check nix --ignore idle-beside-waiting            which it does on purpose
  weir check bfs --list | head -3     show the runs without running them
  weir check bfs --format json | jq '.properties[] | select(.broken > 0)'

Exit status: 0 fine, 1 a promise or invariant was violated, the workload
deadlocked, or the scheduler was ejected, 2 bad usage or input."
)]
pub struct Check {
    /// Scheduler to test
    #[arg(value_name = "SCHED")]
    pub scheduler: String,
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// Seed of the first run; an existing --resume FILE has its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub first: u64,
    /// Run seeds for this time instead of a fixed number
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "list"], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub minutes: Option<u64>,
    /// Number of runs at the same time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Add to the results in FILE, and go on after its last seed
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub resume: Option<PathBuf>,
    /// Do not report this property or warning
    #[arg(long, value_name = "NAME")]
    pub ignore: Vec<String>,
    /// Report failures as they were found, without making them smaller
    #[arg(long)]
    pub no_shrink: bool,
    /// Print the command lines without running them
    #[arg(long)]
    pub list: bool,
    /// Use this launch profile for a scheduler given as a path
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub format: CheckFormat,
}
