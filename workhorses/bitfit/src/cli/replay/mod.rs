// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit replay`: the share of the search in an allocation workload.

mod volume;
mod workload;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Instant;

use bitfit::history::ALGORITHMS;
use bitfit::{Bitmap, Indexed, State};
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Failure, Format};
use volume::{Counters, Flat, Known, Map, Shape, Summary, Volume};
use workload::Workload;

/// Minimum number of groups; with one there is no choice of group.
const FEWEST_GROUPS: usize = 2;

/// Options of `bitfit replay`.
#[derive(Args)]
pub struct Options {
    /// Workload to run.
    #[arg(long, value_enum, default_value_t = Work::Mp3)]
    workload: Work,
    /// Volume size in MiB.
    #[arg(long, default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(1..))]
    volume_mib: u32,
    /// Resource-group size in MiB.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    group_mib: u32,
    /// Block size in bytes: a power of two from 512 to 65536.
    #[arg(long, default_value_t = 4096)]
    block_bytes: usize,
    /// Maximum fill level of the volume, in percent.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u8).range(10..=99))]
    full: u8,
    /// Random seed for file sizes and for the choice of removed files.
    #[arg(long, default_value_t = 446_085)]
    seed: u64,
    /// Rounds per search; the best time counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Workload.
#[derive(Clone, Copy, ValueEnum)]
enum Work {
    /// Copy trees of MP3 files, remove files in between.
    Mp3,
    /// Grow eight files in turn by 128 KiB at a time, remove files in between.
    Grow,
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Work::Mp3 => "mp3",
            Work::Grow => "grow",
        }
    }

    fn run<M: Map>(self, workload: &mut Workload, volume: &mut Volume<M>) {
        match self {
            Work::Mp3 => workload.copy_mp3s(volume),
            Work::Grow => workload.grow_files(volume),
        }
    }
}

/// Source of the allocator's answers.
#[derive(Clone, Copy)]
enum Method {
    /// Recorded answers, without choosing a group.
    Known,
    /// Recorded answers, but the group is chosen.
    Chooser,
    Flat(&'static str, fn(&[u8], State, usize) -> Option<usize>),
    Summary,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Method::Known => "no search, no choice",
            Method::Chooser => "no search",
            Method::Flat(name, _) => name,
            Method::Summary => "summary",
        }
    }
}

/// Initial state of the volume, the workload and its recorded answers.
struct Scenario {
    shape: Shape,
    work: Work,
    map: Vec<u8>,
    /// The volume without its map.
    volume: Volume<()>,
    workload: Workload,
    answers: Vec<u32>,
    counters: Counters,
}

/// Runs the replay and prints the times.
pub fn run(options: &Options) -> Result<(), Failure> {
    let shape = shape(options)?;
    let loud = io::stderr().is_terminal();
    let progress = |what: &str| {
        if loud {
            eprint!("\r\x1b[K{what}");
        }
    };
    progress("aging the volume");
    let scenario = Scenario::new(shape, options);
    if scenario.counters.taken == 0 {
        progress("");
        let what = "--volume-mib, --full: expected room for a file, found none in";
        return Err(Failure::Input(format!("{what} {} % of {} MiB", options.full, options.volume_mib)));
    }
    let methods = methods();
    let mut best_ns = vec![u64::MAX; methods.len()];
    for round in 1..=options.rounds {
        for (method, best_ns) in methods.iter().zip(&mut best_ns) {
            progress(&format!("round {round} of {}: {}", options.rounds, method.name()));
            *best_ns = scenario.time(*method).min(*best_ns);
        }
    }
    progress("");
    let mut out = BufWriter::new(io::stdout().lock());
    match options.format {
        Format::Text => print(&mut out, options, &scenario, &methods, &best_ns),
        Format::Json => write(&mut out, options, &scenario, &methods, &best_ns),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)
}

fn shape(options: &Options) -> Result<Shape, Failure> {
    let block_bytes = options.block_bytes;
    if !block_bytes.is_power_of_two() || !(512..=65_536).contains(&block_bytes) {
        let what = "--block-bytes: expected a power of two from 512 to 65536, found";
        return Err(Failure::Input(format!("{what} {block_bytes}")));
    }
    let groups = (options.volume_mib / options.group_mib) as usize;
    if groups < FEWEST_GROUPS {
        let (volume, group) = (options.volume_mib, options.group_mib);
        let what = "--volume-mib: expected a volume of at least two groups";
        return Err(Failure::Input(format!("{what} of {group} MiB, found {volume} MiB")));
    }
    let shape = Shape { block_bytes, group_blocks: ((options.group_mib as usize) << 20) / block_bytes, groups };
    if u32::try_from(shape.blocks()).is_err() {
        let what = "--volume-mib: expected less than 2^32 blocks, found";
        return Err(Failure::Input(format!("{what} {}", shape.blocks())));
    }
    Ok(shape)
}

