// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which blocks are in use. The map lives in memory only: it follows from the roots and the log, so it cannot disagree
//! with them after a crash.
//!
//! `bitfit` keeps the states: *dinode* is a block that the current root or an archived epoch reaches; *unlinked* one
//! that only the previous root reaches, the fallback if the newest superblock is damaged; *used* one written since the
//! current root was taken.

use super::{BLOCK, Ptr, StoreError};
use bitfit::{Bitmap, State};

/// A set of blocks.
#[derive(Clone, Default)]
pub struct Marks {
    words: Vec<u64>,
}

impl Marks {
    /// An empty set of blocks below `blocks`.
    pub fn new(blocks: u32) -> Marks {
        Marks { words: vec![0; (blocks as usize).div_ceil(64)] }
    }

    /// Adds a block; returns whether it was missing.
    pub fn set(&mut self, block: u32) -> bool {
        let Some(word) = self.words.get_mut(block as usize / 64) else { return false };
        let bit = 1 << (block % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Takes a block out.
    pub fn clear(&mut self, block: u32) {
        if let Some(word) = self.words.get_mut(block as usize / 64) {
            *word &= !(1 << (block % 64));
        }
    }

    /// Whether the set holds a block.
    pub fn has(&self, block: u32) -> bool {
        self.words.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Adds all blocks of another set.
    pub fn add(&mut self, other: &Marks) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Number of blocks in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// The allocator.
pub struct Space {
    map: Bitmap<Vec<u8>>,
    blocks: u32,
    first: u32,
    goal: u32,
    free: u32,
    /// Blocks that the current root reaches.
    pub current: Marks,
    /// Blocks that archived epochs reach.
    pub archived: Marks,
    /// Blocks written since the current root was taken.
    pub since: Marks,
    /// Blocks that the previous root and the log behind it reach.
    pub previous: Marks,
}

impl Space {
    /// An allocator for blocks from `first` to `blocks`, all free.
    pub fn new(first: u32, blocks: u32) -> Space {
        let marks = || Marks::new(blocks);
        let mut space = Space {
            map: Bitmap::new(Vec::new()),
            blocks,
            first,
            goal: first,
            free: 0,
            current: marks(),
            archived: marks(),
            since: marks(),
            previous: marks(),
        };
        space.rebuild();
        space
    }

    /// Recomputes the map from the four sets.
    pub fn rebuild(&mut self) {
        let mut bytes = vec![0_u8; (self.blocks as usize).div_ceil(4)];
        self.free = 0;
        // Low blocks first: a sparse store file stays small, and overwritten blocks need no metadata of the host.
        self.goal = self.first;
        for block in 0..bytes.len() as u32 * 4 {
            let outside = block < self.first || block >= self.blocks;
            let state = if outside || self.current.has(block) || self.archived.has(block) {
                State::Dinode
            } else if self.since.has(block) {
                State::Used
            } else if self.previous.has(block) {
                State::Unlinked
            } else {
                self.free += 1;
                State::Free
            };
            bytes[block as usize / 4] |= state.bits() << (2 * (block % 4));
        }
        self.map = Bitmap::new(bytes);
    }

    /// Blocks that can be allocated at once.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that can hold data or metadata.
    pub fn total(&self) -> u32 {
        self.blocks - self.first
    }

    /// Takes `count` adjacent blocks and returns the first. Gives up the fallback root if nothing else is free.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        if let Some(found) = self.find(count) {
            return Some(found);
        }
        if self.previous.count() == 0 {
            return None;
        }
        self.previous = Marks::new(self.blocks);
        self.rebuild();
        self.find(count)
    }

    fn find(&mut self, count: u32) -> Option<u32> {
        let length = count as usize;
        let from = |from: u32| match length {
            1 => self.map.find(State::Free, from as usize),
            _ => self.map.find_run(State::Free, from as usize, length),
        };
        let found = from(self.goal).or_else(|| from(self.first))? as u32;
        for block in found..found + count {
            self.map.set(block as usize, State::Used).ok()?;
            self.since.set(block);
        }
        self.free -= count;
        self.goal = found + count;
        Some(found)
    }

    /// Gives back blocks that [`take`](Self::take) returned and that nothing refers to.
    pub fn give_back(&mut self, blocks: &[u32]) {
        for block in blocks {
            if self.map.set(*block as usize, State::Free).is_ok() {
                self.free += 1;
                self.since.clear(*block);
            }
        }
    }

    /// Fails unless a pointer's blocks lie in the store.
    pub fn check(first: u32, blocks: u32, ptr: Ptr) -> Result<(), StoreError> {
        let end = u64::from(ptr.block) + u64::from(ptr.block_count());
        if ptr.block < first || end > u64::from(blocks) || ptr.len as usize > 1000 * BLOCK {
            return Err(StoreError::Damaged { what: "address outside the store", block: ptr.block });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_previous_root_are_reused_only_when_no_other_block_is_free() {
        let mut space = Space::new(2, 10);
        space.previous.set(5);
        space.rebuild();
        assert_eq!(space.free(), 7);
        let taken: Vec<u32> = (0..7).map(|_| space.take(1).expect("free")).collect();
        assert!(!taken.contains(&5));
        assert_eq!(space.take(1), Some(5));
        assert_eq!(space.take(1), None);
        space.give_back(&taken[..2]);
        assert_eq!(space.free(), 2);
    }
}
