// SPDX-License-Identifier: MIT OR Apache-2.0
//! LZMA without a header, by liblzma.

use super::lzma_write::{self, Settings};
use super::{Failure, corrupt, short_of_memory};
use crate::error::{Error, Result};
use liblzma::stream::{Action, Filters, Status, Stream};
use std::io::{self, BufRead, Read};

/// Smallest dictionary that is tried when memory is short, in bytes.
pub const LEAST_DICTIONARY: u32 = 64 << 10;
/// Literal context bits 3, literal position bits 0, position bits 2: what everybody uses.
const PROPERTIES: u8 = 3 + 9 * 5 * 2;

/// LZMA's level for a level of lrzip: its 9 steps stand for the first 7 of LZMA.
fn own_level(level: u8) -> u8 {
    (level * 7 / 9).max(1)
}

/// Dictionary for a level, in bytes.
pub fn dictionary_of(level: u8) -> u32 {
    match own_level(level) {
        // From the levels of the LZMA SDK: 64 KiB, 256 KiB, 1 MiB, 4 MiB, then doubling to 64 MiB.
        own @ 0..=3 => 1 << (16 + 2 * own),
        4 => 4 << 20,
        5 => 16 << 20,
        6 => 32 << 20,
        _ => 64 << 20,
    }
}

/// The five bytes of the magic for a dictionary.
pub fn properties(dictionary: u32) -> [u8; 5] {
    let [a, b, c, d] = dictionary.to_le_bytes();
    [PROPERTIES, a, b, c, d]
}

/// The dictionary that the five bytes of a magic tell, in bytes.
pub fn dictionary(properties: [u8; 5]) -> u32 {
    u32::from_le_bytes(properties[1..].try_into().expect("four bytes"))
}

/// Memory of an encoder: binary trees over the dictionary and the window, hash tables.
pub fn encoder_memory(dictionary: u32) -> u64 {
    u64::from(dictionary) * 23 / 2 + (6 << 20)
}

/// Packs a block with a dictionary of at most `dictionary` bytes.
pub fn pack(plain: &[u8], level: u8, dictionary: u32) -> std::result::Result<Vec<u8>, Failure> {
    let own = own_level(level);
    // A dictionary larger than the block only takes memory.
    let dictionary = dictionary.min((plain.len() as u32).next_power_of_two()).max(LEAST_DICTIONARY);
    // The SDK's levels: chains of hashes up to 4, binary trees above. There the SDK takes 32 bytes as enough and looks at 32
    // places. For more bytes and fewer places liblzma takes less time, and of sources, logs, machine code and tables of
    // random numbers no archive gets more than 1 % larger than one of lrzip.
    let fast = own < 5;
    let (nice, depth) = match own {
        0..5 => (32, 16),
        5 | 6 => (64, 20),
        _ => (64, 48),
    };
    lzma_write::pack(plain, &Settings { preset: u32::from(own), dictionary, fast, nice, depth })
}

/// How far back a block of `plain` bytes may repeat. lrzip 0.651 writes a dictionary of 0 where it packs a stream at level
/// 1, and cannot read that itself: such a block may repeat all of its own bytes.
pub fn reach(properties: [u8; 5], plain: u64) -> u64 {
    match u64::from(dictionary(properties)) {
        0 => plain.min(u64::from(u32::MAX)),
        dictionary => dictionary.min(plain),
    }
}

/// Unpacks a block.
pub struct Unpacker<R> {
    packed: R,
    stream: Stream,
    left: u64,
}

impl<R: BufRead> Unpacker<R> {
    /// From the packed bytes, of which `plain` will come.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for parameters that are none, [`Error::Memory`] where memory is short.
    pub fn new(packed: R, plain: u64, properties: [u8; 5]) -> Result<Unpacker<R>> {
        // The dictionary need not be larger than the block: a damaged head asks for memory in vain.
        let dictionary = reach(properties, plain).max(4096) as u32;
        let mut own = properties;
        own[1..].copy_from_slice(&dictionary.to_le_bytes());
        let mut filters = Filters::new();
        filters
            .lzma1_properties(&own)
            .map_err(|_| Error::Unsupported(format!("LZMA with the parameters {properties:02x?} is none")))?;
        let stream = Stream::new_raw_decoder(&filters)
            .map_err(|_| short_of_memory("a dictionary of LZMA", u64::from(dictionary)))?;
        Ok(Unpacker { packed, stream, left: plain })
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // An end marker is optional: the length decides.
        let wanted = (buffer.len() as u64).min(self.left) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        loop {
            let input = self.packed.fill_buf()?;
            let (read, written, at_end) = (self.stream.total_in(), self.stream.total_out(), input.is_empty());
            let status = self.stream.process(input, &mut buffer[..wanted], Action::Run).map_err(|error| match error {
                liblzma::stream::Error::Mem => io::ErrorKind::OutOfMemory.into(),
                _ => corrupt("no LZMA data"),
            });
            let used = (self.stream.total_in() - read) as usize;
            self.packed.consume(used);
            let made = (self.stream.total_out() - written) as usize;
            if made > 0 {
                self.left -= made as u64;
                return Ok(made);
            }
            if status? == Status::StreamEnd || at_end && used == 0 {
                return Err(corrupt("LZMA data that end too early"));
            }
        }
    }
}