fn methods() -> Vec<Method> {
    let mut methods = vec![Method::Known, Method::Chooser];
    methods.extend(ALGORITHMS.iter().map(|algorithm| Method::Flat(algorithm.name, algorithm.find)));
    methods.extend([Method::Flat("flat", |bytes, state, from| Bitmap::new(bytes).find(state, from)), Method::Summary]);
    methods
}

impl Scenario {
    /// Creates an aged volume and runs the workload once to record the answers.
    fn new(shape: Shape, options: &Options) -> Scenario {
        let mut workload = Workload::new(options.seed, options.full.into());
        let find = |bytes: &[u8], state, from| Bitmap::new(bytes).find(state, from);
        let mut volume = Volume::new(shape, Flat { shape, bytes: vec![0; shape.map_bytes()], find });
        workload.age(&mut volume);
        let map = volume.map.bytes.clone();
        let mut recorded = volume.with_map(Flat { shape, bytes: map.clone(), find });
        recorded.answers = Some(Vec::new());
        options.workload.run(&mut workload.clone(), &mut recorded);
        let answers = recorded.answers.take().unwrap_or_default();
        let counters = recorded.counters;
        Scenario { shape, work: options.workload, map, volume: volume.with_map(()), workload, answers, counters }
    }

    /// Time of one run, in nanoseconds.
    fn time(&self, method: Method) -> u64 {
        let (shape, bytes) = (self.shape, self.map.clone());
        match method {
            Method::Known => self.run_with(Known { bytes, answers: self.answers.iter(), chooses: false }, false),
            Method::Chooser => self.run_with(Known { bytes, answers: self.answers.iter(), chooses: true }, true),
            Method::Flat(_, find) => self.run_with(Flat { shape, bytes, find }, true),
            Method::Summary => {
                let mut bytes = bytes;
                let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
                let map = Indexed::new(&mut bytes, &[State::Free], &mut storage).expect("the storage was made for it");
                self.run_with(Summary { shape, map }, true)
            }
        }
    }

    fn run_with<M: Map>(&self, map: M, chooses: bool) -> u64 {
        let mut volume = self.volume.with_map(map);
        let mut workload = self.workload.clone();
        let start = Instant::now();
        self.work.run(&mut workload, &mut volume);
        let elapsed = start.elapsed();
        // All searches give the same answers, so each does the same work; otherwise the counters would differ.
        assert!(!chooses || volume.counters == self.counters, "a search gave another answer");
        elapsed.as_nanos() as u64
    }
}

/// Returns the time spent outside search and group choice, and the time spent outside search.
fn without(best_ns: &[u64]) -> (u64, u64) {
    (best_ns[0], best_ns[1].max(best_ns[0]))
}

fn print(
    out: &mut impl Write,
    options: &Options,
    scenario: &Scenario,
    methods: &[Method],
    ns: &[u64],
) -> io::Result<()> {
    let Counters { taken, freed, groups_looked_at, passed } = scenario.counters;
    let shape = scenario.shape;
    writeln!(
        out,
        "{}, seed {}, {} % full at most\n{} groups of {} MiB, blocks of {} bytes",
        options.workload.name(),
        options.seed,
        options.full,
        shape.groups,
        options.group_mib,
        shape.block_bytes
    )?;
    writeln!(out, "{taken} blocks taken, each with a search, and {freed} freed; a search")?;
    writeln!(
        out,
        "passes {:.1} blocks and checks {:.2} groups on average",
        passed as f64 / taken as f64,
        groups_looked_at as f64 / taken as f64
    )?;
    let (bare, chosen) = without(ns);
    writeln!(out, "\n{:>22} {:>10} {:>10} {:>9} {:>11}", "", "total ms", "search ms", "of total", "ns/search")?;
    for (method, &ns) in methods.iter().zip(ns) {
        let search = ns.saturating_sub(chosen);
        write!(out, "{:>22} {:>10.1}", method.name(), ns as f64 / 1e6)?;
        match method {
            Method::Known => writeln!(out)?,
            Method::Chooser => writeln!(out, "   (choosing groups: {:.1} ms)", (chosen - bare) as f64 / 1e6)?,
            _ => {
                let share = 100.0 * search as f64 / ns as f64;
                let each = search as f64 / taken as f64;
                writeln!(out, " {:>10.1} {share:>7.1} % {each:>11.1}", search as f64 / 1e6)?;
            }
        }
    }
    Ok(())
}

