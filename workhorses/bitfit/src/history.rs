// SPDX-License-Identifier: MIT OR Apache-2.0
//! The searches that GFS2 used or tried until 2009, for study and comparison.
//!
//! Red Hat bugs 435456 and 446085 compare six of them on a map of 50 MB; the seventh replaced them a year later and is
//! the one in Linux since. The bug tells the code of numbers 1, 2 and 5 apart clearly; of 3, 4 and 6 it gives the idea
//! and the times only, so these three are reconstructions from the idea. All are written anew and, unlike their models,
//! never read outside the map; all give the same answers. They differ in the work they do on the way.

use crate::State;
use crate::arch::prefetch;
use crate::word::{self, BLOCKS_PER_BYTE, BYTES, LOW, Want};

/// One search of the past.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its number in the bug, or the year.
    pub name: &'static str,
    /// When it was in use.
    pub when: &'static str,
    /// What makes it fast.
    pub idea: &'static str,
    /// What makes it slow.
    pub weak_spot: &'static str,
    /// The search: the first block of the map that is in the state, at or after the given block.
    pub find: fn(&[u8], State, usize) -> Option<usize>,
}

/// The six of the bug in its order, then the form of 2009.
pub const ALGORITHMS: [Algorithm; 7] = [
    Algorithm {
        name: "#1",
        when: "January to March 2008, Linux 2.6.25",
        idea: "skip a word of 32 blocks when all are used",
        weak_spot: "one inode in the word costs 32 single steps; only the search for free blocks skips at all",
        find: words_all_used,
    },
    Algorithm {
        name: "#2",
        when: "until 25 January 2008",
        idea: "skip a byte when the low bits of its pairs rule the state out",
        weak_spot: "one byte a step; states that share the low bit stop it for nothing",
        find: bytes_by_low_bits,
    },
    Algorithm {
        name: "#3",
        when: "tried in March 2008",
        idea: "#1 with the tests that cannot fail taken out of the steps",
        weak_spot: "as #1: the single steps stay",
        find: words_all_used_tight,
    },
    Algorithm {
        name: "#4",
        when: "tried in March 2008",
        idea: "#3, but a word that is not skipped is walked by bytes, and only bytes with the right low bits by pairs",
        weak_spot: "still stops at every word with an inode",
        find: words_then_bytes,
    },
    Algorithm {
        name: "#5",
        when: "Linux 2.6.26 to 2.6.29, and GFS",
        idea: "aligned words, skipped when their low bits rule the state out; the next word is asked for early",
        weak_spot: "stops for nothing when unlinked blocks are sought among free ones, or used ones among inodes",
        find: aligned_words,
    },
    Algorithm {
        name: "#6",
        when: "tried and thrown out in March 2008",
        idea: "compare chunks of 4 KiB with a chunk that holds no block in the state",
        weak_spot: "a single inode breaks a whole chunk, which then costs 16384 single steps",
        find: chunks,
    },
    Algorithm {
        name: "2009",
        when: "since 2009, Linux 2.6.30 and later",
        idea: "one exact bit for each matching block of a word, without a branch inside the word",
        weak_spot: "eight bytes a step",
        find: exact_words,
    },
];

/// The state of an existing block.
#[inline(always)]
fn state_at(bytes: &[u8], block: usize) -> State {
    State::from_bits(bytes[block / BLOCKS_PER_BYTE] >> (2 * (block % BLOCKS_PER_BYTE)))
}

/// The first block in `state` among `from..end`, pair by pair.
#[inline(always)]
fn step(bytes: &[u8], state: State, from: usize, end: usize) -> Option<usize> {
    (from..end).find(|&block| state_at(bytes, block) == state)
}

/// The first block in `state` in one byte.
#[inline(always)]
fn step_byte(byte: u8, state: State) -> Option<usize> {
    (0..BLOCKS_PER_BYTE).find(|block| byte >> (2 * block) & 3 == state.bits())
}

/// The low bits of a word in which no pair can be `state`: all set for an even state, none for an odd one.
#[inline(always)]
fn excluding(state: State) -> u64 {
    if state.bits() & 1 == 0 { LOW } else { 0 }
}

/// The first block of the next byte, or the map's end.
#[inline(always)]
fn byte_boundary(bytes: &[u8], from: usize) -> usize {
    from.next_multiple_of(BLOCKS_PER_BYTE).min(bytes.len() * BLOCKS_PER_BYTE)
}

/// #1.
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

/// #2.
fn bytes_by_low_bits(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    if from >= bytes.len() * BLOCKS_PER_BYTE {
        return None;
    }
    let start = byte_boundary(bytes, from);
    step(bytes, state, from, start).or_else(|| bytes_from(bytes, state, start / BLOCKS_PER_BYTE, bytes.len()))
}

/// The byte loop of #2 over the bytes `start..end`.
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

/// #3 and #4: words that are all used are skipped, `walk` goes through the bytes of every other one.
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

/// #3.
fn words_all_used_tight(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    unless_all_used(bytes, state, from, |start, end| step(bytes, state, start * BLOCKS_PER_BYTE, end * BLOCKS_PER_BYTE))
}

/// #4.
fn words_then_bytes(bytes: &[u8], state: State, from: usize) -> Option<usize> {
    unless_all_used(bytes, state, from, |start, end| bytes_from(bytes, state, start, end))
}

/// #5.
fn aligned_words(bytes: &[u8], state: State, from: usize) -> Option<usize> {
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
        prefetch(&bytes[at..], 64);
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

/// Bytes in a chunk of #6.
const CHUNK: usize = 4096;

/// A chunk without a free block.
static ALL_USED: [u8; CHUNK] = [0x55; CHUNK];

/// A chunk without a used, unlinked or inode block.
static ALL_FREE: [u8; CHUNK] = [0; CHUNK];

/// #6.
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

/// 2009.
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
