// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit replay`: what the search costs in the work of a file system, with everything around it.

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

/// Smallest volume, in groups: fewer leave nothing to choose.
const FEWEST_GROUPS: usize = 2;

/// What to do, on what volume, how often.
#[derive(Args)]
pub struct Options {
    /// What is done to the volume.
    #[arg(long, value_enum, default_value_t = Work::Mp3)]
    workload: Work,
    /// Size of the volume, in MiB.
    #[arg(long, default_value_t = 16 << 10, value_parser = clap::value_parser!(u32).range(1..))]
    volume_mib: u32,
    /// Size of a resource group, in MiB.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    group_mib: u32,
    /// Size of a block, in bytes: a power of two from 512 to 65536.
    #[arg(long, default_value_t = 4096)]
    block_bytes: usize,
    /// How full the volume is at most, in percent.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u8).range(10..=99))]
    full: u8,
    /// Decides about sizes of files and about which are removed.
    #[arg(long, default_value_t = 446_085)]
    seed: u64,
    /// How often each search plays; the best time counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The kinds of work.
#[derive(Clone, Copy, ValueEnum)]
enum Work {
    /// Copy trees of mp3s, remove files in between.
    Mp3,
    /// Grow eight files in turns, 128 KiB at a time, remove files in between.
    Grow,
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Work::Mp3 => "mp3",
            Work::Grow => "grow",
        }
    }

    fn play<M: Map>(self, workload: &mut Workload, volume: &mut Volume<M>) {
        match self {
            Work::Mp3 => workload.copy_mp3s(volume),
            Work::Grow => workload.grow_files(volume),
        }
    }
}

/// Who answers.
#[derive(Clone, Copy)]
enum Player {
    /// Nobody: answers are known, and no group is chosen.
    Known,
    /// Answers are known, but the group is chosen.
    Chooser,
    Flat(&'static str, fn(&[u8], State, usize) -> Option<usize>),
    Summary,
}

impl Player {
    const fn name(self) -> &'static str {
        match self {
            Player::Known => "no search, no choice",
            Player::Chooser => "no search",
            Player::Flat(name, _) => name,
            Player::Summary => "summary",
        }
    }
}

/// The volume as it is when the measured work begins, and what the work does.
struct Stage {
    shape: Shape,
    work: Work,
    map: Vec<u8>,
    /// The volume without its map.
    volume: Volume<()>,
    workload: Workload,
    answers: Vec<u32>,
    counters: Counters,
}

/// Plays, and prints what it took.
pub fn run(options: &Options) -> Result<(), Failure> {
    let shape = shape(options)?;
    let loud = io::stderr().is_terminal();
    let progress = |what: &str| {
        if loud {
            eprint!("\r\x1b[K{what}");
        }
    };
    progress("making the volume old");
    let stage = Stage::new(shape, options);
    if stage.counters.taken == 0 {
        progress("");
        let what = "--volume-mib, --full: expected room for a file, found none in";
        return Err(Failure::Input(format!("{what} {} % of {} MiB", options.full, options.volume_mib)));
    }
    let players = players();
    let mut best_ns = vec![u64::MAX; players.len()];
    for round in 1..=options.rounds {
        for (player, best_ns) in players.iter().zip(&mut best_ns) {
            progress(&format!("round {round} of {}: {}", options.rounds, player.name()));
            *best_ns = stage.time(*player).min(*best_ns);
        }
    }
    progress("");
    let mut out = BufWriter::new(io::stdout().lock());
    match options.format {
        Format::Text => print(&mut out, options, &stage, &players, &best_ns),
        Format::Json => write(&mut out, options, &stage, &players, &best_ns),
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
        let what = "--volume-mib: expected at least two groups";
        return Err(Failure::Input(format!("{what} of {group} MiB, found a volume of {volume} MiB")));
    }
    let shape = Shape { block_bytes, group_blocks: ((options.group_mib as usize) << 20) / block_bytes, groups };
    if u32::try_from(shape.blocks()).is_err() {
        let what = "--volume-mib: expected less than 2^32 blocks, found";
        return Err(Failure::Input(format!("{what} {}", shape.blocks())));
    }
    Ok(shape)
}

