// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block map that several threads modify without locks.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::word::{self, Want};
use crate::{SetError, State};

/// Blocks per word.
const BLOCKS: usize = 32;

/// Word with atomic load and compare-exchange. Implemented by [`AtomicU64`]; a model checker supplies its own type.
pub trait AtomicWord {
    /// Loads the word with acquire ordering.
    fn load(&self) -> u64;

    /// Replaces `current` by `new` with acquire-release ordering.
    ///
    /// # Errors
    /// The word's value, if it was not `current`.
    fn replace(&self, current: u64, new: u64) -> Result<(), u64>;
}

impl AtomicWord for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn replace(&self, current: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Block map over atomic words. Within a word, block 0 is in the lowest bits of the little-endian form, so the memory
/// layout is that of a [`Bitmap`](crate::Bitmap).
///
/// A change is one compare-exchange of one word. A thread that frees a block publishes its earlier writes to the
/// thread that allocates the block next.
///
/// ```
/// use bitfit::{AtomicBitmap, State};
/// use std::sync::atomic::AtomicU64;
///
/// let words = [const { AtomicU64::new(0) }; 4];
/// let map = AtomicBitmap::new(&words, 100);
/// assert_eq!(map.allocate(State::Used, 98), Some(98));
/// assert_eq!(map.allocate(State::Used, 98), Some(99));
/// assert_eq!(map.allocate(State::Used, 98), Some(0)); // it wraps
/// map.set(99, State::Free)?;
/// # Ok::<(), bitfit::SetError>(())
/// ```
#[derive(Debug)]
pub struct AtomicBitmap<'a, W = AtomicU64> {
    words: &'a [W],
    blocks: usize,
}

impl<W> Clone for AtomicBitmap<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for AtomicBitmap<'_, W> {}

impl<'a, W: AtomicWord> AtomicBitmap<'a, W> {
    /// Creates a map of the first `blocks` blocks of `words`, or of all if there are fewer.
    pub fn new(words: &'a [W], blocks: usize) -> AtomicBitmap<'a, W> {
        AtomicBitmap { words, blocks: blocks.min(words.len() * BLOCKS) }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Returns whether the map has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Current state of `block`, or `None` if it is outside the map.
    pub fn get(&self, block: usize) -> Option<State> {
        let word = self.words[..].get(block / BLOCKS).filter(|_| block < self.blocks)?;
        Some(State::from_bits((u64::from_le(word.load()) >> shift(block)) as u8))
    }

    /// Changes `block` to `next` and returns its previous state. If several threads make the same change, exactly one
    /// succeeds.
    ///
    /// # Errors
    /// Those of [`Bitmap::set`](crate::Bitmap::set).
    pub fn set(&self, block: usize, next: State) -> Result<State, SetError> {
        if block >= self.blocks {
            return Err(SetError::OutOfRange { block, blocks: self.blocks });
        }
        let word = &self.words[block / BLOCKS];
        let mut current = word.load();
        loop {
            let from = State::from_bits((u64::from_le(current) >> shift(block)) as u8);
            if !from.may_become(next) {
                return Err(SetError::Illegal { block, from, to: next });
            }
            match word.replace(current, changed(current, block, from, next)) {
                Ok(()) => return Ok(from),
                Err(found) => current = found,
            }
        }
    }

    /// Allocates the first free block at or after `goal`, or else the first one before it, as `kind`: [`State::Used`]
    /// or [`State::Dinode`]. A `goal` beyond the end means block 0.
    ///
    /// Returns `None` if no word had a free block when it was read; a block freed behind the scan may be missed. Also
    /// returns `None` for any other `kind`.
    pub fn allocate(&self, kind: State, goal: usize) -> Option<usize> {
        if !State::Free.may_become(kind) || self.blocks == 0 {
            return None;
        }
        let goal = if goal < self.blocks { goal } else { 0 };
        self.take(kind, goal, self.blocks).or_else(|| self.take(kind, 0, goal))
    }

    /// Allocates the first free block of `from..end`.
    fn take(&self, kind: State, from: usize, end: usize) -> Option<usize> {
        let mut start = from;
        while start < end {
            let base = start / BLOCKS * BLOCKS;
            let keep = u64::MAX << shift(start);
            let exists = if end - base < BLOCKS { (1 << shift(end)) - 1 } else { u64::MAX };
            let word = &self.words[start / BLOCKS];
            let mut current = word.load();
            loop {
                let hits = Want::equal(State::Free).hits(u64::from_le(current)) & keep & exists;
                if hits == 0 {
                    break;
                }
                let block = base + word::first(hits);
                match word.replace(current, changed(current, block, State::Free, kind)) {
                    Ok(()) => return Some(block),
                    Err(found) => current = found,
                }
            }
            start = base + BLOCKS;
        }
        None
    }
}

/// Bit offset of `block` in its word.
const fn shift(block: usize) -> usize {
    2 * (block % BLOCKS)
}

/// The word, in memory byte order, after the change of a block.
const fn changed(word: u64, block: usize, from: State, to: State) -> u64 {
    word ^ (((from.bits() ^ to.bits()) as u64) << shift(block)).to_le()
}
