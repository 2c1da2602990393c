// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume of resource groups with the allocation policy of GFS2 in 2008: one block at a time, each with a search.

use std::hint::black_box;

use bitfit::{Bitmap, Indexed, State};

/// Sizes of a volume.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Block size in bytes; the historical searches processed one block of map at a time.
    pub block_bytes: usize,
    /// Blocks per group, a multiple of four.
    pub group_blocks: usize,
    pub groups: usize,
}

impl Shape {
    pub fn blocks(&self) -> usize {
        self.group_blocks * self.groups
    }

    pub fn map_bytes(&self) -> usize {
        self.blocks() / 4
    }

    pub fn group_of(&self, block: usize) -> usize {
        block / self.group_blocks
    }
}

/// Purpose of an allocation. Each group remembers its last allocation per purpose and continues there.
#[derive(Clone, Copy)]
pub enum Kind {
    Inode,
    Pointers,
    Data,
}

/// Maps of a volume, with a search.
pub trait Map {
    /// Recorded answer, if neither a group choice nor a search is wanted.
    fn known(&mut self) -> Option<usize> {
        None
    }

    /// First free block of a group at or after `goal`, or else the first one before it. The group must have a free
    /// block. Block numbers are relative to the volume.
    fn find_free(&mut self, group: usize, goal: usize) -> usize;

    /// Changes a block.
    fn set(&mut self, block: usize, next: State);
}

/// Maps with a flat search, one block of map at a time.
pub struct Flat {
    pub shape: Shape,
    pub bytes: Vec<u8>,
    pub find: fn(&[u8], State, usize) -> Option<usize>,
}

impl Map for Flat {
    fn find_free(&mut self, group: usize, goal: usize) -> usize {
        let (start, length) = (group * self.shape.group_blocks, self.shape.group_blocks);
        let map = &self.bytes[start / 4..(start + length) / 4];
        let piece_blocks = self.shape.block_bytes * 4;
        let first = (goal - start) / piece_blocks;
        let pieces = map.len().div_ceil(self.shape.block_bytes);
        // From the goal to the end, then from the start through the goal's piece, which is searched a second time.
        let mut from = (goal - start) % piece_blocks;
        for piece in (first..pieces).chain(0..=first) {
            let at = piece * self.shape.block_bytes;
            let bytes = &map[at..map.len().min(at + self.shape.block_bytes)];
            if let Some(block) = (self.find)(bytes, State::Free, from) {
                return start + at * 4 + block;
            }
            from = 0;
        }
        unreachable!("the group's counter said that it has a free block");
    }

    fn set(&mut self, block: usize, next: State) {
        set_bare(&mut self.bytes, block, next);
    }
}

fn set_bare(bytes: &mut [u8], block: usize, next: State) {
    Bitmap::new(bytes).set(block, next).expect("the block is in the state that it was left in");
}

/// Maps with a summary index for free blocks.
pub struct Summary<'a> {
    pub shape: Shape,
    pub map: Indexed<'a>,
}

impl Map for Summary<'_> {
    fn find_free(&mut self, group: usize, goal: usize) -> usize {
        let start = group * self.shape.group_blocks;
        let behind = self.map.find(State::Free, goal).filter(|&block| block < start + self.shape.group_blocks);
        behind.or_else(|| self.map.find(State::Free, start)).expect("the group has a free block")
    }

    fn set(&mut self, block: usize, next: State) {
        self.map.set(block, next).expect("the block is in the state that it was left in");
    }
}

/// Maps with recorded answers: measures everything except the search.
pub struct Known<'a> {
    pub bytes: Vec<u8>,
    pub answers: std::slice::Iter<'a, u32>,
    /// Whether a group is chosen nevertheless.
    pub chooses: bool,
}

impl Map for Known<'_> {
    fn known(&mut self) -> Option<usize> {
        if self.chooses { None } else { self.answers.next().map(|&block| block as usize) }
    }

    fn find_free(&mut self, group: usize, goal: usize) -> usize {
        black_box((group, goal));
        *self.answers.next().expect("every run asks as often") as usize
    }

    fn set(&mut self, block: usize, next: State) {
        set_bare(&mut self.bytes, block, next);
    }
}

/// Per-group state besides the map.
#[derive(Clone)]
struct Group {
    free: u32,
    /// Goal of the next allocation per [`Kind`], relative to the volume.
    goals: [usize; 3],
}

/// Operation counts of a replay.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub taken: u64,
    pub freed: u64,
    /// Number of groups whose free counter was read.
    pub groups_looked_at: u64,
    /// Blocks between goal and answer, summed over searches.
    pub passed: u64,
}

/// A volume in use.
#[derive(Clone)]
pub struct Volume<M> {
    pub shape: Shape,
    pub map: M,
    groups: Vec<Group>,
    /// Group of the last new directory.
    forward: usize,
    pub free: usize,
    pub counters: Counters,
    /// Allocated blocks in order, if recorded.
    pub answers: Option<Vec<u32>>,
}

impl<M> Volume<M> {
    /// Copies the volume with an equivalent map and fresh counters.
    pub fn with_map<N>(&self, map: N) -> Volume<N> {
        let (groups, shape) = (self.groups.clone(), self.shape);
        let counters = Counters::default();
        Volume { shape, map, groups, forward: self.forward, free: self.free, counters, answers: None }
    }
}

