// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir sweep`.

use crate::args::Format;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;

/// `weir sweep`.
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
FILE lists the values of each axis; every combination is a run:
  [axes]
  scheduler = [\"kernel\", \"bfs,rr_interval_ms={2,6,20}\"]
  machine = [\"laptop-2c4t\", \"server-64\"]
  workload = \"video\"
  seed = \"1-16\"
  [options]
  for = \"1s\"
docs/reference/campaigns.md describes it.

Only runs that are missing in DIR are done, and each finished run is kept at
once: after Ctrl-C or a kill, the same command goes on. After a loss of power it
does too, but runs since the last sync to the disk, some seconds before, may be
missing. In the end DIR has runs.parquet (a row for each run) and histograms.parquet (a row for
each bucket of a run's histograms), whose bytes do not depend on the order in
which the runs finished.

Several processes may share DIR. With --shard 1/4 a process does the first of
four equal parts; the one that finishes last writes the tables.

Examples:
  weir sweep my.toml --out my               do what is missing, on all CPUs
  weir sweep my.toml --out my --status      how far it is
  weir sweep my.toml --out my --show        compare along the first axis
  weir sweep my.toml --out my --show workload
  weir sweep my.toml --out my --minimize wakeup_latency_ns.p99
  weir sweep my.toml --out my --shard 2/4   one of four parts
  seq 4 | parallel weir sweep my.toml --out my --shard {}/4
  weir sweep my.toml --out my --on slurm --parts 100
  weir sweep my.toml --out my --import a --import b
  weir sweep my.toml --out my --missing     command lines of missing runs
  duckdb -c \"from 'my/runs.parquet' limit 5\"

Exit status: 0 fine, 1 a scheduler was ejected or refused, or an invariant was
violated in some run, 2 bad usage or input."
)]
pub struct Sweep {
    /// Campaign file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory of the finished runs and of the tables
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Do the runs on this machine, or by job arrays of Slurm
    ///
    /// Slurm's nodes must see FILE and DIR by the same paths. Partition, account and limits are those of sbatch's
    /// environment variables, such as SBATCH_PARTITION. Jobs that leave runs unfinished are submitted again, twice.
    #[arg(long, value_enum, default_value_t = Place::Local, conflicts_with = "view")]
    pub on: Place,
    /// Do only part I of N of the runs
    #[arg(long, value_name = "I/N", value_parser = campaign::Shard::from_str, conflicts_with = "view")]
    pub shard: Option<campaign::Shard>,
    /// Divide the runs into N jobs of Slurm [default: 16]
    ///
    /// Each job does what is missing of its part. Jobs that are submitted again divide the runs into another number of
    /// parts, so that the missing runs of a part are spread over several jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000), conflicts_with = "view")]
    pub parts: Option<u16>,
    /// Do at most N runs at the same time [default: one per CPU]
    ///
    /// With --on slurm: CPUs of each job [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "view")]
    pub jobs: Option<u16>,
    /// Take over finished runs of another directory; repeatable
    #[arg(long, value_name = "DIR", conflicts_with = "view")]
    pub import: Vec<PathBuf>,
    /// Only write the tables of the runs that are finished
    #[arg(long, group = "view")]
    pub tables: bool,
    /// Also keep the tasks of each run, and write DIR/tasks.parquet
    ///
    /// A row for each task of each run, with the keys of the JSON of weir sim. Runs that were finished without their
    /// tasks are done again for them.
    #[arg(long, conflicts_with_all = ["status", "missing", "show", "goal"])]
    pub tasks: bool,
    /// Only say how many runs are finished
    #[arg(long, group = "view")]
    pub status: bool,
    /// Only print the command line of each missing run
    #[arg(long, group = "view")]
    pub missing: bool,
    /// Only compare finished runs along AXIS
    ///
    /// AXIS is scheduler, machine, workload, kernel, cpus or without; by default the first of them with several values.
    /// Runs that agree in all other axes form a table; seeds and samples are their repetitions.
    #[arg(long, value_name = "AXIS", num_args = 0..=1, group = "view")]
    pub show: Option<Option<String>>,
    /// With --show: show all measures, not only the most important
    #[arg(long, requires = "show")]
    pub all: bool,
    /// Search for the scheduler with the lowest MEASURE
    ///
    /// MEASURE is a key of weir list measures, such as wakeup_latency_ns.p99. Round by round the number of seeds doubles,
    /// up to those of FILE. A scheduler leaves after a round if it is significantly worse than the first one, or if its
    /// rank is in the worse half; the answer says which, and which schedulers cannot be told apart from the first. Each
    /// combination of the other axes is a search of its own. docs/explanation/search.md explains it.
    #[arg(long, value_name = "MEASURE", group = "goal", conflicts_with_all = ["view", "shard", "report"])]
    pub minimize: Option<String>,
    /// Search for the scheduler with the highest MEASURE
    #[arg(long, value_name = "MEASURE", group = "goal", conflicts_with_all = ["view", "shard", "report"])]
    pub maximize: Option<String>,
    /// In a search: schedulers that no rank removes [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), requires = "goal")]
    pub finalists: Option<u16>,
    /// Write the comparison of finished runs as an HTML page
    #[arg(long, value_name = "OUT.html", conflicts_with = "missing")]
    pub report: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Where the runs of a campaign are done.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Place {
    Local,
    Slurm,
}
