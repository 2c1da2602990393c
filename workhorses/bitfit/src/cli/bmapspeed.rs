// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit bmapspeed`: the output of the bug's test program.

use std::hint::black_box;
use std::io::{self, Write};

use bitfit::{State, history, maps};
use clap::Args;

use super::Failure;
use super::memory::Memory;
use super::stopwatch::{Contestant, race};

/// Searches of the bug's second comment, in the order of its `tdiff`: #6 had been rejected before.
const TDIFF: [&str; 6] = ["#1", "#2", "#3", "#4", "#5", "2009"];

/// Searches of the bug's first comment, in its order.
const LISTED: [&str; 6] = ["#1", "#2", "#3", "#4", "#5", "#6"];

/// Options of `bmapspeed`.
#[derive(Args)]
#[command(after_help = "\
tdiff[0] is \"today's\" search of January 2008 (#1 of bitfit bench), tdiff[1] the
one before it (#2), tdiff[2] and tdiff[3] two forms of #1 (#3, #4), tdiff[4] the
search of Linux 2.6.26 (#5). The bug's sixth search, its second patch, is not
public: tdiff[5] is the search of 2009. The listing shows #1 to #6.

Examples:
  bitfit bmapspeed                     the five runs of the bug
  bitfit bmapspeed --trandfactor 10    one run with more metadata
  bitfit bmapspeed --listing           microseconds of the six searches")]
pub struct Options {
    /// One block in N is metadata; repeat for several runs.
    #[arg(long, value_name = "N", default_values_t = [91, 116, 85, 28, 49], value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    trandfactor: Vec<u64>,
    /// Map size in MiB, 1 to 1024.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1024))]
    mib: u16,
    /// Searches of each algorithm; the shortest counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print numbered microseconds of six searches, as the bug's first comment, for the first trandfactor.
    #[arg(long)]
    listing: bool,
}

/// Runs the searches and prints their times.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut memory = Memory::new(usize::from(options.mib) << 20)
        .map_err(|error| Failure::Input(format!("--mib {}: no memory for the map: {error}", options.mib)))?;
    let mut out = io::stdout().lock();
    if options.listing {
        let times = microseconds(&mut memory, options.trandfactor[0], LISTED, options.rounds);
        return listing(&mut out, &times).map_err(Failure::Output);
    }
    for &factor in &options.trandfactor {
        let times = microseconds(&mut memory, factor, TDIFF, options.rounds);
        tdiff(&mut out, factor, &times).map_err(Failure::Output)?;
    }
    Ok(())
}

/// Times of these searches on a map with this trandfactor, in microseconds.
fn microseconds(bytes: &mut [u8], factor: u64, names: [&str; 6], rounds: u16) -> [u64; 6] {
    maps::fill(bytes, State::Free, factor, 0);
    // The search starts at 25 % of the blocks.
    let goal = bytes.len();
    let bytes = &*bytes;
    let search = |name: &str| {
        let algorithm = history::find(name).expect("names are those of the module");
        Contestant::new(name, move || (algorithm.find)(black_box(bytes), State::Free, goal).unwrap_or(0))
    };
    let times = race(&mut names.map(search), rounds.into(), f64::INFINITY);
    std::array::from_fn(|index| (times[index].best_ns / 1_000.0).round() as u64)
}

/// The lines of the bug's second comment.
fn tdiff(out: &mut impl Write, factor: u64, times: &[u64; 6]) -> io::Result<()> {
    writeln!(out, "trandfactor = {factor}")?;
    for (index, &time) in times.iter().enumerate() {
        let ratio = times[0] as f64 / time.max(1) as f64;
        writeln!(out, "tdiff[{index}] = {time:>7}   - {ratio:.6} times today's algorithm")?;
    }
    Ok(())
}

/// The lines of the bug's first comment.
fn listing(out: &mut impl Write, times: &[u64; 6]) -> io::Result<()> {
    times.iter().zip(1..).try_for_each(|(time, number)| writeln!(out, "{number}. {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(print: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The first run of the bug's second comment.
    #[test]
    fn tdiff_lines_are_those_of_the_bug() {
        let times = [972_208, 1_133_521, 854_765, 354_196, 194_574, 139_421];
        let expected = "\
trandfactor = 91
tdiff[0] =  972208   - 1.000000 times today's algorithm
tdiff[1] = 1133521   - 0.857689 times today's algorithm
tdiff[2] =  854765   - 1.137398 times today's algorithm
tdiff[3] =  354196   - 2.744831 times today's algorithm
tdiff[4] =  194574   - 4.996598 times today's algorithm
tdiff[5] =  139421   - 6.973182 times today's algorithm
";
        assert_eq!(text(|out| tdiff(out, 91, &times)), expected);
    }

    #[test]
    fn listing_numbers_the_searches() {
        assert_eq!(
            text(|out| listing(out, &[679_633, 972_714, 685_488, 242_310, 169_487, 7])).lines().nth(4),
            Some("5. 169487")
        );
    }

    #[test]
    fn searches_are_timed_on_a_map_with_the_given_metadata() {
        let mut bytes = vec![0; 1 << 20];
        let times = microseconds(&mut bytes, 28, TDIFF, 1);
        assert!(times.iter().all(|&time| time > 0), "{times:?}");
        assert!(times[0] > times[5], "a search that stops at each inode is slower than the exact one: {times:?}");
    }
}
