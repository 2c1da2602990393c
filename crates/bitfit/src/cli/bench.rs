// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitfit bench`: the experiment of the bug, and what the machine could do at best.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bitfit::history::ALGORITHMS;
use bitfit::{Bitmap, Indexed, Kernel, State};
use clap::Args;
use serde::Serialize;

use super::plot::{self, Chart, Line};
use super::stopwatch::{Contestant, Times, race};
use super::{Failure, Format, maps};

/// Size of the bug's map.
const SEED_BYTES: usize = 50 << 20;

/// The bug's frequencies of metadata, none before them and a wild one behind.
const FACTORS: [u64; 7] = [0, 116, 91, 85, 49, 28, 4];

/// Sizes in KiB: what GFS2 searches at a time, caches of all levels, memory.
const SIZES_KIB: [usize; 10] = [4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 50 << 10, 256 << 10, 1 << 20];

/// What the races are called that the plots show.
const BY_FRAGMENTATION: &str = "the bug's experiment";
const BY_SIZE: &str = "sizes";

/// The slow searches run once if a call takes longer than this.
const PATIENCE_NS: f64 = 40e6;

/// What to measure and how to show it.
#[derive(Args)]
pub struct Options {
    /// How to print the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Rounds of each race; the best time counts.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Largest map, in MiB.
    #[arg(long, default_value_t = 1024)]
    max_mib: usize,
    /// Draws speed by fragmentation and by size into this SVG file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// One race: a map, a search, and how long each contestant took.
#[derive(Serialize)]
struct Race {
    what: String,
    map_bytes: usize,
    /// Bytes that a flat search passes.
    searched_bytes: usize,
    trandfactor: u64,
    state: &'static str,
    results: Vec<Time>,
}

#[derive(Serialize)]
struct Time {
    name: String,
    /// The shortest time of a round.
    ns: f64,
    /// The median of the rounds.
    median_ns: f64,
    /// Bytes passed in a nanosecond, which is 10^9 bytes in a second.
    gb_per_s: f64,
    /// Speed as a share of the fastest plain read of the same bytes in the same race.
    of_read_limit: Option<f64>,
    /// The same of medians.
    median_of_read_limit: Option<f64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Failure> {
    if let Some(path) = &options.plot {
        // A wrong path is told before the minutes that measuring takes.
        File::create(path).map_err(|error| undrawable(path, &error))?;
    }
    let mut races = Vec::new();
    let limit = options.max_mib << 20;
    let mut buffer = vec![0; limit.max(64 << 10)];
    let rounds = options.rounds.into();
    if SEED_BYTES <= limit {
        for factor in FACTORS {
            races.push(search(&mut buffer[..SEED_BYTES], BY_FRAGMENTATION, State::Free, factor, rounds));
        }
        for state in [State::Used, State::Unlinked, State::Dinode] {
            races.push(search(&mut buffer[..SEED_BYTES], "other states", state, 85, rounds));
        }
    }
    for bytes in SIZES_KIB.map(|kib| kib << 10).into_iter().filter(|&bytes| bytes <= limit) {
        races.push(search(&mut buffer[..bytes], BY_SIZE, State::Free, 85, rounds));
        races.push(count(&buffer[..bytes], rounds));
    }
    races.push(near(&mut buffer[..64 << 10], rounds));
    races.push(set(&mut buffer[..64 << 10], rounds));
    if let Some(path) = &options.plot {
        plot::draw(path, &charts(&races)).map_err(|error| undrawable(path, &*error))?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match options.format {
        Format::Text => races.iter().try_for_each(|race| print(&mut out, race)),
        Format::Json => serde_json::to_writer_pretty(&mut out, &races).map_err(io::Error::from),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)
}

fn undrawable(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::Input(format!("{}: cannot be drawn: {error}", path.display()))
}

/// The two charts. Races that were not run leave gaps, or no chart.
fn charts(races: &[Race]) -> Vec<Chart<'static>> {
    let fragmentation = |race: &Race| {
        let place = FACTORS.iter().position(|&factor| factor == race.trandfactor)?;
        (race.what == BY_FRAGMENTATION).then_some(place as f64)
    };
    let size = |race: &Race| (race.what == BY_SIZE).then(|| (race.map_bytes as f64).log2());
    let factor_name = |place: f64| match FACTORS.get(place.round() as usize) {
        _ if place.fract().abs() > 0.01 => String::new(),
        Some(0) => "no metadata".into(),
        Some(factor) => format!("1 in {factor}"),
        None => String::new(),
    };
    let size_name = |bytes: f64| match bytes.round() as u32 {
        bits @ 0..20 => format!("{} KiB", 1 << (bits.max(10) - 10)),
        bits @ 20..30 => format!("{} MiB", 1 << (bits - 20)),
        bits => format!("{} GiB", 1_u64 << (bits - 30).min(33)),
    };
    let charts = [
        Chart {
            title: "A map of 50 MiB by its fragmentation",
            axis: "blocks that are metadata",
            label: Box::new(factor_name),
            labels: FACTORS.len(),
            lines: lines(races, &fragmentation),
        },
        Chart {
            title: "Maps of all sizes, one block in 85 is metadata",
            axis: "size of the map",
            label: Box::new(size_name),
            labels: SIZES_KIB.len(),
            lines: lines(races, &size),
        },
    ];
    charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect()
}

/// The speeds of every flat search and of the fastest plain read, in the races that have a place on the axis.
fn lines(races: &[Race], place: &dyn Fn(&Race) -> Option<f64>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |name: &str, point: (f64, f64)| match lines.iter_mut().find(|line| line.name == name) {
        Some(line) => line.points.push(point),
        None => lines.push(Line { name: name.into(), points: vec![point] }),
    };
    for (race, place) in races.iter().filter_map(|race| Some((race, place(race)?))) {
        let speed = |time: &Time| (place, time.gb_per_s);
        let (reads, searches): (Vec<_>, Vec<_>) = race.results.iter().partition(|time| time.name.starts_with("read "));
        // What a summary does not read at all has no speed.
        searches.iter().filter(|time| time.name != "summary").for_each(|time| add(&time.name, speed(time)));
        if let Some(fastest) = reads.into_iter().max_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s)) {
            add("plain read", speed(fastest));
        }
    }
    lines
}

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
}

