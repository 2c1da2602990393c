// SPDX-License-Identifier: MIT OR Apache-2.0
//! LZO1X compressor. No crate with a permissive license compresses LZO1X fast, and the format is small: an
//! instruction encodes a match and up to three literals after it; longer literal runs have their own instruction.

use super::{Failure, room_for};

/// Largest match distance, in bytes.
const REACH: usize = 0xBFFF;
/// Memory of the hash table of positions, in bytes.
pub const WORKING_MEMORY: u64 = 4 << TABLE_BITS;

const TABLE_BITS: u32 = 15;
/// Largest match distances of the two-byte instructions and of `001LLLLL`; more distant matches use `0001HLLL`.
const NEAR: usize = 0x800;
const MIDDLE: usize = 0x4000;
/// After 2^PATIENCE misses the search advances 2 bytes per step, after twice as many 3 bytes, and so on.
const PATIENCE: u32 = 6;

/// Compresses a block.
pub fn pack(plain: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut packed = Writer { bytes: room_for(plain)?, limit: plain.len().saturating_sub(1), last: None };
    let mut table = Vec::new();
    table.try_reserve_exact(1 << TABLE_BITS).map_err(|_| Failure::Memory)?;
    table.resize(1 << TABLE_BITS, 0u32);
    let (mut at, mut literals, mut misses) = (0, 0, 0u32);
    // Table entry 0 means empty. So position 0 never matches, which is harmless.
    while at + 8 <= plain.len() {
        let slot = &mut table[slot_of(plain, at)];
        let candidate = *slot as usize;
        *slot = at as u32;
        let distance = at - candidate;
        if distance == 0 || distance > REACH || plain[candidate..candidate + 4] != plain[at..at + 4] {
            at += 1 + (misses >> PATIENCE) as usize;
            misses += 1;
            continue;
        }
        misses = 0;
        let mut start = at;
        let mut from = candidate;
        while start > literals && from > 0 && plain[start - 1] == plain[from - 1] {
            start -= 1;
            from -= 1;
        }
        let end = at + 4 + common(&plain[candidate + 4..], &plain[at + 4..]);
        packed.literals(&plain[literals..start])?;
        packed.repeat(end - start, distance)?;
        for inside in [at + 2, end.saturating_sub(2)] {
            if inside > at && inside + 8 <= plain.len() {
                table[slot_of(plain, inside)] = inside as u32;
            }
        }
        (at, literals) = (end, end);
    }
    packed.literals(&plain[literals..])?;
    packed.end()
}

fn slot_of(plain: &[u8], at: usize) -> usize {
    let word = u64::from_le_bytes(plain[at..at + 8].try_into().expect("eight bytes"));
    // Hash five bytes: a 4-byte match at a long distance costs as much as it saves.
    ((word << 24).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - TABLE_BITS)) as usize
}

/// Length of the common prefix. `a` begins before `b` in the same block, so it is not shorter.
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let differ =
            u64::from_le_bytes(x.try_into().expect("eight")) ^ u64::from_le_bytes(y.try_into().expect("eight"));
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(x, y)| x == y).count()
}

struct Writer {
    bytes: Vec<u8>,
    /// Maximum output length: one byte less than the block.
    limit: usize,
    /// Index of the byte that holds the literal-count bits of the last match; `None` before the first instruction.
    last: Option<usize>,
}

impl Writer {
    fn room(&self, more: usize) -> Result<(), Failure> {
        if self.bytes.len() + more > self.limit { Err(Failure::NotSmaller) } else { Ok(()) }
    }

    /// Writes the part of a length that does not fit in the instruction: one zero byte per 255, then the rest.
    fn extension(&mut self, length: usize) {
        let zeros = (length - 1) / 255;
        self.bytes.resize(self.bytes.len() + zeros, 0);
        self.bytes.push((length - zeros * 255) as u8);
    }

    fn literals(&mut self, run: &[u8]) -> Result<(), Failure> {
        self.room(run.len() + run.len() / 255 + 4)?;
        match (self.last, run.len()) {
            (_, 0) => return Ok(()),
            (Some(bits), length @ 1..=3) => self.bytes[bits] |= length as u8,
            (None, length @ ..=238) => self.bytes.push(17 + length as u8),
            (_, length @ ..=18) => self.bytes.push(length as u8 - 3),
            (_, length) => {
                self.bytes.push(0);
                self.extension(length - 18);
            }
        }
        self.bytes.extend_from_slice(run);
        Ok(())
    }

