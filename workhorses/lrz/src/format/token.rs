// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tokens of stream 0.

use super::number;

/// Longest run of literals and longest repeat that one token can tell, in bytes.
pub const LONGEST_TOKEN: u64 = 65535;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Take so many bytes of stream 1.
    Literals(u16),
    /// Repeat `length` bytes that stood `distance` bytes before.
    Match {
        /// How many bytes. More than the distance repeats the repeated.
        length: u16,
        /// How far back, in bytes.
        distance: u64,
    },
    /// The chunk ends.
    End,
}

/// Takes a token from `take`, which fills the buffer it is given; `None` for a head that is none.
///
/// # Errors
/// What `take` reports.
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

/// Appends the tokens for a run of literals.
pub fn write_literals(tokens: &mut Vec<u8>, mut length: u64) {
    while length > 0 {
        let part = length.min(LONGEST_TOKEN);
        tokens.push(0);
        tokens.extend_from_slice(&(part as u16).to_le_bytes());
        length -= part;
    }
}

/// Appends the tokens for a repeat.
pub fn write_match(tokens: &mut Vec<u8>, mut length: u64, distance: u64, width: u8) {
    while length > 0 {
        let part = length.min(LONGEST_TOKEN);
        tokens.push(1);
        tokens.extend_from_slice(&(part as u16).to_le_bytes());
        tokens.extend_from_slice(&distance.to_le_bytes()[..usize::from(width)]);
        length -= part;
    }
}

/// Appends the token that ends a chunk, and the CRC of the chunk's bytes.
pub fn write_end(tokens: &mut Vec<u8>, crc: u32) {
    tokens.extend_from_slice(&[0, 0, 0]);
    tokens.extend_from_slice(&crc.to_le_bytes());
}
