// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens of stream 0.

use super::number;

/// Longest literal run or match that one token can encode, in bytes.
pub const LONGEST_TOKEN: u64 = 65535;

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Copy this many bytes of stream 1.
    Literals(u16),
    /// Copy `length` bytes from `distance` bytes back.
    Match {
        /// Length in bytes. If it exceeds the distance, the match overlaps its own output.
        length: u16,
        /// Distance in bytes.
        distance: u64,
    },
    /// End of the chunk.
    End,
}

/// Reads a token through `take`, which fills the buffer it is given; returns `None` for an invalid token type.
///
/// # Errors
/// Those of `take`.
pub fn read_token<E>(width: u8, mut take: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Option<Token>, E> {
    let mut head = [0; 3];
    take(&mut head)?;
    let length = u16::from_le_bytes([head[1], head[2]]);
    Ok(match (head[0], length) {
        (0, 0) => Some(Token::End),
        (0, _) => Some(Token::Literals(length)),
        (1, _) => {
            let mut distance = [0; 8];
            let distance = &mut distance[..usize::from(width)];
            take(distance)?;
            Some(Token::Match { length, distance: number(distance) })
        }
        _ => None,
    })
}

/// Appends the tokens of a literal run.
pub fn write_literals(tokens: &mut Vec<u8>, mut length: u64) {
    while length > 0 {
        let part = length.min(LONGEST_TOKEN);
        tokens.push(0);
        tokens.extend_from_slice(&(part as u16).to_le_bytes());
        length -= part;
    }
}

/// Appends the tokens of a match.
pub fn write_match(tokens: &mut Vec<u8>, mut length: u64, distance: u64, width: u8) {
    while length > 0 {
        let part = length.min(LONGEST_TOKEN);
        tokens.push(1);
        tokens.extend_from_slice(&(part as u16).to_le_bytes());
        tokens.extend_from_slice(&distance.to_le_bytes()[..usize::from(width)]);
        length -= part;
    }
}

/// Appends the token that ends a chunk and the CRC of the chunk's uncompressed bytes.
pub fn write_end(tokens: &mut Vec<u8>, crc: u32) {
    tokens.extend_from_slice(&[0, 0, 0]);
    tokens.extend_from_slice(&crc.to_le_bytes());
}
