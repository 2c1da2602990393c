// SPDX-License-Identifier: MIT OR Apache-2.0
//! Word-level search: 32 blocks in a 64-bit word.

use crate::State;

/// Low bit of every pair.
pub(crate) const LOW: u64 = 0x5555_5555_5555_5555;

/// Blocks per byte of the map.
pub(crate) const BLOCKS_PER_BYTE: usize = 4;

/// Bytes per word.
pub(crate) const BYTES: usize = 8;

/// A word whose 32 blocks are all in `state`.
pub(crate) const fn repeat(state: State) -> u64 {
    LOW * state.bits() as u64
}

/// Search criterion: blocks in a state, or blocks in any other state.
///
/// Convertible to a number below 8, so that the wide loops can be compiled once per criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// The state to compare with.
    pub state: State,
    /// Whether to search for blocks not in `state`.
    pub other: bool,
}

impl Want {
    /// Search for blocks in `state`.
    pub(crate) const fn equal(state: State) -> Want {
        Want { state, other: false }
    }

    /// Search for blocks not in `state`.
    pub(crate) const fn other(state: State) -> Want {
        Want { state, other: true }
    }

    /// Number of the criterion, 0 to 7.
    pub(crate) const fn number(self) -> u8 {
        self.state.bits() + 4 * self.other as u8
    }

    /// The criterion with this number; only the three low bits are used.
    pub(crate) const fn from_number(number: u8) -> Want {
        Want { state: State::from_bits(number), other: number & 4 != 0 }
    }

    /// Returns a word with the low bit of each pair set that is a wanted block of `word`.
    ///
    /// XOR with the complement of the state sets both bits of a block in the state. The shift moves each high bit
    /// onto the low one; bits that cross into the neighboring pair land on odd positions, which the mask clears.
    #[inline(always)]
    pub(crate) const fn hits(self, word: u64) -> u64 {
        let both = word ^ !repeat(self.state);
        let equal = both & (both >> 1) & LOW;
        if self.other { equal ^ LOW } else { equal }
    }
}

/// Loads the word at byte `at`; eight bytes must be available.
#[inline(always)]
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; BYTES];
    word.copy_from_slice(&bytes[at..at + BYTES]);
    u64::from_le_bytes(word)
}

/// Loads the last (fewer than eight) bytes of a map as a word; also returns a mask of the existing blocks.
#[inline]
pub(crate) fn load_tail(bytes: &[u8]) -> (u64, u64) {
    debug_assert!(bytes.len() < BYTES);
    let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    (word, (1 << (8 * bytes.len())) - 1)
}

/// First wanted block in a nonzero result of [`Want::hits`].
#[inline(always)]
pub(crate) const fn first(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 2
}

/// Last wanted block in a nonzero result of [`Want::hits`].
#[inline(always)]
pub(crate) const fn last(hits: u64) -> usize {
    (63 - hits.leading_zeros() as usize) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_match_a_test_of_each_pair() {
        let words = [0, u64::MAX, LOW, !LOW, 0x1b1b_e4e4_0123_4567, 0x8000_0000_0000_0001, 0x6996_c33c_1248_0ff0];
        for word in words {
            for number in 0..8 {
                let want = Want::from_number(number);
                assert_eq!(want.number(), number);
                for block in 0..32 {
                    let equal = State::from_bits((word >> (2 * block)) as u8) == want.state;
                    assert_eq!(want.hits(word) >> (2 * block) & 3, u64::from(equal != want.other), "{want:?} {block}");
                }
            }
        }
    }

    #[test]
    fn tail_is_loaded_in_byte_order() {
        assert_eq!(load_tail(&[]), (0, 0));
        assert_eq!(load_tail(&[1, 2, 3]), (0x03_0201, 0xff_ffff));
    }
}
