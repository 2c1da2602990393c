// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps of the bug's experiment, for benchmarks.

use crate::State;

/// Pseudo-random number generator (splitmix64), deterministic across runs.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Next random byte.
    pub fn byte(&mut self) -> u8 {
        self.bits() as u8
    }

    /// Next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Fills `bytes` as the bug's test program did, for a search for `wanted`: one such block is 100 bytes from the end,
/// the rest is ordinary data, and each block is metadata with probability 1/`factor` (0: none).
///
/// Ordinary data is used blocks if free ones are sought, free blocks if used ones are sought, else a random mixture
/// of both. Metadata is inodes, or unlinked inodes if inodes are sought. Another `seed` places the metadata elsewhere.
///
/// # Panics
/// If the map has less than 100 bytes.
pub fn fill(bytes: &mut [u8], wanted: State, factor: u64, seed: u64) {
    let mut random = Random((446_085 + factor) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let metadata = if wanted == State::Dinode { State::Unlinked } else { State::Dinode };
    let mut to_next = gap(&mut random, factor);
    for byte in bytes.iter_mut() {
        *byte = match wanted {
            State::Free => 0x55,
            State::Used => 0,
            State::Unlinked | State::Dinode => random.bits() as u8 & 0x55,
        };
        while to_next < 4 {
            *byte &= !(3 << (2 * to_next));
            *byte |= metadata.bits() << (2 * to_next);
            to_next += 1 + gap(&mut random, factor);
        }
        to_next -= 4;
    }
    let target = bytes.len() - 100;
    bytes[target] = bytes[target] & !3 | wanted.bits();
}

/// Number of blocks before the next metadata block: a geometric distribution, sampled by inversion.
fn gap(random: &mut Random, factor: u64) -> u64 {
    if factor == 0 {
        return u64::MAX / 2;
    }
    let uniform = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    ((1.0 - uniform).ln() / (1.0 - 1.0 / factor as f64).ln()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bitmap;
    use std::vec;

    #[test]
    fn filled_map_has_one_wanted_block_and_the_given_metadata_share() {
        for wanted in State::ALL {
            let mut bytes = vec![0; 1 << 20];
            fill(&mut bytes, wanted, 28, 0);
            let map = Bitmap::new(&bytes[..]);
            assert_eq!(map.find(wanted, 0), Some((bytes.len() - 100) * 4));
            assert_eq!(map.count().of(wanted), 1);
            let metadata = if wanted == State::Dinode { State::Unlinked } else { State::Dinode };
            let share = map.count().of(metadata) as f64 * 28.0 / map.len() as f64;
            assert!((0.99..1.01).contains(&share), "{wanted}: {share}");
        }
    }

    #[test]
    fn maps_of_two_seeds_differ_only_in_the_places_of_their_metadata() {
        let map = |seed: u64| {
            let mut bytes = vec![0; 1 << 16];
            fill(&mut bytes, State::Free, 28, seed);
            bytes
        };
        assert_eq!(map(3), map(3));
        assert_ne!(map(3), map(4));
        assert_eq!(Bitmap::new(&map(4)[..]).find(State::Free, 0), Some((map(4).len() - 100) * 4));
    }
}
