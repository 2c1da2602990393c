// SPDX-License-Identifier: MIT OR Apache-2.0
//! Portable wide loops: eight 64-bit words per line.

use super::{Bits, LINE, Line};
use crate::word::{self, BYTES, LOW, Want};

/// Words per line.
const WORDS: usize = LINE / BYTES;

/// Search accumulator, one word per word of a line.
type Seen = [u64; WORDS];

/// Accumulator with no block found.
#[inline(always)]
fn none<const WANT: u8>() -> Seen {
    [0; WORDS]
}

/// Accumulates the wanted blocks of a line.
#[inline(always)]
fn see<const WANT: u8>(mut seen: Seen, line: &Line) -> Seen {
    let want = const { Want::from_number(WANT) };
    for (seen, word) in seen.iter_mut().zip(line.as_chunks::<BYTES>().0) {
        *seen |= want.hits(u64::from_le_bytes(*word));
    }
    seen
}

/// Accumulates the bytes of a line without a comparison: it only reads them.
#[inline(always)]
fn touch(mut seen: Seen, line: &Line) -> Seen {
    for (seen, word) in seen.iter_mut().zip(line.as_chunks::<BYTES>().0) {
        *seen |= u64::from_le_bytes(*word);
    }
    seen
}

/// Combines two accumulators.
#[inline(always)]
fn join<const WANT: u8>(mut a: Seen, b: Seen) -> Seen {
    a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
    a
}

/// Returns whether a wanted block was found.
#[inline(always)]
fn any<const WANT: u8>(seen: Seen) -> bool {
    seen.into_iter().fold(0, |all, word| all | word) & LOW != 0
}

define_loops!();

/// Number of bytes at the start, in whole groups, without a wanted block.
#[inline(always)]
fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
    skip_groups_of::<WANT, 4, 2>(bytes)
}

/// Lines per group; their pairs add up to at most 24 per byte.
const SIX: usize = 6;

/// Groups of six lines before a byte counter could overflow.
const MOST_SIXES: usize = 10;

/// Kinds of counts: low bits, high bits, pairs with both.
const KINDS: usize = 3;

/// Counts bits of all lines by adding them in increasingly wide fields of the words. This needs no popcnt instruction
/// and can be vectorized by the compiler.
#[inline(always)]
pub(super) fn count(lines: &[Line]) -> Bits {
    let mut counts = Bits::default();
    let (sixes, rest) = lines.as_chunks::<SIX>();
    for sixes in sixes.chunks(MOST_SIXES) {
        add_sixes(&mut counts, sixes);
    }
    // Padding lines of zeros do not change the counts.
    let mut last = [[0; LINE]; SIX];
    last[..rest.len()].copy_from_slice(rest);
    add_sixes(&mut counts, &[last]);
    counts
}

/// Adds the bits of at most [`MOST_SIXES`] groups.
#[inline(always)]
fn add_sixes(counts: &mut Bits, sixes: &[[Line; SIX]]) {
    let [mut low, mut high, mut both] = [[0; WORDS]; KINDS];
    for six in sixes {
        for (word, ((low, high), both)) in low.iter_mut().zip(&mut high).zip(&mut both).enumerate() {
            let nibbles = add_six(six.each_ref().map(|line| word::load(line, word * BYTES)));
            let bytes = nibbles.map(|nibbles| sum_of_halves(nibbles, 4, 0x0f0f_0f0f_0f0f_0f0f));
            *low += bytes[0];
            *high += bytes[1];
            *both += bytes[2];
        }
    }
    counts.low += sum_of_bytes(low);
    counts.high += sum_of_bytes(high);
    counts.both += sum_of_bytes(both);
}

/// Counts bits of six words by kind; each nibble of a result holds the count for the same nibble of the words.
#[inline(always)]
fn add_six([a, b, c, d, e, f]: [u64; SIX]) -> [u64; KINDS] {
    let mut nibbles = [0; KINDS];
    for three in [[a, b, c], [d, e, f]] {
        let low = three.map(|word| word & LOW);
        let high = three.map(|word| word >> 1 & LOW);
        let both = [low[0] & high[0], low[1] & high[1], low[2] & high[2]];
        for (nibbles, bits) in nibbles.iter_mut().zip([low, high, both]) {
            // The sum of three bits fits in the two bits of a pair.
            *nibbles += sum_of_halves(bits[0] + bits[1] + bits[2], 2, 0x3333_3333_3333_3333);
        }
    }
    nibbles
}

/// Adds the two halves of every field of `2 * width` bits; `mask` selects the lower halves.
#[inline(always)]
fn sum_of_halves(word: u64, width: u32, mask: u64) -> u64 {
    (word & mask) + (word >> width & mask)
}

/// Sum of all bytes: first per word in four fields, then over the words, then over the fields by one multiplication.
#[inline(always)]
fn sum_of_bytes(words: Seen) -> u64 {
    let fields: u64 = words.into_iter().map(|word| sum_of_halves(word, 8, 0x00ff_00ff_00ff_00ff)).sum();
    fields.wrapping_mul(0x0001_0001_0001_0001) >> 48
}
