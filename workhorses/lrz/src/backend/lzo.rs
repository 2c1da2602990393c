// SPDX-License-Identifier: MIT OR Apache-2.0
//! LZO1X, packing. No crate packs it fast under a free licence, and the format is small: an instruction names a repeat
//! and up to three literals that follow it; longer runs of literals are an instruction of their own.

use super::{Failure, room_for};

/// Farthest repeat, in bytes.
const REACH: usize = 0xBFFF;
/// Memory for the table of positions, in bytes.
pub const WORKING_MEMORY: u64 = 4 << TABLE_BITS;

const TABLE_BITS: u32 = 15;
/// Farthest repeats of the instructions of two bytes, of `001LLLLL` and of `0001HLLL`.
const NEAR: usize = 0x800;
const MIDDLE: usize = 0x4000;
/// Misses after which the search looks at every second, third, ... position.
const PATIENCE: u32 = 6;

/// Packs a block.
pub fn pack(plain: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut packed = Writer { bytes: room_for(plain)?, limit: plain.len().saturating_sub(1), last: None };
    let mut table = Vec::new();
    table.try_reserve_exact(1 << TABLE_BITS).map_err(|_| Failure::Memory)?;
    table.resize(1 << TABLE_BITS, 0u32);
    let (mut at, mut literals, mut misses) = (0, 0, 0u32);
    // The table tells 0 where it knows nothing: the first position is never found, which does no harm.
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
    // Five bytes: repeats of four at a distance cost as much as they save.
    ((word << 24).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - TABLE_BITS)) as usize
}

/// How many first bytes are the same. `a` begins before `b` in the same block and is therefore not shorter.
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
    /// Longest result that is still smaller than the block.
    limit: usize,
    /// Where the last repeat's two bits for literals are; none before the first instruction.
    last: Option<usize>,
}

impl Writer {
    fn room(&self, more: usize) -> Result<(), Failure> {
        if self.bytes.len() + more > self.limit { Err(Failure::NotSmaller) } else { Ok(()) }
    }

    /// The part of a length that did not fit into an instruction: a zero for each 255.
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

    /// Bytes that repeat at all distances and lengths.
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
        fn what_is_packed_is_read_here_and_by_another_implementation(plain in repetitive()) {
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
        fn what_another_implementation_packs_is_read(plain in repetitive().prop_filter("no block is empty", |p| !p.is_empty())) {
            let packed = lzokay::compress::compress(&plain).expect("memory");
            let mut own = Vec::new();
            Unpacker::new(&packed[..]).expect("memory").read_to_end(&mut own).expect("a good block");
            prop_assert_eq!(own, plain);
        }
    }

    #[test]
    fn long_lengths_with_literals_after_them_are_read() {
        let mut state = 1u32;
        let mut fresh = |length: usize| -> Vec<u8> {
            (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect()
        };
        // The length of an instruction takes a byte for each 255 of the repeat: 20 in the end.
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
    fn repeats_make_it_small() {
        let plain: Vec<u8> = (0..100_000u32).map(|k| (k % 251) as u8).collect();
        assert!(pack(&plain).expect("repetitive").len() < 1000);
        assert_eq!(pack(b"abc"), Err(Failure::NotSmaller));
    }
}
