// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archives of format 0.7, which this crate does not write: the tests contain a small writer for it.

use super::*;
use crate::backend::lzma;
use crate::format::{BlockHead, write_literals, write_match};
use crate::store::Memory;
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use md5::{Digest, Md5};
use sha2::Sha512;

const WIDTH: u8 = 3;
const RAW: u8 = 3;
const LZMA: u8 = 6;
/// LZMA level and dictionary size of the test's blocks.
const LEVEL: u8 = 5;
const DICTIONARY: u32 = 1 << 16;

/// Variant of a test archive.
#[derive(Clone, Copy)]
struct Kind {
    /// Type of the literal blocks, which includes a filter applied before LZMA.
    block: u8,
    prefilter: u8,
    streamed: bool,
    password: Option<&'static [u8]>,
}

const PLAIN: Kind = Kind { block: LZMA, prefilter: 0, streamed: false, password: None };

/// Keys and nonce counter of an encrypted archive.
struct Sealer {
    keys: [Aes256Gcm; 2],
    count: u64,
}

impl Sealer {
    /// Also returns the encryption parameters that follow the magic (3 rounds).
    fn new(password: &[u8]) -> (Sealer, Vec<u8>) {
        let salt = [7; 16];
        let mut description = vec![1, 16];
        description.extend_from_slice(&3u32.to_le_bytes());
        description.extend_from_slice(&[0; 2]);
        description.extend_from_slice(&salt);
        description.extend_from_slice(&[0; 8]);
        let mut master = [0; 64];
        pbkdf2::pbkdf2_hmac::<Sha512>(password, &salt, 3, &mut master);
        let expander = Hkdf::<Sha512>::from_prk(&master).expect("a key");
        let keys = [&b"lrzip-v3-hdr"[..], b"lrzip-v3-data"].map(|info| {
            let mut key = [0; 32];
            expander.expand(info, &mut key).expect("32 bytes");
            Aes256Gcm::new(&key.into())
        });
        (Sealer { keys, count: 0 }, description)
    }

    /// Encrypts an item: returns nonce, ciphertext and tag. `part` is 1 for a header, 2 for a block, 3 for the MD5.
    fn seal(&mut self, part: u8, bytes: &[u8]) -> Vec<u8> {
        self.count += 1;
        let mut nonce = [9; 12];
        nonce[4..].copy_from_slice(&self.count.to_le_bytes());
        let aad = [b'L', b'R', b'Z', b'I', 0, 7, 3, part];
        let key = &self.keys[usize::from(part > 1)];
        let sealed = key.encrypt(&nonce.into(), Payload { msg: bytes, aad: &aad }).expect("sealed");
        [&nonce[..], &sealed].concat()
    }
}

/// Encodes a chunk: `plain` without its last 1000 bytes as literals, then a match to its first 1000 bytes.
fn chunk(plain: &[u8], kind: Kind, last: bool, sealer: &mut Option<Sealer>) -> Vec<u8> {
    let filtered = match kind.prefilter {
        0 => plain.to_vec(),
        _ => crate::backend::filter_x86(plain),
    };
    // Filtered branch targets depend on their position; then the last 1000 bytes do not match.
    let (before, end) = filtered.split_at(filtered.len() - 1000);
    let repeats = *end == filtered[..1000];
    assert!(repeats || kind.prefilter != 0);
    let literals = if repeats { before } else { &filtered };
    let mut tokens = Vec::new();
    write_literals(&mut tokens, literals.len() as u64);
    if repeats {
        write_match(&mut tokens, 1000, before.len() as u64, WIDTH);
    }
    // Format 0.7 has no CRC here.
    tokens.extend_from_slice(&[0; 3]);
    let packed = match kind.block {
        LZMA => lzma::pack(literals, LEVEL, DICTIONARY).expect("packed"),
        9 => lzma::pack(&crate::backend::filter_x86(literals), LEVEL, DICTIONARY).expect("packed"),
        distance => {
            let distance = usize::from(distance - 10);
            let delta = |k: usize| literals[k].wrapping_sub(if k < distance { 0 } else { literals[k - distance] });
            lzma::pack(&(0..literals.len()).map(delta).collect::<Vec<u8>>(), LEVEL, DICTIONARY).expect("packed")
        }
    };
    let mut bytes = vec![WIDTH, kind.prefilter, u8::from(last)];
    if sealer.is_none() {
        bytes.extend_from_slice(&(plain.len() as u64).to_le_bytes()[..usize::from(WIDTH)]);
    }
    let width = if sealer.is_some() { 8 } else { WIDTH };
    let mut seal = |part: u8, bytes: Vec<u8>| match sealer {
        Some(sealer) => sealer.seal(part, &bytes),
        None => bytes,
    };
    let head = |kind: u8, packed: usize, plain: usize, next: u64| {
        BlockHead { kind, packed: packed as u64, plain: plain as u64, next }.to_bytes(width)
    };
    let head_bytes = seal(1, head(RAW, 0, 0, 0)).len() as u64;
    let token_block = seal(2, tokens.clone());
    let second = 2 * head_bytes + head_bytes + token_block.len() as u64;
    bytes.extend(seal(1, head(RAW, 0, 0, 2 * head_bytes)));
    bytes.extend(seal(1, head(RAW, 0, 0, second)));
    bytes.extend(seal(1, head(RAW, tokens.len(), tokens.len(), 0)));
    bytes.extend(token_block);
    bytes.extend(seal(1, head(kind.block, packed.len(), literals.len(), 0)));
    bytes.extend(seal(2, packed));
    bytes
}

