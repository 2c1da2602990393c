// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay workload: copies trees of files, grows and removes files.

use super::volume::{Kind, Map, Volume};
use bitfit::maps::Random;

/// Files per directory, about the number of tracks on an album.
const FILES_IN_DIRECTORY: usize = 12;

/// Bytes appended to a growing file at a time, as in the bug's simzone runs.
const RECORD_BYTES: usize = 128 << 10;

/// Number of files that grow concurrently.
const GROWING_FILES: usize = 8;

/// Number of rounds of removing and writing files.
const ROUNDS: usize = 3;

/// Block pointers per block.
fn pointers<M>(volume: &Volume<M>) -> usize {
    volume.shape.block_bytes / 8
}

/// Blocks of a file.
#[derive(Clone)]
struct File {
    /// Group of the file's directory.
    group: usize,
    blocks: Vec<u32>,
    data_blocks: usize,
}

/// Files of the volume, with the random number generator.
#[derive(Clone)]
pub struct Workload {
    files: Vec<File>,
    random: u64,
    /// Maximum fill level of the volume, in percent.
    full: usize,
}

impl Workload {
    /// Creates an empty workload; all choices depend on `seed`.
    pub fn new(seed: u64, full: usize) -> Workload {
        Workload { files: Vec::new(), random: seed, full }
    }

    fn below(&mut self, end: usize) -> usize {
        let mut random = Random(self.random);
        let number = random.bits();
        self.random = random.0;
        (number % end as u64) as usize
    }

    /// Ages the volume: repeatedly fills it with small files and MP3 files and removes a third of them; finally fills
    /// it to the limit.
    pub fn age<M: Map>(&mut self, volume: &mut Volume<M>) {
        for _ in 0..ROUNDS {
            self.fill(volume, true);
            self.remove(volume, 33);
        }
        self.fill(volume, true);
    }

    /// Repeatedly removes a tenth of the files and copies trees of MP3 files in their place.
    pub fn copy_mp3s<M: Map>(&mut self, volume: &mut Volume<M>) {
        for _ in 0..ROUNDS {
            self.remove(volume, 10);
            self.fill(volume, false);
        }
    }

    /// Repeatedly removes a tenth of the files and grows new files in turn, one record at a time, until the volume is
    /// full again.
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

    /// Returns whether a file of `bytes` bytes, or an append of that length, does not fit.
    fn is_full<M: Map>(&self, volume: &Volume<M>, bytes: usize) -> bool {
        let (all, used) = (volume.shape.blocks(), volume.shape.blocks() - volume.free);
        let data = bytes.div_ceil(volume.shape.block_bytes);
        // The number of blocks includes the inode of a new file, or a partly used pointer block of an existing one.
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

    /// File size in bytes. An MP3 file has 2 to 11 MiB, about 6 on average; small files have mostly a few KiB, rarely
    /// hundreds.
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

    /// Appends to a file: the goal of each data block is the file's last block.
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

    /// Removes `percent` of the files, chosen at random.
    fn remove<M: Map>(&mut self, volume: &mut Volume<M>, percent: usize) {
        for _ in 0..self.files.len() * percent / 100 {
            let victim = self.below(self.files.len());
            let file = self.files.swap_remove(victim);
            file.blocks.iter().for_each(|&block| volume.give(block as usize));
        }
    }
}
