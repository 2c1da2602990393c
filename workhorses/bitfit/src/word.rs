// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thirty-two blocks in a 64-bit word: which of them are wanted.

use crate::State;

/// The low bit of every pair.
pub(crate) const LOW: u64 = 0x5555_5555_5555_5555;

/// Blocks in a byte of the map.
pub(crate) const BLOCKS_PER_BYTE: usize = 4;

/// Bytes in a word.
pub(crate) const BYTES: usize = 8;

/// A word whose 32 blocks are all in `state`.
pub(crate) const fn repeat(state: State) -> u64 {
    LOW * state.bits() as u64
}

/// What a search stops at: blocks in a state, or blocks in any other state.
///
/// It doubles as a number below 8, so that the wide loops can be compiled once for each of the eight searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// The state looked at.
    pub state: State,
    /// Stop where the state is another one.
    pub other: bool,
}

impl Want {
    /// Stop at blocks in `state`.
    pub(crate) const fn equal(state: State) -> Want {
        Want { state, other: false }
    }

    /// Stop at blocks that are not in `state`.
    pub(crate) const fn other(state: State) -> Want {
        Want { state, other: true }
    }

    /// The search's number, 0 to 7.
    pub(crate) const fn number(self) -> u8 {
        self.state.bits() + 4 * self.other as u8
    }

    /// The search with that number; only the three low bits count.
    pub(crate) const fn from_number(number: u8) -> Want {
        Want { state: State::from_bits(number), other: number & 4 != 0 }
    }

    /// One bit, the low one of the pair, for each wanted block of `word`.
    ///
    /// After the exclusive or with the opposite of the state, a block in the state has both bits set. The shift brings
    /// the high bit of each pair onto the low one; what crosses into the neighbour's pair lands on odd bits, which the
    /// mask removes.
    #[inline(always)]
    pub(crate) const fn hits(self, word: u64) -> u64 {
        let both = word ^ !repeat(self.state);
        let equal = both & (both >> 1) & LOW;
        if self.other { equal ^ LOW } else { equal }
    }
}

/// The word at `at`. The caller has checked that eight bytes are there.
#[inline(always)]
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; BYTES];
    word.copy_from_slice(&bytes[at..at + BYTES]);
    u64::from_le_bytes(word)
}

/// The last `bytes.len()` bytes of a map, fewer than eight, as a word, and a mask of the blocks that exist.
#[inline]
pub(crate) fn load_tail(bytes: &[u8]) -> (u64, u64) {
    debug_assert!(bytes.len() < BYTES);
    let word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    (word, (1 << (8 * bytes.len())) - 1)
}

/// The first wanted block of a non-zero result of [`Want::hits`].
#[inline(always)]
pub(crate) const fn first(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 2
}

/// The last wanted block of a non-zero result of [`Want::hits`].
#[inline(always)]
pub(crate) const fn last(hits: u64) -> usize {
    (63 - hits.leading_zeros() as usize) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_agree_with_looking_at_each_pair() {
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
    fn a_tail_has_its_bytes_in_order_and_nothing_more() {
        assert_eq!(load_tail(&[]), (0, 0));
        assert_eq!(load_tail(&[1, 2, 3]), (0x03_0201, 0xff_ffff));
    }
}
