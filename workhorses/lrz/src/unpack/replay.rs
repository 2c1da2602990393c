// SPDX-License-Identifier: MIT OR Apache-2.0
//! From tokens and literals to bytes.

use super::archive::{BlockAt, Chunk};
use super::blocks::{Opened, Pool, read_error};
use crate::backend::{Filter, Filtered};
use crate::digest::Crc;
use crate::error::{Context, Error, Result, damaged};
use crate::format::{Token, read_token};
use crate::store::ReadAt;
use crate::window::{Buffer, PIECE, Piece, Spares, View, Window, room};
use std::io::Read;
use std::sync::Arc;

/// Takes the pieces as they are finished.
pub type Sink<'a> = dyn FnMut(Piece) -> Result<()> + 'a;

/// The bytes so far.
pub struct Replay<'a> {
    sink: &'a mut Sink<'a>,
    view: View<'a>,
    current: Vec<u8>,
    /// Bytes in finished pieces.
    finished: u64,
    pieces: usize,
    most: u64,
    size: Option<u64>,
    spares: Spares,
}

/// One of the two streams of a chunk.
struct Stream<'p, 'a> {
    pool: &'p Pool<'a>,
    chunk: usize,
    number: usize,
    blocks: Vec<BlockAt>,
    next: usize,
    open: Option<(Opened<'a>, u64)>,
}

impl<'p, 'a> Stream<'p, 'a> {
    fn new(pool: &'p Pool<'a>, chunk: usize, number: usize, blocks: Vec<BlockAt>) -> Stream<'p, 'a> {
        Stream { pool, chunk, number, blocks, next: 0, open: None }
    }

    /// Takes up to `most` bytes; none only at the end of the stream.
    fn take(&mut self, most: usize, mut to: impl FnMut(&[u8])) -> Result<usize> {
        loop {
            if let Some((opened, left)) = &mut self.open {
                let block = &self.blocks[self.next - 1];
                let bytes = opened.fill().map_err(|error| read_error(error, block))?;
                let part = bytes.len().min(most).min(usize::try_from(*left).unwrap_or(most));
                if part > 0 {
                    to(&bytes[..part]);
                    opened.consume(part);
                    *left -= part as u64;
                    return Ok(part);
                }
                if *left > 0 {
                    return Err(damaged(block.at, format!("a block that lacks {left} bytes")));
                }
                self.open = None;
            }
            let Some(block) = self.blocks.get(self.next) else { return Ok(0) };
            self.open = Some((self.pool.open((self.chunk, self.number, self.next), block)?, block.plain));
            self.next += 1;
        }
    }

    /// Where the stream is, for errors.
    fn place(&self) -> u64 {
        self.blocks.get(self.next.saturating_sub(1)).map_or(0, |block| block.at)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let room = &mut buffer[filled..];
            let n = self.take(room.len(), |bytes| room[..bytes.len()].copy_from_slice(bytes))?;
            if n == 0 {
                return Err(damaged(self.place(), format!("stream {} ends too early", self.number)));
            }
            filled += n;
        }
        Ok(())
    }
}

