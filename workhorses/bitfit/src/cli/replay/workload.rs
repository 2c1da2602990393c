// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done to a volume: trees of files are copied, files grow, files are removed.

use super::super::maps::Random;
use super::volume::{Kind, Map, Volume};

/// Files in a directory, as many as titles on a record.
const FILES_IN_DIRECTORY: usize = 12;

/// Bytes that a growing file gets at a time, as in the bug's runs of simzone.
const RECORD_BYTES: usize = 128 << 10;

/// Files that grow at the same time.
const GROWING_FILES: usize = 8;

/// Times that files are removed and others are written.
const ROUNDS: usize = 3;

/// Pointers to blocks in a block.
fn pointers<M>(volume: &Volume<M>) -> usize {
    volume.shape.block_bytes / 8
}

/// A file, as far as its blocks go.
#[derive(Clone)]
struct File {
    /// The group of its directory.
    group: usize,
    blocks: Vec<u32>,
    data_blocks: usize,
}

/// The files of a volume and the dice.
#[derive(Clone)]
pub struct Workload {
    files: Vec<File>,
    random: u64,
    /// The share of the volume that is in use at most, in percent.
    full: usize,
}

impl Workload {
    /// Nothing yet; `seed` decides about all that comes.
    pub fn new(seed: u64, full: usize) -> Workload {
        Workload { files: Vec::new(), random: seed, full }
    }

    fn below(&mut self, end: usize) -> usize {
        let mut random = Random(self.random);
        let number = random.next();
        self.random = random.0;
        (number % end as u64) as usize
    }

    /// Makes the volume an old one: it is filled with small files and mp3s, and a third of the files is removed, again
    /// and again. At the end it is as full as it may be.
    pub fn age<M: Map>(&mut self, volume: &mut Volume<M>) {
        for _ in 0..ROUNDS {
            self.fill(volume, true);
            self.remove(volume, 33);
        }
        self.fill(volume, true);
    }

    /// A tenth of the files is removed and a tree of mp3s copied in their place, again and again.
    pub fn copy_mp3s<M: Map>(&mut self, volume: &mut Volume<M>) {
        for _ in 0..ROUNDS {
            self.remove(volume, 10);
            self.fill(volume, false);
        }
    }

    /// A tenth of the files is removed; some files grow in turns, a record at a time, until the volume is full again.
    pub fn grow_files<M: Map>(&mut self, volume: &mut Volume<M>) {
        for _ in 0..ROUNDS {
            self.remove(volume, 10);
            let first = self.files.len();
            while self.files.len() < first + GROWING_FILES && !self.is_full(volume, RECORD_BYTES) {
                let group = volume.group_for_directory();
                self.create(volume, group);
            }
            for file in (first..self.files.len()).cycle() {
                if self.is_full(volume, RECORD_BYTES) {
                    break;
                }
                self.append(volume, file, RECORD_BYTES);
            }
        }
    }

    /// Whether there is no room for a file of that size, or to append as much.
    fn is_full<M: Map>(&self, volume: &Volume<M>, bytes: usize) -> bool {
        let (all, used) = (volume.shape.blocks(), volume.shape.blocks() - volume.free);
        let data = bytes.div_ceil(volume.shape.block_bytes);
        // The inode of a new file, or the part of a block of pointers that an old one has begun.
        let more = data + data / pointers(volume) + 1;
        used + more > all * self.full / 100
    }

    /// Copies directories until the volume is full.
    fn fill<M: Map>(&mut self, volume: &mut Volume<M>, small_too: bool) {
        loop {
            let group = volume.group_for_directory();
            for _ in 0..FILES_IN_DIRECTORY {
                let bytes = self.size(small_too);
                if self.is_full(volume, bytes) {
                    return;
                }
                self.create(volume, group);
                self.append(volume, self.files.len() - 1, bytes);
            }
        }
    }

    /// An mp3 has 2 to 11 MiB, most about 6; of small files there are many of a few KiB and few of hundreds.
    fn size(&mut self, small_too: bool) -> usize {
        if small_too && self.below(20) != 0 {
            let class = self.below(9);
            return (1 << 10) + self.below(2 << (10 + class));
        }
        (2 << 20) + (0..3).map(|_| self.below(3 << 20)).sum::<usize>()
    }

    fn create<M: Map>(&mut self, volume: &mut Volume<M>, group: usize) {
        let inode = volume.take(Kind::Inode, group, None);
        self.files.push(File { group, blocks: vec![inode as u32], data_blocks: 0 });
    }

    /// Writes at the end of a file: each data block is looked for behind the last one.
    fn append<M: Map>(&mut self, volume: &mut Volume<M>, file: usize, bytes: usize) {
        let pointers = pointers(volume);
        let file = &mut self.files[file];
        for _ in 0..bytes.div_ceil(volume.shape.block_bytes) {
            if file.data_blocks % pointers == pointers - 1 {
                let block = volume.take(Kind::Pointers, file.group, None);
                file.blocks.push(block as u32);
            }
            let last = file.blocks.last().map_or(0, |&block| block as usize);
            let block = volume.take(Kind::Data, volume.shape.group_of(last), Some(last));
            file.blocks.push(block as u32);
            file.data_blocks += 1;
        }
    }

    /// Removes files at random, `percent` of them.
    fn remove<M: Map>(&mut self, volume: &mut Volume<M>, percent: usize) {
        for _ in 0..self.files.len() * percent / 100 {
            let victim = self.below(self.files.len());
            let file = self.files.swap_remove(victim);
            file.blocks.iter().for_each(|&block| volume.give(block as usize));
        }
    }
}
