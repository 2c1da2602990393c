// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir meter`.

use crate::saved::Which;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// `weir meter`.
#[derive(Args, Clone, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
WHAT is one of
  locks         which locks were waited for, by caller: number, longest, mean and
                total wait, share of all waiting, hold times where known
  microstates   each task's life by state, which add up to it; with the reason
                beside the time
  wakeups       which task woke which, and how long that waited for a CPU
  interrupts    by source and CPU: number and time

FILE.weirrun is a run saved by weir sim or weir run. Without it, weir measures
the running kernel (root, BTF; no sched_ext needed): a command with all its
descendants, a process, or the whole machine until Ctrl-C. With INTERVAL (such
as 2s) it prints a table each interval, COUNT times.

In a real kernel only contended acquisitions are seen: taken and hold are -.
Locks in user space are seen where they call futex. --holds probes functions that
take and release the lock in their first argument; each call traps into the kernel.

Examples:
  weir sim kernel -m server-64 -w build,jobs=64 --save run.weirrun
  weir meter locks run.weirrun
  weir meter locks run.weirrun --by name --format lockmeter
  weir meter microstates run.weirrun --report states.html
  sudo weir meter locks -- make -j8
  sudo weir meter microstates --by process -- make -j8
  sudo weir meter locks --holds \
      libc.so.6:pthread_mutex_lock/pthread_mutex_unlock -- ./server
  sudo weir meter microstates --by cgroup 10s 1
  sudo weir meter locks --sort mean --format nix 10s 1
  sudo weir meter wakeups 1s -p 4711
  sudo weir meter locks --tui
  sudo weir meter microstates --format json -- ./a.out | jq .tasks[0].states

Exit status: 0 fine, 1 the command failed, events were lost or a check failed,
2 bad usage or input."
)]
pub struct Meter {
    /// What to measure
    #[arg(value_name = "WHAT")]
    pub what: What,
    /// Saved run, or time between two tables, such as 2s
    #[arg(value_name = "FILE|INTERVAL")]
    pub first: Option<String>,
    /// Number of tables [default: until Ctrl-C]
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Measure only this process, with its threads and descendants
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// Order of the lock table
    #[arg(long, value_enum, default_value_t = Sort::Total)]
    pub sort: Sort,
    /// Sum the microstates by process, name or cgroup, or locks by lock or name
    #[arg(long, value_enum, default_value_t = By::Task)]
    pub by: By,
    /// Measure how long user locks are held, by probes at these functions
    #[arg(long, value_name = "FILE:TAKE/RELEASE")]
    pub holds: Vec<String>,
    /// Show all rows, not only the first 20
    #[arg(long)]
    pub all: bool,
    /// Show the table live on the whole terminal
    #[arg(long)]
    pub tui: bool,
    /// Write a page with the last table as bars
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Selects one run of the file.
    #[command(
        flatten,
        next_help_heading = "Select a run, if the file has several [default: the first seed of a scheduler]"
    )]
    pub which: Which,
    /// Command to measure, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum What {
    Locks,
    Microstates,
    Wakeups,
    Interrupts,
}

/// Order of the lock table.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Sort {
    Total,
    Mean,
}

/// What the rows of the microstates are.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum By {
    Task,
    Process,
    Name,
    Cgroup,
    Lock,
}

/// Output formats: text, JSON, CSV, and for locks the columns of the NIX tool and of lockmeter.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Format {
    Text,
    Json,
    Csv,
    Nix,
    Lockmeter,
}
