// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block map over borrowed bytes.

use crate::search;
use crate::word::{BLOCKS_PER_BYTE, Want};
use crate::{Counts, Kernel, SetError, State, arch};

/// Block map over `B`: `&[u8]` for reading, `&mut [u8]` or an owned buffer for changes as well.
///
/// A byte holds four blocks, so a map of `n` bytes has blocks 0 to `4 n - 1`. Block numbers must fit in `usize`: on
/// 32-bit machines a map must be smaller than 1 GiB.
#[derive(Clone, Debug)]
pub struct Bitmap<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Bitmap<B> {
    /// Interprets `bytes` as a map. Any contents are valid.
    #[inline]
    pub const fn new(bytes: B) -> Bitmap<B> {
        Bitmap { bytes }
    }

    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.as_bytes().len() * BLOCKS_PER_BYTE
    }

    /// Returns whether the map has no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Bytes of the map.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> B {
        self.bytes
    }

    /// State of `block`, or `None` if it is outside the map.
    #[inline]
    pub fn get(&self, block: usize) -> Option<State> {
        let byte = *self.as_bytes().get(block / BLOCKS_PER_BYTE)?;
        Some(State::from_bits(byte >> shift(block)))
    }

    /// First block in `state` at or after `from`. The search does not wrap; it finds nothing if `from` is beyond the
    /// end.
    #[inline]
    pub fn find(&self, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::equal(state), from, None)
    }

    /// As [`find`](Self::find) with a given kernel, for tests and measurements.
    ///
    /// [`Kernel::Portable`] is used if this machine cannot run the kernel.
    pub fn find_with(&self, kernel: Kernel, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::equal(state), from, Some(kernel))
    }

    /// First block at or after `from` that is not in `state`, such as the end of a run.
    #[inline]
    pub fn find_other(&self, state: State, from: usize) -> Option<usize> {
        search::first(self.as_bytes(), Want::other(state), from, None)
    }

    /// Start of the first run of `length` blocks in `state` at or after `from`.
    ///
    /// A run of length 0 is found anywhere, including the end of the map.
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

    /// Last block in `state` below `end`. An `end` beyond the map means the end of the map.
    pub fn find_last(&self, state: State, end: usize) -> Option<usize> {
        search::last(self.as_bytes(), Want::equal(state), end)
    }

    /// Number of blocks in each state.
    pub fn count(&self) -> Counts {
        arch::count(Kernel::best(), self.as_bytes())
    }

    /// As [`count`](Self::count) with a given kernel, for tests and measurements.
    pub fn count_with(&self, kernel: Kernel) -> Counts {
        arch::count(kernel, self.as_bytes())
    }

    /// States of all blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = State> + '_ {
        self.as_bytes().iter().flat_map(|&byte| (0..BLOCKS_PER_BYTE).map(move |k| State::from_bits(byte >> shift(k))))
    }

    /// Blocks in `state`, in order.
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
    /// Changes `block` to `next` and returns its previous state.
    ///
    /// # Errors
    /// [`SetError::OutOfRange`] for a block outside the map, [`SetError::Illegal`] for a change not allowed
    /// by [`State::may_become`]. The map is then unchanged.
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

/// Bit offset of `block` in its byte.
#[inline(always)]
const fn shift(block: usize) -> usize {
    2 * (block % BLOCKS_PER_BYTE)
}
