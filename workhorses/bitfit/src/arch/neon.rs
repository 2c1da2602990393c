// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wide loops for NEON: four 128-bit vectors per line.

use core::arch::aarch64::*;

use super::{Bits, LINE, Line, portable};
use crate::word::{self, LOW, Want};

/// Search accumulator: the low bit of a pair is set if a wanted block was found at its position.
type Seen = uint64x2_t;

/// Accumulator with no block found.
#[inline]
#[target_feature(enable = "neon")]
fn none<const WANT: u8>() -> Seen {
    vdupq_n_u64(0)
}

/// Loads the four quarters of a line.
#[inline]
#[target_feature(enable = "neon")]
fn load(line: &Line) -> [uint64x2_t; 4] {
    let (quarters, _) = line.as_chunks::<{ LINE / 4 }>();
    // SAFETY: each quarter has the 16 bytes that the unaligned load reads.
    core::array::from_fn(|i| vreinterpretq_u64_u8(unsafe { vld1q_u8(quarters[i].as_ptr()) }))
}

/// Accumulates the wanted blocks of a line.
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

/// Accumulates the bytes of a line without a comparison: it only reads them.
#[inline]
#[target_feature(enable = "neon")]
fn touch(seen: Seen, line: &Line) -> Seen {
    load(line).into_iter().fold(seen, |seen, x| vorrq_u64(seen, x))
}

/// Combines two accumulators.
#[inline]
#[target_feature(enable = "neon")]
fn join<const WANT: u8>(a: Seen, b: Seen) -> Seen {
    vorrq_u64(a, b)
}

/// Returns whether a wanted block was found.
#[inline]
#[target_feature(enable = "neon")]
fn any<const WANT: u8>(seen: Seen) -> bool {
    vmaxvq_u32(vreinterpretq_u32_u64(vandq_u64(seen, vdupq_n_u64(LOW)))) != 0
}

define_loops!(#[target_feature(enable = "neon")]);

/// Number of bytes at the start, in whole groups, without a wanted block.
#[inline]
#[target_feature(enable = "neon")]
fn skip_groups<const WANT: u8>(bytes: &[u8]) -> usize {
    skip_groups_of::<WANT, 4, 2>(bytes)
}

/// Counts bits of all lines with the portable loop, which the compiler vectorizes here.
#[target_feature(enable = "neon")]
pub(super) fn count(lines: &[Line]) -> Bits {
    portable::count(lines)
}