/// Plain reads of `bytes` with all kernels; the fastest is the limit.
fn reads<'a>(bytes: &'a [u8]) -> impl Iterator<Item = Contestant<'a>> {
    kernels().map(move |kernel| Contestant {
        name: format!("read {}", kernel.name()),
        work: Box::new(move || usize::from(bitfit::read(kernel, black_box(bytes)))),
    })
}

/// The search of the bug's experiment: the only block in the state lies near the end, the goal is at 25 %.
fn search(bytes: &mut [u8], what: &str, state: State, factor: u64, rounds: usize) -> Race {
    maps::fill(bytes, state, factor);
    let mut copy = if bytes.len() <= SEED_BYTES { bytes.to_vec() } else { Vec::new() };
    let goal = bytes.len();
    let bytes = &*bytes;
    let passed = &bytes[goal / 4..bytes.len() - 100];
    let mut storage = vec![0; Indexed::words_per_state(copy.len())];
    let mut contestants: Vec<_> = ALGORITHMS
        .iter()
        .map(|algorithm| Contestant {
            name: algorithm.name.into(),
            work: Box::new(move || (algorithm.find)(black_box(bytes), state, goal).unwrap_or(0)),
        })
        .collect();
    contestants.extend(kernels().map(|kernel| Contestant {
        name: kernel.name().into(),
        work: Box::new(move || Bitmap::new(black_box(bytes)).find_with(kernel, state, goal).unwrap_or(0)),
    }));
    if !copy.is_empty() {
        let mut map = Indexed::new(&mut copy, &[state], &mut storage).expect("the storage was made for it");
        contestants.push(Contestant {
            name: "summary".into(),
            work: Box::new(move || black_box(&mut map).find(state, goal).unwrap_or(0)),
        });
    }
    contestants.extend(reads(passed));
    finish(what, bytes.len(), passed.len(), factor, state, contestants, rounds)
}

/// Counting all states.
fn count(bytes: &[u8], rounds: usize) -> Race {
    let mut contestants = vec![Contestant {
        name: "word by word".into(),
        work: Box::new(|| bitfit::count_word_by_word(black_box(bytes)).of(State::Free)),
    }];
    contestants.extend(kernels().map(|kernel| Contestant {
        name: kernel.name().into(),
        work: Box::new(move || Bitmap::new(black_box(bytes)).count_with(kernel).of(State::Free)),
    }));
    contestants.extend(reads(bytes));
    finish("counting", bytes.len(), bytes.len(), 85, State::Free, contestants, rounds)
}

/// Searches in a map of random states: the block is a few pairs away. The time is that of 1000 searches.
fn near(bytes: &mut [u8], rounds: usize) -> Race {
    let mut random = maps::Random(1);
    bytes.fill_with(|| random.byte());
    let bytes = &*bytes;
    let goals = move || (0..1000).map(|i| i * 261);
    let mut contestants: Vec<_> = ALGORITHMS
        .iter()
        .map(|algorithm| Contestant {
            name: algorithm.name.into(),
            work: Box::new(move || {
                goals().map(|goal| (algorithm.find)(black_box(bytes), State::Free, goal).unwrap_or(0)).sum()
            }),
        })
        .collect();
    contestants.push(Contestant {
        name: "find".into(),
        work: Box::new(move || {
            let map = Bitmap::new(bytes);
            goals().map(|goal| black_box(&map).find(State::Free, goal).unwrap_or(0)).sum()
        }),
    });
    finish("1000 near hits", bytes.len(), 0, 0, State::Free, contestants, rounds)
}

