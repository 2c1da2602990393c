// SPDX-License-Identifier: MIT OR Apache-2.0
//! 256-bit vectors of x86-64: two for a line.

use core::arch::x86_64::*;

use super::skip::*;
use super::{Bits, LINE, Line};
use crate::word::{self, LOW, Want};

/// What was seen in each pair of the vector so far.
type Seen = __m256i;

/// Nothing seen yet.
#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> Seen {
    _mm256_setzero_si256()
}

/// The two halves of a line.
#[inline]
#[target_feature(enable = "avx2")]
fn load(line: &Line) -> [__m256i; 2] {
    // SAFETY: a line has 64 bytes, the loads take the first and the second 32 and need no alignment.
    unsafe { [_mm256_loadu_si256(line.as_ptr().cast()), _mm256_loadu_si256(line.as_ptr().add(LINE / 2).cast())] }
}

/// Adds the wanted blocks of a line.
#[inline]
#[target_feature(enable = "avx2")]
fn see<const WANT: u8>(seen: Seen, line: &Line) -> Seen {
    let want = const { Want::from_number(WANT) };
    let [a, b] = load(line);
    if want.other {
        let state = _mm256_set1_epi64x(word::repeat(want.state) as i64);
        let differs = |x| _mm256_xor_si256(x, state);
        // A difference may be in the high bit alone: bring it to the low one, where `any` looks.
        let all = _mm256_or_si256(differs(a), differs(b));
        return _mm256_or_si256(seen, _mm256_or_si256(all, _mm256_srli_epi64::<1>(all)));
    }
    let opposite = _mm256_set1_epi64x(!word::repeat(want.state) as i64);
    let [a, b] = [_mm256_xor_si256(a, opposite), _mm256_xor_si256(b, opposite)];
    let a = _mm256_and_si256(a, _mm256_srli_epi64::<1>(a));
    let b = _mm256_and_si256(b, _mm256_srli_epi64::<1>(b));
    _mm256_or_si256(seen, _mm256_or_si256(a, b))
}

/// Adds a line as it is.
#[inline]
#[target_feature(enable = "avx2")]
fn touch(seen: Seen, line: &Line) -> Seen {
    let [a, b] = load(line);
    _mm256_or_si256(seen, _mm256_or_si256(a, b))
}

/// Whether anything was seen.
#[inline]
#[target_feature(enable = "avx2")]
fn any(seen: Seen) -> bool {
    _mm256_testz_si256(seen, _mm256_set1_epi64x(LOW as i64)) == 0
}

define_loops!(#[target_feature(enable = "avx2")]);

/// Lines that add at most 8 to a byte each, before bytes could run over.
const BYTE_LINES: usize = 31;

/// Counts bits of all lines: those of four bits by a table in a register, summed in bytes.
///
/// The low bits of one half line and those of the other fill the two bits of a pair, and so do the high bits: two vectors
/// cost three counts instead of six.
#[target_feature(enable = "avx2")]
pub(super) fn count(lines: &[Line]) -> Bits {
    let low_bits = _mm256_set1_epi64x(LOW as i64);
    let mut sums = [zero(); 3];
    for part in lines.chunks(BYTE_LINES) {
        let mut bytes = [zero(); 3];
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
            *sum = _mm256_add_epi64(*sum, _mm256_sad_epu8(bytes, zero()));
        }
    }
    let [low, high, both] = sums.map(|sum| {
        let half = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        (_mm_cvtsi128_si64(half) + _mm_extract_epi64::<1>(half)) as u64
    });
    Bits { low, high, both }
}

/// The number of bits set in each byte.
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
