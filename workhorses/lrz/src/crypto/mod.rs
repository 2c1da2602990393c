// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of headers, blocks and the MD5, each of which is encrypted on its own. Headers of encrypted archives
//! use 8-byte numbers; blocks are encrypted after compression.

mod cbc;
mod gcm;

use crate::error::{Error, Result};
use crate::format::{Encryption, Magic};

pub use cbc::{KEY_ROUNDS, ROUNDS};

/// Type of an encrypted item; format 0.7 authenticates it with the ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Header of a stream or block.
    Head,
    /// A block.
    Block,
    /// The MD5.
    Md5,
}

/// Cipher of an archive that is read or written.
#[derive(Debug)]
pub enum Cipher {
    /// No encryption.
    None,
    /// Format 0.6.
    Cbc(cbc::Keys),
    /// Format 0.7.
    Gcm(Box<gcm::Keys>),
}

impl Cipher {
    /// Derives the keys of an archive to be read; `description` is the 32 bytes after the magic if the encryption is
    /// [`Encryption::Gcm`], and `most` limits the rounds of hashing that the key may take.
    ///
    /// # Errors
    /// [`Error::NeedsPassword`] without a password, [`Error::Unsupported`] for unknown parameters or for
    /// more key-derivation work than any writer requests.
    pub fn for_reading(magic: &Magic, description: &[u8], password: Option<&[u8]>, most: u64) -> Result<Cipher> {
        match magic.encryption {
            Encryption::None => Ok(Cipher::None),
            Encryption::Cbc { salt } => {
                Ok(Cipher::Cbc(cbc::Keys::derive(salt, password.ok_or(Error::NeedsPassword)?, most)?))
            }
            Encryption::Gcm => {
                let password = password.ok_or(Error::NeedsPassword)?;
                Ok(Cipher::Gcm(Box::new(gcm::Keys::derive(description, password, most)?)))
            }
        }
    }

    /// Chooses a salt and derives the keys of an archive to be written; also returns the [`Encryption`] for its
    /// magic.
    ///
    /// # Errors
    /// [`Error::Io`] if the system provides no random numbers.
    pub fn for_writing(password: Option<&[u8]>, rounds: [u8; 2]) -> Result<(Cipher, Encryption)> {
        let Some(password) = password else { return Ok((Cipher::None, Encryption::None)) };
        let salt = cbc::fresh_salt(rounds)?;
        Ok((Cipher::Cbc(cbc::Keys::derive(salt, password, u64::MAX)?), Encryption::Cbc { salt }))
    }

    /// Returns whether the archive is encrypted.
    pub fn encrypts(&self) -> bool {
        !matches!(self, Cipher::None)
    }

    /// Length in the archive of an item of `length` plaintext bytes.
    pub fn sealed_length(&self, length: u64) -> u64 {
        match self {
            Cipher::None => length,
            Cipher::Cbc(_) => cbc::SALT_BYTES as u64 + length.max(16),
            Cipher::Gcm(_) => gcm::ADDED as u64 + length,
        }
    }

    /// Decrypts an item of [`Cipher::sealed_length`]`(length)` bytes.
    ///
    /// # Errors
    /// [`Error::Password`] if authentication fails (format 0.7).
    pub fn open(&self, part: Part, mut sealed: Vec<u8>, length: usize) -> Result<Vec<u8>> {
        match self {
            Cipher::None => Ok(sealed),
            Cipher::Cbc(keys) => {
                let salt = sealed[..cbc::SALT_BYTES].try_into().expect("eight bytes");
                sealed.drain(..cbc::SALT_BYTES);
                keys.open(salt, &mut sealed);
                sealed.truncate(length);
                Ok(sealed)
            }
            Cipher::Gcm(keys) => keys.open(part, &sealed),
        }
    }

    /// Decrypts the MD5, which has no salt of its own in format 0.6.
    ///
    /// # Errors
    /// As [`Cipher::open`].
    pub fn open_md5(&self, mut sealed: Vec<u8>) -> Result<Vec<u8>> {
        if let Cipher::Cbc(keys) = self {
            keys.open(keys.salt(), &mut sealed);
            return Ok(sealed);
        }
        let length = sealed.len();
        self.open(Part::Md5, sealed, length)
    }

    /// Length in bytes of the encrypted MD5 in the archive.
    pub fn sealed_md5_length(&self) -> usize {
        crate::format::MD5_BYTES + if matches!(self, Cipher::Gcm(_)) { gcm::ADDED } else { 0 }
    }

    /// Encrypts an item.
    ///
    /// # Errors
    /// [`Error::Io`] if the system provides no random numbers.
    ///
    /// # Panics
    /// With the cipher of format 0.7, which is read-only.
    pub fn seal(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Cipher::None => Ok(bytes),
            Cipher::Cbc(keys) => keys.seal(bytes),
            Cipher::Gcm(_) => unreachable!("only version 0.6 is written"),
        }
    }

    /// Encrypts the MD5.
    pub fn seal_md5(&self, mut md5: Vec<u8>) -> Vec<u8> {
        if let Cipher::Cbc(keys) = self {
            keys.seal_in_place(keys.salt(), &mut md5);
        }
        md5
    }
}

/// Returns random bytes from the system.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::Io("reading random numbers from the system".to_owned(), std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}
