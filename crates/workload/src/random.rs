// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers of workloads, identical on every host.

/// A stream of random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream with this seed; different numbers give independent streams.
    pub fn new(seed: u64, number: u64) -> Stream {
        let mut first = Stream(seed);
        let mut second = Stream(first.bits() ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        Stream(second.bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        next(&mut self.0)
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }
}

/// Advances the state of a SplitMix64 generator and returns 64 random bits.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
