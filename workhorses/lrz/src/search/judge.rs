// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which matches pay.
//!
//! A match costs tokens in stream 0 and splits the literals around it. It saves what the back end would have produced
//! for the bytes: little if the back end finds the match by itself, and less the better the back end compresses.

use super::Match;
use crate::backend::{Packer, pack_lzo};
use crate::format::{write_literals, write_match};
use std::ops::Range;

/// Bytes sampled to estimate how well a piece compresses.
const SAMPLE: usize = 16 << 10;
/// Minimum match length in bytes: a shorter distant match does not pay for its tokens of up to 10 bytes.
const LEAST: u64 = 32;
/// Candidate minimum match lengths in bytes, longest first, for back ends with a small window (`NEAR`) and for slow
/// ones with a large window (`FAR`).
const NEAR: [u64; 6] = [512, 160, 96, 64, 48, LEAST];
const FAR: [u64; 4] = [1024, 128, 64, LEAST];
/// Bytes of a piece compressed in a trial: for LZO and Deflate, and for the back ends with a large window.
const TRIAL: usize = 256 << 10;
const LONG_TRIAL: usize = 512 << 10;
/// A trial requires short matches in more than 1/256 of the tested bytes.
const LEAST_SHARE: u64 = 256;
/// Sizes within 1/100 of each other count as nearly equal.
const NEARLY: usize = 100;
/// Width of a distance in a trial, in bytes.
const TRIAL_WIDTH: u8 = 4;

/// Estimates the value of matches in a piece.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judge {
    packer: Packer,
    /// Estimated back-end output per literal byte, in bits.
    bits: f64,
}

impl Judge {
    /// Creates a judge for a piece and a back end.
    pub fn new(packer: Packer, piece: &[u8]) -> Judge {
        // Factors relative to LZO's output size, measured on sources and logs.
        let bits = match packer {
            Packer::None => 8.0,
            Packer::Lzo => lzo_bits(piece),
            Packer::Zlib => 0.6 * lzo_bits(piece),
            Packer::Bzip2 | Packer::Lzma => 0.43 * lzo_bits(piece),
        };
        Judge { packer, bits }
    }

    /// Candidate minimum match lengths in bytes, longest first. Matches of the first length or longer are always
    /// used, those shorter than the last never.
    pub fn lengths(&self) -> &'static [u64] {
        match self.packer {
            Packer::None => &[LEAST],
            Packer::Lzo | Packer::Zlib => &NEAR,
            Packer::Bzip2 | Packer::Lzma => &FAR,
        }
    }

    /// Minimum match length in bytes before the first trial.
    pub fn untried(&self) -> u64 {
        match self.packer {
            Packer::None => LEAST,
            Packer::Lzo | Packer::Zlib => 64,
            Packer::Bzip2 | Packer::Lzma => FAR[0],
        }
    }

    /// Compresses part of the piece with each candidate and returns the minimum match length that gives the smallest
    /// output. A trial takes as long as compressing several pieces, so its result also applies to later pieces.
    /// Returns `None` if there are too few short matches.
    pub fn verdict(&self, level: u8, dictionary: u32, piece: &[u8], matches: &[Match]) -> Option<u64> {
        let (lengths, packer) = (self.lengths(), self.packer);
        let most = match packer {
            Packer::Lzo | Packer::Zlib | Packer::None => TRIAL,
            Packer::Bzip2 | Packer::Lzma => LONG_TRIAL,
        };
        let part = most.min(piece.len());
        let begin = (piece.len() - part) / 2;
        let is_short = |found: &&Match| u64::from(found.length) < lengths[0] && found.start as usize >= begin;
        let short: u64 = matches.iter().filter(is_short).map(|found| u64::from(found.length)).sum();
        if short <= part as u64 / LEAST_SHARE {
            return None;
        }
        let size = |bytes: &[u8]| packer.pack(bytes, level, dictionary).map_or(bytes.len(), |packed| packed.len());
        let trial = |least: &u64| {
            let (literals, tokens) = streams(piece, begin..begin + part, matches, lengths[0], *least);
            size(&literals) + size(&tokens)
        };
        let sizes: Vec<usize> = lengths.iter().map(trial).collect();
        let index = match packer {
            Packer::Lzo | Packer::Zlib | Packer::None => (0..sizes.len()).min_by_key(|index| sizes[*index]),
            Packer::Bzip2 | Packer::Lzma => fewest_literals(&sizes),
        };
        index.map(|index| lengths[index])
    }

    /// Bits saved by a match before its tokens, minus the logarithm of its distance: high bytes of short distances
    /// are similar and compress well.
    pub fn gain(&self, found: &Match) -> f64 {
        f64::from(found.length) * self.bits - (found.distance as f64).log2()
    }
}

/// Chooses a candidate for slow back ends, where each next candidate leaves fewer literals: the last one whose size
/// is nearly the smallest and at most that of the first candidate. Compression and decompression time are
/// proportional to the literals.
fn fewest_literals(sizes: &[usize]) -> Option<usize> {
    let (alone, smallest) = (*sizes.first()?, *sizes.iter().min()?);
    sizes.iter().rposition(|size| *size <= alone && size - smallest <= smallest / NEARLY)
}

/// Returns literals and tokens of a part of a piece if matches of at least `least` bytes are used. Matches of at
/// least `long` bytes are always used; the part is extended by the bytes they cover.
fn streams(piece: &[u8], part: Range<usize>, matches: &[Match], long: u64, least: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut literals, mut tokens, mut run) = (Vec::new(), Vec::new(), 0);
    let (mut at, mut end) = (part.start, part.end);
    for found in matches.iter().filter(|found| found.start as usize >= part.start) {
        let (start, length) = (found.start as usize, u64::from(found.length));
        if start >= end {
            break;
        }
        if length < least {
            continue;
        }
        literals.extend_from_slice(&piece[at..start]);
        run += (start - at) as u64;
        at = start + length as usize;
        if length >= long {
            end = (end + length as usize).min(piece.len());
        } else {
            write_literals(&mut tokens, run);
            write_match(&mut tokens, length, found.distance, TRIAL_WIDTH);
            run = 0;
        }
    }
    literals.extend_from_slice(&piece[at..end.max(at)]);
    (literals, tokens)
}

/// LZO output in bits per byte for a sample from the middle of the piece.
fn lzo_bits(piece: &[u8]) -> f64 {
    let middle = piece.len() / 2;
    let sample = &piece[middle.saturating_sub(SAMPLE / 2)..(middle + SAMPLE / 2).min(piece.len())];
    match pack_lzo(sample) {
        Ok(packed) => (packed.len() as f64 * 8.0 / sample.len() as f64).max(0.05),
        Err(_) => 8.0,
    }
}

#[cfg(test)]
mod tests {
    use super::fewest_literals;

    #[test]
    fn nearly_equal_sizes_are_decided_by_fewest_literals() {
        assert_eq!(fewest_literals(&[1000, 900, 905, 909]), Some(3));
        assert_eq!(fewest_literals(&[1000, 900, 905, 910]), Some(2));
        // A candidate that increases the size is never chosen.
        assert_eq!(fewest_literals(&[1000, 1001, 1002]), Some(0));
        assert_eq!(fewest_literals(&[1000, 1001, 1000]), Some(2));
        assert_eq!(fewest_literals(&[1000, 995, 1001]), Some(1));
        assert_eq!(fewest_literals(&[0, 0]), Some(1));
        assert_eq!(fewest_literals(&[]), None);
    }
}