fn players() -> Vec<Player> {
    let mut players = vec![Player::Known, Player::Chooser];
    players.extend(ALGORITHMS.iter().map(|algorithm| Player::Flat(algorithm.name, algorithm.find)));
    players.extend([Player::Flat("flat", |bytes, state, from| Bitmap::new(bytes).find(state, from)), Player::Summary]);
    players
}

impl Stage {
    /// Makes an old volume, and plays the work once to know its answers.
    fn new(shape: Shape, options: &Options) -> Stage {
        let mut workload = Workload::new(options.seed, options.full.into());
        let find = |bytes: &[u8], state, from| Bitmap::new(bytes).find(state, from);
        let mut volume = Volume::new(shape, Flat { shape, bytes: vec![0; shape.map_bytes()], find });
        workload.age(&mut volume);
        let map = volume.map.bytes.clone();
        let mut played = volume.with_map(Flat { shape, bytes: map.clone(), find });
        played.answers = Some(Vec::new());
        options.workload.play(&mut workload.clone(), &mut played);
        let answers = played.answers.take().unwrap_or_default();
        let counters = played.counters;
        Stage { shape, work: options.workload, map, volume: volume.with_map(()), workload, answers, counters }
    }

    /// The time of one play, in nanoseconds.
    fn time(&self, player: Player) -> u64 {
        let (shape, bytes) = (self.shape, self.map.clone());
        match player {
            Player::Known => self.play(Known { bytes, answers: self.answers.iter(), chooses: false }, false),
            Player::Chooser => self.play(Known { bytes, answers: self.answers.iter(), chooses: true }, true),
            Player::Flat(_, find) => self.play(Flat { shape, bytes, find }, true),
            Player::Summary => {
                let mut bytes = bytes;
                let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
                let map = Indexed::new(&mut bytes, &[State::Free], &mut storage).expect("the storage was made for it");
                self.play(Summary { shape, map }, true)
            }
        }
    }

    fn play<M: Map>(&self, map: M, chooses: bool) -> u64 {
        let mut volume = self.volume.with_map(map);
        let mut workload = self.workload.clone();
        let start = Instant::now();
        self.work.play(&mut workload, &mut volume);
        let elapsed = start.elapsed();
        // Every search gives the same answers, so each does the same work; the counters would differ if not.
        assert!(!chooses || volume.counters == self.counters, "a search gave another answer");
        elapsed.as_nanos() as u64
    }
}

/// The time of the work without search and choice, and without search.
fn without(best_ns: &[u64]) -> (u64, u64) {
    (best_ns[0], best_ns[1].max(best_ns[0]))
}

