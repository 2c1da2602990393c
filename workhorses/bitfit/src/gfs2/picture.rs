// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout of free blocks: runs by length, and a picture of the volume.

use std::vec;
use std::vec::Vec;

/// Number of length classes: 1, 2 to 3, 4 to 7 and so on; a group has fewer than 2^34 blocks.
const CLASSES: usize = 34;

/// Runs of free blocks by length. Runs do not cross group boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Number of runs of 2^i to 2^(i+1) - 1 blocks, for each i.
    pub number: [u64; CLASSES],
    /// Number of blocks in these runs.
    pub blocks: [u64; CLASSES],
    /// Length of the longest run in blocks.
    pub longest: u64,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { number: [0; CLASSES], blocks: [0; CLASSES], longest: 0 }
    }
}

impl Runs {
    /// Adds a run of at least one block.
    pub(super) fn add(&mut self, length: u64) {
        let class = length.ilog2() as usize;
        self.number[class] += 1;
        self.blocks[class] += length;
        self.longest = self.longest.max(length);
    }

    /// Adds the runs of a group.
    pub(super) fn add_all(&mut self, other: &Runs) {
        for class in 0..CLASSES {
            self.number[class] += other.number[class];
            self.blocks[class] += other.blocks[class];
        }
        self.longest = self.longest.max(other.longest);
    }

    /// Number of runs.
    pub fn total(&self) -> u64 {
        self.number.iter().sum()
    }

    /// Classes from the first to the last with runs: shortest and longest length, number of runs, number of blocks.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64, u64, u64)> + '_ {
        let used = |&class: &usize| self.number[class] != 0;
        let first = (0..CLASSES).find(used).unwrap_or(CLASSES);
        let end = (0..CLASSES).rev().find(used).map_or(first, |last| last + 1);
        (first..end).map(|class| (1 << class, (2 << class) - 1, self.number[class], self.blocks[class]))
    }
}

/// A cell of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Number of the cell's blocks covered by maps.
    pub blocks: u64,
    /// Number of free blocks among them.
    pub free: u64,
    /// Number of runs of free blocks that start in the cell.
    pub runs: u64,
}

/// The volume divided into cells of equal length, from the image's first block to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Image blocks per cell; the last cell may have fewer.
    pub cell_blocks: u64,
    /// Contents of each cell, in order.
    pub cells: Vec<Cell>,
}

impl Picture {
    /// Creates an empty picture of an image of `blocks` blocks with at most `most` cells.
    pub(super) fn new(blocks: u64, most: u64) -> Picture {
        let cell_blocks = blocks.div_ceil(most).max(1);
        Picture { cell_blocks, cells: vec![Cell::default(); blocks.div_ceil(cell_blocks) as usize] }
    }

    /// Adds `length` blocks from `start` that are covered by a map.
    pub(super) fn add_blocks(&mut self, start: u64, length: u64) {
        self.spread(start, length, |cell, blocks| cell.blocks += blocks);
    }

    /// Adds a run of free blocks.
    pub(super) fn add_run(&mut self, start: u64, length: u64) {
        self.cells[(start / self.cell_blocks) as usize].runs += 1;
        self.spread(start, length, |cell, blocks| cell.free += blocks);
    }

    /// Distributes a range of blocks over the cells. The range must be within the image.
    fn spread(&mut self, mut start: u64, mut length: u64, mut give: impl FnMut(&mut Cell, u64)) {
        while length > 0 {
            let cell = start / self.cell_blocks;
            let here = length.min((cell + 1) * self.cell_blocks - start);
            give(&mut self.cells[cell as usize], here);
            start += here;
            length -= here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_classified_by_power_of_two() {
        let mut runs = Runs::default();
        for length in [1, 2, 3, 4, 7, 8, 1 << 33] {
            runs.add(length);
        }
        let classes: Vec<_> = runs.classes().take(4).collect();
        assert_eq!(classes, [(1, 1, 1, 1), (2, 3, 2, 5), (4, 7, 2, 11), (8, 15, 1, 8)]);
        assert_eq!((runs.total(), runs.longest), (7, 1 << 33));
        assert_eq!(Runs::default().classes().count(), 0);
    }

    #[test]
    fn free_run_counts_in_the_picture_cell_of_its_start_and_its_blocks_in_their_own_cells() {
        let mut picture = Picture::new(25, 10);
        assert_eq!((picture.cell_blocks, picture.cells.len()), (3, 9));
        picture.add_blocks(0, 25);
        picture.add_run(2, 6);
        let cells: Vec<_> = picture.cells[..4].iter().map(|cell| (cell.blocks, cell.free, cell.runs)).collect();
        assert_eq!(cells, [(3, 1, 1), (3, 3, 0), (3, 2, 0), (3, 0, 0)]);
        assert_eq!(picture.cells[8].blocks, 1);
    }
}
