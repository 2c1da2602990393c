// SPDX-License-Identifier: MIT OR Apache-2.0
//! 512-bit vectors of x86-64: one for a line.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::avx2::may_hold;
use super::skip::Glance;
use super::{Bits, LINE, Line};
use crate::State;
use crate::word::{self, LOW, Want};

/// Bytes of map from which on the loop for memory is the faster one: twice what the second cache holds.
const FAR_BYTES: usize = 4 << 20;

/// What was seen in each pair of the vector so far, in the pair's low bit; in a search for other states, in either bit.
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

/// The truth table of "seen before, or this pair is in the state" over seen, low bit and high bit, as the ternary
/// instruction takes it: bit 4 s + 2 l + h is the answer for those three.
const fn table(state: State) -> i32 {
    let (low, high) = (state.bits() as i32 & 1, state.bits() as i32 >> 1);
    0xf0 | 1 << (2 * low + high)
}

/// Adds the wanted blocks of a line: a load, a shift and one ternary instruction.
#[inline]
#[target_feature(enable = "avx512f")]
fn see<const WANT: u8>(seen: Seen, line: &Line) -> Seen {
    /// The truth table of "the first, or the others differ".
    const OR_DIFFERENT: i32 = 0xf6;
    let want = const { Want::from_number(WANT) };
    let low = load(line);
    if want.other {
        let state = _mm512_set1_epi64(word::repeat(want.state) as i64);
        return _mm512_ternarylogic_epi64::<OR_DIFFERENT>(seen, low, state);
    }
    see_bits::<WANT>(seen, low, _mm512_srli_epi64::<1>(low))
}

/// Adds the pairs whose low and high bits, each at the place of the low one, are those of the wanted state.
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
    let bits = if const { Want::from_number(WANT).other } { u64::MAX } else { LOW };
    _mm512_test_epi64_mask(seen, _mm512_set1_epi64(bits as i64)) != 0
}

/// Adds a line as it is.
#[inline]
#[target_feature(enable = "avx512f")]
fn touch(seen: Seen, line: &Line) -> Seen {
    _mm512_or_si512(seen, load(line))
}

define_loops!(#[target_feature(enable = "avx512f")]);

define_two_steps!(#[target_feature(enable = "avx512f")]);

/// Bytes from the start in whole groups without a wanted block.
#[inline]
#[target_feature(enable = "avx512f")]
fn skip_exactly<const WANT: u8>(bytes: &[u8], is_far: bool) -> usize {
    if is_far && const { !Want::from_number(WANT).other } {
        skip_far::<WANT>(bytes)
    } else {
        skip_groups_of::<WANT, 16, 4>(bytes)
    }
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
