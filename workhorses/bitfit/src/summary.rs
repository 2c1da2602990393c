// SPDX-License-Identifier: MIT OR Apache-2.0
//! A map with an index: one bit for each KiB of map that may hold a block in a chosen state.

use core::fmt;

use crate::word::BLOCKS_PER_BYTE;
use crate::{Bitmap, SetError, State};

/// Bytes of map behind one bit of the lowest level.
pub const CHUNK_BYTES: usize = 1024;

/// Blocks behind one bit of the lowest level.
const CHUNK_BLOCKS: usize = CHUNK_BYTES * BLOCKS_PER_BYTE;

/// Bits in a word of the index.
const WORD_BITS: usize = 64;

/// Levels that the largest map an address space can hold needs: 54 bits of chunk number, 6 in each level.
const MAX_LEVELS: usize = 9;

/// The storage given for an index is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageTooSmall {
    /// Words given.
    pub words: usize,
    /// Words that the map and the number of states need.
    pub needed: usize,
}

impl fmt::Display for StorageTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the index has {} words of storage, expected at least {}", self.words, self.needed)
    }
}

impl core::error::Error for StorageTooSmall {}

/// The index of one state. A bit of a higher level says that its word one level below is not zero.
struct Levels<'a> {
    words: &'a mut [u64],
    /// Where each level starts in `words`; behind the last level, their end.
    starts: [usize; MAX_LEVELS + 1],
    levels: usize,
}

impl<'a> Levels<'a> {
    /// An empty index; `words` is as long as [`Indexed::words_per_state`] says.
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

    /// The index of a state that has none.
    fn none() -> Levels<'a> {
        Levels { words: &mut [], starts: [0; MAX_LEVELS + 1], levels: 0 }
    }

    /// Notes that a chunk may hold a block. Nearly always the bit is there already, or the state has no index; one test
    /// tells either, and nothing is written.
    #[inline(always)]
    fn mark(&mut self, chunk: usize) {
        if let Some(word) = self.words.get(chunk / WORD_BITS)
            && word >> (chunk % WORD_BITS) & 1 == 0
        {
            self.mark_new(chunk);
        }
    }

    /// Sets the chunk's bit, and those above it until one is set.
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

    /// Notes that a chunk holds no block.
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

    /// The first marked chunk at or after `chunk`.
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

    /// The first marked chunk below bit `position` of `level`.
    fn descend(&self, level: usize, mut position: usize) -> usize {
        for below in (0..level).rev() {
            let word = self.words[self.starts[below] + position];
            position = position * WORD_BITS + word.trailing_zeros() as usize;
        }
        position
    }
}

/// A map with an index for some states. A search for such a state reads a few words of index and one KiB of map.
///
/// The index never misses a block. It may point at a KiB whose last block in the state has gone; the next search that
/// finds nothing there forgets it. It takes 0.0125 % of a large map's size for each state, and 8 bytes at least.
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
    /// By state; empty for states without an index.
    indexes: [Levels<'a>; 4],
}

impl<'a> Indexed<'a> {
    /// Words of storage for the index of one state over a map of `map_bytes`.
    pub const fn words_per_state(map_bytes: usize) -> usize {
        let mut bits = map_bytes.div_ceil(CHUNK_BYTES).div_ceil(WORD_BITS);
        let mut words = bits;
        while bits > 1 {
            bits = bits.div_ceil(WORD_BITS);
            words += bits;
        }
        words
    }

    /// Indexes the map `bytes` for `states`, which takes one pass over the map for each. A state named twice counts
    /// once, but its storage must be there twice.
    ///
    /// # Errors
    /// [`StorageTooSmall`] if `storage` has fewer than [`words_per_state`](Self::words_per_state) words for each state.
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

    /// The map, to read.
    pub fn map(&self) -> Bitmap<&[u8]> {
        Bitmap::new(self.map.as_bytes())
    }

    /// Changes a block as [`Bitmap::set`] does, and keeps the index.
    ///
    /// # Errors
    /// Those of [`Bitmap::set`].
    #[inline]
    pub fn set(&mut self, block: usize, next: State) -> Result<State, SetError> {
        let before = self.map.set(block, next)?;
        self.indexes[next as usize].mark(block / CHUNK_BLOCKS);
        Ok(before)
    }

    /// Finds what [`Bitmap::find`] finds. For a state without an index it is that search.
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
    fn the_index_of_the_largest_map_fits_its_levels_and_its_share() {
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
    fn a_search_that_finds_nothing_forgets_the_chunk() {
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
    fn too_little_storage_is_an_error_with_both_numbers() {
        let needed = Indexed::words_per_state(2048) * 2;
        let mut storage = vec![0; needed - 1];
        let error = Indexed::new(&mut [0; 2048], &[State::Free, State::Used], &mut storage).err();
        assert_eq!(error, Some(StorageTooSmall { words: needed - 1, needed }));
    }
}
