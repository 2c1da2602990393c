// SPDX-License-Identifier: MIT OR Apache-2.0
//! 128-bit vectors of 64-bit Arm: four for a line.

use core::arch::aarch64::*;

use super::{Bits, LINE, Line, portable};
use crate::word::{self, LOW, Want};

/// What was seen in each pair of the vector so far.
type Seen = uint64x2_t;

/// Nothing seen yet.
#[inline]
#[target_feature(enable = "neon")]
fn none<const WANT: u8>() -> Seen {
    vdupq_n_u64(0)
}

/// The four quarters of a line.
#[inline]
#[target_feature(enable = "neon")]
fn load(line: &Line) -> [uint64x2_t; 4] {
    let (quarters, _) = line.as_chunks::<{ LINE / 4 }>();
    // SAFETY: each quarter has the 16 bytes that the load takes, and the load needs no alignment.
    core::array::from_fn(|i| vreinterpretq_u64_u8(unsafe { vld1q_u8(quarters[i].as_ptr()) }))
}

/// Adds the wanted blocks of a line.
#[inline]
#[target_feature(enable = "neon")]
fn see<const WANT: u8>(mut seen: Seen, line: &Line) -> Seen {
    let want = const { Want::from_number(WANT) };
    let state = vdupq_n_u64(word::repeat(want.state));
    let opposite = vdupq_n_u64(!word::repeat(want.state));
    for x in load(line) {
        let hits = if want.other {
            let differs = veorq_u64(x, state);
            vorrq_u64(differs, vshrq_n_u64::<1>(differs))
        } else {
            let both = veorq_u64(x, opposite);
            vandq_u64(both, vshrq_n_u64::<1>(both))
        };
        seen = vorrq_u64(seen, hits);
    }
    seen
}

/// Adds a line as it is.
#[inline]
#[target_feature(enable = "neon")]
fn touch(seen: Seen, line: &Line) -> Seen {
    load(line).into_iter().fold(seen, |seen, x| vorrq_u64(seen, x))
}

/// What was seen in either place.
#[inline]
#[target_feature(enable = "neon")]
fn join<const WANT: u8>(a: Seen, b: Seen) -> Seen {
    vorrq_u64(a, b)
}

/// Whether anything was seen.
#[inline]
#[target_feature(enable = "neon")]
fn any<const WANT: u8>(seen: Seen) -> bool {
    vmaxvq_u32(vreinterpretq_u32_u64(vandq_u64(seen, vdupq_n_u64(LOW)))) != 0
}

define_loops!(#[target_feature(enable = "neon")]);

/// Bytes from the start in whole groups without a wanted block.
#[inline]
#[target_feature(enable = "neon")]
fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
    skip_groups_of::<WANT, 4, 2>(bytes)
}

/// Counts bits of all lines: the portable loop, which the compiler turns into vectors here.
#[target_feature(enable = "neon")]
pub(super) fn count(lines: &[Line]) -> Bits {
    portable::count(lines)
}
