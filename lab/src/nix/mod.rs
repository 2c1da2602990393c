// SPDX-License-Identifier: GPL-2.0-only
//! The three NIX schedulers on their machine, as a document: throughput by cores and its dependencies, the locks that
//! explain it, the capacity of one dispatching core, near and far memory, and NIX's own tests.
//!
//! CPUs are the first ones of `nix-32`, 4 per node, and all tasks of a throughput table start at once. Each number is
//! the median of several seeds.

mod assumptions;
mod bench;
mod central;
mod locks;
mod memory;
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
    /// weir to run; default: a release build
    #[arg(long, env = "WEIR")]
    weir: Option<PathBuf>,
    /// Simulated time of each throughput run, in milliseconds
    #[arg(long, default_value_t = 50)]
    milliseconds: u64,
    /// Run with the seeds 1 to N
    #[arg(long, default_value_t = 3)]
    seeds: u32,
    /// Print only one part of the document
    #[arg(long)]
    part: Option<Part>,
}

/// Parts of the document, in order.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Throughput,
    Locks,
    Central,
    Memory,
    Tests,
    Assumptions,
}

const PARTS: [Part; 6] = [Part::Throughput, Part::Locks, Part::Central, Part::Memory, Part::Tests, Part::Assumptions];

/// Number of CPUs of the machine.
const ALL: u32 = 32;

/// NIX's schedulers, pushback, and for comparison two single-queue policies and the default scheduler.
const SCHEDULERS: [&str; 8] =
    ["nix@smp", "nix@groups", "nix@groups-2011", "nix@amp", "pushback", "fifo", "bfs", "kernel"];

/// Prints the document.
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
            Part::Memory => memory::print(&bench)?,
            Part::Tests => tests::print(&bench)?,
            Part::Assumptions => assumptions::print(&bench)?,
        }
    }
    if parts.len() > 1 {
        print!("{}", include_str!("findings.txt"));
    }
    Ok(())
}
