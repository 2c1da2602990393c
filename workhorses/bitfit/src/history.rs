// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches used or proposed for GFS2 until 2009, for study and comparison.
//!
//! Red Hat bugs 435456 and 446085 compare six of them on a map of 50 MB; the seventh replaced them a year later and
//! is still in Linux. The code of numbers 1, 2 and 5 is clear from the bug; for 3, 4 and 6 it gives only the idea and
//! the times, so these are reconstructions. All are reimplemented, never read outside the map, unlike the originals,
//! and give the same results. They differ in speed.

use crate::State;
use crate::arch::prefetch;
use crate::word::{self, BLOCKS_PER_BYTE, BYTES, LOW, Want};

/// A historical search.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Number in the bug, or the year.
    pub name: &'static str,
    /// Period of use.
    pub when: &'static str,
    /// What makes it fast.
    pub idea: &'static str,
    /// What makes it slow.
    pub weak_spot: &'static str,
    /// Returns the first block of the map in the state at or after the given block.
    pub find: fn(&[u8], State, usize) -> Option<usize>,
}

/// The six searches in the order of the bug, then the one of 2009.
pub const ALGORITHMS: [Algorithm; 7] = [
    Algorithm {
        name: "#1",
        when: "January to March 2008, Linux 2.6.25",
        idea: "skips a word of 32 blocks if all are used",
        weak_spot: "an inode in the word costs 32 single steps; only a search for free blocks skips words",
        find: words_all_used,
    },
    Algorithm {
        name: "#2",
        when: "until 25 January 2008",
        idea: "skips a byte if the low bits of its pairs rule the state out",
        weak_spot: "one byte per step; states with the same low bit cause false stops",
        find: bytes_by_low_bits,
    },
    Algorithm {
        name: "#3",
        when: "tried in March 2008",
        idea: "#1 without redundant tests in the single steps",
        weak_spot: "as #1: still takes single steps",
        find: words_all_used_tight,
    },
    Algorithm {
        name: "#4",
        when: "tried in March 2008",
        idea: "#3, but walks an unskipped word by bytes, and by pairs only bytes with matching low bits",
        weak_spot: "stops at every word with an inode",
        find: words_then_bytes,
    },
    Algorithm {
        name: "#5",
        when: "Linux 2.6.26 to 2.6.29, and GFS",
        idea: "skips aligned words if their low bits rule the state out; prefetches the next word",
        weak_spot: "false stops in searches for unlinked blocks among free ones, or used ones among inodes",
        find: aligned_words::<true>,
    },
    Algorithm {
        name: "#6",
        when: "tried and rejected in March 2008",
        idea: "compares 4 KiB chunks with a chunk that holds no block in the state",
        weak_spot: "a single inode causes 16384 single steps for the chunk",
        find: chunks,
    },
    Algorithm {
        name: "2009",
        when: "since 2009, Linux 2.6.30 and later",
        idea: "computes one exact bit per matching block of a word, without branches within the word",
        weak_spot: "eight bytes per step",
        find: exact_words,
    },
];

/// #5 as it was before its last change, of 10 March 2008: "performance increased about 24% faster than without prefetch".
pub const WITHOUT_PREFETCH: Algorithm = Algorithm {
    name: "#5 without prefetch",
    when: "tried in March 2008",
    idea: "skips aligned words if their low bits rule the state out",
    weak_spot: "as #5, and waits for memory where the processor does not prefetch by itself",
    find: aligned_words::<false>,
};

/// The search of a name: one of [`ALGORITHMS`], or [`WITHOUT_PREFETCH`].
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().chain([&WITHOUT_PREFETCH]).find(|algorithm| algorithm.name == name)
}

/// State of a block.
#[inline(always)]
fn state_at(bytes: &[u8], block: usize) -> State {
    State::from_bits(bytes[block / BLOCKS_PER_BYTE] >> (2 * (block % BLOCKS_PER_BYTE)))
}

/// First block in `state` in `from..end`, tested pair by pair.
#[inline(always)]
fn step(bytes: &[u8], state: State, from: usize, end: usize) -> Option<usize> {
    (from..end).find(|&block| state_at(bytes, block) == state)
}

/// Index of the first pair of a byte that is in `state`.
#[inline(always)]
fn step_byte(byte: u8, state: State) -> Option<usize> {
    (0..BLOCKS_PER_BYTE).find(|block| byte >> (2 * block) & 3 == state.bits())
}

/// Low bits of a word in which no pair can be in `state`: all set for an even state, none for an odd one.
#[inline(always)]
fn excluding(state: State) -> u64 {
    if state.bits() & 1 == 0 { LOW } else { 0 }
}

/// First block of the next byte, or the end of the map.
#[inline(always)]
fn byte_boundary(bytes: &[u8], from: usize) -> usize {
    from.next_multiple_of(BLOCKS_PER_BYTE).min(bytes.len() * BLOCKS_PER_BYTE)
}

/// Search #1 of the bug: skips words of 32 used blocks.
fn words_all_used(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    let blocks = bytes.len() * BLOCKS_PER_BYTE;
    let mut block = from;
    let mut steps_left = 0_u32;
    while block < blocks {
        let at = block / BLOCKS_PER_BYTE;
        if state == State::Free && steps_left == 0 && block.is_multiple_of(BLOCKS_PER_BYTE) && at + BYTES <= bytes.len()
        {
            if word::load(bytes, at) == word::repeat(State::Used) {
                block += BYTES * BLOCKS_PER_BYTE;
                continue;
            }
            steps_left = 32;
        }
        if state_at(bytes, block) == state {
            return Some(block);
        }
        block += 1;
        steps_left = steps_left.saturating_sub(1);
    }
    None
}

