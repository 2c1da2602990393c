// SPDX-License-Identifier: MIT OR Apache-2.0
//! Naive searches, pair by pair, that share only the block order with the crate.

pub mod gfs2_image;

use bitfit::State;

/// State of a block.
pub fn state(bytes: &[u8], block: usize) -> State {
    State::ALL[usize::from(bytes[block / 4] >> (block % 4 * 2) & 3)]
}

/// All states in order.
pub fn states(bytes: &[u8]) -> Vec<State> {
    (0..bytes.len() * 4).map(|block| state(bytes, block)).collect()
}

pub fn find(states: &[State], wanted: State, from: usize) -> Option<usize> {
    (from..states.len()).find(|&block| states[block] == wanted)
}

pub fn find_other(states: &[State], wanted: State, from: usize) -> Option<usize> {
    (from..states.len()).find(|&block| states[block] != wanted)
}

pub fn find_run(states: &[State], wanted: State, from: usize, length: usize) -> Option<usize> {
    let fits =
        |&block: &usize| block + length <= states.len() && states[block..][..length].iter().all(|&s| s == wanted);
    (from..=states.len()).find(fits)
}

pub fn find_last(states: &[State], wanted: State, end: usize) -> Option<usize> {
    (0..end.min(states.len())).rev().find(|&block| states[block] == wanted)
}

/// Deterministic pseudo-random bytes (xorshift64).
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A map of `common` blocks, with `rare` at the given positions.
pub fn sparse(length: usize, common: State, rare: State, at: &[usize]) -> Vec<u8> {
    let mut bytes = vec![common.bits() * 0x55; length];
    for &block in at.iter().filter(|&&block| block < length * 4) {
        bytes[block / 4] &= !(3 << (block % 4 * 2));
        bytes[block / 4] |= rare.bits() << (block % 4 * 2);
    }
    bytes
}
