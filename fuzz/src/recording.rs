// SPDX-License-Identifier: GPL-2.0-only
//! Recordings: any bytes give a result without a panic, and accepted recordings survive a round trip.

use workload::Recording;

/// Size of magic and version; size of type, flags, both lengths and checksum of a block.
const FILE_HEADER: usize = 12;
const BLOCK_HEADER: usize = 20;

/// Reads the bytes as a file; as the payload of a version 1 file; and as blocks with valid lengths and checksums,
/// which no fuzzer guesses.
pub fn run(bytes: &[u8]) {
    check(bytes);
    let mut first = b"WEIRREC\n".to_vec();
    first.extend(1u32.to_le_bytes());
    first.extend((bytes.len() as u64).to_le_bytes());
    first.extend(xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes());
    first.extend(zstd::bulk::compress(bytes, 1).expect("compression into memory succeeds"));
    check(&first);
    check(&pack(bytes));
}

fn check(file: &[u8]) {
    let Ok(recording) = Recording::from_bytes("fuzz", file) else { return };
    let stored = recording.to_bytes().expect("an accepted recording can be stored");
    assert_eq!(Recording::from_bytes("fuzz", &stored).expect("a stored recording can be read"), recording);
}

/// Converts blocks given as type, flags, length (3 bytes, little-endian) and content to a file. The last one extends
/// to the end of the input.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut file = b"WEIRREC\n".to_vec();
    file.extend(2u32.to_le_bytes());
    let mut rest = bytes;
    while let [kind, flags, low, middle, high, behind @ ..] = rest {
        let claimed = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        let (content, next) = behind.split_at(claimed.min(behind.len()));
        let mut head = vec![*kind, 0, *flags & 1, 0];
        head.extend((content.len() as u32).to_le_bytes());
        head.extend((content.len() as u32).to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&[&head[..], content].concat());
        file.extend(head);
        file.extend(checksum.to_le_bytes());
        file.extend(content);
        rest = next;
    }
    file
}

/// Converts a valid file to the form that [`run`] takes, for an initial corpus.
#[allow(dead_code)]
pub fn unpack(file: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let mut rest = &file[FILE_HEADER..];
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (stored, length) = (&rest[BLOCK_HEADER..BLOCK_HEADER + word(4)], word(8));
        let content = match rest[2] & 2 {
            0 => stored.to_vec(),
            _ => zstd::bulk::decompress(stored, length).expect("a valid file"),
        };
        unpacked.extend([rest[0], rest[2] & 1]);
        unpacked.extend(&(length as u32).to_le_bytes()[..3]);
        unpacked.extend(content);
        rest = &rest[BLOCK_HEADER + word(4)..];
    }
    unpacked
}
