// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archive format: the magic, the headers of chunks and blocks, and the tokens of stream 0.
//!
//! An archive consists of a 24-byte magic, chunks, and a 16-byte MD5 over the uncompressed input. A chunk has two
//! streams: stream 0 holds tokens (copy literals, or copy from a distance back), stream 1 holds the literals. Each
//! stream is a chain of blocks, and each block is compressed by one back end. All integers are little-endian.

mod chunk;
mod magic;
mod token;

pub use chunk::{BlockHead, ChunkHead, Kind, StreamedHead};
pub use magic::{Encryption, MAGIC_BYTES, Magic, Minor};
pub use token::{LONGEST_TOKEN, Token, read_token, write_end, write_literals, write_match};

/// Length in bytes of the MD5 that ends an archive.
pub const MD5_BYTES: usize = 16;

/// Number of bytes needed to store `value`; at least 1.
pub fn width_of(value: u64) -> u8 {
    ((64 - value.leading_zeros()).div_ceil(8)).max(1) as u8
}

/// Decodes a little-endian number of at most 8 bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_of_a_number_is_sufficient_and_minimal() {
        for (value, width) in [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (u64::MAX, 8), (1 << 32, 5)] {
            assert_eq!(width_of(value), width, "{value}");
            assert_eq!(number(&value.to_le_bytes()[..usize::from(width)]), value);
        }
    }
}
