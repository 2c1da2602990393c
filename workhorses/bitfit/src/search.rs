// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flat searches: first word by word, then wide loops, then word by word again to locate the block.

use crate::arch::{self, Kernel, LINE};
use crate::word::{self, BLOCKS_PER_BYTE, BYTES, Want};

/// Bytes searched word by word before the wide loops start, so that a nearby hit, the common case in a file system
/// that is not full, costs no vector setup.
const NEAR_BYTES: usize = 64;

/// First wanted block at or after `from`.
#[inline]
pub(crate) fn first(bytes: &[u8], want: Want, from: usize, kernel: Option<Kernel>) -> Option<usize> {
    let at = from / BLOCKS_PER_BYTE;
    if at >= bytes.len() {
        return None;
    }
    let before = u64::MAX << (2 * (from % BLOCKS_PER_BYTE));
    if bytes.len() - at < BYTES {
        return tail(bytes, at, want, before);
    }
    let hits = want.hits(word::load(bytes, at)) & before;
    if hits != 0 {
        return Some(at * BLOCKS_PER_BYTE + word::first(hits));
    }
    first_from_byte(bytes, want, at + BYTES, kernel)
}

/// First wanted block in the bytes from `at`.
fn first_from_byte(bytes: &[u8], want: Want, mut at: usize, kernel: Option<Kernel>) -> Option<usize> {
    if let Some(near) = bytes[at..].first_chunk::<NEAR_BYTES>() {
        if let Some(block) = first_of_words(near, want) {
            return Some(at * BLOCKS_PER_BYTE + block);
        }
        at += NEAR_BYTES;
        at += arch::skip(kernel, &bytes[at..], want);
        if let Some(line) = bytes[at..].first_chunk::<LINE>() {
            return first_of_words(line, want).map(|block| at * BLOCKS_PER_BYTE + block);
        }
    }
    while at + BYTES <= bytes.len() {
        let hits = want.hits(word::load(bytes, at));
        if hits != 0 {
            return Some(at * BLOCKS_PER_BYTE + word::first(hits));
        }
        at += BYTES;
    }
    tail(bytes, at, want, u64::MAX)
}

/// First wanted block in a number of whole words.
#[inline(always)]
fn first_of_words<const LENGTH: usize>(bytes: &[u8; LENGTH], want: Want) -> Option<usize> {
    for (index, word) in bytes.as_chunks::<BYTES>().0.iter().enumerate() {
        let hits = want.hits(u64::from_le_bytes(*word));
        if hits != 0 {
            return Some(index * BYTES * BLOCKS_PER_BYTE + word::first(hits));
        }
    }
    None
}

/// First wanted block in the last (fewer than eight) bytes, restricted to `keep`.
#[inline]
fn tail(bytes: &[u8], at: usize, want: Want, keep: u64) -> Option<usize> {
    let (word, exists) = word::load_tail(&bytes[at..]);
    let hits = want.hits(word) & exists & keep;
    (hits != 0).then(|| at * BLOCKS_PER_BYTE + word::first(hits))
}

/// Last wanted block below `end`, which may be beyond the end of the map.
pub(crate) fn last(bytes: &[u8], want: Want, end: usize) -> Option<usize> {
    let end = end.min(bytes.len() * BLOCKS_PER_BYTE);
    let mut at = end / BLOCKS_PER_BYTE;
    let odd_blocks = end % BLOCKS_PER_BYTE;
    if odd_blocks != 0 {
        let hits = want.hits(bytes[at].into()) & ((1 << (2 * odd_blocks)) - 1);
        if hits != 0 {
            return Some(at * BLOCKS_PER_BYTE + word::last(hits));
        }
    }
    at -= lines_without(&bytes[..at], want);
    while at >= BYTES {
        at -= BYTES;
        let hits = want.hits(word::load(bytes, at));
        if hits != 0 {
            return Some(at * BLOCKS_PER_BYTE + word::last(hits));
        }
    }
    let (word, exists) = word::load_tail(&bytes[..at]);
    let hits = want.hits(word) & exists;
    (hits != 0).then(|| word::last(hits))
}

/// Number of bytes at the end of `bytes`, in whole lines, without a wanted block.
fn lines_without(bytes: &[u8], want: Want) -> usize {
    let (_, lines) = bytes.as_rchunks::<{ LINE }>();
    let free = |line: &&[u8; LINE]| {
        (0..LINE / BYTES).fold(0, |hits, i| hits | want.hits(word::load(&line[..], i * BYTES))) == 0
    };
    lines.iter().rev().take_while(free).count() * LINE
}

/// Start of the first run of `length` blocks in `state` at or after `from`.
///
/// Each candidate is tested from its end: the last block in another state rules out every start up to and including
/// it, so long runs are found without reading most of the map.
pub(crate) fn run(bytes: &[u8], state: crate::State, from: usize, length: usize) -> Option<usize> {
    let blocks = bytes.len() * BLOCKS_PER_BYTE;
    let last_start = blocks.checked_sub(length)?;
    if length == 0 {
        return (from <= last_start).then_some(from);
    }
    let mut from = from;
    loop {
        let start = first(bytes, Want::equal(state), from, None)?;
        if start > last_start {
            return None;
        }
        match last_between(bytes, Want::other(state), start, start + length) {
            None => return Some(start),
            Some(breach) => from = breach + 1,
        }
    }
}

/// Last wanted block of `start..end`; `start` itself must not be wanted.
fn last_between(bytes: &[u8], want: Want, start: usize, end: usize) -> Option<usize> {
    let first_byte = start / BLOCKS_PER_BYTE;
    let base = first_byte * BLOCKS_PER_BYTE;
    last(&bytes[first_byte..], want, end - base).map(|block| base + block).filter(|&block| block > start)
}