fn print(out: &mut impl Write, options: &Options, stage: &Stage, players: &[Player], ns: &[u64]) -> io::Result<()> {
    let Counters { taken, freed, groups_looked_at, passed } = stage.counters;
    let shape = stage.shape;
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
    writeln!(out, "{taken} blocks taken, each with a search, and {freed} freed; a search passes")?;
    writeln!(
        out,
        "{:.1} blocks and looks at {:.2} groups in the mean",
        passed as f64 / taken as f64,
        groups_looked_at as f64 / taken as f64
    )?;
    let (bare, chosen) = without(ns);
    writeln!(out, "\n{:>22} {:>10} {:>10} {:>9} {:>11}", "", "total ms", "search ms", "of total", "ns a search")?;
    for (player, &ns) in players.iter().zip(ns) {
        let search = ns.saturating_sub(chosen);
        write!(out, "{:>22} {:>10.1}", player.name(), ns as f64 / 1e6)?;
        match player {
            Player::Known => writeln!(out)?,
            Player::Chooser => writeln!(out, "   (choosing groups: {:.1} ms)", (chosen - bare) as f64 / 1e6)?,
            _ => {
                let share = 100.0 * search as f64 / ns as f64;
                let each = search as f64 / taken as f64;
                writeln!(out, " {:>10.1} {share:>7.1} % {each:>11.1}", search as f64 / 1e6)?;
            }
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, options: &Options, stage: &Stage, players: &[Player], ns: &[u64]) -> io::Result<()> {
    let Counters { taken, freed, groups_looked_at, passed } = stage.counters;
    let (bare, chosen) = without(ns);
    let searches: Vec<_> = players
        .iter()
        .zip(ns)
        .skip(2)
        .map(|(player, &ns)| json!({"name": player.name(), "total_ns": ns, "search_ns": ns.saturating_sub(chosen)}))
        .collect();
    let value = json!({
        "workload": options.workload.name(), "seed": options.seed, "groups": stage.shape.groups,
        "group_blocks": stage.shape.group_blocks, "block_bytes": stage.shape.block_bytes, "full_percent": options.full,
        "rounds": options.rounds, "blocks_taken": taken, "blocks_freed": freed, "groups_looked_at": groups_looked_at,
        "blocks_passed": passed, "without_search_and_choice_ns": bare, "without_search_ns": chosen,
        "searches": searches,
    });
    writeln!(out, "{value:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block in the state at or after `from`, by looking at each.
    fn naive(bytes: &[u8], state: State, from: usize) -> Option<usize> {
        (from..bytes.len() * 4).find(|block| bytes[block / 4] >> (block % 4 * 2) & 3 == state.bits())
    }

    fn stage(work: Work, seed: u64) -> Stage {
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
        Stage::new(shape(&options).unwrap_or_else(|_| panic!("a good shape")), &options)
    }

    fn answers<M: Map>(stage: &Stage, map: M) -> (Vec<u32>, usize, Counters) {
        let mut volume = stage.volume.with_map(map);
        volume.answers = Some(Vec::new());
        stage.work.play(&mut stage.workload.clone(), &mut volume);
        (volume.answers.unwrap(), volume.free, volume.counters)
    }

    #[test]
    fn all_searches_take_the_blocks_that_the_naive_one_takes() {
        for (work, seed) in [(Work::Mp3, 1), (Work::Grow, 2)] {
            let stage = stage(work, seed);
            let shape = stage.shape;
            let flat = |find| Flat { shape, bytes: stage.map.clone(), find };
            let expected = answers(&stage, flat(naive));
            assert_eq!(expected.0, stage.answers);
            assert!(expected.2.taken > 10_000 && expected.2.passed > expected.2.taken, "the work is too easy");
            assert_eq!(expected.1 as u64, stage.volume.free as u64 + expected.2.freed - expected.2.taken);
            for algorithm in ALGORITHMS {
                assert!(answers(&stage, flat(algorithm.find)) == expected, "{}", algorithm.name);
            }
            let mut bytes = stage.map.clone();
            let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
            let map = Indexed::new(&mut bytes, &[State::Free], &mut storage).unwrap();
            assert!(answers(&stage, Summary { shape, map }) == expected, "summary");
            for player in players() {
                assert!(stage.time(player) > 0);
            }
        }
    }

    #[test]
    fn counters_of_a_volume_are_those_of_its_map() {
        let stage = stage(Work::Mp3, 3);
        assert_eq!(Bitmap::new(&stage.map[..]).count().of(State::Free), stage.volume.free);
        assert!(stage.volume.free < stage.shape.blocks() * 15 / 100, "the volume is nearly full");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(stage(Work::Grow, 4).answers, stage(Work::Grow, 4).answers);
        assert_ne!(stage(Work::Grow, 4).answers, stage(Work::Grow, 5).answers);
    }
}