impl<'a> Replay<'a> {
    /// Nothing so far. Pieces go to `sink`; of those that are no longer in memory, bytes are read from `behind`.
    pub fn new(
        sink: &'a mut Sink<'a>,
        behind: Option<&'a dyn ReadAt>,
        pieces: usize,
        most: u64,
        size: Option<u64>,
    ) -> Replay<'a> {
        let view = View::new(Window::default(), behind);
        Replay { sink, view, current: Vec::new(), finished: 0, pieces, most, size, spares: Spares::default() }
    }

    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.finished + self.current.len() as u64
    }

    /// Replays a chunk, whose blocks are in the pool under `number`. `check` compares its CRC; a chunk that was
    /// filtered as a whole is kept in memory, if it has at most `memory` bytes.
    pub fn chunk(&mut self, pool: &Pool<'_>, number: usize, chunk: Chunk, check: bool, memory: u64) -> Result<()> {
        let Some(filter) = Filter::of_chunk(chunk.prefilter) else {
            return self.tokens(pool, number, chunk, check);
        };
        // Repeats are those of the filtered bytes.
        let mut pieces = Vec::new();
        let mut keep = |piece: Piece| {
            pieces.push(piece);
            Ok(())
        };
        let most = self.most.saturating_sub(self.position());
        let mut inner = Replay::new(&mut keep, None, usize::MAX, most.min(memory), None);
        match inner.tokens(pool, number, chunk, false).and_then(|()| inner.finish()) {
            Err(Error::TooLong(_)) if memory < most => {
                return Err(Error::Memory { what: "a chunk that was filtered as a whole", needed: memory });
            }
            result => result?,
        }
        let plain = pieces
            .iter()
            .map(|piece| &piece[..])
            .fold(Box::new(std::io::empty()) as Box<dyn Read + '_>, |all, piece| Box::new(all.chain(piece)));
        let mut plain = Filtered::new(filter, plain)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match plain.read(&mut buffer).context(|| "undoing the filter of a chunk".to_owned())? {
                0 => return Ok(()),
                n => self.literal(&buffer[..n])?,
            }
        }
    }

    fn tokens(&mut self, pool: &Pool<'_>, number: usize, chunk: Chunk, check: bool) -> Result<()> {
        let [first, second] = chunk.streams;
        let mut tokens = Stream::new(pool, number, 0, first);
        let mut literals = Stream::new(pool, number, 1, second);
        let mut crc = Checked { crc: check.then(Crc::new), from: self.current.len() };
        loop {
            match read_token(chunk.width, |buffer| tokens.fill(buffer))? {
                Some(Token::Literals(length)) => {
                    let mut left = usize::from(length);
                    self.allow(left as u64, tokens.place())?;
                    while left > 0 {
                        let room = PIECE - self.current.len();
                        let n = literals.take(left.min(room), |bytes| self.current.extend_from_slice(bytes))?;
                        if n == 0 {
                            return Err(damaged(literals.place(), "stream 1 ends too early"));
                        }
                        left -= n;
                        self.flush_full(&mut crc)?;
                    }
                }
                Some(Token::Match { length, distance }) => {
                    self.allow(u64::from(length), tokens.place())?;
                    if length == 0 || distance == 0 || distance > self.position() {
                        let what = format!("a repeat of {length} bytes that stood {distance} bytes back");
                        return Err(damaged(tokens.place(), what));
                    }
                    self.repeat(usize::from(length), distance, &mut crc)?;
                }
                Some(Token::End) => break,
                None => return Err(damaged(tokens.place(), "a token that is none")),
            }
        }
        if let Some(found) = crc.end(&self.current) {
            let mut recorded = [0; 4];
            tokens.fill(&mut recorded)?;
            if u32::from_le_bytes(recorded) != found {
                return Err(Error::Checksum("CRC"));
            }
        }
        Ok(())
    }

    fn allow(&self, more: u64, at: u64) -> Result<()> {
        let end = self.position() + more;
        if end > self.most {
            return Err(Error::TooLong(self.most));
        }
        match self.size.filter(|size| end > *size) {
            Some(size) => Err(damaged(at, format!("it holds more than the {size} bytes that its magic says"))),
            None => Ok(()),
        }
    }

    fn repeat(&mut self, length: usize, distance: u64, crc: &mut Checked) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let room = (PIECE - self.current.len()).min(left);
            let from = self.position() - distance;
            let n = if let Some(inside) = from.checked_sub(self.finished) {
                // What overlaps itself doubles with each copy.
                let inside = inside as usize;
                let part = room.min(self.current.len() - inside);
                self.current.extend_from_within(inside..inside + part);
                part
            } else {
                let most = room.min((self.finished - from) as usize);
                let bytes = self.view.forward(from, most).context(|| "reading what came out before".to_owned())?;
                if bytes.is_empty() {
                    return Err(Error::Io(
                        "reading what came out before".into(),
                        std::io::ErrorKind::UnexpectedEof.into(),
                    ));
                }
                self.current.extend_from_slice(bytes);
                bytes.len()
            };
            left -= n;
            self.flush_full(crc)?;
        }
        Ok(())
    }

    fn literal(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.allow(bytes.len() as u64, 0)?;
        let mut none = Checked { crc: None, from: 0 };
        while !bytes.is_empty() {
            let part = bytes.len().min(PIECE - self.current.len());
            self.current.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.flush_full(&mut none)?;
        }
        Ok(())
    }

    fn flush_full(&mut self, crc: &mut Checked) -> Result<()> {
        if self.current.len() < PIECE {
            return Ok(());
        }
        crc.piece_ends(&self.current);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let short = Error::Memory { what: "a piece", needed: PIECE as u64 };
        let mut fresh = room(&self.spares, PIECE).ok_or(short)?;
        fresh.clear();
        let piece: Piece = Arc::new(Buffer::new(std::mem::replace(&mut self.current, fresh), &self.spares));
        self.finished += piece.len() as u64;
        self.view.window_mut().push(piece.clone(), self.pieces);
        (self.sink)(piece)
    }

    /// Hands out the last piece.
    pub fn finish(&mut self) -> Result<()> {
        if self.current.is_empty() { Ok(()) } else { self.flush() }
    }
}

/// The CRC of a chunk, over pieces that do not end with it.
struct Checked {
    crc: Option<Crc>,
    /// First byte of the current piece that was not yet summed.
    from: usize,
}

impl Checked {
    fn piece_ends(&mut self, current: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(&current[self.from..]);
            self.from = 0;
        }
    }

    fn end(mut self, current: &[u8]) -> Option<u32> {
        self.piece_ends(current);
        self.crc.map(Crc::value)
    }
}