    fn repeat(&mut self, length: usize, distance: usize) -> Result<(), Failure> {
        self.room(length / 255 + 8)?;
        if length <= 8 && distance <= NEAR {
            let far = distance - 1;
            self.bytes.push(((length - 1) << 5 | (far & 7) << 2) as u8);
            self.last = Some(self.bytes.len() - 1);
            self.bytes.push((far >> 3) as u8);
            return Ok(());
        }
        let (code, far, most) = if distance <= MIDDLE {
            (0x20, distance - 1, 33)
        } else {
            let far = distance - MIDDLE;
            (0x10 | (far >> 14 & 1) << 3, far & 0x3FFF, 9)
        };
        if length <= most {
            self.bytes.push((code | (length - 2)) as u8);
        } else {
            self.bytes.push(code as u8);
            self.extension(length - most);
        }
        self.last = Some(self.bytes.len());
        self.bytes.extend_from_slice(&((far << 2) as u16).to_le_bytes());
        Ok(())
    }

    fn end(mut self) -> Result<Vec<u8>, Failure> {
        self.room(3)?;
        self.bytes.extend_from_slice(&[0x11, 0, 0]);
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::lzo_read::Unpacker;
    use proptest::prelude::*;
    use std::io::Read;

    /// Input with matches at all distances and lengths.
    fn repetitive() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(|new| (new, 0, 0)),
            (1usize..60_000, 1usize..3000).prop_map(|(distance, length)| (Vec::new(), distance, length)),
        ];
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| {
            let mut bytes = Vec::new();
            for (new, distance, length) in pieces {
                bytes.extend_from_slice(&new);
                if distance > 0 && !bytes.is_empty() {
                    for _ in 0..length {
                        bytes.push(bytes[bytes.len() - distance.min(bytes.len())]);
                    }
                }
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn compressed_blocks_decompress_here_and_in_lzokay(plain in repetitive()) {
            if let Ok(packed) = pack(&plain) {
                prop_assert!(packed.len() < plain.len());
                let mut other = vec![0; plain.len()];
                prop_assert_eq!(lzokay::decompress::decompress(&packed, &mut other), Ok(plain.len()));
                prop_assert_eq!(&other, &plain);
                let mut own = Vec::new();
                Unpacker::new(&packed[..]).expect("memory").read_to_end(&mut own).expect("a good block");
                prop_assert_eq!(&own, &plain);
            }
        }

        #[test]
        fn blocks_compressed_by_lzokay_decompress(plain in repetitive().prop_filter("no block is empty", |p| !p.is_empty())) {
            let packed = lzokay::compress::compress(&plain).expect("memory");
            let mut own = Vec::new();
            Unpacker::new(&packed[..]).expect("memory").read_to_end(&mut own).expect("a good block");
            prop_assert_eq!(own, plain);
        }
    }

    #[test]
    fn long_match_lengths_followed_by_literals_decompress() {
        let mut state = 1u32;
        let mut fresh = |length: usize| -> Vec<u8> {
            (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect()
        };
        // A length extension takes one byte per 255 bytes of match: up to 20 bytes here.
        for length in (1..5100).step_by(17) {
            let mut plain = fresh(7000);
            for literals in [0, 1, 2, 3, 4, 30] {
                plain.extend_from_within(500..500 + length);
                plain.extend(fresh(literals));
                plain.extend_from_within(900..950);
            }
            let packed = pack(&plain).expect("it repeats");
            let mut own = Vec::new();
            Unpacker::new(&packed[..]).expect("memory").read_to_end(&mut own).expect("a good block");
            assert!(own == plain, "{length}");
        }
    }

    #[test]
    fn repetitive_input_shrinks_and_short_input_is_refused() {
        let plain: Vec<u8> = (0..100_000u32).map(|k| (k % 251) as u8).collect();
        assert!(pack(&plain).expect("repetitive").len() < 1000);
        assert_eq!(pack(b"abc"), Err(Failure::NotSmaller));
    }
}
