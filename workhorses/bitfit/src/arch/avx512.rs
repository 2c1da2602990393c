// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wide loops for AVX-512: one 512-bit vector per line.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::avx2::may_hold;
use super::skip::LowBitGroup;
use super::{Bits, LINE, Line};
use crate::State;
use crate::word::{self, LOW, Want};

/// Map size in bytes from which the loop for data in memory is faster: twice the L2 cache.
const FAR_BYTES: usize = 4 << 20;

/// Search accumulator: the low bit of a pair is set if a wanted block was found at its position in any line; for a
/// search for other states, either bit is.
type Seen = __m512i;

/// Accumulator with no block found.
#[inline]
#[target_feature(enable = "avx512f")]
fn none<const WANT: u8>() -> Seen {
    _mm512_setzero_si512()
}

/// Loads a line.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &Line) -> __m512i {
    // SAFETY: a line has the 64 bytes that the unaligned load reads.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

/// Truth table for `vpternlog` of "found before, or this pair is in the state" with the inputs found (f), low bit (l)
/// and high bit (h): bit 4 f + 2 l + h is the result.
const fn table(state: State) -> i32 {
    let (low, high) = (state.bits() as i32 & 1, state.bits() as i32 >> 1);
    0xf0 | 1 << (2 * low + high)
}

/// Accumulates the wanted blocks of a line: a load, a shift and one ternary instruction.
#[inline]
#[target_feature(enable = "avx512f")]
fn see<const WANT: u8>(seen: Seen, line: &Line) -> Seen {
    /// Truth table of "the first input, or the other two differ".
    const OR_DIFFERENT: i32 = 0xf6;
    let want = const { Want::from_number(WANT) };
    let low = load(line);
    if want.other {
        let state = _mm512_set1_epi64(word::repeat(want.state) as i64);
        return _mm512_ternarylogic_epi64::<OR_DIFFERENT>(seen, low, state);
    }
    see_bits::<WANT>(seen, low, _mm512_srli_epi64::<1>(low))
}

/// Accumulates the pairs whose low and high bits, both shifted to the low position, match the wanted state.
#[inline]
#[target_feature(enable = "avx512f")]
fn see_bits<const WANT: u8>(seen: Seen, low: __m512i, high: __m512i) -> Seen {
    match const { Want::from_number(WANT).state } {
        State::Free => _mm512_ternarylogic_epi64::<{ table(State::Free) }>(seen, low, high),
        State::Used => _mm512_ternarylogic_epi64::<{ table(State::Used) }>(seen, low, high),
        State::Unlinked => _mm512_ternarylogic_epi64::<{ table(State::Unlinked) }>(seen, low, high),
        State::Dinode => _mm512_ternarylogic_epi64::<{ table(State::Dinode) }>(seen, low, high),
    }
}

/// Combines two accumulators.
#[inline]
#[target_feature(enable = "avx512f")]
fn join<const WANT: u8>(a: Seen, b: Seen) -> Seen {
    _mm512_or_si512(a, b)
}

/// Returns whether a wanted block was found.
#[inline]
#[target_feature(enable = "avx512f")]
fn any<const WANT: u8>(seen: Seen) -> bool {
    let bits = if const { Want::from_number(WANT).other } { u64::MAX } else { LOW };
    _mm512_test_epi64_mask(seen, _mm512_set1_epi64(bits as i64)) != 0
}

/// Accumulates the bytes of a line without a comparison: it only reads them.
#[inline]
#[target_feature(enable = "avx512f")]
fn touch(seen: Seen, line: &Line) -> Seen {
    _mm512_or_si512(seen, load(line))
}

define_loops!(#[target_feature(enable = "avx512f")]);

define_two_steps!(#[target_feature(enable = "avx512f")]);

/// Number of bytes at the start, in whole groups, without a wanted block.
#[inline]
#[target_feature(enable = "avx512f")]
fn skip_exactly<const WANT: u8>(bytes: &[u8], is_far: bool) -> usize {
    if is_far && const { !Want::from_number(WANT).other } {
        skip_far::<WANT>(bytes)
    } else {
        skip_groups_of::<WANT, 16, 4>(bytes)
    }
}

/// Variant for maps in memory or the last-level cache.
///
/// Each line is loaded twice, each time as an instruction operand. This is slower for maps in L1 or L2, but on a
/// virtual AMD EPYC 9004 it reaches the memory bandwidth of plain reads; with separate load instructions it reaches a
/// sixth less.
#[target_feature(enable = "avx512f")]
fn skip_far<const WANT: u8>(bytes: &[u8]) -> usize {
    const GROUP: usize = 8;
    let (groups, _) = bytes.as_chunks::<LINE>().0.as_chunks::<GROUP>();
    for (index, group) in groups.iter().enumerate() {
        // Hides from the compiler that both references are to the same line; it would merge the two loads.
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
/// The low bits of one line and those of the next are packed into pairs, and so are the high bits: two lines cost
/// three counts instead of six.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn count(lines: &[Line]) -> Bits {
    /// Truth table of "the second input where the first is set, else the third".
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
