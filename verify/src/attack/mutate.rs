// SPDX-License-Identifier: GPL-2.0-only
//! Mutations of files: the same number gives the same bytes on every host.

/// Random number generator: SplitMix64 (Steele, Lea and Flood 2014).
pub struct Rng(u64);

impl Rng {
    /// Generator of mutant `number` of a seed.
    pub fn of(seed: u64, number: u64) -> Rng {
        let mut rng = Rng(seed);
        let first = rng.next();
        Rng(first ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Numbers of mutations of one file. Most mutants have one: what is behind the first error is not reached.
const NUMBERS_OF_MUTATIONS: [usize; 8] = [1, 1, 1, 1, 2, 2, 3, 8];
/// Longest part that is copied or removed, in bytes, and most copies of it.
const PART: usize = 200;
const COPIES: usize = 40;
/// A mutant does not become longer than this factor times its original, plus some bytes.
const GROWTH: usize = 8;

/// Numbers that parsers mishandle: limits of types, and what overflows when it is multiplied.
const NUMBERS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "255",
    "256",
    "4096",
    "4097",
    "65535",
    "65536",
    "1e9",
    "1e308",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.0000000001",
];

/// Texts that terminals, spreadsheets, browsers and parsers could obey.
const TEXTS: [&[u8]; 12] = [
    b"\x1b[2J\x1b]0;x\x07",
    b"\r",
    b"=cmd|' /C calc'!A0",
    b"<script>alert(1)</script>",
    "\u{202e}\u{200f}".as_bytes(),
    b"\0",
    b"\xff\xfe",
    "\u{9b}31m".as_bytes(),
    b"../../x",
    b"\"",
    b"]]]]",
    b"{{{{{{{{{{{{{{{{[[[[[[[[[[[[[[[[",
];

/// Mutates bytes until they differ. `other` is another file of the same kind, of which parts are inserted; one of both has
/// bytes.
pub fn mutate(rng: &mut Rng, original: &[u8], other: &[u8]) -> Vec<u8> {
    loop {
        let mutant = mutate_once(rng, original, other);
        if mutant != original {
            return mutant;
        }
    }
}

fn mutate_once(rng: &mut Rng, original: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let most = GROWTH * original.len() + 4_096;
    for _ in 0..NUMBERS_OF_MUTATIONS[rng.below(8)] {
        if bytes.is_empty() {
            bytes = other.to_vec();
        }
        let before = bytes.clone();
        // Half of the mutations of a text know its syntax.
        match std::str::from_utf8(&bytes).is_ok() && rng.below(2) == 0 {
            true => change_text(rng, &mut bytes),
            false => change_bytes(rng, &mut bytes, other),
        }
        if bytes.len() > most {
            bytes = before;
        }
    }
    bytes
}

/// A part of at most [`PART`] bytes.
fn part(rng: &mut Rng, length: usize) -> std::ops::Range<usize> {
    let from = rng.below(length + 1);
    from..(from + rng.below(PART)).min(length)
}

fn change_bytes(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let Some(at) = (!bytes.is_empty()).then(|| rng.below(bytes.len())) else { return };
    match rng.below(9) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.below(256) as u8,
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
        3 => {
            // A little-endian number of 4 or 8 bytes.
            let number = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, 1 << 32, 1 << 20, 1 << 12][rng.below(8)];
            let width = [2, 4, 8][rng.below(3)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(part(rng, at))),
        6 => {
            let copied = bytes[part(rng, bytes.len())].repeat(1 + rng.below(COPIES));
            drop(bytes.splice(at..at, copied));
        }
        7 => {
            let inserted = other[part(rng, other.len())].to_vec();
            drop(bytes.splice(at..at, inserted));
        }
        _ => {
            let text = TEXTS[rng.below(TEXTS.len())];
            drop(bytes.splice(at..at, text.iter().copied()));
        }
    }
}

fn change_text(rng: &mut Rng, bytes: &mut Vec<u8>) {
    match rng.below(4) {
        0 | 1 => change_token(rng, bytes),
        2 => {
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let (from, to) = (rng.below(lines.len()), rng.below(lines.len() + 1));
            let mut changed = lines.clone();
            match rng.below(3) {
                0 => drop(changed.remove(from)),
                1 => changed.insert(to, lines[from]),
                _ => changed.swap(from, to.min(lines.len() - 1)),
            }
            *bytes = changed.concat();
        }
        _ => {
            let (at, text) = (rng.below(bytes.len()), TEXTS[rng.below(TEXTS.len())]);
            drop(bytes.splice(at..at, text.iter().copied()));
        }
    }
}

/// Replaces a number or a word by another one of the same text, or by a number from [`NUMBERS`].
fn change_token(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut tokens = Vec::new();
    let mut from = None;
    for (at, byte) in bytes.iter().copied().chain([b' ']).enumerate() {
        match (byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'), from) {
            (true, None) => from = Some(at),
            (false, Some(begin)) => {
                tokens.push(begin..at);
                from = None;
            }
            _ => {}
        }
    }
    if tokens.is_empty() {
        return;
    }
    let mut old = tokens[rng.below(tokens.len())].clone();
    let is_digit = |at: &usize| bytes[*at].is_ascii_digit();
    // Half of the numbers keep their units: "2ms" becomes "255ms".
    if let Some(from) = old.clone().find(is_digit).filter(|_| rng.below(2) == 0) {
        let end = (from..old.end).find(|at| !is_digit(at)).unwrap_or(old.end);
        old = from..end;
    }
    let new = match rng.below(2) {
        0 => NUMBERS[rng.below(NUMBERS.len())].as_bytes().to_vec(),
        _ => bytes[tokens[rng.below(tokens.len())].clone()].to_vec(),
    };
    drop(bytes.splice(old, new));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_the_same_for_the_same_number_and_differ_between_numbers() {
        let original = b"[machine]\nname = \"a\"\ncpus = 4\n".repeat(3);
        let mutant = |number| mutate(&mut Rng::of(1, number), &original, b"other");
        assert!((0..200).all(|number| mutant(number) == mutant(number)));
        assert!((0..200).all(|number| mutant(number) != original));
        let different: std::collections::BTreeSet<Vec<u8>> = (0..200).map(mutant).collect();
        assert!(different.len() > 190, "{} of 200 differ", different.len());
        assert!(different.iter().all(|bytes| bytes.len() <= GROWTH * original.len() + 4_096));
    }
}
