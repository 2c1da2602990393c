// SPDX-License-Identifier: GPL-2.0-only
//! Recordings: whatever the bytes are, there is a result and no panic, and what is accepted is stable.

use workload::Recording;

/// Reads the bytes as a file, and as the payload of a file whose header is right: no fuzzer guesses a checksum.
pub fn run(bytes: &[u8]) {
    let _ = Recording::from_bytes("fuzz", bytes);
    let mut file = b"WEIRREC\n".to_vec();
    file.extend(1u32.to_le_bytes());
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend(xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes());
    file.extend(zstd::bulk::compress(bytes, 1).expect("memory is compressed into memory"));
    let Ok(recording) = Recording::from_bytes("fuzz", &file) else { return };
    let stored = recording.to_bytes().expect("what was read can be stored");
    assert_eq!(Recording::from_bytes("fuzz", &stored).expect("and read again"), recording);
}
