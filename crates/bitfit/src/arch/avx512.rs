// SPDX-License-Identifier: MIT OR Apache-2.0
//! 512-bit vectors of x86-64: one for a line.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::{Bits, LINE, Line};
use crate::word::{LOW, Want};

/// Bytes of map from which on the loop for memory is the faster one: twice what the second cache holds.
const FAR_BYTES: usize = 4 << 20;

/// What was seen in each pair of the vector so far, in the pair's low bit.
type Seen = __m512i;

/// Nothing seen yet.
#[inline]
#[target_feature(enable = "avx512f")]
fn none<const WANT: u8>() -> Seen {
    _mm512_setzero_si512()
}

/// A whole line.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &Line) -> __m512i {
    // SAFETY: a line has the 64 bytes that the load takes, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

/// The truth table of "seen before, or this pair is wanted" over seen, low bit and high bit, as the ternary
/// instruction takes it: bit 4 s + 2 l + h is the answer for those three.
const fn table(want: u8) -> i32 {
    let want = Want::from_number(want);
    let mut table = 0xf0;
    let mut pair = 0;
    while pair < 4 {
        let (low, high) = (pair >> 1, pair & 1);
        if (want.state.bits() as i32 == low + 2 * high) != want.other {
            table |= 1 << pair;
        }
        pair += 1;
    }
    table
}

/// Adds the wanted blocks of a line: a load, a shift and one ternary instruction.
#[inline]
#[target_feature(enable = "avx512f")]
fn see<const WANT: u8>(seen: Seen, line: &Line) -> Seen {
    let low = load(line);
    see_bits::<WANT>(seen, low, _mm512_srli_epi64::<1>(low))
}

/// Adds the pairs whose low and high bits, each at the place of the low one, are those of a wanted block.
#[inline]
#[target_feature(enable = "avx512f")]
fn see_bits<const WANT: u8>(seen: Seen, low: __m512i, high: __m512i) -> Seen {
    match WANT {
        0 => _mm512_ternarylogic_epi64::<{ table(0) }>(seen, low, high),
        1 => _mm512_ternarylogic_epi64::<{ table(1) }>(seen, low, high),
        2 => _mm512_ternarylogic_epi64::<{ table(2) }>(seen, low, high),
        3 => _mm512_ternarylogic_epi64::<{ table(3) }>(seen, low, high),
        4 => _mm512_ternarylogic_epi64::<{ table(4) }>(seen, low, high),
        5 => _mm512_ternarylogic_epi64::<{ table(5) }>(seen, low, high),
        6 => _mm512_ternarylogic_epi64::<{ table(6) }>(seen, low, high),
        _ => _mm512_ternarylogic_epi64::<{ table(7) }>(seen, low, high),
    }
}

/// What was seen in either place.
#[inline]
#[target_feature(enable = "avx512f")]
fn join<const WANT: u8>(a: Seen, b: Seen) -> Seen {
    _mm512_or_si512(a, b)
}

/// Whether anything was seen.
#[inline]
#[target_feature(enable = "avx512f")]
fn any<const WANT: u8>(seen: Seen) -> bool {
    _mm512_test_epi64_mask(seen, _mm512_set1_epi64(LOW as i64)) != 0
}

/// Adds a line as it is.
#[inline]
#[target_feature(enable = "avx512f")]
fn touch(seen: Seen, line: &Line) -> Seen {
    _mm512_or_si512(seen, load(line))
}

define_loops!(#[target_feature(enable = "avx512f")]);

/// Bytes from the start in whole groups without a wanted block.
#[inline]
#[target_feature(enable = "avx512f")]
fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
    if bytes.len() >= FAR_BYTES { skip_far::<WANT>(bytes) } else { skip_groups_of::<WANT, 16, 4>(bytes) }
}

/// The same for maps that come from memory or a far cache.
///
/// Every line is loaded twice, each time as an operand of the instruction that needs it. That is slower in near caches, but
/// a virtual AMD EPYC 9004 gets as much from memory as by plain reads, and a sixth less with loads of their own.
#[target_feature(enable = "avx512f")]
fn skip_far<const WANT: u8>(bytes: &[u8]) -> usize {
    const GROUP: usize = 8;
    let (groups, _) = bytes.as_chunks::<LINE>().0.as_chunks::<GROUP>();
    for (index, group) in groups.iter().enumerate() {
        // The compiler would make one load of the two if it saw that they are of the same line.
        let again: &[Line; GROUP] = black_box(group);
        let mut seen = [none::<WANT>(); 2];
        for (i, (line, again)) in group.iter().zip(again).enumerate() {
            seen[i % 2] = see_bits::<WANT>(seen[i % 2], load(again), _mm512_srli_epi64::<1>(load(line)));
        }
        if any::<WANT>(join::<WANT>(seen[0], seen[1])) {
            return index * GROUP * LINE;
        }
    }
    groups.len() * GROUP * LINE
}

/// Counts bits of all lines with the vector population count.
///
/// The low bits of one line and those of the next fill the two bits of a pair, and so do the high bits: two lines cost
/// three counts instead of six.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn count(lines: &[Line]) -> Bits {
    /// The truth table of "the second where the first is set, else the third".
    const SELECT: i32 = 0xca;
    let mask = _mm512_set1_epi64(LOW as i64);
    let [mut low, mut high, mut both] = [_mm512_setzero_si512(); 3];
    let (twos, one) = lines.as_chunks::<2>();
    let mut add = |a, b| {
        let lows = _mm512_ternarylogic_epi64::<SELECT>(mask, a, _mm512_slli_epi64::<1>(b));
        let highs = _mm512_ternarylogic_epi64::<SELECT>(mask, _mm512_srli_epi64::<1>(a), b);
        low = _mm512_add_epi64(low, _mm512_popcnt_epi64(lows));
        high = _mm512_add_epi64(high, _mm512_popcnt_epi64(highs));
        both = _mm512_add_epi64(both, _mm512_popcnt_epi64(_mm512_and_si512(lows, highs)));
    };
    for [a, b] in twos {
        add(load(a), load(b));
    }
    if let Some(line) = one.first() {
        add(load(line), _mm512_setzero_si512());
    }
    let [low, high, both] = [low, high, both].map(|sums| _mm512_reduce_add_epi64(sums) as u64);
    Bits { low, high, both }
}
