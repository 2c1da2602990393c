// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block map with a summary index: one bit per KiB of map that may hold a block in a given state.

use core::fmt;

use crate::word::BLOCKS_PER_BYTE;
use crate::{Bitmap, SetError, State};

/// Bytes of map per bit of the lowest level.
pub const CHUNK_BYTES: usize = 1024;

/// Blocks per bit of the lowest level.
const CHUNK_BLOCKS: usize = CHUNK_BYTES * BLOCKS_PER_BYTE;

/// Bits per index word.
const WORD_BITS: usize = 64;

/// Levels needed for the largest possible map: 54 bits of chunk number, 6 per level.
const MAX_LEVELS: usize = 9;

/// Error: the storage passed for an index is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageTooSmall {
    /// Number of words passed.
    pub words: usize,
    /// Number of words needed for the map and the number of states.
    pub needed: usize,
}

impl fmt::Display for StorageTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index has {} words of storage, expected at least {}", self.words, self.needed)
    }
}

impl core::error::Error for StorageTooSmall {}

/// Index of one state. A bit of a higher level is set if its word one level below is nonzero.
struct Levels<'a> {
    words: &'a mut [u64],
    /// Start of each level in `words`, then the end of the last level.
    starts: [usize; MAX_LEVELS + 1],
    levels: usize,
}

impl<'a> Levels<'a> {
    /// Creates an empty index; `words` must have the length given by [`Indexed::words_per_state`].
    fn new(words: &'a mut [u64], chunks: usize) -> Levels<'a> {
        words.fill(0);
        let mut starts = [0; MAX_LEVELS + 1];
        let mut levels = 0;
        let mut bits = chunks;
        while levels == 0 || bits > 1 {
            bits = bits.div_ceil(WORD_BITS);
            starts[levels + 1] = starts[levels] + bits;
            levels += 1;
        }
        Levels { words, starts, levels }
    }

    /// Placeholder for a state without an index.
    fn none() -> Levels<'a> {
        Levels { words: &mut [], starts: [0; MAX_LEVELS + 1], levels: 0 }
    }

    /// Marks a chunk that may hold a block. In the common cases, bit already set or state without an index, one test
    /// suffices and nothing is written.
    #[inline(always)]
    fn mark(&mut self, chunk: usize) {
        if let Some(word) = self.words.get(chunk / WORD_BITS)
            && word >> (chunk % WORD_BITS) & 1 == 0
        {
            self.mark_new(chunk);
        }
    }

    /// Sets the chunk's bit and those of higher levels, up to one already set.
    #[cold]
    fn mark_new(&mut self, chunk: usize) {
        let mut position = chunk;
        for level in 0..self.levels {
            let word = &mut self.words[self.starts[level] + position / WORD_BITS];
            let before = *word;
            *word = before | 1 << (position % WORD_BITS);
            if before != 0 {
                return; // the bits above are set
            }
            position /= WORD_BITS;
        }
    }

    /// Clears the bit of a chunk without blocks.
    fn clear(&mut self, chunk: usize) {
        let mut position = chunk;
        for level in 0..self.levels {
            let word = &mut self.words[self.starts[level] + position / WORD_BITS];
            *word &= !(1 << (position % WORD_BITS));
            if *word != 0 {
                return;
            }
            position /= WORD_BITS;
        }
    }

    /// First marked chunk at or after `chunk`.
    fn next(&self, chunk: usize) -> Option<usize> {
        let mut position = chunk;
        for level in 0..self.levels {
            let words = &self.words[self.starts[level]..self.starts[level + 1]];
            let word = words.get(position / WORD_BITS)? & (u64::MAX << (position % WORD_BITS));
            if word != 0 {
                let found = position / WORD_BITS * WORD_BITS + word.trailing_zeros() as usize;
                return Some(self.descend(level, found));
            }
            position = position / WORD_BITS + 1;
        }
        None
    }

    /// First marked chunk under bit `position` of `level`.
    fn descend(&self, level: usize, mut position: usize) -> usize {
        for below in (0..level).rev() {
            let word = self.words[self.starts[below] + position];
            position = position * WORD_BITS + word.trailing_zeros() as usize;
        }
        position
    }
}

/// Block map with an index for some states. A search for such a state reads a few index words and one KiB of the map.
///
/// The index never misses a block. A marked KiB may no longer hold a block in the state; the next unsuccessful search
/// there clears the mark. The index takes 0.0125 % of a large map's size per state, at least 8 bytes.
///
/// ```
/// use bitfit::{Indexed, State};
///
/// let mut bytes = vec![0x55; 1 << 20]; // all used
/// let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
/// let mut map = Indexed::new(&mut bytes, &[State::Free], &mut storage)?;
/// map.set(4_000_000, State::Free)?;
/// assert_eq!(map.find(State::Free, 17), Some(4_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Indexed<'a> {
    map: Bitmap<&'a mut [u8]>,
    /// Index per state; empty for states without one.
    indexes: [Levels<'a>; 4],
}

