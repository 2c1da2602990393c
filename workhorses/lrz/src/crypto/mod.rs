// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of heads, blocks and the MD5.
//!
//! Each of them is a piece of its own: heads with numbers of 8 bytes, blocks as their back ends packed them.

mod cbc;
mod gcm;

use crate::error::{Error, Result};
use crate::format::{Encryption, Magic};

pub use cbc::{MOST_ROUNDS, ROUNDS};

/// What a piece of an encrypted archive is: version 0.7 binds it to the ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The head of a stream or block.
    Head,
    /// A block.
    Block,
    /// The MD5.
    Md5,
}

/// Opens the pieces of an archive, and seals those of one that is written.
#[derive(Debug)]
pub enum Cipher {
    /// Nothing is encrypted.
    None,
    /// Version 0.6.
    Cbc(cbc::Keys),
    /// Version 0.7.
    Gcm(Box<gcm::Keys>),
}

impl Cipher {
    /// Derives the keys for an archive to be read; `description` are the 32 bytes that follow the magic with
    /// [`Encryption::Gcm`].
    ///
    /// # Errors
    /// [`Error::NeedsPassword`] without a password, [`Error::Unsupported`] for parameters that are not known or ask for
    /// more work than any writer would.
    pub fn for_reading(magic: &Magic, description: &[u8], password: Option<&[u8]>) -> Result<Cipher> {
        match magic.encryption {
            Encryption::None => Ok(Cipher::None),
            Encryption::Cbc { salt } => {
                Ok(Cipher::Cbc(cbc::Keys::derive(salt, password.ok_or(Error::NeedsPassword)?)?))
            }
            Encryption::Gcm => {
                Ok(Cipher::Gcm(Box::new(gcm::Keys::derive(description, password.ok_or(Error::NeedsPassword)?)?)))
            }
        }
    }

    /// Chooses a salt and derives the keys for an archive to be written; gives the [`Encryption`] for its magic.
    ///
    /// # Errors
    /// [`Error::Io`] where the system has no random numbers.
    pub fn for_writing(password: Option<&[u8]>, rounds: [u8; 2]) -> Result<(Cipher, Encryption)> {
        let Some(password) = password else { return Ok((Cipher::None, Encryption::None)) };
        let salt = cbc::fresh_salt(rounds)?;
        Ok((Cipher::Cbc(cbc::Keys::derive(salt, password)?), Encryption::Cbc { salt }))
    }

    /// Whether anything is encrypted.
    pub fn encrypts(&self) -> bool {
        !matches!(self, Cipher::None)
    }

    /// Bytes in the archive of a piece that has `length` bytes when it is open.
    pub fn sealed_length(&self, length: u64) -> u64 {
        match self {
            Cipher::None => length,
            Cipher::Cbc(_) => cbc::SALT_BYTES as u64 + length.max(16),
            Cipher::Gcm(_) => gcm::ADDED as u64 + length,
        }
    }

    /// Opens a piece of [`Cipher::sealed_length`]`(length)` bytes.
    ///
    /// # Errors
    /// [`Error::Password`] where the cipher notices that it is not the one that was sealed.
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

    /// The MD5, which has no salt of its own in version 0.6.
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

    /// Bytes of the sealed MD5 in the archive.
    pub fn sealed_md5_length(&self) -> usize {
        crate::format::MD5_BYTES + if matches!(self, Cipher::Gcm(_)) { gcm::ADDED } else { 0 }
    }

    /// Seals a piece.
    ///
    /// # Errors
    /// [`Error::Io`] where the system has no random numbers.
    ///
    /// # Panics
    /// With the cipher of version 0.7, which is not written.
    pub fn seal(&self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Cipher::None => Ok(bytes),
            Cipher::Cbc(keys) => keys.seal(bytes),
            Cipher::Gcm(_) => unreachable!("only version 0.6 is written"),
        }
    }

    /// Seals the MD5.
    pub fn seal_md5(&self, mut md5: Vec<u8>) -> Vec<u8> {
        if let Cipher::Cbc(keys) = self {
            keys.seal_in_place(keys.salt(), &mut md5);
        }
        md5
    }
}

/// Fills an array with random bytes of the system.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::Io("taking random numbers from the system".to_owned(), std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}
