// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources of input.

use crate::error::{Context, Error, Result};
use crate::store::ReadAt;
use crate::window::{Buffer, PIECE, Piece, Spares, room};
use std::io::{self, Read};
use std::sync::Arc;

/// Input to be packed.
pub enum Source<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A file and its length in bytes; parts evicted from memory are read again.
    File(&'a dyn ReadAt, u64),
    /// A stream of unknown length; memory limits the chunk length.
    Stream(&'a mut (dyn Read + Send)),
}

impl<'a> Source<'a> {
    /// Creates a source of bytes in memory.
    pub fn bytes(bytes: &'a [u8]) -> Source<'a> {
        Source::Bytes(bytes)
    }
}

/// A byte slice with the interface of a file.
pub struct Slice<'a>(pub &'a [u8]);

impl ReadAt for Slice<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

/// A source in the form used by the stages.
pub struct Input<'a> {
    pub behind: Option<&'a dyn ReadAt>,
    pub length: Option<u64>,
    pub stream: Option<&'a mut (dyn Read + Send)>,
    pub spares: Spares,
}

impl Input<'_> {
    /// Reads the piece at `at`; it is short or empty at the end of the input.
    pub fn piece(&mut self, at: u64) -> Result<Piece> {
        let most = self.length.map_or(PIECE, |length| (length - at).min(PIECE as u64) as usize);
        let mut bytes = super::block::patiently("a piece of the input", most as u64, || room(&self.spares, most))?;
        bytes.resize(most, 0);
        let mut filled = 0;
        while filled < most {
            let part = match (&mut self.stream, self.behind) {
                (Some(stream), _) => stream.read(&mut bytes[filled..]),
                (None, Some(file)) => file.read_at(&mut bytes[filled..], at + filled as u64),
                (None, None) => Ok(0),
            };
            match part {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context(|| "reading the input".to_owned()),
            }
        }
        if let Some(length) = self.length.filter(|_| filled < most) {
            let what = format!("reading the input: its length changed from {length} to {} bytes", at + filled as u64);
            return Err(Error::Io(what, io::ErrorKind::UnexpectedEof.into()));
        }
        bytes.truncate(filled);
        Ok(Arc::new(Buffer::new(bytes, &self.spares)))
    }
}
