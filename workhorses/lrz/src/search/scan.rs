// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampling of positions in a piece.

/// Bytes that decide about a position and form its key. A 36-byte repeat such as a UUID contains 13 such positions;
/// with a length of 32 it would be 5, and half of the time none would be sampled.
pub const SAMPLED: usize = 24;
/// The rolling hash shifts by one bit per byte, so its lowest n bits depend on the last n bytes only. Shifting left
/// by this many bits drops the influence of bytes older than `SAMPLED`.
const OLDER_BITS: usize = u32::BITS as usize - SAMPLED;
/// Maximum gap between samples, in mean distances; then a position is sampled regardless of its hash. Happens in runs
/// of few values; in random data once in e^16 positions.
const LONGEST_GAP: usize = 16;

/// A sampled position in a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// End of the sampled bytes within the piece.
    pub end: u32,
    /// Hash of the sampled bytes.
    pub key: u64,
}

/// Random word per byte value, for the gear hash.
const GEAR: [u32; 256] = {
    let mut words = [0; 256];
    let mut state: u64 = 0;
    let mut k = 0;
    while k < 256 {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        words[k] = (z >> 32) as u32;
        k += 1;
    }
    words
};

/// Samples positions of a piece, about one in 2^`sparsity` bytes.
pub fn scan(piece: &[u8], sparsity: u32) -> Vec<Sample> {
    let mut samples = Vec::with_capacity((piece.len() >> sparsity) * 5 / 4 + 16);
    let below = u32::MAX >> sparsity;
    let mut hash = 0u32;
    let longest = LONGEST_GAP << sparsity;
    let mut last = (None, 0);
    for byte in piece.iter().take(SAMPLED - 1) {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
    }
    let mut at = SAMPLED - 1;
    while at < piece.len() {
        let end = piece.len().min(at + longest);
        let mut chosen = end;
        for (ahead, byte) in piece[at..end].iter().enumerate() {
            hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
            if hash << OLDER_BITS <= below {
                chosen = at + ahead + 1;
                break;
            }
        }
        let forced = hash << OLDER_BITS > below;
        at = chosen;
        // In a run of one value every position has the same hash: sample it only once per `longest` bytes.
        if forced || last.0 != Some(hash) || at - last.1 >= longest {
            last = (Some(hash), at);
            samples.push(Sample { end: at as u32, key: key(&piece[at - SAMPLED..at]) });
        } else {
            at += run_ahead(&piece[at - 1..], longest);
        }
    }
    samples
}

/// Bytes of the current run that can be skipped, at most `longest`; 0 if the run is too short for its start and its
/// end to have the same hash.
fn run_ahead(rest: &[u8], longest: usize) -> usize {
    let run = rest.iter().take(longest).take_while(|byte| **byte == rest[0]).count();
    if run > SAMPLED { run - 1 } else { 0 }
}

/// Hash of the sampled bytes.
fn key(bytes: &[u8]) -> u64 {
    let word = |k: usize| u64::from_le_bytes(bytes[8 * k..8 * k + 8].try_into().expect("eight bytes"));
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let first = fold(word(0) ^ 0xA076_1D64_78BD_642F, word(1) ^ 0xE703_7ED1_A0B4_28DB);
    fold(first ^ 0x1D8E_4E27_C47D_124F, word(2) ^ 0x8EBC_6AF0_9C88_C6E3)
}
