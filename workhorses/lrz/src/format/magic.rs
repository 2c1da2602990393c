// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first bytes of an archive.

use super::number;
use crate::error::{Error, Result};

/// Bytes before the first chunk, without what an encrypted archive of 0.7 adds.
pub const MAGIC_BYTES: usize = 24;

/// Version of the format, after "0.".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minor {
    /// What lrzip 0.6 to 0.66 write, and what this crate writes.
    Six,
    /// What lrzip 0.7 writes: prefilters, streamed chunks, no CRC after the tokens.
    Seven,
}

/// How the heads, blocks and the MD5 are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    None,
    /// AES-128 in CBC mode with ciphertext stealing, key from rounds of SHA-512. The salt tells the rounds.
    Cbc {
        /// Bytes 6 to 13 of the archive.
        salt: [u8; 8],
    },
    /// AES-256 in GCM mode, key by PBKDF2. Its parameters follow the magic.
    Gcm,
}

/// The first 24 bytes, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Magic {
    /// Version of the format.
    pub minor: Minor,
    /// Length of what was packed; unknown for encrypted archives and some streams.
    pub size: Option<u64>,
    /// Parameters of LZMA and the size of the largest dictionary; all zeros where no block uses it.
    pub lzma: [u8; 5],
    /// Whether an MD5 ends the archive.
    pub md5: bool,
    /// How the rest is encrypted.
    pub encryption: Encryption,
    /// Whether each chunk has a [`super::StreamedHead`] in front (0.7).
    pub streamed: bool,
}

impl Magic {
    /// Reads a magic.
    ///
    /// # Errors
    /// [`Error::Foreign`] for what is no lrzip archive, [`Error::Unsupported`] for other versions, by their names, and
    /// [`Error::Damaged`] for flags that no writer sets.
    pub fn parse(bytes: &[u8]) -> Result<Magic> {
        if bytes.len() < 4 || &bytes[..4] != b"LRZI" {
            return Err(Error::Foreign("it does not begin with the letters LRZI".to_owned()));
        }
        if bytes.len() < MAGIC_BYTES {
            let what = format!("the magic has {MAGIC_BYTES} bytes, the file ends after {}", bytes.len());
            return Err(Error::Damaged { at: bytes.len() as u64, what });
        }
        let minor = match (bytes[4], bytes[5]) {
            (0, 6) => Minor::Six,
            (0, 7) if is_next_seven(bytes) => return Err(other("lrzip-next 0.7")),
            (0, 7) => Minor::Seven,
            (0, 0..=3) => return Err(other("lrzip 0.0 to 0.3")),
            (0, minor @ 4..=5) => return Err(other(&format!("lrzip 0.{minor}"))),
            (0, minor @ 8..=14) => return Err(other(&format!("lrzip-next 0.{minor}"))),
            (major, minor) => return Err(other(&format!("an unknown lrzip {major}.{minor}"))),
        };
        let encryption = match (minor, bytes[22]) {
            (_, 0) => Encryption::None,
            (_, 1) => Encryption::Cbc { salt: bytes[6..14].try_into().expect("eight bytes") },
            (Minor::Seven, 3) => Encryption::Gcm,
            (_, flag) => return Err(flaw(22, format!("encryption {flag} is none that is known"))),
        };
        if bytes[21] > 1 {
            return Err(flaw(21, format!("{} where a flag of 0 or 1 tells of the MD5", bytes[21])));
        }
        if minor == Minor::Seven && (bytes[14] > 1 || bytes[23] > 1) {
            return Err(flaw(14, "bytes 14 and 23 are flags of 0 or 1".to_owned()));
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

    /// The bytes of an archive of version 0.6.
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

/// lrzip-next used the number 0.7 before lrzip did, with the MD5's flag in byte 22 and encryption in byte 23. In those
/// of lrzip at least one of the bytes 14 and 23 is set, and byte 21 is.
fn is_next_seven(bytes: &[u8]) -> bool {
    let neither = bytes[14] == 0 && bytes[23] == 0;
    let shifted = bytes[14] == 0 && bytes[23] == 1 && bytes[22] == 1 && bytes[21] != 1;
    neither || shifted
}

fn other(name: &str) -> Error {
    Error::Unsupported(format!("an archive of {name}: this program reads those of lrzip 0.6 and 0.7"))
}

fn flaw(at: u64, what: String) -> Error {
    Error::Damaged { at, what }
}
