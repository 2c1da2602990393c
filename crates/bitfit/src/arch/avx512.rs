// SPDX-License-Identifier: MIT OR Apache-2.0
//! 512-bit vectors of x86-64: one for a line.

use core::arch::x86_64::*;

use super::skip::*;
use super::{Bits, LINE, Line};
use crate::word::{LOW, Want};

/// What was seen in each pair of the vector so far.
type Seen = __m512i;

/// Nothing seen yet.
#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> Seen {
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
    let high = _mm512_srli_epi64::<1>(low);
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

/// Adds a line as it is.
#[inline]
#[target_feature(enable = "avx512f")]
fn touch(seen: Seen, line: &Line) -> Seen {
    _mm512_or_si512(seen, load(line))
}

/// Whether anything was seen.
#[inline]
#[target_feature(enable = "avx512f")]
fn any(seen: Seen) -> bool {
    _mm512_test_epi64_mask(seen, _mm512_set1_epi64(LOW as i64)) != 0
}

define_loops!(#[target_feature(enable = "avx512f")]);

/// Counts bits of all lines with the vector population count.
///
/// The low bits of one line and those of the next fill the two bits of a pair, and so do the high bits: two lines cost
/// three counts instead of six.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn count(lines: &[Line]) -> Bits {
    /// The truth table of "the second where the first is set, else the third".
    const SELECT: i32 = 0xca;
    let mask = _mm512_set1_epi64(LOW as i64);
    let [mut low, mut high, mut both] = [zero(); 3];
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
        add(load(line), zero());
    }
    let [low, high, both] = [low, high, both].map(|sums| _mm512_reduce_add_epi64(sums) as u64);
    Bits { low, high, both }
}
