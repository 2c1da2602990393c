// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of an archive: its magic, the heads of its chunks and blocks, and the tokens of stream 0.
//!
//! An archive is a magic of 24 bytes, chunks, and 16 bytes of MD5 over all that was packed. A chunk holds two streams:
//! stream 0 says what to do (take literals, repeat what stood so far back), stream 1 holds the literals. Each stream is
//! a chain of blocks, and each block is packed by one back end. All integers are little-endian.

mod chunk;
mod magic;
mod token;

pub use chunk::{BlockHead, ChunkHead, Kind, StreamedHead};
pub use magic::{Encryption, MAGIC_BYTES, Magic, Minor};
pub use token::{LONGEST_TOKEN, Token, read_token, write_end, write_literals, write_match};

/// Bytes of the MD5 that ends an archive.
pub const MD5_BYTES: usize = 16;

/// How many bytes it takes to write `value`; at least 1.
pub fn width_of(value: u64) -> u8 {
    ((64 - value.leading_zeros()).div_ceil(8)).max(1) as u8
}

/// A little-endian number of `bytes.len()` (at most 8) bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_holds_its_number() {
        for (value, width) in [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (u64::MAX, 8), (1 << 32, 5)] {
            assert_eq!(width_of(value), width, "{value}");
            assert_eq!(number(&value.to_le_bytes()[..usize::from(width)]), value);
        }
    }
}
