// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wide loops for AVX2: two 256-bit vectors per line.

use core::arch::x86_64::*;

use super::skip::LowBitGroup;
use super::{Bits, LINE, Line};
use crate::State;
use crate::word::{self, LOW, Want};

/// Search accumulator: the high bit of a pair is set if a wanted block was found at its position in any line; for a
/// search for other states, either bit is. Inverted if [`gathers_misses`].
type Seen = __m256i;

/// Returns whether the search ANDs the non-matching blocks instead of ORing the matches. This saves an instruction,
/// because AVX2 has and-not but no nor.
const fn gathers_misses(want: Want) -> bool {
    matches!(want.state, State::Free) && !want.other
}

/// Accumulator with no block found.
#[inline]
#[target_feature(enable = "avx2")]
fn none<const WANT: u8>() -> Seen {
    if const { gathers_misses(Want::from_number(WANT)) } { _mm256_set1_epi64x(-1) } else { _mm256_setzero_si256() }
}

/// Loads the two halves of a line.
#[inline]
#[target_feature(enable = "avx2")]
fn load(line: &Line) -> [__m256i; 2] {
    // SAFETY: a line has 64 bytes; the unaligned loads read its first and second 32.
    unsafe { [_mm256_loadu_si256(line.as_ptr().cast()), _mm256_loadu_si256(line.as_ptr().add(LINE / 2).cast())] }
}

/// Accumulates the wanted blocks of a line: per half a load, an addition and two bitwise instructions.
#[inline]
#[target_feature(enable = "avx2")]
fn see<const WANT: u8>(mut seen: Seen, line: &Line) -> Seen {
    let want = const { Want::from_number(WANT) };
    for high in load(line) {
        // Doubling moves each low bit next to its high bit. Unlike a shift, an addition runs on more execution ports.
        let low = _mm256_add_epi64(high, high);
        let found = match want.state {
            state if want.other => _mm256_xor_si256(high, _mm256_set1_epi64x(word::repeat(state) as i64)),
            State::Free => _mm256_or_si256(high, low), // those that are not free
            State::Used => _mm256_andnot_si256(high, low),
            State::Unlinked => _mm256_andnot_si256(low, high),
            State::Dinode => _mm256_and_si256(high, low),
        };
        seen = join::<WANT>(seen, found);
    }
    seen
}

/// Combines two accumulators.
#[inline]
#[target_feature(enable = "avx2")]
fn join<const WANT: u8>(a: Seen, b: Seen) -> Seen {
    if const { gathers_misses(Want::from_number(WANT)) } { _mm256_and_si256(a, b) } else { _mm256_or_si256(a, b) }
}

/// Returns whether a wanted block was found.
#[inline]
#[target_feature(enable = "avx2")]
fn any<const WANT: u8>(seen: Seen) -> bool {
    let want = const { Want::from_number(WANT) };
    let high_bits = _mm256_set1_epi64x(!LOW as i64);
    if const { gathers_misses(Want::from_number(WANT)) } {
        _mm256_testc_si256(seen, high_bits) == 0
    } else {
        _mm256_testz_si256(seen, if want.other { _mm256_set1_epi64x(-1) } else { high_bits }) == 0
    }
}

/// Accumulates the bytes of a line without a comparison: it only reads them.
#[inline]
#[target_feature(enable = "avx2")]
fn touch(seen: Seen, line: &Line) -> Seen {
    load(line).into_iter().fold(seen, |seen, x| _mm256_or_si256(seen, x))
}

define_loops!(#[target_feature(enable = "avx2")]);

define_two_steps!(#[target_feature(enable = "avx2")]);

/// Maps of all sizes use the same loop.
const FAR_BYTES: usize = usize::MAX;

/// Number of bytes at the start, in whole groups, without a wanted block.
#[inline]
#[target_feature(enable = "avx2")]
fn skip_exactly<const WANT: u8>(bytes: &[u8], _is_far: bool) -> usize {
    skip_groups_of::<WANT, 4, 2>(bytes)
}

/// Returns whether a line of the group may hold a block of the wanted state, judged by low bits only: they are 0 for
/// free and unlinked blocks, 1 for used blocks and inodes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn may_hold<const WANT: u8>(lines: &LowBitGroup) -> bool {
    let low_bits = _mm256_set1_epi64x(LOW as i64);
    let is_odd = const { WANT & 1 == 1 };
    let mut bits = [if is_odd { _mm256_setzero_si256() } else { _mm256_set1_epi64x(-1) }; 4];
    for lines in lines.as_chunks::<2>().0 {
        let [a, b] = lines.each_ref().map(|line| load(line));
        for (bits, x) in bits.iter_mut().zip([a[0], a[1], b[0], b[1]]) {
            *bits = if is_odd { _mm256_or_si256(*bits, x) } else { _mm256_and_si256(*bits, x) };
        }
    }
    let [a, b, c, d] = bits;
    if is_odd {
        _mm256_testz_si256(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)), low_bits) == 0
    } else {
        _mm256_testc_si256(_mm256_and_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, d)), low_bits) == 0
    }
}

/// Number of lines before a byte counter could overflow: each adds at most 8.
const BYTE_LINES: usize = 31;

/// Counts bits of all lines with a 4-bit lookup table in a register, summed in bytes.
///
/// The low bits of one half line and those of the other are packed into pairs, and so are the high bits: two vectors
/// cost three counts instead of six.
#[target_feature(enable = "avx2")]
pub(super) fn count(lines: &[Line]) -> Bits {
    let low_bits = _mm256_set1_epi64x(LOW as i64);
    let mut sums = [_mm256_setzero_si256(); 3];
    for part in lines.chunks(BYTE_LINES) {
        let mut bytes = [_mm256_setzero_si256(); 3];
        for line in part {
            let [a, b] = load(line);
            let lows_b = _mm256_and_si256(b, low_bits);
            let lows = _mm256_or_si256(_mm256_and_si256(a, low_bits), _mm256_add_epi64(lows_b, lows_b));
            let highs_a = _mm256_and_si256(_mm256_srli_epi64::<1>(a), low_bits);
            let highs = _mm256_or_si256(highs_a, _mm256_andnot_si256(low_bits, b));
            for (bytes, x) in bytes.iter_mut().zip([lows, highs, _mm256_and_si256(lows, highs)]) {
                *bytes = _mm256_add_epi8(*bytes, bits_of_bytes(x));
            }
        }
        for (sum, bytes) in sums.iter_mut().zip(bytes) {
            *sum = _mm256_add_epi64(*sum, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
        }
    }
    let [low, high, both] = sums.map(|sum| {
        let half = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        (_mm_cvtsi128_si64(half) + _mm_extract_epi64::<1>(half)) as u64
    });
    Bits { low, high, both }
}

/// Population count of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_of_bytes(x: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let nibble = _mm256_set1_epi8(0x0f);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(x, nibble));
    _mm256_add_epi8(low, _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(x), nibble)))
}
