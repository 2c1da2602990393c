// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmark races: searches and maps that are compared.

use std::hint::black_box;

use bitfit::history::{self, ALGORITHMS, Algorithm};
use bitfit::{Bitmap, Indexed, Kernel, State, maps};
use serde::Serialize;

use super::super::stopwatch::{Contestant, Ratio, Times, paired_timing, race};
use super::SEED_BYTES;

/// Names of the races shown in plots and tables.
pub const BY_FRAGMENTATION: &str = "the bug's experiment";
pub const OTHER_STATES: &str = "other states";
pub const BY_SIZE: &str = "sizes";

/// The search in current Linux.
const LINUX: &str = "2009";

/// A search whose call takes longer than this is timed only once.
const PATIENCE_NS: f64 = 40e6;

/// A race: a map, a search, and the time of each contestant.
#[derive(Serialize)]
pub struct Race {
    pub what: &'static str,
    pub map_bytes: usize,
    /// Bytes that a flat search reads.
    pub searched_bytes: usize,
    pub trandfactor: u64,
    pub state: &'static str,
    pub results: Vec<Time>,
    pub comparisons: Vec<Comparison>,
}

impl Race {
    /// Result of a contestant.
    pub fn time(&self, name: &str) -> Option<&Time> {
        self.results.iter().find(|time| time.name == name)
    }

    /// Comparison with the fastest plain read.
    pub fn of_read_limit(&self) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.rival.starts_with("read "))
    }
}

#[derive(Serialize)]
pub struct Time {
    pub name: String,
    /// Shortest time over the rounds, in nanoseconds.
    pub ns: f64,
    /// Median time over the rounds, in nanoseconds.
    pub median_ns: f64,
    /// Throughput in bytes per nanosecond, that is 10^9 bytes per second.
    pub gb_per_s: f64,
}

/// Speedup of one contestant over another, from paired samples.
#[derive(Serialize)]
pub struct Comparison {
    pub contender: String,
    pub rival: String,
    #[serde(flatten)]
    pub ratio: Ratio,
    /// Minimum ratio that the project aims for.
    pub wanted: Option<f64>,
}

/// Map and search of a race.
#[derive(Clone, Copy)]
pub struct Question {
    pub what: &'static str,
    pub state: State,
    pub factor: u64,
    /// Number of rounds.
    pub effort: usize,
}

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_available())
}

/// Plain read of `bytes`.
fn read(kernel: Kernel, bytes: &[u8]) -> Contestant<'_> {
    Contestant::new(format!("read {}", kernel.name()), move || usize::from(bitfit::read(kernel, black_box(bytes))))
}

/// Fastest plain read of `bytes`, by median time in a separate race of reads. It is selected before the comparison,
/// because selecting the best of several within the comparison would bias the limit upwards.
fn fastest_read(bytes: &[u8], effort: usize) -> Contestant<'_> {
    let mut reads: Vec<_> = kernels().map(|kernel| read(kernel, bytes)).collect();
    let times = race(&mut reads, effort, f64::INFINITY);
    let fastest = (0..reads.len()).min_by(|&a, &b| times[a].median_ns.total_cmp(&times[b].median_ns));
    reads.swap_remove(fastest.expect("the portable kernel is always there"))
}

fn compare(mut contender: Contestant<'_>, mut rival: Contestant<'_>, effort: usize, wanted: Option<f64>) -> Comparison {
    let ratio = paired_timing(&mut contender, &mut rival, effort);
    Comparison { contender: contender.name, rival: rival.name, ratio, wanted }
}

fn algorithm(name: &str) -> &'static Algorithm {
    history::find(name).expect("the name is one of the module's")
}

/// The search with which the bug was demonstrated: the only block in the wanted state is near the end, and the search
/// starts at 25 %.
pub fn search(bytes: &mut [u8], question: Question) -> Race {
    let Question { state, effort, .. } = question;
    maps::fill(bytes, state, question.factor, 0);
    let mut copy = if bytes.len() <= SEED_BYTES { bytes.to_vec() } else { Vec::new() };
    let goal = bytes.len();
    let bytes = &*bytes;
    let passed = &bytes[goal / 4..bytes.len() - 100];
    let mut storage = vec![0; Indexed::words_per_state(copy.len())];
    let old = |algorithm: &'static Algorithm| {
        Contestant::new(algorithm.name, move || (algorithm.find)(black_box(bytes), state, goal).unwrap_or(0))
    };
    let with = |kernel: Kernel| {
        let find = move || Bitmap::new(black_box(bytes)).find_with(kernel, state, goal).unwrap_or(0);
        Contestant::new(kernel.name(), find)
    };
    let mut contestants: Vec<_> = ALGORITHMS.iter().map(old).chain(kernels().map(with)).collect();
    if !copy.is_empty() {
        let mut map = Indexed::new(&mut copy, &[state], &mut storage).expect("the storage was made for it");
        let find = move || black_box(&mut map).find(state, goal).unwrap_or(0);
        contestants.push(Contestant::new("summary", find));
    }
    contestants.extend(kernels().map(|kernel| read(kernel, passed)));
    let mut race = finish(question, bytes.len(), passed.len(), contestants);
    let find = || Contestant::new("find", || Bitmap::new(black_box(bytes)).find(state, goal).unwrap_or(0));
    // Targets of the project's issue 4 for these map sizes.
    let of_limit = [(SEED_BYTES, 0.95), (1 << 30, 0.90)].into_iter().find(|&(size, _)| size == bytes.len());
    race.comparisons.push(compare(find(), fastest_read(passed, effort), effort, of_limit.map(|(_, wanted)| wanted)));
    race.comparisons.push(compare(with(Kernel::Portable), old(algorithm(LINUX)), effort, Some(1.4)));
    let best_old = ALGORITHMS.iter().min_by(|a, b| {
        let ns = |algorithm: &Algorithm| race.time(algorithm.name).map_or(f64::INFINITY, |time| time.ns);
        ns(a).total_cmp(&ns(b))
    });
    if let Some(best_old) = best_old.filter(|_| question.what == BY_SIZE) {
        race.comparisons.push(compare(find(), old(best_old), effort, Some(1.0)));
    }
    race
}

