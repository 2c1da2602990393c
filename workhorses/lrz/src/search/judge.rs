// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which repeats pay.
//!
//! A repeat costs tokens in stream 0 and tears the literals around it apart. What it saves is what the back end would
//! have made of the bytes: little where the back end sees the repeat by itself, and less the better it packs.

use super::Match;
use crate::backend::{Packer, pack_lzo};
use crate::format::{write_literals, write_match};
use std::ops::Range;

/// Bytes of a sample that tells how well a piece packs.
const SAMPLE: usize = 16 << 10;
/// No shorter repeat from far away is worth its tokens, of up to 10 bytes.
const LEAST: u64 = 32;
/// Least lengths of repeats, in bytes, of which a trial finds the best one, the longest first. For back ends that see little
/// by themselves, and for those that see far and take long.
const NEAR: [u64; 6] = [512, 160, 96, 64, 48, LEAST];
const FAR: [u64; 4] = [1024, 128, 64, LEAST];
/// Bytes of a piece that tell which length is best for LZO and Deflate, and for those that see far.
const TRIAL: usize = 256 << 10;
const LONG_TRIAL: usize = 512 << 10;
/// A trial needs short repeats over one in so many bytes of the piece.
const LEAST_SHARE: u64 = 256;
/// A size is nearly another one where it is larger by no more than one part in so many.
const NEARLY: usize = 100;
/// Bytes of a distance in a trial.
const TRIAL_WIDTH: u8 = 4;

/// When a repeat is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judge {
    packer: Packer,
    /// What the back end needs for a byte, in bits.
    bits: f64,
}

impl Judge {
    /// For a piece and a back end.
    pub fn new(packer: Packer, piece: &[u8]) -> Judge {
        // Shares of LZO's size, of sources and logs.
        let bits = match packer {
            Packer::None => 8.0,
            Packer::Lzo => lzo_bits(piece),
            Packer::Zlib => 0.6 * lzo_bits(piece),
            Packer::Bzip2 | Packer::Lzma => 0.43 * lzo_bits(piece),
        };
        Judge { packer, bits }
    }

    /// The lengths of repeats, in bytes, among which a trial decides: those of the first are taken in any case, those below
    /// the last never.
    pub fn lengths(&self) -> &'static [u64] {
        match self.packer {
            Packer::None => &[LEAST],
            Packer::Lzo | Packer::Zlib => &NEAR,
            Packer::Bzip2 | Packer::Lzma => &FAR,
        }
    }

    /// The least length of repeats where nothing was tried yet.
    pub fn untried(&self) -> u64 {
        match self.packer {
            Packer::None => LEAST,
            Packer::Lzo | Packer::Zlib => 64,
            Packer::Bzip2 | Packer::Lzma => FAR[0],
        }
    }

    /// The least length of repeats with which the back end makes a piece smallest. It takes as long as packing some pieces,
    /// so some pieces speak for those after them. `None` where there are too few short repeats to tell.
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
            Packer::Bzip2 | Packer::Lzma => frugal(&sizes),
        };
        index.map(|index| lengths[index])
    }

    /// What a repeat saves before its tokens are paid, in bits, less what tells near distances from far ones: the high
    /// bytes of near ones are alike, and the back end packs them.
    pub fn gain(&self, found: &Match) -> f64 {
        f64::from(found.length) * self.bits - (found.distance as f64).log2()
    }
}

/// Which of some sizes to take, where each next one leaves fewer literals to a back end that takes long: the last one that
/// is nearly the smallest, and not larger than what the back end makes alone, which comes first. Packing and unpacking
/// take as long as there are literals.
fn frugal(sizes: &[usize]) -> Option<usize> {
    let (alone, smallest) = (*sizes.first()?, *sizes.iter().min()?);
    sizes.iter().rposition(|size| *size <= alone && size - smallest <= smallest / NEARLY)
}

/// Literals and tokens of a part of a piece with repeats of at least `least` bytes taken. Those of at least `long` are taken
/// in any case, and the part is longer by what they cover.
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

/// Bits a byte that LZO makes of a sample from the middle of the piece.
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
    use super::frugal;

    #[test]
    fn of_nearly_equal_sizes_the_one_with_fewest_literals_is_taken() {
        assert_eq!(frugal(&[1000, 900, 905, 909]), Some(3));
        assert_eq!(frugal(&[1000, 900, 905, 910]), Some(2));
        // Nothing is taken with which it becomes larger than without.
        assert_eq!(frugal(&[1000, 1001, 1002]), Some(0));
        assert_eq!(frugal(&[1000, 1001, 1000]), Some(2));
        assert_eq!(frugal(&[1000, 995, 1001]), Some(1));
        assert_eq!(frugal(&[0, 0]), Some(1));
        assert_eq!(frugal(&[]), None);
    }
}
