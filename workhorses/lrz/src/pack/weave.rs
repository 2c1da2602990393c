// SPDX-License-Identifier: MIT OR Apache-2.0
//! From pieces and their repeats to the two streams, cut into blocks.

use super::Plan;
use super::block::patiently;
use crate::backend::bzip2::Filled;
use crate::digest::Crc;
use crate::error::Result;
use crate::format::{width_of, write_end, write_literals, write_match};
use crate::search::Match;
use crate::window::PIECE;

/// Tokens are cut into blocks of this length, in bytes.
const TOKEN_BLOCK: usize = 32 << 20;

/// What comes out, in the order of the archive.
pub enum Woven {
    /// A chunk begins whose numbers have so many bytes.
    Begin { width: u8 },
    /// A block of a stream, cut when so many bytes of the input were used.
    Block { stream: usize, plain: Vec<u8>, used: u64 },
    /// The chunk ends.
    End { size: u64, last: bool },
}

/// The streams of the current chunk.
pub struct Weaver<'a> {
    plan: &'a Plan,
    length: Option<u64>,
    width: u8,
    tokens: Vec<u8>,
    literals: Vec<u8>,
    /// Literals that no token tells of yet.
    run: u64,
    /// A repeat that may go on in the next piece.
    pending: Option<(u64, u64)>,
    crc: Crc,
    /// Bytes of the chunk, of the input, and literals of the input.
    chunk: u64,
    used: u64,
    pub all_literals: u64,
    pub all_tokens: u64,
    blocks: [usize; 2],
    /// Where the back end's own blocks end in the literals.
    filled: Option<Filled>,
}

impl<'a> Weaver<'a> {
    /// For an input of `length` bytes, if that is known.
    pub fn new(plan: &'a Plan, length: Option<u64>) -> Weaver<'a> {
        Weaver {
            plan,
            length,
            width: 0,
            tokens: Vec::new(),
            literals: Vec::new(),
            run: 0,
            pending: None,
            crc: Crc::new(),
            chunk: 0,
            used: 0,
            all_literals: 0,
            all_tokens: 0,
            blocks: [0; 2],
            filled: plan.inner.map(Filled::new),
        }
    }

    /// Takes a piece and its repeats; `last` tells whether it is the last of a chunk, and of the input.
    pub fn piece(
        &mut self,
        piece: &[u8],
        matches: &[Match],
        ends_chunk: bool,
        last: bool,
        out: &mut dyn FnMut(Woven) -> Result<()>,
    ) -> Result<()> {
        if self.width == 0 {
            // The numbers of a chunk are lengths and offsets of blocks, which a chunk that does not get smaller has a
            // little above its own length.
            let left = self.length.map_or(self.plan.chunk, |length| (length - self.used).min(self.plan.chunk));
            self.width = width_of(left + left / 64 + 1024);
            out(Woven::Begin { width: self.width })?;
        }
        self.crc.update(piece);
        self.make_room(out)?;
        let mut at = 0;
        for repeat in matches {
            let start = repeat.start as usize;
            self.literals(&piece[at..start]);
            self.repeat(u64::from(repeat.length), repeat.distance);
            at = start + repeat.length as usize;
        }
        self.literals(&piece[at..]);
        self.chunk += piece.len() as u64;
        self.used += piece.len() as u64;
        let target = self.target() as usize;
        if self.literals.len() >= target {
            let end = self.filled.as_ref().and_then(Filled::last);
            let rest = self.literals.split_off(end.unwrap_or(target));
            self.cut(1, out)?;
            if let Some(filled) = &mut self.filled {
                filled.add(&rest);
            }
            self.literals = rest;
        }
        if self.tokens.len() >= TOKEN_BLOCK {
            self.cut(0, out)?;
        }
        if ends_chunk { self.end(last, out) } else { Ok(()) }
    }

    /// Room for a piece; where there is none, what there is becomes a block.
    fn make_room(&mut self, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        if self.literals.try_reserve(PIECE).is_err() && !self.literals.is_empty() {
            self.cut(1, out)?;
        }
        let literals = &mut self.literals;
        patiently("a block of literals", PIECE as u64, || literals.try_reserve(PIECE).ok())?;
        let tokens = &mut self.tokens;
        patiently("a block of tokens", PIECE as u64, || tokens.try_reserve(PIECE).ok())
    }

    /// At which length literals become a block: long at first, shorter towards the end of the input, so that all
    /// threads have work to the last.
    fn target(&self) -> u64 {
        let (longest, shortest) = self.plan.block;
        let Some(length) = self.length.filter(|_| self.plan.packers > 1) else { return longest };
        let all = self.all_literals as f64 / self.used.max(1) as f64;
        let left = (length - self.used) as f64 * all + self.literals.len() as f64;
        ((left / (2 * self.plan.packers) as f64) as u64).clamp(shortest, longest)
    }

    fn literals(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.settle();
        self.literals.extend_from_slice(bytes);
        if let Some(filled) = &mut self.filled {
            filled.add(bytes);
        }
        self.run += bytes.len() as u64;
        self.all_literals += bytes.len() as u64;
    }

    fn repeat(&mut self, length: u64, distance: u64) {
        match &mut self.pending {
            Some((so_far, same)) if *same == distance => *so_far += length,
            _ => {
                self.settle();
                write_literals(&mut self.tokens, self.run);
                self.run = 0;
                self.pending = Some((length, distance));
            }
        }
    }

    fn settle(&mut self) {
        if let Some((length, distance)) = self.pending.take() {
            write_match(&mut self.tokens, length, distance, self.width);
        }
    }

    fn cut(&mut self, stream: usize, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        let plain = std::mem::take(if stream == 0 { &mut self.tokens } else { &mut self.literals });
        if stream == 0 {
            self.all_tokens += plain.len() as u64;
        } else {
            self.filled = self.plan.inner.map(Filled::new);
        }
        self.blocks[stream] += 1;
        out(Woven::Block { stream, plain, used: self.used })
    }

    fn end(&mut self, last: bool, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        self.settle();
        write_literals(&mut self.tokens, self.run);
        self.run = 0;
        write_end(&mut self.tokens, std::mem::take(&mut self.crc).value());
        // Readers look for a block in each stream, if need be an empty one.
        if !self.literals.is_empty() || self.blocks[1] == 0 {
            self.cut(1, out)?;
        }
        self.cut(0, out)?;
        out(Woven::End { size: self.chunk, last })?;
        (self.chunk, self.width, self.blocks) = (0, 0, [0; 2]);
        Ok(())
    }
}