/// Search #2 of the bug: skips bytes whose low bits rule the state out.
fn bytes_by_low_bits(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    if from >= bytes.len() * BLOCKS_PER_BYTE {
        return None;
    }
    let start = byte_boundary(bytes, from);
    step(bytes, state, from, start).or_else(|| bytes_from(bytes, state, start / BLOCKS_PER_BYTE, bytes.len()))
}

/// Byte loop of #2 over the bytes `start..end`.
#[inline(always)]
fn bytes_from(bytes: &[u8], state: State, start: usize, end: usize) -> Option<usize> {
    let excluding = excluding(state) as u8;
    for (at, &byte) in bytes[start..end].iter().enumerate() {
        if byte & LOW as u8 == excluding {
            continue;
        }
        if let Some(pair) = step_byte(byte, state) {
            return Some((start + at) * BLOCKS_PER_BYTE + pair);
        }
    }
    None
}

/// Common part of #3 and #4: skips words of used blocks and calls `walk` for the bytes of all others.
#[inline(always)]
fn unless_all_used(
    bytes: &[u8],
    state: State,
    from: usize,
    walk: impl Fn(usize, usize) -> Option<usize>,
) -> Option<usize> {
    if from >= bytes.len() * BLOCKS_PER_BYTE {
        return None;
    }
    let start = byte_boundary(bytes, from);
    if let Some(found) = step(bytes, state, from, start) {
        return Some(found);
    }
    let mut at = start / BLOCKS_PER_BYTE;
    while at + BYTES <= bytes.len() {
        let skipped = state == State::Free && word::load(bytes, at) == word::repeat(State::Used);
        if !skipped && let Some(found) = walk(at, at + BYTES) {
            return Some(found);
        }
        at += BYTES;
    }
    walk(at, bytes.len())
}

/// Search #3 of the bug: #1 without redundant tests in the single steps.
fn words_all_used_tight(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    unless_all_used(bytes, state, from, |start, end| step(bytes, state, start * BLOCKS_PER_BYTE, end * BLOCKS_PER_BYTE))
}

/// Search #4 of the bug: #3, but walks an unskipped word by bytes.
fn words_then_bytes(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    unless_all_used(bytes, state, from, |start, end| bytes_from(bytes, state, start, end))
}

/// Search #5 of the bug: skips aligned words whose low bits rule the state out.
fn aligned_words<const PREFETCH: bool>(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    if from >= bytes.len() * BLOCKS_PER_BYTE {
        return None;
    }
    let start = byte_boundary(bytes, from);
    if let Some(found) = step(bytes, state, from, start) {
        return Some(found);
    }
    let mut at = start / BLOCKS_PER_BYTE;
    let aligned = bytes.len().min(at + bytes[at..].as_ptr().align_offset(BYTES));
    if let Some(found) = bytes_from(bytes, state, at, aligned) {
        return Some(found);
    }
    at = aligned;
    let excluding = excluding(state);
    while at + BYTES <= bytes.len() {
        if PREFETCH {
            prefetch(&bytes[at..], 64);
        }
        if word::load(bytes, at) & LOW != excluding {
            let blocks = at * BLOCKS_PER_BYTE..(at + BYTES) * BLOCKS_PER_BYTE;
            if let Some(found) = step(bytes, state, blocks.start, blocks.end) {
                return Some(found);
            }
        }
        at += BYTES;
    }
    bytes_from(bytes, state, at, bytes.len())
}

/// Length in bytes of the chunks that search #6 compares.
const CHUNK: usize = 4096;

/// A chunk without free blocks.
static ALL_USED: [u8; CHUNK] = [0x55; CHUNK];

/// A chunk of free blocks only.
static ALL_FREE: [u8; CHUNK] = [0; CHUNK];

/// Compares chunks of 4 KiB with a chunk that has no block in the state, and searches the first chunk that differs
/// (search #6 of the bug).
fn chunks(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    if from >= bytes.len() * BLOCKS_PER_BYTE {
        return None;
    }
    let without = if state == State::Free { &ALL_USED } else { &ALL_FREE };
    let start = byte_boundary(bytes, from);
    if let Some(found) = step(bytes, state, from, start) {
        return Some(found);
    }
    let mut at = start / BLOCKS_PER_BYTE;
    while at < bytes.len() {
        let end = bytes.len().min(at + CHUNK);
        if bytes[at..end] != without[..end - at] {
            let found = step(bytes, state, at * BLOCKS_PER_BYTE, end * BLOCKS_PER_BYTE);
            if found.is_some() {
                return found;
            }
        }
        at = end;
    }
    None
}

/// Compares words of 32 blocks with the state, exactly: the search of 2009.
fn exact_words(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    let want = Want::equal(state);
    let mut at = from / BLOCKS_PER_BYTE;
    let mut keep = u64::MAX << (2 * (from % BLOCKS_PER_BYTE));
    while at + BYTES <= bytes.len() {
        let hits = want.hits(word::load(bytes, at)) & keep;
        if hits != 0 {
            return Some(at * BLOCKS_PER_BYTE + word::first(hits));
        }
        at += BYTES;
        keep = u64::MAX;
    }
    let (word, exists) = word::load_tail(bytes.get(at..)?);
    let hits = want.hits(word) & exists & keep;
    (hits != 0).then(|| at * BLOCKS_PER_BYTE + word::first(hits))
}
