// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays tokens and literals into output bytes.

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

/// Receives finished pieces.
pub type Sink<'a> = dyn FnMut(Piece) -> Result<()> + 'a;

/// Output so far.
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

    /// Passes up to `most` bytes to `to`; returns 0 only at the end of the stream.
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
                    return Err(damaged(block.at, format!("the block is {left} bytes too short")));
                }
                self.open = None;
            }
            let Some(block) = self.blocks.get(self.next) else { return Ok(0) };
            self.open = Some((self.pool.open((self.chunk, self.number, self.next), block)?, block.plain));
            self.next += 1;
        }
    }

    /// Current offset in the archive, for errors.
    fn place(&self) -> u64 {
        self.blocks.get(self.next.saturating_sub(1)).map_or(0, |block| block.at)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let room = &mut buffer[filled..];
            let n = self.take(room.len(), |bytes| room[..bytes.len()].copy_from_slice(bytes))?;
            if n == 0 {
                return Err(damaged(self.place(), format!("stream {} is truncated", self.number)));
            }
            filled += n;
        }
        Ok(())
    }
}

impl<'a> Replay<'a> {
    /// Creates an empty output. Pieces go to `sink`; evicted pieces are read from `behind`.
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

    /// Number of output bytes so far.
    pub fn position(&self) -> u64 {
        self.finished + self.current.len() as u64
    }

    /// Replays a chunk whose blocks are in the pool under `number`. `check` verifies its CRC. A chunk with a filter
    /// over the whole chunk is held in memory, up to `memory` bytes.
    pub fn chunk(&mut self, pool: &Pool<'_>, number: usize, chunk: Chunk, check: bool, memory: u64) -> Result<()> {
        let Some(filter) = Filter::of_chunk(chunk.prefilter) else {
            return self.tokens(pool, number, chunk, check);
        };
        // Match distances refer to the filtered bytes.
        let mut pieces = Vec::new();
        let mut keep = |piece: Piece| {
            pieces.push(piece);
            Ok(())
        };
        let most = self.most.saturating_sub(self.position());
        let mut inner = Replay::new(&mut keep, None, usize::MAX, most.min(memory), None);
        match inner.tokens(pool, number, chunk, false).and_then(|()| inner.finish()) {
            Err(Error::TooLong(_)) if memory < most => {
                return Err(Error::Memory { what: "a chunk with a filter over the whole chunk", needed: memory });
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
                            return Err(damaged(literals.place(), "stream 1 is truncated"));
                        }
                        left -= n;
                        self.flush_full(&mut crc)?;
                    }
                }
                Some(Token::Match { length, distance }) => {
                    self.allow(u64::from(length), tokens.place())?;
                    if length == 0 || distance == 0 || distance > self.position() {
                        let what = format!("invalid match: length {length}, distance {distance}");
                        return Err(damaged(tokens.place(), what));
                    }
                    self.copy_match(usize::from(length), distance, &mut crc)?;
                }
                Some(Token::End) => break,
                None => return Err(damaged(tokens.place(), "invalid token")),
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
            Some(size) => Err(damaged(at, format!("the archive unpacks to more than the {size} bytes of its magic"))),
            None => Ok(()),
        }
    }

    fn copy_match(&mut self, length: usize, distance: u64, crc: &mut Checked) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let room = (PIECE - self.current.len()).min(left);
            let from = self.position() - distance;
            let n = if let Some(inside) = from.checked_sub(self.finished) {
                // A match that overlaps its own output is copied in parts, each up to twice as long as the one
                // before.
                let inside = inside as usize;
                let part = room.min(self.current.len() - inside);
                self.current.extend_from_within(inside..inside + part);
                part
            } else {
                let most = room.min((self.finished - from) as usize);
                let bytes = self.view.forward(from, most).context(|| "reading earlier output".to_owned())?;
                if bytes.is_empty() {
                    return Err(Error::Io("reading earlier output".into(), std::io::ErrorKind::UnexpectedEof.into()));
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

    /// Outputs the last piece.
    pub fn finish(&mut self) -> Result<()> {
        if self.current.is_empty() { Ok(()) } else { self.flush() }
    }
}

/// Incremental CRC of a chunk; pieces may span chunks.
struct Checked {
    crc: Option<Crc>,
    /// Offset in the current piece of the first byte not yet included.
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
