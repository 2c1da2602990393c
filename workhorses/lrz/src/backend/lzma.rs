// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headerless LZMA, through liblzma.

use super::lzma_write::{self, Settings};
use super::{Failure, corrupt, short_of_memory};
use crate::error::{Error, Result};
use liblzma::stream::{Action, Filters, Status, Stream};
use std::io::{self, BufRead, Read};

/// Smallest dictionary tried when memory is short, in bytes.
pub const LEAST_DICTIONARY: u32 = 64 << 10;
/// LZMA properties byte: lc = 3, lp = 0, pb = 2, the common default.
const PROPERTIES: u8 = 3 + 9 * 5 * 2;

/// LZMA level for an lrzip level: lrzip's levels 1 to 9 map to LZMA's 1 to 7.
fn own_level(level: u8) -> u8 {
    (level * 7 / 9).max(1)
}

/// Default dictionary size for an lrzip level, in bytes.
pub fn dictionary_of(level: u8) -> u32 {
    match own_level(level) {
        // Dictionary sizes of the LZMA SDK levels: 64 KiB, 256 KiB, 1 MiB, 4 MiB, then 16, 32 and 64 MiB.
        own @ 0..=3 => 1 << (16 + 2 * own),
        4 => 4 << 20,
        5 => 16 << 20,
        6 => 32 << 20,
        _ => 64 << 20,
    }
}

/// The five LZMA property bytes for a dictionary size, as they are stored in the archive's magic.
pub fn properties(dictionary: u32) -> [u8; 5] {
    let [a, b, c, d] = dictionary.to_le_bytes();
    [PROPERTIES, a, b, c, d]
}

/// Dictionary size in bytes that the five LZMA property bytes of an archive's magic give.
pub fn dictionary(properties: [u8; 5]) -> u32 {
    u32::from_le_bytes(properties[1..].try_into().expect("four bytes"))
}

/// Memory of an encoder in bytes: binary trees over the dictionary, the window and hash tables.
pub fn encoder_memory(dictionary: u32) -> u64 {
    u64::from(dictionary) * 23 / 2 + (6 << 20)
}

/// Compresses a block with a dictionary of at most `dictionary` bytes.
pub fn pack(plain: &[u8], level: u8, dictionary: u32) -> std::result::Result<Vec<u8>, Failure> {
    let own = own_level(level);
    // A dictionary larger than the block would only cost memory.
    let dictionary = dictionary.min((plain.len() as u32).next_power_of_two()).max(LEAST_DICTIONARY);
    // Like the SDK, use hash chains up to level 4 and binary trees above. For binary trees the SDK sets nice length
    // 32 and depth 32. A greater nice length with a depth of 20 is faster in liblzma, and no archive of sources,
    // logs, machine code or numeric tables grows by more than 1 % over lrzip's.
    let fast = own < 5;
    let (nice, depth) = match own {
        0..5 => (32, 16),
        5 | 6 => (64, 20),
        _ => (64, 48),
    };
    lzma_write::pack(plain, &Settings { preset: u32::from(own), dictionary, fast, nice, depth })
}

/// Largest match distance in a block of `plain` bytes. lrzip 0.651 stores dictionary size 0 when it compresses a
/// stream at level 1, and cannot read such an archive itself; the distance is then limited by the block only.
pub fn reach(properties: [u8; 5], plain: u64) -> u64 {
    match u64::from(dictionary(properties)) {
        0 => plain.min(u64::from(u32::MAX)),
        dictionary => dictionary.min(plain),
    }
}

/// Decompresses a block.
pub struct Unpacker<R> {
    packed: R,
    stream: Stream,
    left: u64,
}

impl<R: BufRead> Unpacker<R> {
    /// Creates a reader of the `plain` decompressed bytes of `packed`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for invalid LZMA properties, [`Error::Memory`] if memory is short.
    pub fn new(packed: R, plain: u64, properties: [u8; 5]) -> Result<Unpacker<R>> {
        // Limit the dictionary to the block length, so that a damaged header cannot request excessive memory.
        let dictionary = reach(properties, plain).max(4096) as u32;
        let mut own = properties;
        own[1..].copy_from_slice(&dictionary.to_le_bytes());
        let mut filters = Filters::new();
        filters
            .lzma1_properties(&own)
            .map_err(|_| Error::Unsupported(format!("the LZMA properties {properties:02x?} are invalid")))?;
        let stream = Stream::new_raw_decoder(&filters)
            .map_err(|_| short_of_memory("the LZMA dictionary", u64::from(dictionary)))?;
        Ok(Unpacker { packed, stream, left: plain })
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The end marker is optional: the known length ends the stream.
        let wanted = (buffer.len() as u64).min(self.left) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        loop {
            let input = self.packed.fill_buf()?;
            let (read, written, at_end) = (self.stream.total_in(), self.stream.total_out(), input.is_empty());
            let status = self.stream.process(input, &mut buffer[..wanted], Action::Run).map_err(|error| match error {
                liblzma::stream::Error::Mem => io::ErrorKind::OutOfMemory.into(),
                _ => corrupt("not LZMA data"),
            });
            let used = (self.stream.total_in() - read) as usize;
            self.packed.consume(used);
            let made = (self.stream.total_out() - written) as usize;
            if made > 0 {
                self.left -= made as u64;
                return Ok(made);
            }
            if status? == Status::StreamEnd || at_end && used == 0 {
                return Err(corrupt("truncated LZMA data"));
            }
        }
    }
}
