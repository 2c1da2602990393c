// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers of a kernel.

/// A random number generator: SplitMix64 (Steele, Lea, Flood 2014) with one word of state.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator whose numbers depend on this seed alone.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The upper half of the next number.
    pub fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_unbiased_and_reproducible_by_seed() {
        let sample = |seed: u64| {
            let mut random = Random::new(seed);
            (0..4096).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(sample(7), sample(7));
        assert_ne!(sample(7), sample(8));
        // Each bit is set in about half of 4096 numbers; 160 is five standard deviations.
        for bit in 0..32 {
            let set = sample(7).iter().filter(|number| *number >> bit & 1 == 1).count();
            assert!(set.abs_diff(2048) < 160, "bit {bit}: {set}");
        }
    }
}
