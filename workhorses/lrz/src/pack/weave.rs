// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weaver: turns pieces and their matches into the two streams and cuts these into blocks.

use super::Plan;
use super::block::patiently;
use super::held::Held;
use crate::digest::Crc;
use crate::error::Result;
use crate::format::{width_of, write_end, write_literals, write_match};
use crate::search::Match;
use crate::window::PIECE;

/// Length of a token block in bytes.
const TOKEN_BLOCK: usize = 32 << 20;

/// Output of the weaver, in archive order.
pub enum Woven {
    /// Start of a chunk whose numbers have `width` bytes.
    Begin { width: u8 },
    /// A block of a stream, cut after `used` bytes of the input.
    Block { stream: usize, plain: Vec<u8>, used: u64 },
    /// End of the chunk.
    End { size: u64, last: bool },
}

/// Streams of the current chunk.
pub struct Weaver<'a> {
    plan: &'a Plan,
    length: Option<u64>,
    width: u8,
    tokens: Vec<u8>,
    literals: Held,
    /// Literals not covered by a token yet, in bytes.
    run: u64,
    /// A match (length, distance) that may continue in the next piece.
    pending: Option<(u64, u64)>,
    crc: Crc,
    /// Bytes of the current chunk; then bytes of the input; then totals over the input.
    chunk: u64,
    used: u64,
    pub all_literals: u64,
    pub all_tokens: u64,
    blocks: [usize; 2],
}

impl<'a> Weaver<'a> {
    /// Creates a weaver for an input of `length` bytes, if the length is known.
    pub fn new(plan: &'a Plan, length: Option<u64>) -> Weaver<'a> {
        Weaver {
            plan,
            length,
            width: 0,
            tokens: Vec::new(),
            literals: Held::new(plan.inner),
            run: 0,
            pending: None,
            crc: Crc::new(),
            chunk: 0,
            used: 0,
            all_literals: 0,
            all_tokens: 0,
            blocks: [0; 2],
        }
    }

    /// Adds a piece and its matches; `ends_chunk` and `last` mark the last piece of a chunk and of the input.
    pub fn piece(
        &mut self,
        piece: &[u8],
        matches: &[Match],
        ends_chunk: bool,
        last: bool,
        out: &mut dyn FnMut(Woven) -> Result<()>,
    ) -> Result<()> {
        if self.width == 0 {
            // Numbers in a chunk are lengths and offsets of blocks. In an incompressible chunk these slightly exceed
            // the chunk's length.
            let left = self.length.map_or(self.plan.chunk, |length| (length - self.used).min(self.plan.chunk));
            self.width = width_of(left + left / 64 + 1024);
            out(Woven::Begin { width: self.width })?;
        }
        self.crc.update(piece);
        self.make_room(out)?;
        let mut at = 0;
        for matched in matches {
            let start = matched.start as usize;
            self.literals(&piece[at..start]);
            self.matched(u64::from(matched.length), matched.distance);
            at = start + matched.length as usize;
        }
        self.literals(&piece[at..]);
        self.chunk += piece.len() as u64;
        self.used += piece.len() as u64;
        if !ends_chunk {
            self.cut_what_is_certain(out)?;
        }
        if self.tokens.len() >= TOKEN_BLOCK {
            self.cut_tokens(out)?;
        }
        if ends_chunk { self.end(last, out) } else { Ok(()) }
    }

    /// Reserves memory for a piece; if there is none, the literals held are cut into blocks.
    fn make_room(&mut self, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        while !self.literals.make_room(PIECE) && self.literals.length() > 0 {
            let part = self.literals.take_part();
            self.hand_out_literals(part, out)?;
        }
        let literals = &mut self.literals;
        patiently("a block of literals", PIECE as u64, || literals.make_room(PIECE).then_some(()))?;
        let tokens = &mut self.tokens;
        patiently("a block of tokens", PIECE as u64, || tokens.try_reserve(PIECE).ok())
    }

    /// Desired block length in bytes: long at first, shorter towards the end of the input, so that all threads finish
    /// together.
    fn wanted(&self) -> u64 {
        let (longest, shortest) = self.plan.block;
        let Some(length) = self.length.filter(|_| self.plan.packers > 1) else { return longest };
        let all = self.all_literals as f64 / self.used.max(1) as f64;
        let left = (length - self.used) as f64 * all + self.literals.length() as f64;
        ((left / (2 * self.plan.packers) as f64) as u64).clamp(shortest, longest)
    }

    /// Cuts a block only while every other thread is certain to get one as long. The number of literals in the rest
    /// of the input is only an estimate: if the second half of a tar file repeats the first, there are almost none,
    /// and a thread with a long last block would work alone.
    fn cut_what_is_certain(&mut self, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        loop {
            let wanted = self.wanted();
            if self.literals.length() < wanted * self.plan.packers as u64 {
                return Ok(());
            }
            self.cut_literals(wanted, out)?;
        }
    }

    /// Cuts the remaining literals at the end of a chunk. At the end of the input, each block is an equal share of
    /// the rest per thread, but not below the shortest length.
    fn cut_the_rest(&mut self, last: bool, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        let (longest, shortest) = self.plan.block;
        while self.literals.length() > 0 {
            let left = self.literals.length();
            let wanted = if last { (left / self.plan.packers as u64).clamp(shortest, longest) } else { self.wanted() };
            // Avoid a remainder much shorter than the shortest block.
            let all = left <= wanted + shortest / 2 && left <= longest;
            self.cut_literals(if all { left } else { wanted }, out)?;
        }
        Ok(())
    }

    fn literals(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.settle();
        self.literals.add(bytes);
        self.run += bytes.len() as u64;
        self.all_literals += bytes.len() as u64;
    }

    fn matched(&mut self, length: u64, distance: u64) {
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

    fn cut_tokens(&mut self, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        let plain = std::mem::take(&mut self.tokens);
        self.all_tokens += plain.len() as u64;
        self.blocks[0] += 1;
        out(Woven::Block { stream: 0, plain, used: self.used })
    }

    /// Cuts a block of about `wanted` literals.
    fn cut_literals(&mut self, wanted: u64, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        let plain = self.literals.take(wanted as usize);
        self.hand_out_literals(plain, out)
    }

    fn hand_out_literals(&mut self, plain: Vec<u8>, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        self.blocks[1] += 1;
        out(Woven::Block { stream: 1, plain, used: self.used })
    }

    fn end(&mut self, last: bool, out: &mut dyn FnMut(Woven) -> Result<()>) -> Result<()> {
        self.settle();
        write_literals(&mut self.tokens, self.run);
        self.run = 0;
        write_end(&mut self.tokens, std::mem::take(&mut self.crc).value());
        // The remaining literals are cut so that all threads finish together; therefore tokens are cut before them.
        self.cut_tokens(out)?;
        // Readers expect at least one block per stream, if necessary an empty one.
        if self.literals.length() == 0 && self.blocks[1] == 0 {
            self.cut_literals(0, out)?;
        }
        self.cut_the_rest(last, out)?;
        out(Woven::End { size: self.chunk, last })?;
        (self.chunk, self.width, self.blocks) = (0, 0, [0; 2]);
        Ok(())
    }
}
