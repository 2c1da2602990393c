// SPDX-License-Identifier: MIT OR Apache-2.0
//! A map over bytes that somebody else owns.

use crate::search;
use crate::word::{BLOCKS_PER_BYTE, Want};
use crate::{Counts, Kernel, SetError, State, arch};

/// A map of block states over `B`: `&[u8]` to read, `&mut [u8]` or an owned buffer to change too.
///
/// Every byte holds four blocks, so a map of `n` bytes has `4 n` blocks, numbered from 0. All of them must have a number
/// in `usize`: on 32-bit machines a map is smaller than 1 GiB.
#[derive(Clone, Debug)]
pub struct Bitmap<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Bitmap<B> {
    /// Looks at `bytes` as a map. Every content is a valid map.
    #[inline]
    pub const fn new(bytes: B) -> Bitmap<B> {
        Bitmap { bytes }
    }

    /// The number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_bytes().len() * BLOCKS_PER_BYTE
    }

    /// Whether the map has no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// The map as stored.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Gives back what the map was made of.
    pub fn into_inner(self) -> B {
        self.bytes
    }

    /// The state of `block`, or `None` if the map has no such block.
    #[inline]
    pub fn get(&self, block: usize) -> Option<State> {
        let byte = *self.as_bytes().get(block / BLOCKS_PER_BYTE)?;
        Some(State::from_bits(byte >> shift(block)))
    }

    /// The first block in `state` at or after `from`. It does not wrap; a `from` past the end finds nothing.
    #[inline]
    pub fn find(&self, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::equal(state), from, None)
    }

    /// As [`find`](Self::find), with a chosen kernel: for tests and measurements.
    ///
    /// A kernel that this machine cannot run is replaced by [`Kernel::Portable`].
    pub fn find_with(&self, kernel: Kernel, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::equal(state), from, Some(kernel))
    }

    /// The first block at or after `from` that is not in `state`: where a run ends.
    #[inline]
    pub fn find_other(&self, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::other(state), from, None)
    }

    /// The first block at or after `from` that is in `state` together with the `length - 1` blocks behind it.
    ///
    /// A run of no blocks fits everywhere, also at the map's end.
    ///
    /// ```
    /// # use bitfit::{Bitmap, State};
    /// let map = Bitmap::new([0b00_01_00_00_u8, 0b01_00_00_00]); // free, free, used, free | free, free, free, used
    /// assert_eq!(map.find_run(State::Free, 0, 2), Some(0));
    /// assert_eq!(map.find_run(State::Free, 1, 2), Some(3));
    /// assert_eq!(map.find_run(State::Free, 0, 5), None);
    /// ```
    pub fn find_run(&self, state: State, from: usize, length: usize) -> Option<usize> {
        search::run(self.as_bytes(), state, from, length)
    }

    /// The last block in `state` below `end`. An `end` past the map's end means the map's end.
    pub fn find_last(&self, state: State, end: usize) -> Option<usize> {
        search::last(self.as_bytes(), Want::equal(state), end)
    }

    /// How many blocks are in each state.
    pub fn count(&self) -> Counts {
        arch::count(Kernel::best(), self.as_bytes())
    }

    /// As [`count`](Self::count), with a chosen kernel: for tests and measurements.
    pub fn count_with(&self, kernel: Kernel) -> Counts {
        arch::count(kernel, self.as_bytes())
    }

    /// The states of all blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = State> + '_ {
        self.as_bytes().iter().flat_map(|&byte| (0..BLOCKS_PER_BYTE).map(move |k| State::from_bits(byte >> shift(k))))
    }

    /// The blocks in `state`, in order.
    ///
    /// ```
    /// # use bitfit::{Bitmap, State};
    /// let map = Bitmap::new([0b11_01_11_00_u8]);
    /// assert!(map.blocks(State::Dinode).eq([1, 3]));
    /// ```
    pub fn blocks(&self, state: State) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let block = self.find(state, from)?;
            from = block + 1;
            Some(block)
        })
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Bitmap<B> {
    /// Changes `block` to `next` and returns its state before.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for a block that the map does not have, [`SetError::Illegal`] for a change that
    /// [`State::may_become`] forbids. The map is then unchanged.
    #[inline]
    pub fn set(&mut self, block: usize, next: State) -> Result<State, SetError> {
        let bytes = self.bytes.as_mut();
        let blocks = bytes.len() * BLOCKS_PER_BYTE;
        let Some(byte) = bytes.get_mut(block / BLOCKS_PER_BYTE) else {
            return Err(SetError::OutOfRange { block, blocks });
        };
        let from = State::from_bits(*byte >> shift(block));
        if !from.may_become(next) {
            return Err(SetError::Illegal { block, from, to: next });
        }
        *byte ^= (from.bits() ^ next.bits()) << shift(block);
        Ok(from)
    }
}

/// How far the pair of `block` is from the low end of its byte, in bits.
#[inline(always)]
const fn shift(block: usize) -> usize {
    2 * (block % BLOCKS_PER_BYTE)
}
