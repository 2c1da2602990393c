// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations on one file, each compared with a flat vector: the method of fsx ("file system exerciser"), which
//! was written at NeXT and Apple and is run on every file system of Linux.

use super::random::Random;
use std::io;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads `len` bytes at `at`, through the page cache where there is one.
    Read,
    /// Reads through a memory map.
    MappedRead,
    /// Reads with `O_DIRECT`.
    DirectRead,
    /// Writes `len` bytes at `at`.
    Write,
    /// Writes through a memory map.
    MappedWrite,
    /// Writes with `O_DIRECT`.
    DirectWrite,
    /// Makes the file `at` bytes long.
    Truncate,
    /// Makes a hole of `len` bytes at `at`; the file keeps its length.
    Punch,
    /// Zeroes `len` bytes at `at`; unless `keep`, the file grows to the end of the range.
    Zero,
    /// Reserves space for `len` bytes at `at`; unless `keep`, the file grows to the end of the range.
    Allocate,
    /// Copies `len` bytes from `at` to `to` in the file system; the ranges do not overlap.
    Copy,
    /// Reads what `SEEK_DATA` and `SEEK_HOLE` call data, and takes zeros for the holes.
    Holes,
    /// `fsync`.
    Sync,
    /// Drops the file's pages from the page cache, so that the next reads ask the server.
    Forget,
    /// Closes the file and opens it again.
    Reopen,
    /// `fsync`, then ends the server cleanly and starts it again.
    Stop,
    /// `fsync`, then kills the server and starts it again.
    Kill,
}

/// How often each kind occurs, relative to the others.
const WEIGHTS: [(Kind, u64); 17] = [
    (Kind::Read, 300),
    (Kind::MappedRead, 150),
    (Kind::DirectRead, 100),
    (Kind::Write, 300),
    (Kind::MappedWrite, 150),
    (Kind::DirectWrite, 100),
    (Kind::Truncate, 120),
    (Kind::Punch, 80),
    (Kind::Zero, 60),
    (Kind::Allocate, 60),
    (Kind::Copy, 80),
    (Kind::Holes, 40),
    (Kind::Sync, 30),
    (Kind::Forget, 60),
    (Kind::Reopen, 40),
    (Kind::Stop, 1),
    (Kind::Kill, 3),
];

/// Number of kinds.
pub const KINDS: usize = WEIGHTS.len();

/// Bytes that a run's longest operation reads or writes.
const LONGEST: u64 = 128 << 10;
/// Operations that a failure prints.
const HISTORY: usize = 24;
const PAGE: u64 = 4096;

/// An operation. Which fields have a meaning depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    /// Offset in the file, in bytes.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
    /// Target of a copy, in bytes from the beginning of the file.
    pub to: u64,
    /// Whether the file keeps its length.
    pub keep: bool,
}

/// A file under test.
pub trait Interface {
    /// Kinds of operations that it has.
    fn kinds(&self) -> Vec<Kind>;

    /// Carries out an operation. `bytes` is what a write writes; the result is what a read has read.
    fn run(&mut self, operation: &Operation, bytes: &[u8]) -> io::Result<Vec<u8>>;

    /// Length of the file, in bytes.
    fn len(&mut self) -> io::Result<u64>;
}

/// Size and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Number of operations.
    pub operations: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// Greatest length of the file, in bytes.
    pub longest: u64,
}

/// Number of operations of each kind, in the order of `WEIGHTS`; kinds that the interface lacks have none.
pub type Counts = [(Kind, u64); KINDS];

/// Runs random operations and compares content and length with a flat vector.
///
/// # Errors
/// The first difference or failed operation, with the operations before it.
pub fn exercise(interface: &mut impl Interface, run: &Run) -> Result<Counts, String> {
    let mut random = Random(run.seed);
    let mut flat: Vec<u8> = Vec::new();
    let kinds = interface.kinds();
    let mut counts = WEIGHTS.map(|(kind, _)| (kind, 0));
    let mut history: Vec<String> = Vec::new();
    let all = Operation { kind: Kind::Read, at: 0, len: run.longest, to: 0, keep: false };
    for number in 0..=run.operations {
        // The last operation reads the whole file.
        let operation = if number == run.operations { all } else { draw(&mut random, &kinds, flat.len() as u64, run) };
        history.push(format!("{number:>7} length {:#x} {operation:x?}", flat.len()));
        let bytes = pattern(&operation, number);
        let expected = apply(&mut flat, &operation, &bytes);
        let compared = interface
            .run(&operation, &bytes)
            .map_err(|error| format!("fails: {error}"))
            .and_then(|found| compare(&operation, &found, &expected))
            .and_then(|()| match interface.len() {
                Ok(len) if len == flat.len() as u64 => Ok(()),
                Ok(len) => Err(format!("leaves a file of {len:#x} bytes, expected {:#x}", flat.len())),
                Err(error) => Err(format!("leaves a file without a length: {error}")),
            });
        if let Err(what) = compared {
            let last = history[history.len().saturating_sub(HISTORY)..].join("\n");
            return Err(format!("{run:?}: operation {number} {what}\nthe last operations:\n{last}"));
        }
        if let Some((_, count)) = counts.iter_mut().find(|(kind, _)| *kind == operation.kind) {
            *count += 1;
        }
    }
    Ok(counts)
}

