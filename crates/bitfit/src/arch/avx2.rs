// SPDX-License-Identifier: MIT OR Apache-2.0
//! 256-bit vectors of x86-64: two for a line.

use core::arch::x86_64::*;

use super::skip::*;
use super::{Bits, LINE, Line, portable, prefetch};
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

/// Counts bits of all lines: the portable loop, which the compiler turns into 256-bit vectors here.
#[target_feature(enable = "avx2")]
pub(super) fn count(lines: &[Line]) -> Bits {
    portable::count_lines(lines)
}
