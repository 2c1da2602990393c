// SPDX-License-Identifier: GPL-2.0-only
//! What the three schedulers of NIX do on its machine, as a page: throughput by cores and what it depends on, the locks that
//! explain it, what one core can give, and NIX's own tests.
//!
//! CPUs are the first ones of `nix-32`, 4 in each node, and all tasks of a table of throughput are there at once. Each number
//! is the median of several seeds.

mod assumptions;
mod bench;
mod central;
mod locks;
mod tests;
mod throughput;

use crate::wall::weir;
use anyhow::Result;
use bench::Bench;
use clap::Args;
use std::path::PathBuf;

/// Options of `cargo xtask nix`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask nix > lab/results/nix.md
  cargo xtask nix --part central --weir target/debug/weir")]
pub struct Arguments {
    /// The weir to run; without it, a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each run of throughput, in milliseconds
    #[arg(long, default_value_t = 50)]
    milliseconds: u64,
    /// Each run has the seeds 1 to this
    #[arg(long, default_value_t = 3)]
    seeds: u32,
    /// One part of the page alone
    #[arg(long)]
    part: Option<Part>,
}

/// The parts of the page, in order.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Throughput,
    Locks,
    Central,
    Tests,
    Assumptions,
}

const PARTS: [Part; 5] = [Part::Throughput, Part::Locks, Part::Central, Part::Tests, Part::Assumptions];

/// All CPUs of the machine.
const ALL: u32 = 32;

/// NIX's, the lecture's dispatcher, and what to compare them with: one queue, the kernel's own.
const SCHEDULERS: [&str; 8] =
    ["nix@smp", "nix@groups", "nix@groups-2011", "nix@amp", "pushback", "fifo", "bfs", "kernel"];

/// Prints the page.
pub fn execute(arguments: &Arguments) -> Result<()> {
    let bench = Bench::new(&weir(arguments.weir.as_deref())?, arguments.milliseconds, arguments.seeds)?;
    let parts = arguments.part.map_or(PARTS.to_vec(), |part| vec![part]);
    if parts.len() > 1 {
        let numbers = [("MILLISECONDS", bench.milliseconds.to_string()), ("SEEDS", bench.seeds.to_string())];
        let prose = include_str!("prose.txt");
        print!("{}", numbers.iter().fold(prose.to_owned(), |text, (name, value)| text.replace(name, value)));
    }
    for part in &parts {
        match part {
            Part::Throughput => throughput::print(&bench)?,
            Part::Locks => locks::print(&bench)?,
            Part::Central => central::print(&bench)?,
            Part::Tests => tests::print(&bench)?,
            Part::Assumptions => assumptions::print(&bench)?,
        }
    }
    if parts.len() > 1 {
        print!("{}", include_str!("findings.txt"));
    }
    Ok(())
}
