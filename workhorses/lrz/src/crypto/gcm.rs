// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of format 0.7: AES-256-GCM.

use super::Part;
use crate::error::{Error, Result};
use crate::format::number;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use sha2::Sha512;

const NONCE: usize = 12;
/// Bytes that encryption adds to an item: nonce and tag.
pub const ADDED: usize = NONCE + 16;
/// Maximum PBKDF2 rounds allowed by the format.
const MOST_ROUNDS: u32 = 5_000_000;

/// The key for headers, and the key for blocks and the MD5.
pub struct Keys {
    heads: Aes256Gcm,
    data: Aes256Gcm,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Derives the keys from the password and the 32-byte encryption description after the magic.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for unknown parameters, and if the description asks for more than `most` rounds.
    pub fn derive(description: &[u8], password: &[u8], most: u64) -> Result<Keys> {
        let rounds = number(&description[2..6]) as u32;
        if description[0] != 1 || description[1] != 16 || !(1..=MOST_ROUNDS).contains(&rounds) {
            let what = format!(
                "unsupported encryption: suite {}, {} bytes of salt, {rounds} rounds",
                description[0], description[1]
            );
            return Err(Error::Unsupported(what));
        }
        if u64::from(rounds) > most {
            let what = format!("its key needs {rounds} rounds of hashing; the limit is {most} (--key-rounds)");
            return Err(Error::Unsupported(what));
        }
        let mut master = [0; 64];
        pbkdf2::pbkdf2_hmac::<Sha512>(password, &description[8..24], rounds, &mut master);
        let expander = Hkdf::<Sha512>::from_prk(&master).expect("64 bytes are a key");
        let key = |info: &[u8]| {
            let mut key = [0; 32];
            expander.expand(info, &mut key).expect("32 bytes can be had");
            Aes256Gcm::new(&key.into())
        };
        Ok(Keys { heads: key(b"lrzip-v3-hdr"), data: key(b"lrzip-v3-data") })
    }

    /// Decrypts and authenticates an item.
    pub fn open(&self, part: Part, sealed: &[u8]) -> Result<Vec<u8>> {
        let (key, number) = match part {
            Part::Head => (&self.heads, 1),
            Part::Block => (&self.data, 2),
            Part::Md5 => (&self.data, 3),
        };
        let (nonce, msg) = sealed.split_at_checked(NONCE).ok_or(Error::Password)?;
        let nonce: [u8; NONCE] = nonce.try_into().expect("twelve bytes");
        let aad = [b'L', b'R', b'Z', b'I', 0, 7, 3, number];
        key.decrypt(&nonce.into(), Payload { msg, aad: &aad }).map_err(|_| Error::Password)
    }
}
