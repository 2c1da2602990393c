// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exerciser itself: it must find each of the planted mistakes in a file system that is a vector.

use super::exercise::{Interface, KINDS, Kind, Operation, Run, exercise};
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Growing shows bytes again that an earlier truncation cut off.
    StaleTail,
    /// A hole reaches one byte too far.
    LongHole,
    /// Zeroing with `keep` lengthens the file.
    ZeroGrows,
    /// Reserved space changes the length although the file shall keep it.
    AllocateGrows,
    /// A copy is read again from the first page of the file.
    CopyFromStart,
    /// `SEEK_DATA` skips the file's second page.
    DataInHole,
    /// The page cache is not told of direct writes.
    StaleCache,
    /// A write through a map is lost when the page cache is dropped.
    LostMap,
    /// A clean end loses the last byte.
    ShortEnd,
    /// A kill goes back to the state before the last `fsync`.
    LostSync,
}

const MISTAKES: [Mistake; 10] = [
    Mistake::StaleTail,
    Mistake::LongHole,
    Mistake::ZeroGrows,
    Mistake::AllocateGrows,
    Mistake::CopyFromStart,
    Mistake::DataInHole,
    Mistake::StaleCache,
    Mistake::LostMap,
    Mistake::ShortEnd,
    Mistake::LostSync,
];

/// A file in memory, with a page cache where a mistake needs one.
#[derive(Default)]
struct Planted {
    mistake: Option<Mistake>,
    content: Vec<u8>,
    /// Bytes beyond the end that truncations left.
    tail: Vec<u8>,
    /// Content as a reader without direct I/O sees it, if that differs.
    cached: Option<Vec<u8>>,
    /// Content at the last `fsync`.
    synced: Vec<u8>,
}

impl Planted {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn resize(&mut self, len: usize) {
        let before = self.content.len();
        if len < before {
            self.tail = self.content.split_off(len);
        } else {
            self.content.resize(len, 0);
            if self.is(Mistake::StaleTail) {
                let stale = self.tail.len().min(len - before);
                self.content[before..before + stale].copy_from_slice(&self.tail[..stale]);
            }
            self.tail.clear();
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.resize(self.content.len().max(at + bytes.len()));
        self.content[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn clear(&mut self, at: usize, end: usize) {
        let len = self.content.len();
        self.content[at.min(len)..end.min(len)].fill(0);
    }

    fn read(&self, operation: &Operation) -> Vec<u8> {
        let from = match operation.kind {
            Kind::DirectRead => &self.content,
            _ => self.cached.as_ref().unwrap_or(&self.content),
        };
        let (at, end) = (operation.at as usize, (operation.at + operation.len) as usize);
        let mut bytes = from[at.min(from.len())..end.min(from.len())].to_vec();
        if operation.kind == Kind::Holes && self.is(Mistake::DataInHole) {
            bytes.iter_mut().skip(4096).take(4096).for_each(|byte| *byte = 0);
        }
        bytes
    }

    fn change(&mut self, operation: &Operation, bytes: &[u8]) {
        let (at, end) = (operation.at as usize, (operation.at + operation.len) as usize);
        match operation.kind {
            Kind::Write | Kind::DirectWrite | Kind::MappedWrite => self.write(at, bytes),
            Kind::Truncate => self.resize(at),
            Kind::Punch => self.clear(at, end + usize::from(self.is(Mistake::LongHole))),
            Kind::Zero => {
                if !operation.keep || self.is(Mistake::ZeroGrows) {
                    self.resize(self.content.len().max(end));
                }
                self.clear(at, end);
            }
            Kind::Allocate if !operation.keep || self.is(Mistake::AllocateGrows) => {
                self.resize(self.content.len().max(end));
            }
            Kind::Copy => {
                let from = if self.is(Mistake::CopyFromStart) { 0 } else { at };
                let bytes = self.content[from..from + end - at].to_vec();
                self.write(operation.to as usize, &bytes);
            }
            Kind::Sync => self.synced = self.content.clone(),
            Kind::Stop if self.is(Mistake::ShortEnd) => drop(self.content.pop()),
            Kind::Kill if self.is(Mistake::LostSync) => self.content = self.synced.clone(),
            _ => {}
        }
    }
}

impl Interface for Planted {
    fn kinds(&self) -> Vec<Kind> {
        use Kind::*;
        let io = [Read, MappedRead, DirectRead, Write, MappedWrite, DirectWrite, Truncate, Punch, Zero, Allocate];
        let kinds = [&io[..], &[Copy, Holes, Sync, Forget, Reopen, Stop, Kill]].concat();
        assert_eq!(kinds.len(), KINDS);
        kinds
    }

    fn run(&mut self, operation: &Operation, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let before = self.content.clone();
        self.change(operation, bytes);
        match operation.kind {
            Kind::Read | Kind::MappedRead | Kind::DirectRead | Kind::Holes => return Ok(self.read(operation)),
            // A read of the same length after a direct write is what sees the stale page cache.
            Kind::DirectWrite if self.is(Mistake::StaleCache) && before.len() == self.content.len() => {
                self.cached = Some(before);
            }
            Kind::MappedWrite if self.is(Mistake::LostMap) => {
                self.cached = Some(std::mem::replace(&mut self.content, before));
            }
            Kind::Forget => self.cached = None,
            _ => self.cached = self.cached.take().filter(|_| operation.kind == Kind::Sync),
        }
        Ok(Vec::new())
    }

    fn len(&mut self) -> io::Result<u64> {
        Ok(self.content.len() as u64)
    }
}

#[test]
fn exerciser_finds_each_planted_mistake_and_nothing_else() {
    for seed in 1..4 {
        let run = Run { operations: 20_000, seed, longest: 100_000 };
        for mistake in MISTAKES {
            let found = exercise(&mut Planted { mistake: Some(mistake), ..Planted::default() }, &run);
            let text = found.expect_err(&format!("{mistake:?} is not found with seed {seed}"));
            assert!(text.contains(&format!("seed: {seed}")) && text.contains("the last operations"), "{text}");
        }
        let counts = exercise(&mut Planted::default(), &run).unwrap();
        assert!(counts.iter().all(|(_, count)| *count > 0), "{counts:?}");
        let again = exercise(&mut Planted::default(), &run).unwrap();
        assert_eq!(counts, again, "a seed gives the same operations");
    }
}