fn write(
    out: &mut impl Write,
    options: &Options,
    scenario: &Scenario,
    methods: &[Method],
    ns: &[u64],
) -> io::Result<()> {
    let Counters { taken, freed, groups_looked_at, passed } = scenario.counters;
    let (bare, chosen) = without(ns);
    let searches: Vec<_> = methods
        .iter()
        .zip(ns)
        .skip(2)
        .map(|(method, &ns)| json!({"name": method.name(), "total_ns": ns, "search_ns": ns.saturating_sub(chosen)}))
        .collect();
    let value = json!({
        "workload": options.workload.name(), "seed": options.seed, "groups": scenario.shape.groups,
        "group_blocks": scenario.shape.group_blocks, "block_bytes": scenario.shape.block_bytes, "full_percent": options.full,
        "rounds": options.rounds, "blocks_taken": taken, "blocks_freed": freed, "groups_looked_at": groups_looked_at,
        "blocks_passed": passed, "without_search_and_choice_ns": bare, "without_search_ns": chosen,
        "searches": searches,
    });
    writeln!(out, "{value:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First block in the state at or after `from`, by testing each.
    fn naive(bytes: &[u8], state: State, from: usize) -> Option<usize> {
        (from..bytes.len() * 4).find(|block| bytes[block / 4] >> (block % 4 * 2) & 3 == state.bits())
    }

    fn scenario(work: Work, seed: u64) -> Scenario {
        let options = Options {
            workload: work,
            volume_mib: 96,
            group_mib: 20,
            block_bytes: 1024,
            full: 93,
            seed,
            rounds: 1,
            format: Format::Text,
        };
        Scenario::new(shape(&options).unwrap_or_else(|_| panic!("a good shape")), &options)
    }

    fn answers<M: Map>(scenario: &Scenario, map: M) -> (Vec<u32>, usize, Counters) {
        let mut volume = scenario.volume.with_map(map);
        volume.answers = Some(Vec::new());
        scenario.work.run(&mut scenario.workload.clone(), &mut volume);
        (volume.answers.unwrap(), volume.free, volume.counters)
    }

    #[test]
    fn all_searches_allocate_the_same_blocks_as_the_naive_search() {
        for (work, seed) in [(Work::Mp3, 1), (Work::Grow, 2)] {
            let scenario = scenario(work, seed);
            let shape = scenario.shape;
            let flat = |find| Flat { shape, bytes: scenario.map.clone(), find };
            let expected = answers(&scenario, flat(naive));
            assert_eq!(expected.0, scenario.answers);
            assert!(expected.2.taken > 10_000 && expected.2.passed > expected.2.taken, "the work is too easy");
            assert_eq!(expected.1 as u64, scenario.volume.free as u64 + expected.2.freed - expected.2.taken);
            for algorithm in ALGORITHMS {
                assert!(answers(&scenario, flat(algorithm.find)) == expected, "{}", algorithm.name);
            }
            let mut bytes = scenario.map.clone();
            let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
            let map = Indexed::new(&mut bytes, &[State::Free], &mut storage).unwrap();
            assert!(answers(&scenario, Summary { shape, map }) == expected, "summary");
            for method in methods() {
                assert!(scenario.time(method) > 0);
            }
        }
    }

    #[test]
    fn volume_counters_match_its_map() {
        let scenario = scenario(Work::Mp3, 3);
        assert_eq!(Bitmap::new(&scenario.map[..]).count().of(State::Free), scenario.volume.free);
        assert!(scenario.volume.free < scenario.shape.blocks() * 15 / 100, "the volume is nearly full");
    }

    #[test]
    fn workload_is_determined_by_the_seed() {
        assert_eq!(scenario(Work::Grow, 4).answers, scenario(Work::Grow, 4).answers);
        assert_ne!(scenario(Work::Grow, 4).answers, scenario(Work::Grow, 5).answers);
    }
}
