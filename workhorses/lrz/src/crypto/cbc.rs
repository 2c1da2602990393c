// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encryption of format 0.6: AES-128-CBC with ciphertext stealing for a partial last block.

use super::random;
use crate::error::{Error, Result};
use aes::Aes128;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha512};

/// Length in bytes of the salt in front of each encrypted item.
pub const SALT_BYTES: usize = 8;
const BLOCK: usize = 16;

/// Default of the most rounds for a key: 2.1 GB to hash, which takes seconds. lrzip's count grows by 1.835 each year from
/// 1000 in 2011 and passes this one in 2028. A damaged salt can request up to 2^263.
pub const KEY_ROUNDS: u64 = 1 << 25;

/// Key-derivation rounds of new archives, as the first two bytes of the salt: 155 << 17 is 20 million, lrzip's count
/// in 2024.
pub const ROUNDS: [u8; 2] = [17, 155];

/// Key material derived from the password and the archive's salt.
pub struct Keys {
    hash: [u8; 64],
    salted_password: Vec<u8>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// Generates the salt of a new archive.
pub fn fresh_salt(rounds: [u8; 2]) -> Result<[u8; SALT_BYTES]> {
    let mut salt = random::<SALT_BYTES>()?;
    salt[..2].copy_from_slice(&rounds);
    Ok(salt)
}

impl Keys {
    /// Derives the keys by repeated hashing of salt and password, which makes guessing a password expensive.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the salt asks for more than `most` rounds.
    pub fn derive(salt: [u8; SALT_BYTES], password: &[u8], most: u64) -> Result<Keys> {
        let salted_password = [&salt[..], password].concat();
        // A u8 shifted by less than 56 fits in a u64.
        let loops = if salt[0] < 56 { u64::from(salt[1]) << salt[0] } else { u64::MAX };
        if loops > most {
            let what = format!(
                "its key needs {} * 2^{} rounds of hashing; the limit is {most} (--key-rounds)",
                salt[1], salt[0]
            );
            return Err(Error::Unsupported(what));
        }
        let rounds = loops * 64 / (salted_password.len() as u64 + 8);
        let mut state = Sha512::new();
        for round in 0..rounds {
            state.update(round.to_le_bytes());
            state.update(&salted_password);
        }
        Ok(Keys { hash: state.finalize().into(), salted_password })
    }

    /// Salt of the archive.
    pub fn salt(&self) -> [u8; SALT_BYTES] {
        self.salted_password[..SALT_BYTES].try_into().expect("eight bytes")
    }

    fn of_piece(&self, salt: [u8; SALT_BYTES]) -> (Aes128, [u8; BLOCK]) {
        let hash = |first: &[u8]| -> [u8; 64] {
            Sha512::new().chain_update(first).chain_update(salt).chain_update(&self.salted_password).finalize().into()
        };
        let key = hash(&self.hash);
        let start = hash(&key);
        let key: [u8; BLOCK] = key[..BLOCK].try_into().expect("sixteen bytes");
        (Aes128::new(&Array::from(key)), start[..BLOCK].try_into().expect("sixteen bytes"))
    }

    /// Decrypts in place. Fewer than 16 bytes are left unchanged.
    pub fn open(&self, salt: [u8; SALT_BYTES], bytes: &mut [u8]) {
        if bytes.len() < BLOCK {
            return;
        }
        let (cipher, mut before) = self.of_piece(salt);
        let tail = bytes.len() % BLOCK;
        // Ciphertext stealing: the partial block was filled from the last whole block, and the two were swapped.
        let whole = bytes.len() - tail - if tail > 0 { BLOCK } else { 0 };
        for block in bytes[..whole].chunks_exact_mut(BLOCK) {
            let sealed: [u8; BLOCK] = (&*block).try_into().expect("sixteen bytes");
            decrypt(&cipher, block);
            xor(block, &before);
            before = sealed;
        }
        if tail > 0 {
            let (last, end) = bytes[whole..].split_at_mut(BLOCK);
            decrypt(&cipher, last);
            let mut stolen = [0; BLOCK];
            stolen[..tail].copy_from_slice(end);
            stolen[tail..].copy_from_slice(&last[tail..]);
            xor(end, &last[..tail]);
            last.copy_from_slice(&stolen);
            decrypt(&cipher, last);
            xor(last, &before);
        }
    }

    /// Encrypts in place; the inverse of [`Keys::open`].
    pub fn seal_in_place(&self, salt: [u8; SALT_BYTES], bytes: &mut [u8]) {
        let (cipher, mut before) = self.of_piece(salt);
        let tail = bytes.len() % BLOCK;
        let whole = bytes.len() - tail;
        for block in bytes[..whole].chunks_exact_mut(BLOCK) {
            xor(block, &before);
            encrypt(&cipher, block);
            before = (&*block).try_into().expect("sixteen bytes");
        }
        if tail > 0 && whole > 0 {
            let (rest, end) = bytes.split_at_mut(whole);
            let mut last = before;
            xor(&mut last[..tail], end);
            encrypt(&cipher, &mut last);
            end.copy_from_slice(&before[..tail]);
            rest[whole - BLOCK..].copy_from_slice(&last);
        }
    }

    /// Returns a new salt followed by the encrypted bytes; fewer than 16 bytes are first padded with random ones.
    pub fn seal(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        if bytes.len() < BLOCK {
            let padding = random::<BLOCK>()?;
            bytes.extend_from_slice(&padding[bytes.len()..]);
        }
        let salt = random::<SALT_BYTES>()?;
        self.seal_in_place(salt, &mut bytes);
        bytes.splice(..0, salt);
        Ok(bytes)
    }
}

fn decrypt(cipher: &Aes128, block: &mut [u8]) {
    cipher.decrypt_block(block.try_into().expect("sixteen bytes"));
}

fn encrypt(cipher: &Aes128, block: &mut [u8]) {
    cipher.encrypt_block(block.try_into().expect("sixteen bytes"));
}

fn xor(block: &mut [u8], with: &[u8]) {
    for (byte, other) in block.iter_mut().zip(with) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        // Few rounds, to keep the tests fast.
        Keys::derive([3, 1, 2, 3, 4, 5, 6, 7], b"secret", KEY_ROUNDS).expect("few rounds")
    }

    #[test]
    fn every_length_of_at_least_one_block_decrypts_to_the_input() {
        let keys = keys();
        for length in 16..100 {
            let plain: Vec<u8> = (0..length).collect();
            let mut bytes = plain.clone();
            keys.seal_in_place([9; 8], &mut bytes);
            assert_ne!(bytes, plain);
            keys.open([9; 8], &mut bytes);
            assert_eq!(bytes, plain, "{length}");
        }
    }

    #[test]
    fn salt_with_excessive_rounds_is_refused() {
        for salt in [[255, 255, 0, 0, 0, 0, 0, 0], [63, 2, 0, 0, 0, 0, 0, 0], [40, 1, 0, 0, 0, 0, 0, 0]] {
            assert!(matches!(Keys::derive(salt, b"x", KEY_ROUNDS), Err(Error::Unsupported(_))), "{salt:?}");
        }
        assert!(Keys::derive([56, 0, 0, 0, 0, 0, 0, 0], b"x", u64::MAX - 1).is_err());
    }
}
