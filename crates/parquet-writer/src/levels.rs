// SPDX-License-Identifier: GPL-2.0-only
//! The encoding of small numbers (definition levels, places in dictionaries): run lengths, and bits packed in groups of
//! eight.

use crate::thrift::varint;

/// Values of a group of packed bits.
const GROUP: usize = 8;

/// Number of bits for values up to `most`, at least one: some readers take no width of 0.
pub fn width(most: u32) -> u32 {
    (u32::BITS - most.leading_zeros()).max(1)
}

/// Encodes runs of equal values, each with its length, `width` bits a value.
pub fn encode(runs: impl Iterator<Item = (u32, u64)>, width: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Values that are no run of their own; their number stays a multiple of a group before a run begins.
    let mut literals: Vec<u32> = Vec::new();
    for (value, mut length) in merged(runs) {
        let gap = literals.len().next_multiple_of(GROUP) - literals.len();
        let filled = length.min(gap as u64);
        if length - filled < GROUP as u64 {
            literals.extend((0..length).map(|_| value));
            continue;
        }
        literals.extend((0..filled).map(|_| value));
        length -= filled;
        pack(&mut bytes, &literals, width);
        literals.clear();
        varint(&mut bytes, length << 1);
        bytes.extend(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
    pack(&mut bytes, &literals, width);
    bytes
}

/// Joins neighbouring runs of the same value.
fn merged(runs: impl Iterator<Item = (u32, u64)>) -> impl Iterator<Item = (u32, u64)> {
    let mut runs = runs.peekable();
    std::iter::from_fn(move || {
        let (value, mut length) = runs.next()?;
        while let Some((_, more)) = runs.next_if(|(next, _)| *next == value) {
            length += more;
        }
        Some((value, length))
    })
}

/// Appends literal values; a last group that is not full ends with zeros, which readers do not count.
fn pack(bytes: &mut Vec<u8>, values: &[u32], width: u32) {
    if values.is_empty() {
        return;
    }
    varint(bytes, (values.len().div_ceil(GROUP) as u64) << 1 | 1);
    for group in values.chunks(GROUP) {
        let (mut bits, mut held) = (0u64, 0);
        for at in 0..GROUP {
            bits |= u64::from(group.get(at).copied().unwrap_or(0)) << held;
            held += width;
            while held >= 8 {
                bytes.push(bits as u8);
                bits >>= 8;
                held -= 8;
            }
        }
    }
}
