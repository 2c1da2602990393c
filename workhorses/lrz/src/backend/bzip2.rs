// SPDX-License-Identifier: MIT OR Apache-2.0
//! bzip2, through libbz2-rs.

use super::{Failure, corrupt, room_for};
use bzip2::{Action, Compress, Compression, Decompress, Status};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

/// bzip2 level for an lrzip level. The level only sets the bzip2 block length, and the longest blocks (900 kB) take
/// hardly more time than the 700 kB ones of the default level 7.
fn own_level(level: u8) -> u8 {
    (level + 2).min(9)
}

/// Capacity of a bzip2-internal block in bytes, as counted by [`BlockEnds`].
pub fn block(level: u8) -> usize {
    usize::from(own_level(level)) * 100_000 - 19
}

/// Predicts, incrementally, where bzip2 will end its internal blocks in a byte stream. bzip2 run-length encodes
/// first: a run of 4 to 255 equal bytes counts as 5 bytes (4 values and a repeat count), a shorter run as its length.
/// A run belongs to the block in which it ends.
#[derive(Debug)]
pub struct BlockEnds {
    block: usize,
    /// Bytes in the current block, current run excluded.
    count: usize,
    last: Option<u8>,
    run: usize,
    seen: usize,
    ends: VecDeque<usize>,
}

impl BlockEnds {
    /// Creates a predictor for blocks of `block` bytes.
    pub fn new(block: usize) -> BlockEnds {
        BlockEnds { block, count: 0, last: None, run: 0, seen: 0, ends: VecDeque::new() }
    }

    /// Scans further input.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.last == Some(*byte) && self.run < 255 {
                self.run += 1;
            } else {
                self.count += self.run.min(4) + usize::from(self.run >= 4);
                if self.count >= self.block {
                    self.ends.push_back(self.seen);
                    self.count = 0;
                }
                (self.last, self.run) = (Some(*byte), 1);
            }
            self.seen += 1;
        }
    }

    /// Offset of the last block end within the first `most` bytes, if there is one.
    pub fn last(&self, most: usize) -> Option<usize> {
        self.ends.iter().copied().take_while(|end| *end <= most).last()
    }

    /// Drops the first `bytes` bytes, which must end at a block end.
    pub fn forget(&mut self, bytes: usize) {
        self.ends = self.ends.iter().filter_map(|end| end.checked_sub(bytes)).filter(|end| *end > 0).collect();
        self.seen -= bytes;
    }
}

/// Compresses a block.
pub fn pack(plain: &[u8], level: u8) -> Result<Vec<u8>, Failure> {
    let mut packed = room_for(plain)?;
    let mut state = Compress::new(Compression::new(u32::from(own_level(level))), 0);
    loop {
        let (read, written) = (state.total_in(), state.total_out());
        let rest = &plain[read as usize..];
        match state.compress_vec(rest, &mut packed, Action::Finish) {
            Ok(Status::StreamEnd) => return Ok(packed),
            Ok(Status::MemNeeded) => return Err(Failure::Memory),
            Ok(_) if state.total_in() > read || state.total_out() > written => {}
            _ => return Err(Failure::NotSmaller),
        }
        if packed.len() == packed.capacity() {
            return Err(Failure::NotSmaller);
        }
    }
}

/// Decompresses one bzip2 stream.
pub struct Unpacker<R> {
    packed: R,
    state: Decompress,
    ended: bool,
}

impl<R: BufRead> Unpacker<R> {
    /// Creates a reader of the decompressed bytes.
    pub fn new(packed: R) -> Unpacker<R> {
        Unpacker { packed, state: Decompress::new(false), ended: false }
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let input = self.packed.fill_buf()?;
            let (read, written, at_end) = (self.state.total_in(), self.state.total_out(), input.is_empty());
            let status = self.state.decompress(input, buffer).map_err(|_| corrupt("not bzip2 data"))?;
            let used = (self.state.total_in() - read) as usize;
            self.packed.consume(used);
            match status {
                Status::StreamEnd => self.ended = true,
                Status::MemNeeded => return Err(io::ErrorKind::OutOfMemory.into()),
                _ => {}
            }
            let made = (self.state.total_out() - written) as usize;
            if made > 0 {
                return Ok(made);
            }
            if at_end && used == 0 && !self.ended {
                return Err(corrupt("truncated bzip2 data"));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts bzip2's internal blocks by their 48-bit magic, which is not byte-aligned.
    fn blocks(packed: &[u8]) -> usize {
        let bits = packed.iter().flat_map(|byte| (0..8).rev().map(move |bit| u64::from(byte >> bit & 1)));
        let windows = bits.scan(0, |window, bit| {
            *window = (*window << 1 | bit) & 0xFFFF_FFFF_FFFF;
            Some(*window)
        });
        windows.filter(|window| *window == 0x3141_5926_5359).count()
    }

    #[test]
    fn block_ends_are_predicted_as_bzip2_sets_them() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Few distinct values in runs of up to 1, 3, 6 or 700 bytes; the first case has hardly any run.
        for longest in [1, 3, 6, 700] {
            let mut plain = Vec::new();
            while plain.len() < 700_000 * (1 + longest as usize / 20) {
                let (value, length) = (random(5) as u8, 1 + random(longest));
                plain.extend(std::iter::repeat_n(value, length as usize));
            }
            let (mut filled, mut ends) = (BlockEnds::new(block(1)), Vec::new());
            for byte in &plain {
                filled.add(&[*byte]);
                ends.extend(filled.last(usize::MAX).filter(|end| ends.last() != Some(end)));
            }
            assert!(ends.len() >= 2, "{longest}: {ends:?}");
            for (end, number) in ends.iter().zip(1..) {
                let made = |length: usize| blocks(&pack(&plain[..length], 1).expect("packed"));
                assert_eq!((made(*end), made(end + 2)), (number, number + 1), "{longest}");
            }
        }
    }
}
