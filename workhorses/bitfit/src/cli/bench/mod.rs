// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit bench`: the bug's experiment, compared with the machine's read throughput.

mod charts;
mod print;
mod races;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bitfit::State;
use clap::{Args, ValueEnum};

use super::memory::Memory;
use super::{Failure, plot};
use races::{BY_FRAGMENTATION, BY_SIZE, OTHER_STATES, Question, Race};

/// Size of the bug's map, in bytes.
const SEED_BYTES: usize = 50 << 20;

/// Metadata frequencies (one block in N): none, those of the bug, and a much higher one.
const FACTORS: [u64; 7] = [0, 116, 91, 85, 49, 28, 4];

/// Map sizes in KiB: GFS2's search unit, all cache levels, memory.
const SIZES_KIB: [usize; 10] = [4, 16, 32, 256, 1 << 10, 4 << 10, 16 << 10, 50 << 10, 256 << 10, 1 << 20];

/// Map size of the single-block races, in bytes.
const SMALL_BYTES: usize = 64 << 10;

/// Benchmark options.
#[derive(Args)]
pub struct Options {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Rounds per race; the best time counts. Comparisons take more.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Largest map size in MiB, 1 to 1024.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_mib: u16,
    /// Plot throughput by fragmentation and by size into this SVG file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable: a table per race, as in the bug.
    Text,
    /// JSON.
    Json,
    /// The tables of the crate's README.
    Markdown,
}

/// Runs the benchmark and prints the results.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(path) = &options.plot {
        // Check the path before the benchmark, which takes minutes.
        File::create(path).map_err(|error| plot_failure(path, &error))?;
    }
    let limit = usize::from(options.max_mib) << 20;
    let mut memory = Memory::new(limit)
        .map_err(|error| Failure::Input(format!("--max-mib {}: no memory for the map: {error}", options.max_mib)))?;
    let races = race_all(&mut memory, limit, options.rounds.into());
    if let Some(path) = &options.plot {
        plot::draw(path, &charts::charts(&races)).map_err(|error| plot_failure(path, &*error))?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match options.format {
        Format::Text => races.iter().try_for_each(|race| print::text(&mut out, race)),
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &races).map_err(io::Error::from).and_then(|()| writeln!(out))
        }
        Format::Markdown => print::markdown(&mut out, &races),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)
}

/// Runs all races on maps of up to `limit` bytes.
fn race_all(memory: &mut [u8], limit: usize, effort: usize) -> Vec<Race> {
    let mut races = Vec::new();
    if SEED_BYTES <= limit {
        for factor in FACTORS {
            let question = Question { what: BY_FRAGMENTATION, state: State::Free, factor, effort };
            races.push(races::search(&mut memory[..SEED_BYTES], question));
        }
        for state in [State::Used, State::Unlinked, State::Dinode] {
            let question = Question { what: OTHER_STATES, state, factor: 85, effort };
            races.push(races::search(&mut memory[..SEED_BYTES], question));
        }
    }
    for bytes in SIZES_KIB.map(|kib| kib << 10).into_iter().filter(|&bytes| bytes <= limit) {
        let question = Question { what: BY_SIZE, state: State::Free, factor: 85, effort };
        races.push(races::search(&mut memory[..bytes], question));
        races.push(races::count(&memory[..bytes], effort));
    }
    races.push(races::near(&mut memory[..SMALL_BYTES], effort));
    races.push(races::set(&mut memory[..SMALL_BYTES], effort));
    races
}

fn plot_failure(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::Input(format!("{}: cannot write the plot: {error}", path.display()))
}
