// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which repeats pay.
//!
//! A repeat costs tokens in stream 0 and tears the literals around it apart. What it saves is what the back end would
//! have made of the bytes: little where the back end sees the repeat by itself, and less the better it packs.

use super::Match;
use crate::backend::{Packer, pack_lzo};
use crate::format::{write_literals, write_match};

/// Bytes of a sample that tells how well a piece packs.
const SAMPLE: usize = 16 << 10;
/// What a repeat costs in packed bytes: a literal token and a repeat token have 6 bytes and a distance, of which the
/// distance cannot be packed, and the back end has lost its context where the literals go on.
const COST: f64 = 12.0;
/// No repeat below what a sample covers is found anyway.
const LEAST: u64 = super::SAMPLED as u64;

/// Bytes of a piece for which both ways are tried: with its short repeats taken, and with them left to the back end.
const TRIAL: usize = 96 << 10;
/// A verdict needs short repeats over one in so many bytes of the piece.
const LEAST_SHARE: u64 = 256;
/// The level of Deflate for the trial of a part, and the bytes of a distance.
const TRIAL_LEVEL: u8 = 1;
const TRIAL_WIDTH: u8 = 4;

/// When a repeat is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judge {
    /// Distance up to which the back end finds repeats by itself, in bytes.
    pub reach: u64,
    /// Least length of a repeat within reach, in bytes.
    pub near: u64,
    /// Least length of a repeat beyond reach, in bytes.
    pub far: u64,
    /// What the back end needs for a byte, in bits.
    pub bits: f64,
    /// Whether it sees far enough to find the parts of most repeats by itself.
    pub sees_parts: bool,
}

impl Judge {
    /// For a piece and a back end that finds repeats up to `reach` bytes back.
    pub fn new(packer: Packer, reach: u64, piece: &[u8]) -> Judge {
        // Bits that the back end needs for what LZO leaves 1 bit of, in a text: its share of LZO's size on sources and
        // logs, and the least length of repeats that it packs to nearly nothing.
        let (share, near) = match packer {
            Packer::None => return Judge { reach: 0, near: LEAST, far: LEAST, bits: 8.0, sees_parts: false },
            Packer::Lzo => (1.0, 512),
            Packer::Zlib => (0.6, 768),
            Packer::Bzip2 => (0.43, 512),
            Packer::Lzma => (0.43, 1024),
        };
        let bits = share * lzo_bits(piece);
        let far = ((COST * 8.0 / bits) as u64).clamp(LEAST, near);
        Judge { reach, near, far, bits, sees_parts: matches!(packer, Packer::Bzip2 | Packer::Lzma) }
    }

    /// Lets go of the short repeats of a piece if a trial shows that they do not pay: what the back end makes of the
    /// bytes by itself is smaller than what it makes of the rest and of the tokens. For back ends that see so little by
    /// themselves that a part of the piece tells.
    pub fn keep_what_pays(&self, packer: Packer, piece: &[u8], matches: &mut Vec<Match>) {
        // From the middle of the piece.
        let (begin, end) = (piece.len() / 3, (piece.len() / 3 + TRIAL).min(piece.len()));
        if packer != Packer::None && matches.iter().any(|found| self.is_short(found)) {
            let pays = self.short_ones_pay(piece, begin, end, matches, |bytes| size(packer, TRIAL_LEVEL, 0, bytes));
            if !pays {
                self.drop_short(matches);
            }
        }
    }

    /// The same for back ends that see far by themselves. The trial takes all of a piece and as long as packing two
    /// pieces, so some pieces speak for those after them. `None` where there are too few short repeats to tell.
    pub fn verdict(&self, packer: Packer, level: u8, dictionary: u32, piece: &[u8], matches: &[Match]) -> Option<bool> {
        let short: u64 = matches.iter().filter(|found| self.is_short(found)).map(|found| u64::from(found.length)).sum();
        (short > piece.len() as u64 / LEAST_SHARE).then(|| {
            self.short_ones_pay(piece, 0, piece.len(), matches, |bytes| size(packer, level, dictionary, bytes))
        })
    }

    /// Lets go of the short repeats.
    pub fn drop_short(&self, matches: &mut Vec<Match>) {
        matches.retain(|found| !self.is_short(found));
    }

    fn is_short(&self, found: &Match) -> bool {
        u64::from(found.length) < self.near
    }

    /// Whether the bytes from `begin` to about `end` get smaller with their short repeats taken. Long repeats are taken
    /// in any case.
    fn short_ones_pay(
        &self,
        piece: &[u8],
        begin: usize,
        mut end: usize,
        matches: &[Match],
        size: impl Fn(&[u8]) -> usize,
    ) -> bool {
        let (mut whole, mut literals, mut tokens, mut run) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut at = begin;
        for found in matches.iter().filter(|found| found.start as usize >= begin) {
            let start = found.start as usize;
            if start >= end {
                break;
            }
            let next = start + found.length as usize;
            whole.extend_from_slice(&piece[at..start]);
            literals.extend_from_slice(&piece[at..start]);
            run += (start - at) as u64;
            if self.is_short(found) {
                whole.extend_from_slice(&piece[start..next]);
                write_literals(&mut tokens, run);
                write_match(&mut tokens, found.length.into(), found.distance, TRIAL_WIDTH);
                run = 0;
            } else {
                end = (end + found.length as usize).min(piece.len());
            }
            at = next;
        }
        whole.extend_from_slice(&piece[at..end.max(at)]);
        literals.extend_from_slice(&piece[at..end.max(at)]);
        size(&literals) + size(&tokens) < size(&whole)
    }

    /// What a repeat saves before its tokens are paid, in bits, less what tells near distances from far ones: the high
    /// bytes of near ones are alike, and the back end packs them.
    pub fn gain(&self, found: &Match) -> f64 {
        f64::from(found.length) * self.bits - (found.distance as f64).log2()
    }

    /// Least length at a distance.
    pub fn least(&self, distance: u64) -> u64 {
        if distance <= self.reach { self.near } else { self.far }
    }
}

/// What a back end makes of some bytes.
fn size(packer: Packer, level: u8, dictionary: u32, bytes: &[u8]) -> usize {
    packer.pack(bytes, level, dictionary).map_or(bytes.len(), |packed| packed.len())
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
