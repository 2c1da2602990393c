// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir scale`.

use crate::args::Format;
use clap::{Args, ValueEnum};
use machine_model::Effect;
use std::ffi::OsString;
use std::path::PathBuf;

/// `weir scale`.
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
Fits Gunther's universal scalability law
  X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1))
to the throughput X at several sizes N: contention alpha, coherency cost beta.
At least six points are needed. A peak is reported only if the interval of beta
excludes 0.

The sizes are numbers of CPUs, jobs, clients or spindles:
  FILE.csv             measured elsewhere: columns n,throughput
  SCHED...             simulated as by weir sim, with --cpus, --jobs,
                       --clients or --spindles
  -- COMMAND {\u{1b}[0mn}       measured here: the command runs once for each size, and
                       {\u{1b}[0mn} in its arguments is replaced by the size

A simulated throughput is work done for each second, so 4 means that four CPUs
of the reference machine would do it. That of a command is runs for each second
(--work fixed), N runs for each second (--work per-n), or the last number that
the command prints (--work printed).

Examples:
  weir scale results.csv
  weir scale kernel -m server-64 -w build,jobs=64 --cpus 1,2,4,8,16,32,64
  weir scale kernel fifo -m nix-32 -w hogs --cpus 1,2,4,8,16,32 --report s.html
  weir scale kernel -m server-64 -w build --jobs 1,2,4,8,16,32
  weir scale --repeat 3 -- make -j{\u{1b}[0mn}
  weir scale --work printed --sizes 1,2,3,4,6,8 -- ./bench --threads {\u{1b}[0mn}
  weir scale results.csv --format json | jq .fit.peak_n

Exit status: 0 fine, 1 a run or command failed, 2 bad usage or input, among it
fewer than six points."
)]
pub struct Scale {
    /// FILE.csv, or schedulers as for weir sim
    #[arg(value_name = "FILE.csv|SCHED", conflicts_with = "command", required_unless_present = "command")]
    pub what: Vec<String>,
    /// Simulate the machine with these numbers of CPUs
    ///
    /// The first N CPUs are online, as after a boot with maxcpus=N. With a command, it may use the first N CPUs only.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size())]
    pub cpus: Vec<u32>,
    /// Simulate the workload with these numbers of jobs (jobs=N)
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["cpus", "command"], value_parser = size())]
    pub jobs: Vec<u32>,
    /// Simulate these numbers of copies of the workload (count=N)
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["cpus", "jobs", "command"], value_parser = size())]
    pub clients: Vec<u32>,
    /// Simulate the machine with a disk of these numbers of spindles
    ///
    /// The disk is that of --disk, or hdd-7200.
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["cpus", "jobs", "clients", "command"], value_parser = size())]
    pub spindles: Vec<u32>,
    /// Run the command with these sizes [default: 1,2,3,4,6,8]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "command", conflicts_with = "cpus", value_parser = size())]
    pub sizes: Vec<u32>,
    /// Simulate this machine, as for weir sim
    #[arg(short, long, value_name = "M", default_value = "host", conflicts_with = "command")]
    pub machine: String,
    /// Run this workload, as for weir sim
    #[arg(short, long, value_name = "W", default_value = "build", conflicts_with = "command")]
    pub workload: String,
    /// End each simulated run after this time
    #[arg(long = "for", value_name = "TIME", conflicts_with = "command")]
    pub duration: Option<String>,
    /// Simulate with seeds 1 to N; each run is a point [default: seed 0]
    #[arg(long, value_name = "N", conflicts_with = "command", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Model this kernel version, as for weir sim
    #[arg(long, value_name = "VERSION", default_value = "7.2", conflicts_with = "command")]
    pub kernel: String,
    /// Leave out effects, as for weir sim
    #[arg(long, value_name = "EFFECT", value_delimiter = ',', conflicts_with = "command")]
    pub without: Vec<Effect>,
    /// Give the machine a disk, as for weir sim
    #[arg(long = "disk", value_name = "DISK", conflicts_with = "command")]
    pub disk: Option<String>,
    /// Use this launch profile for schedulers given as paths
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub profile: Option<PathBuf>,
    /// Take the throughput from this measure (weir list measures)
    ///
    /// A time that is better if shorter, such as makespan_ns, gives runs for each second; any other measure is divided
    /// by the seconds of the run.
    #[arg(long, value_name = "KEY", default_value = "work_ns", conflicts_with = "command")]
    pub measure: String,
    /// How much work a run of the command is
    #[arg(long, value_enum, default_value_t = Work::Fixed, requires = "command")]
    pub work: Work,
    /// Run the command N times with each size; each run is a point
    #[arg(long, value_name = "N", default_value_t = 1, requires = "command", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the fits as a self-contained HTML page
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,
    // Clap takes a plain {n} for a newline.
    #[arg(last = true, value_name = "COMMAND", help = "Command to run with each size; {\u{1b}[0mn} becomes the size")]
    pub command: Vec<OsString>,
}

/// How much work one run of a command is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Work {
    Fixed,
    PerN,
    Printed,
}

fn size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}