/// The first difference between the bytes that were read and those that are expected.
fn compare(operation: &Operation, found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("reads {:#x} bytes, expected {:#x}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(first) => {
            let wrong = found.iter().zip(expected).filter(|(a, b)| a != b).count();
            let at = operation.at + first as u64;
            let (found, expected) = (found[first], expected[first]);
            Err(format!("reads {found:#04x} at {at:#x}, expected {expected:#04x}; {wrong:#x} bytes are wrong"))
        }
    }
}

/// Chooses an operation that the file's length allows.
fn draw(random: &mut Random, kinds: &[Kind], size: u64, run: &Run) -> Operation {
    let offered = || WEIGHTS.iter().filter(|(kind, _)| kinds.contains(kind));
    let mut ticket = random.below(offered().map(|(_, weight)| weight).sum());
    let kind = offered().find(|(_, weight)| {
        let found = ticket < *weight;
        ticket = ticket.saturating_sub(*weight);
        found
    });
    let kind = kind.map_or(Kind::Read, |(kind, _)| *kind);
    let mut at = random.below(run.longest);
    let most = [32, 2 * PAGE, LONGEST, LONGEST][random.below(4) as usize];
    let mut len = 1 + random.below(most);
    match random.below(4) {
        0 => (at, len) = (at / PAGE * PAGE, len.next_multiple_of(PAGE)),
        // Ranges that begin or end near the end of the file have rules of their own.
        1 => at = (size + random.below(64)).saturating_sub(random.below(64)).min(run.longest - 1),
        _ => {}
    }
    let operation = Operation { kind, at, len: len.min(run.longest - at), to: 0, keep: random.below(2) == 0 };
    within(operation, random, size, run.longest)
}

/// Restricts operations that need existing bytes to the file; a file without bytes is read instead.
fn within(mut operation: Operation, random: &mut Random, size: u64, longest: u64) -> Operation {
    use Kind::{Copy, Forget, Holes, Kill, MappedRead, MappedWrite, Read, Reopen, Stop, Sync, Truncate};
    match operation.kind {
        MappedRead | MappedWrite | Copy if size == 0 => operation.kind = Read,
        MappedRead | MappedWrite | Copy => {
            operation.at %= size;
            operation.len = operation.len.min(size - operation.at);
        }
        Truncate | Sync | Forget | Reopen | Stop | Kill => operation.len = 0,
        Holes => (operation.at, operation.len) = (0, size),
        _ => {}
    }
    if operation.kind == Copy {
        operation.to = random.below(longest);
        let apart = operation.to.abs_diff(operation.at);
        operation.len = operation.len.min(apart).min(longest - operation.to);
        if operation.len == 0 {
            operation.kind = Read;
        }
    }
    operation
}

/// Bytes that differ between operations and between pages, and are never zero.
fn pattern(operation: &Operation, number: u64) -> Vec<u8> {
    if !matches!(operation.kind, Kind::Write | Kind::MappedWrite | Kind::DirectWrite) {
        return Vec::new();
    }
    let byte = |at: u64| ((at + at / 251 + number * 37) % 255) as u8 + 1;
    (operation.at..operation.at + operation.len).map(byte).collect()
}

/// Carries out an operation on the flat vector; returns the bytes that it must read.
fn apply(flat: &mut Vec<u8>, operation: &Operation, bytes: &[u8]) -> Vec<u8> {
    use Kind::{Allocate, Copy, DirectRead, DirectWrite, Holes, MappedRead, MappedWrite, Punch, Read, Truncate};
    use Kind::{Write, Zero};
    let clip = |flat: &Vec<u8>, offset: u64| (offset as usize).min(flat.len());
    let (at, end) = (operation.at as usize, (operation.at + operation.len) as usize);
    match operation.kind {
        Read | MappedRead | DirectRead | Holes => {
            return flat[clip(flat, operation.at)..clip(flat, end as u64)].to_vec();
        }
        Write | MappedWrite | DirectWrite => {
            flat.resize(flat.len().max(end), 0);
            flat[at..end].copy_from_slice(bytes);
        }
        Truncate => flat.resize(at, 0),
        Punch | Zero => {
            if operation.kind == Zero && !operation.keep {
                flat.resize(flat.len().max(end), 0);
            }
            let (from, to) = (clip(flat, operation.at), clip(flat, end as u64));
            flat[from..to].fill(0);
        }
        Allocate if operation.keep => {}
        Allocate => flat.resize(flat.len().max(end), 0),
        Copy => {
            let to = operation.to as usize;
            flat.resize(flat.len().max(to + end - at), 0);
            flat.copy_within(at..end, to);
        }
        _ => {}
    }
    Vec::new()
}