impl<'a> Indexed<'a> {
    /// Number of storage words for the index of one state over a map of `map_bytes` bytes.
    pub const fn words_per_state(map_bytes: usize) -> usize {
        let mut bits = map_bytes.div_ceil(CHUNK_BYTES).div_ceil(WORD_BITS);
        let mut words = bits;
        while bits > 1 {
            bits = bits.div_ceil(WORD_BITS);
            words += bits;
        }
        words
    }

    /// Indexes the map `bytes` for `states`, with one pass over the map per state. A state listed twice is indexed
    /// once but needs storage twice.
    ///
    /// # Errors
    /// [`StorageTooSmall`] if `storage` has fewer than [`words_per_state`](Self::words_per_state) words per
    /// state.
    pub fn new(bytes: &'a mut [u8], states: &[State], storage: &'a mut [u64]) -> Result<Indexed<'a>, StorageTooSmall> {
        let each = Self::words_per_state(bytes.len());
        let needed = each.saturating_mul(states.len());
        if storage.len() < needed {
            return Err(StorageTooSmall { words: storage.len(), needed });
        }
        let chunks = bytes.len().div_ceil(CHUNK_BYTES);
        let mut indexes = [(); 4].map(|()| Levels::none());
        let mut storage = storage;
        for &state in states {
            let (words, rest) = storage.split_at_mut(each);
            storage = rest;
            let mut levels = Levels::new(words, chunks);
            for (chunk, bytes) in bytes.chunks(CHUNK_BYTES).enumerate() {
                if Bitmap::new(bytes).find(state, 0).is_some() {
                    levels.mark(chunk);
                }
            }
            indexes[state as usize] = levels;
        }
        Ok(Indexed { map: Bitmap::new(bytes), indexes })
    }

    /// Read-only view of the map.
    pub fn map(&self) -> Bitmap<&[u8]> {
        Bitmap::new(self.map.as_bytes())
    }

    /// Changes a block as [`Bitmap::set`] does, and updates the index.
    ///
    /// # Errors
    /// Those of [`Bitmap::set`].
    #[inline]
    pub fn set(&mut self, block: usize, next: State) -> Result<State, SetError> {
        let before = self.map.set(block, next)?;
        self.indexes[next as usize].mark(block / CHUNK_BLOCKS);
        Ok(before)
    }

    /// First block in `state` at or after `from`, as [`Bitmap::find`]. A state without an index is searched flat.
    pub fn find(&mut self, state: State, from: usize) -> Option<usize> {
        if from >= self.map.len() {
            return None;
        }
        let levels = &mut self.indexes[state as usize];
        if levels.words.is_empty() {
            return self.map.find(state, from);
        }
        let bytes = self.map.as_bytes();
        let mut from = from;
        loop {
            let chunk = levels.next(from / CHUNK_BLOCKS)?;
            let base = chunk * CHUNK_BLOCKS;
            let start = from.saturating_sub(base);
            let end = bytes.len().min((chunk + 1) * CHUNK_BYTES);
            if let Some(block) = Bitmap::new(&bytes[chunk * CHUNK_BYTES..end]).find(state, start) {
                return Some(base + block);
            }
            if start == 0 {
                levels.clear(chunk);
            }
            from = base + CHUNK_BLOCKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn largest_map_needs_all_index_levels_and_a_50_mb_map_a_small_index() {
        let mut chunks = usize::MAX.div_ceil(CHUNK_BYTES);
        let mut levels = 0;
        while chunks > 1 {
            chunks = chunks.div_ceil(WORD_BITS);
            levels += 1;
        }
        assert_eq!(levels, MAX_LEVELS);
        let bytes = 50 << 20;
        assert!((Indexed::words_per_state(bytes) * 8) as f64 <= 0.000_2 * bytes as f64);
    }

    #[test]
    fn search_that_finds_nothing_in_a_chunk_clears_its_index_bit() {
        let mut bytes = vec![0x55; 3 * CHUNK_BYTES];
        let mut storage = vec![0; Indexed::words_per_state(bytes.len())];
        let mut map = Indexed::new(&mut bytes, &[State::Free], &mut storage).unwrap();
        map.set(5000, State::Free).unwrap();
        map.set(5000, State::Used).unwrap();
        assert_eq!(map.indexes[0].next(0), Some(1));
        assert_eq!(map.find(State::Free, 4097), None, "not from the chunk's start: the bit stays");
        assert_eq!(map.indexes[0].next(0), Some(1));
        assert_eq!(map.find(State::Free, 0), None);
        assert_eq!(map.indexes[0].next(0), None);
    }

    #[test]
    fn insufficient_storage_is_an_error_with_both_sizes() {
        let needed = Indexed::words_per_state(2048) * 2;
        let mut storage = vec![0; needed - 1];
        let error = Indexed::new(&mut [0; 2048], &[State::Free, State::Used], &mut storage).err();
        assert_eq!(error, Some(StorageTooSmall { words: needed - 1, needed }));
    }
}