/// Encodes an archive of several chunks.
fn archive(chunks: &[&[u8]], kind: Kind) -> Vec<u8> {
    let mut magic = vec![0; 24];
    magic[..6].copy_from_slice(b"LRZI\x00\x07");
    magic[16..21].copy_from_slice(&lzma::properties(DICTIONARY));
    magic[21] = 1;
    magic[14] = u8::from(kind.streamed);
    magic[23] = u8::from(!kind.streamed || chunks.len() == 1);
    let mut sealer = None;
    if let Some(password) = kind.password {
        let (made, description) = Sealer::new(password);
        magic[22] = 3;
        magic.extend(description);
        sealer = Some(made);
    } else if !kind.streamed {
        let all: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        magic[6..14].copy_from_slice(&(all as u64).to_le_bytes());
    }
    let mut bytes = magic;
    for (index, plain) in chunks.iter().enumerate() {
        let last = index + 1 == chunks.len();
        let made = chunk(plain, kind, last, &mut sealer);
        if kind.streamed && index > 0 {
            bytes.extend_from_slice(b"LRZC");
            bytes.extend_from_slice(&(plain.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&(made.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&[u8::from(last), 0, 0, 0]);
        }
        bytes.extend(made);
    }
    let md5: [u8; 16] = Md5::digest(chunks.concat()).into();
    match &mut sealer {
        Some(sealer) => bytes.extend(sealer.seal(3, &md5)),
        None => bytes.extend(md5),
    }
    bytes
}

/// x86 calls with few targets and increasing numbers; the first 1000 bytes are repeated at the end.
fn plain(seed: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for k in 0..4000u32 {
        bytes.extend_from_slice(&[0xE8, (k * seed) as u8, (k >> 6) as u8, 0, 0, 0x90]);
        bytes.extend_from_slice(&(k + seed).to_le_bytes());
    }
    bytes.extend_from_within(..1000);
    bytes
}

fn read(archive: &[u8], password: Option<&[u8]>) -> Result<(Vec<u8>, Summary)> {
    let output = Memory::default();
    let options =
        Options { password: password.map(<[u8]>::to_vec), memory: Limit::bytes(64 << 20), ..Options::default() };
    let summary = unpack(&archive.to_vec(), Target::Store(&output), &options)?;
    Ok((output.into_bytes(), summary))
}

/// Checks that the archive unpacks to the chunks, and that flipping one of some 97 bits never gives wrong output
/// without an error.
fn holds(kind: Kind, chunks: &[&[u8]]) {
    let good = archive(chunks, kind);
    let (output, summary) = read(&good, kind.password).expect("read");
    assert!(output == chunks.concat());
    assert_eq!((summary.verified, summary.warnings.len()), (Verified::Md5, 0));
    for at in (24..good.len()).step_by(good.len() / 97) {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        if let Ok((output, summary)) = read(&bytes, kind.password) {
            assert!(output == chunks.concat() && summary.verified == Verified::Md5, "byte {at}");
        }
    }
}

#[test]
fn every_block_type_of_format_0_7_is_unpacked() {
    for block in [LZMA, 9, 11, 12, 13, 14] {
        holds(Kind { block, ..PLAIN }, &[&plain(3)]);
    }
}

#[test]
fn chunk_filters_of_format_0_7_are_undone() {
    for chunks in [&[&plain(3)[..]][..], &[&plain(5), &plain(7)]] {
        holds(Kind { prefilter: 1, ..PLAIN }, chunks);
    }
}

#[test]
fn streamed_archives_of_format_0_7_are_unpacked() {
    holds(Kind { streamed: true, ..PLAIN }, &[&plain(3), &plain(5), &plain(7)]);
}

#[test]
fn gcm_archives_require_the_right_password() {
    let kind = Kind { password: Some(b"secret"), ..PLAIN };
    holds(kind, &[&plain(3), &plain(5)]);
    let bytes = archive(&[&plain(3)], kind);
    assert!(matches!(read(&bytes, Some(b"other")), Err(Error::Password)));
    assert!(matches!(read(&bytes, None), Err(Error::NeedsPassword)));
    // Parameters that request more rounds than the format allows are refused before key derivation.
    let mut bytes = bytes;
    bytes[26..30].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&bytes, Some(b"secret")), Err(Error::Unsupported(_))));
}
