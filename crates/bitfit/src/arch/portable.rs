// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64-bit words, eight at a time.

use super::skip::*;
use super::{Bits, LINE, Line, prefetch};
use crate::word::{self, BYTES, LOW, Want};

/// Words in a line.
const WORDS: usize = LINE / BYTES;

/// What was seen in each column of words so far.
type Seen = [u64; WORDS];

/// Nothing seen yet.
#[inline(always)]
fn zero() -> Seen {
    [0; WORDS]
}

/// Adds the wanted blocks of a line.
#[inline(always)]
fn see<const WANT: u8>(mut seen: Seen, line: &Line) -> Seen {
    let want = const { Want::from_number(WANT) };
    for (seen, word) in seen.iter_mut().zip(line.as_chunks::<BYTES>().0) {
        *seen |= want.hits(u64::from_le_bytes(*word));
    }
    seen
}

/// Adds a line as it is.
#[inline(always)]
fn touch(mut seen: Seen, line: &Line) -> Seen {
    for (seen, word) in seen.iter_mut().zip(line.as_chunks::<BYTES>().0) {
        *seen |= u64::from_le_bytes(*word);
    }
    seen
}

/// Whether anything was seen.
#[inline(always)]
fn any(seen: Seen) -> bool {
    seen.into_iter().fold(0, |all, word| all | word) & LOW != 0
}

define_loops!();

/// The low four bits of every byte.
const NIBBLE: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// The low two bits of every four.
const PAIR: u64 = 0x3333_3333_3333_3333;

/// Counts bits of all lines.
pub(super) fn count(lines: &[Line]) -> Bits {
    count_lines(lines)
}

/// Counts without an instruction for it: sums of up to three lines fit in the pairs themselves, and only such sums are
/// spread out to bytes, up to 255 in each, and added up.
#[inline(always)]
pub(super) fn count_lines(lines: &[Line]) -> Bits {
    let mut bits = Bits::default();
    // A byte gains at most 12 in a step of three lines; 21 steps stay below 256.
    for part in lines.chunks(3 * 21) {
        let [mut low, mut high, mut both] = [zero(); 3];
        for three in part.chunks(3) {
            let [mut l, mut h, mut b] = [zero(); 3];
            for line in three {
                for column in 0..WORDS {
                    let word = word::load(line, column * BYTES);
                    l[column] += word & LOW;
                    h[column] += word >> 1 & LOW;
                    b[column] += word & word >> 1 & LOW;
                }
            }
            for column in 0..WORDS {
                low[column] += to_bytes(l[column]);
                high[column] += to_bytes(h[column]);
                both[column] += to_bytes(b[column]);
            }
        }
        bits.low += sum(low);
        bits.high += sum(high);
        bits.both += sum(both);
    }
    bits
}

/// Adds the four pairs of each byte.
#[inline(always)]
fn to_bytes(pairs: u64) -> u64 {
    let fours = (pairs & PAIR) + (pairs >> 2 & PAIR);
    (fours & NIBBLE) + (fours >> 4 & NIBBLE)
}

/// Adds up the bytes of all words.
#[inline(always)]
fn sum(columns: Seen) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    columns
        .into_iter()
        .map(|bytes| ((bytes & EVEN) + (bytes >> 8 & EVEN)).wrapping_mul(0x0001_0001_0001_0001) >> 48)
        .sum()
}
