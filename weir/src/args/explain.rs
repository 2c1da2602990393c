// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `weir explain`.

use super::{Format, Which, moment};
use clap::{Args as ClapArgs, ValueEnum};
use ids::Nanos;
use std::path::PathBuf;

/// `weir explain`.
#[derive(ClapArgs, Debug)]
#[command(
    max_term_width = 80,
    after_help = "\
FILE is a run saved by weir sim --save or weir run --save. A simulated run is
repeated, which gives more detail: queues, callbacks and source lines are not
recorded in a real kernel. Without an option, weir explains the ejection if
there was one, else the three longest waits, the longest waits for locks, why
CPUs were idle while tasks waited, and the critical path.

T is a task's name or PID (for cc1[131]: cc1 or 131).

Examples:
  weir sim bfs -w preempt-mix --save run.weirrun
  weir explain run.weirrun
  weir explain run.weirrun --worst 10
  weir explain run.weirrun --task hog-0 --at 1.5s
  weir explain run.weirrun --blocked 5
  weir explain run.weirrun --chain
  weir explain stalled.weirrun --ejection
  weir explain many.weirrun --scheduler bfs --seed 3 --worst 1
  weir explain run.weirrun --worst 1 --format json | jq '.waits[0].suspects'

Exit status: 0 fine, 2 bad usage or input."
)]
pub struct Explain {
    /// Saved run
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Explain the longest wait of this task, or the wait at --at
    #[arg(long, value_name = "T", conflicts_with_all = ["worst", "blocked", "chain", "ejection"])]
    pub task: Option<String>,
    /// Explain the wait at this time since the start, such as 1.5s
    #[arg(long, value_name = "TIME", requires = "task", value_parser = moment)]
    pub at: Option<Nanos>,
    /// Explain the N longest waits, one sentence each, then details
    ///
    /// Waits after wakeups and waits after losing the CPU both count.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub worst: Option<u64>,
    /// Explain the N longest waits for other tasks: for locks, pipes, children
    ///
    /// Shows the holder of a lock, or the task that ended the wait, and what it
    /// did meanwhile.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub blocked: Option<u64>,
    /// Consider only waits for a CPU of this kind
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Waits::All)]
    pub waits: Waits,
    /// Show the critical path from the start to the end of the run
    ///
    /// It is the longest chain of causes.
    #[arg(long)]
    pub chain: bool,
    /// Explain why the scheduler was ejected
    #[arg(long)]
    pub ejection: bool,
    /// Output format: text or json
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Selects one run of the file.
    #[command(
        flatten,
        next_help_heading = "Select a run, if the file has several [default: the first seed of a scheduler]"
    )]
    pub which: Which,
}

/// Kinds of waits for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Waits {
    All,
    Wakeup,
    Lost,
}