impl<M: Map> Volume<M> {
    /// Creates a volume without files.
    pub fn new(shape: Shape, map: M) -> Volume<M> {
        let group = |number| Group { free: shape.group_blocks as u32, goals: [number * shape.group_blocks; 3] };
        let groups = (0..shape.groups).map(group).collect();
        Volume { shape, map, groups, forward: 0, free: shape.blocks(), counters: Counters::default(), answers: None }
    }

    /// Group for a new directory: the next one with at least the average number of free blocks.
    pub fn group_for_directory(&mut self) -> usize {
        let average = self.free / self.shape.groups;
        let groups = self.shape.groups;
        let next = (1..=groups).map(|i| (self.forward + i) % groups);
        let mut looked_at = 0;
        let found = next.inspect(|_| looked_at += 1).find(|&group| self.groups[group].free as usize >= average);
        self.counters.groups_looked_at += looked_at;
        self.forward = found.expect("some group is not below the average");
        self.forward
    }

    /// Allocates a block, preferably in `group` at or after `goal`.
    pub fn take(&mut self, kind: Kind, group: usize, goal: Option<usize>) -> usize {
        let block = match self.map.known() {
            Some(block) => block,
            None => {
                let group = self.choose(group);
                let goal = goal.filter(|&goal| self.shape.group_of(goal) == group);
                let goal = goal.unwrap_or(self.groups[group].goals[kind as usize]);
                let block = self.map.find_free(group, goal);
                let passed = if block >= goal { block - goal } else { block + self.shape.group_blocks - goal };
                self.counters.passed += passed as u64;
                block
            }
        };
        let group = &mut self.groups[self.shape.group_of(block)];
        group.free -= 1;
        group.goals[kind as usize] = block;
        self.free -= 1;
        self.counters.taken += 1;
        self.map.set(block, if matches!(kind, Kind::Inode) { State::Dinode } else { State::Used });
        if let Some(answers) = &mut self.answers {
            answers.push(block as u32);
        }
        block
    }

    /// The given group if it has a free block, else the next one that has.
    fn choose(&mut self, group: usize) -> usize {
        let groups = self.shape.groups;
        let mut chosen = group;
        self.counters.groups_looked_at += 1;
        while self.groups[chosen].free == 0 {
            chosen = (chosen + 1) % groups;
            self.counters.groups_looked_at += 1;
            assert_ne!(chosen, group, "the workload leaves free blocks");
        }
        chosen
    }

    /// Frees a block.
    pub fn give(&mut self, block: usize) {
        self.groups[self.shape.group_of(block)].free += 1;
        self.free += 1;
        self.counters.freed += 1;
        self.map.set(block, State::Free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates four groups of 64 free blocks.
    fn volume() -> Volume<Flat> {
        let shape = Shape { block_bytes: 512, group_blocks: 64, groups: 4 };
        let find = |bytes: &[u8], state, from| Bitmap::new(bytes).find(state, from);
        Volume::new(shape, Flat { shape, bytes: vec![0; shape.map_bytes()], find })
    }

    fn fill(volume: &mut Volume<Flat>, group: usize) {
        (0..64).for_each(|_| assert_eq!(volume.take(Kind::Data, group, None) / 64, group));
    }

    #[test]
    fn full_group_falls_back_to_the_next_with_a_free_block() {
        let mut volume = volume();
        fill(&mut volume, 2);
        assert_eq!(volume.take(Kind::Data, 2, Some(150)), 192, "the goal in the full group means nothing in the next");
        (1..64).for_each(|i| assert_eq!(volume.take(Kind::Data, 3, None), 192 + i));
        fill(&mut volume, 0);
        volume.counters = Counters::default();
        assert_eq!(volume.take(Kind::Inode, 2, None), 64, "past the last group comes the first");
        assert_eq!(volume.counters.groups_looked_at, 4);
        volume.give(130);
        assert_eq!(volume.take(Kind::Data, 2, None), 130);
    }

    #[test]
    fn each_purpose_continues_after_its_last_block_and_wraps_in_the_group() {
        let mut volume = volume();
        assert_eq!([0, 1].map(|_| volume.take(Kind::Data, 1, Some(120))), [120, 121]);
        assert_eq!(volume.take(Kind::Inode, 1, None), 64);
        assert_eq!(volume.take(Kind::Data, 1, None), 122, "behind the last data block");
        assert_eq!(volume.take(Kind::Inode, 1, None), 65, "behind the last inode");
        let rest: Vec<usize> = (0..6).map(|_| volume.take(Kind::Data, 1, None)).collect();
        assert_eq!(rest, [123, 124, 125, 126, 127, 66]);
        assert_eq!(volume.counters.passed, 11, "1 + 1 + 1 + 5 steps, then 3 over the group's end");
    }

    #[test]
    fn directory_goes_to_the_next_group_with_average_free_blocks() {
        let mut volume = volume();
        assert_eq!([0; 5].map(|_| volume.group_for_directory()), [1, 2, 3, 0, 1]);
        volume.take(Kind::Data, 2, None);
        (0..9).for_each(|_| assert_eq!(volume.take(Kind::Data, 3, None) / 64, 3));
        // 64, 64, 63 and 55 blocks are free, 61 on average.
        volume.counters = Counters::default();
        assert_eq!([0; 3].map(|_| volume.group_for_directory()), [2, 0, 1]);
        assert_eq!(volume.counters.groups_looked_at, 4);
    }
}