/// Taking and freeing a block here and there. The time is that of 1000 pairs of changes.
fn set(bytes: &mut [u8], rounds: usize) -> Race {
    bytes.fill(0x55);
    let length = bytes.len();
    let mut copy = bytes.to_vec();
    let mut storage = vec![0; Indexed::words_per_state(length)];
    let mut indexed = Indexed::new(&mut copy, &[State::Free], &mut storage).expect("the storage was made for it");
    let mut bare = Bitmap::new(bytes);
    let blocks = || (0..1000).map(|i| i * 261);
    let contestants = vec![
        Contestant {
            name: "bare".into(),
            work: Box::new(move || {
                let freed = blocks().filter(|&block| black_box(&mut bare).set(block, State::Free).is_ok()).count();
                freed + blocks().filter(|&block| black_box(&mut bare).set(block, State::Used).is_ok()).count()
            }),
        },
        Contestant {
            name: "summary".into(),
            work: Box::new(move || {
                let freed = blocks().filter(|&block| black_box(&mut indexed).set(block, State::Free).is_ok()).count();
                freed + blocks().filter(|&block| black_box(&mut indexed).set(block, State::Used).is_ok()).count()
            }),
        },
    ];
    finish("1000 blocks freed and taken", length, 0, 0, State::Free, contestants, rounds)
}

/// Runs the race and computes what the table shows.
fn finish(
    what: &str,
    map_bytes: usize,
    searched_bytes: usize,
    trandfactor: u64,
    state: State,
    mut contestants: Vec<Contestant<'_>>,
    rounds: usize,
) -> Race {
    // Small maps get more rounds: they cost nothing.
    let rounds = if map_bytes <= 1 << 20 { rounds * 20 } else { rounds };
    let times = race(&mut contestants, rounds, PATIENCE_NS);
    let is_read = |contestant: &Contestant<'_>| contestant.name.starts_with("read ");
    let pairs = || contestants.iter().zip(&times);
    let limit =
        |ns: fn(&Times) -> f64| pairs().filter(|(c, _)| is_read(c)).map(|(_, times)| ns(times)).reduce(f64::min);
    let (limit_ns, median_limit_ns) = (limit(|times| times.best_ns), limit(|times| times.median_ns));
    // What does not read the map has no speed.
    let reads = |contestant: &Contestant<'_>| contestant.name != "summary";
    let results = pairs()
        .map(|(contestant, &Times { best_ns, median_ns })| Time {
            name: contestant.name.clone(),
            ns: best_ns,
            median_ns,
            gb_per_s: searched_bytes as f64 / best_ns,
            of_read_limit: limit_ns.filter(|_| reads(contestant)).map(|limit_ns| limit_ns / best_ns),
            median_of_read_limit: median_limit_ns.filter(|_| reads(contestant)).map(|limit_ns| limit_ns / median_ns),
        })
        .collect();
    Race { what: what.into(), map_bytes, searched_bytes, trandfactor, state: state.name(), results }
}

/// Prints one race as a table in the manner of the bug: times, and how many times faster than the first line.
fn print(out: &mut impl Write, race: &Race) -> io::Result<()> {
    writeln!(out, "{}, map of {} KiB, {} wanted", race.what, race.map_bytes >> 10, race.state)?;
    writeln!(out, "trandfactor = {}", race.trandfactor)?;
    writeln!(
        out,
        "{:>14} {:>13} {:>13} {:>8} {:>7} {:>14}",
        "", "best us", "median us", "x first", "GB/s", "of read limit"
    )?;
    let first_ns = race.results.first().map_or(f64::NAN, |first| first.ns);
    for time in &race.results {
        let times = first_ns / time.ns;
        write!(out, "{:>14} {:>13.3} {:>13.3} {times:>8.2}", time.name, time.ns / 1e3, time.median_ns / 1e3)?;
        match (time.of_read_limit, time.median_of_read_limit) {
            (Some(best), Some(median)) => {
                writeln!(out, " {:>7.2} {:>6.1}%,{:>5.1}%", time.gb_per_s, best * 100.0, median * 100.0)?;
            }
            _ => writeln!(out)?,
        }
    }
    writeln!(out)
}
