// SPDX-License-Identifier: MIT OR Apache-2.0
//! Magic: the first bytes of an archive.

use super::number;
use crate::error::{Error, Result};

/// Length of the magic, without the encryption parameters that format 0.7 appends.
pub const MAGIC_BYTES: usize = 24;

/// Minor version of the format; the major version is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minor {
    /// Written by lrzip 0.6 to 0.66 and by this crate.
    Six,
    /// Written by lrzip 0.7: adds prefilters and streamed chunks, drops the CRC after the tokens.
    Seven,
}

/// Encryption of headers, blocks and the MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// No encryption.
    None,
    /// AES-128-CBC with ciphertext stealing; the key is derived by iterated SHA-512. The salt encodes the iteration
    /// count.
    Cbc {
        /// Bytes 6 to 13 of the archive.
        salt: [u8; 8],
    },
    /// AES-256-GCM; the key is derived by PBKDF2. Its parameters follow the magic.
    Gcm,
}

/// The parsed magic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Magic {
    /// Format version.
    pub minor: Minor,
    /// Uncompressed length in bytes; unknown for encrypted archives and some streams.
    pub size: Option<u64>,
    /// LZMA properties with the largest dictionary size; all zeros if no block uses LZMA.
    pub lzma: [u8; 5],
    /// Whether the archive ends with an MD5.
    pub md5: bool,
    /// Encryption of the rest of the archive.
    pub encryption: Encryption,
    /// Whether each chunk is preceded by a [`super::StreamedHead`] (0.7).
    pub streamed: bool,
}

impl Magic {
    /// Parses the magic.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a file that is no lrzip archive, [`Error::Unsupported`] with the name of any
    /// other version, [`Error::Damaged`] for flags that no writer sets.
    pub fn parse(bytes: &[u8]) -> Result<Magic> {
        if bytes.len() < 4 || &bytes[..4] != b"LRZI" {
            return Err(Error::Foreign("it does not begin with LRZI".to_owned()));
        }
        if bytes.len() < MAGIC_BYTES {
            let what =
                format!("the file ends after {} bytes, within the {MAGIC_BYTES} bytes of the magic", bytes.len());
            return Err(Error::Damaged { at: bytes.len() as u64, what });
        }
        let minor = match (bytes[4], bytes[5]) {
            (0, 6) => Minor::Six,
            (0, 7) if is_next_seven(bytes) => return Err(other("lrzip-next 0.7")),
            (0, 7) => Minor::Seven,
            (0, 0..=3) => return Err(other("lrzip 0.0 to 0.3")),
            (0, minor @ 4..=5) => return Err(other(&format!("lrzip 0.{minor}"))),
            (0, minor @ 8..=14) => return Err(other(&format!("lrzip-next 0.{minor}"))),
            (major, minor) => return Err(other(&format!("lrzip {major}.{minor}, which is an unknown version"))),
        };
        let encryption = match (minor, bytes[22]) {
            (_, 0) => Encryption::None,
            (_, 1) => Encryption::Cbc { salt: bytes[6..14].try_into().expect("eight bytes") },
            (Minor::Seven, 3) => Encryption::Gcm,
            (_, flag) => return Err(flaw(22, format!("unknown encryption {flag}"))),
        };
        if bytes[21] > 1 {
            return Err(flaw(21, format!("the MD5 flag is {}, expected 0 or 1", bytes[21])));
        }
        if minor == Minor::Seven && (bytes[14] > 1 || bytes[23] > 1) {
            return Err(flaw(14, "byte 14 or 23 is a flag, but neither 0 nor 1".to_owned()));
        }
        let streamed = minor == Minor::Seven && bytes[14] == 1;
        let size = number(&bytes[6..14]);
        Ok(Magic {
            minor,
            size: (encryption == Encryption::None && size != 0).then_some(size),
            lzma: bytes[16..21].try_into().expect("five bytes"),
            md5: bytes[21] == 1,
            encryption,
            streamed,
        })
    }

    /// Encodes the magic for format 0.6.
    pub fn to_bytes(&self) -> [u8; MAGIC_BYTES] {
        let mut bytes = [0; MAGIC_BYTES];
        bytes[..4].copy_from_slice(b"LRZI");
        bytes[5] = 6;
        bytes[6..14].copy_from_slice(&self.size.unwrap_or(0).to_le_bytes());
        bytes[16..21].copy_from_slice(&self.lzma);
        bytes[21] = u8::from(self.md5);
        if let Encryption::Cbc { salt } = self.encryption {
            bytes[6..14].copy_from_slice(&salt);
            bytes[22] = 1;
        }
        bytes
    }
}

/// Returns whether this is the 0.7 format of lrzip-next, which used that version number before lrzip did, with the
/// MD5 flag in byte 22 and the encryption flag in byte 23. In lrzip's 0.7, byte 21 is set and at least one of bytes
/// 14 and 23 is.
fn is_next_seven(bytes: &[u8]) -> bool {
    let neither = bytes[14] == 0 && bytes[23] == 0;
    let shifted = bytes[14] == 0 && bytes[23] == 1 && bytes[22] == 1 && bytes[21] != 1;
    neither || shifted
}

fn other(name: &str) -> Error {
    Error::Unsupported(format!("unsupported archive version: {name}; lrz reads lrzip 0.6 and 0.7"))
}

fn flaw(at: u64, what: String) -> Error {
    Error::Damaged { at, what }
}