/// Counts all states.
pub fn count(bytes: &[u8], effort: usize) -> Race {
    let question = Question { what: "counting", state: State::Free, factor: 85, effort };
    let words = || Contestant::new("word by word", || bitfit::count_word_by_word(black_box(bytes)).of(State::Free));
    let with = |kernel: Kernel| {
        Contestant::new(kernel.name(), move || Bitmap::new(black_box(bytes)).count_with(kernel).of(State::Free))
    };
    let mut contestants = vec![words()];
    contestants.extend(kernels().map(with));
    contestants.extend(kernels().map(|kernel| read(kernel, bytes)));
    let mut race = finish(question, bytes.len(), bytes.len(), contestants);
    race.comparisons.extend(kernels().map(|kernel| compare(with(kernel), words(), effort, Some(1.5))));
    race
}

/// Searches in a map of random states, where the block is a few pairs away. The time is for 1000 searches.
pub fn near(bytes: &mut [u8], effort: usize) -> Race {
    let question = Question { what: "1000 near hits", state: State::Free, factor: 0, effort };
    let mut random = maps::Random(1);
    bytes.fill_with(|| random.byte());
    let bytes = &*bytes;
    let goals = move || (0..1000).map(|i| i * 261);
    let old = |algorithm: &'static Algorithm| {
        Contestant::new(algorithm.name, move || {
            goals().map(|goal| (algorithm.find)(black_box(bytes), State::Free, goal).unwrap_or(0)).sum()
        })
    };
    let find = || {
        Contestant::new("find", move || {
            goals().map(|goal| Bitmap::new(black_box(bytes)).find(State::Free, goal).unwrap_or(0)).sum()
        })
    };
    let contestants = ALGORITHMS.iter().map(old).chain([find()]).collect();
    let mut race = finish(question, bytes.len(), 0, contestants);
    race.comparisons.push(compare(find(), old(algorithm(LINUX)), effort, Some(1.0)));
    race
}

/// Allocates and frees scattered blocks. The time is for 1000 pairs of changes.
pub fn set(bytes: &mut [u8], effort: usize) -> Race {
    let question = Question { what: "1000 blocks freed and taken", state: State::Free, factor: 0, effort };
    bytes.fill(0x55);
    let length = bytes.len();
    let mut copy = bytes.to_vec();
    let mut storage = vec![0; Indexed::words_per_state(length)];
    let mut indexed = Indexed::new(&mut copy, &[State::Free], &mut storage).expect("the storage was made for it");
    let mut bare = Bitmap::new(bytes);
    let blocks = || (0..1000).map(|i| i * 261);
    let mut bare = || {
        let freed = blocks().filter(|&block| black_box(&mut bare).set(block, State::Free).is_ok()).count();
        freed + blocks().filter(|&block| black_box(&mut bare).set(block, State::Used).is_ok()).count()
    };
    let mut indexed = || {
        let freed = blocks().filter(|&block| black_box(&mut indexed).set(block, State::Free).is_ok()).count();
        freed + blocks().filter(|&block| black_box(&mut indexed).set(block, State::Used).is_ok()).count()
    };
    let both = vec![Contestant::new("bare", &mut bare), Contestant::new("summary", &mut indexed)];
    let mut race = finish(question, length, 0, both);
    // Target: at most 1.3 times the time of a change without an index.
    let (summary, bare) = (Contestant::new("summary", &mut indexed), Contestant::new("bare", &mut bare));
    race.comparisons.push(compare(summary, bare, effort, Some(1.0 / 1.3)));
    race
}

/// Runs the race and computes the table's values.
fn finish(question: Question, map_bytes: usize, searched_bytes: usize, mut contestants: Vec<Contestant<'_>>) -> Race {
    // Small maps are fast, so they get more rounds.
    let rounds = if map_bytes <= 1 << 20 { question.effort * 20 } else { question.effort };
    let times = race(&mut contestants, rounds, PATIENCE_NS);
    let results = contestants
        .iter()
        .zip(times)
        .map(|(contestant, Times { best_ns, median_ns })| Time {
            name: contestant.name.clone(),
            ns: best_ns,
            median_ns,
            gb_per_s: searched_bytes as f64 / best_ns,
        })
        .collect();
    let Question { what, state, factor, .. } = question;
    Race { what, map_bytes, searched_bytes, trandfactor: factor, state: state.name(), results, comparisons: vec![] }
}
