// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64-bit words, eight at a time.

use super::skip::*;
use super::{Bits, LINE, Line};
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

/// Counts bits of all lines.
///
/// The low bits of one word and those of the next fill the two bits of a pair, and so do the high bits: two words cost
/// three counts instead of six.
#[inline(always)]
pub(super) fn count(lines: &[Line]) -> Bits {
    let mut bits = Bits::default();
    for line in lines {
        for two in 0..WORDS / 2 {
            let [a, b] = [2 * two, 2 * two + 1].map(|word| word::load(line, word * BYTES));
            let lows = a & LOW | (b & LOW) << 1;
            let highs = a >> 1 & LOW | b & !LOW;
            bits.low += u64::from(lows.count_ones());
            bits.high += u64::from(highs.count_ones());
            bits.both += u64::from((lows & highs).count_ones());
        }
    }
    bits
}
