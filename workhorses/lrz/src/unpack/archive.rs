// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heads of an archive.

use crate::crypto::{Cipher, Part};
use crate::error::{Context, Error, Result, damaged};
use crate::format::{BlockHead, ChunkHead, Encryption, Kind, MAGIC_BYTES, Magic, Minor, StreamedHead};
use crate::store::ReadAt;

/// Bytes that describe the encryption of version 0.7.
const DESCRIPTION_BYTES: usize = 32;
/// Numbers in the heads of encrypted archives have 8 bytes, whatever the chunk's width.
const ENCRYPTED_WIDTH: u8 = 8;

/// An archive whose magic was understood.
pub struct Archive<'a> {
    bytes: &'a dyn ReadAt,
    length: u64,
    magic: Magic,
    cipher: Cipher,
    first: u64,
    single: bool,
}

/// Where a chunk begins, and whether what stands before it says that it is the last one.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    at: u64,
    last: Option<bool>,
}

/// A block of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockAt {
    /// Where its bytes begin in the archive.
    pub at: u64,
    /// Which back end packed it.
    pub kind: Kind,
    /// Bytes as packed.
    pub packed: u64,
    /// Bytes when unpacked.
    pub plain: u64,
}

/// The heads of a chunk.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Bytes of a distance.
    pub width: u8,
    /// What was done to the whole chunk before the search (0.7).
    pub prefilter: u8,
    /// Blocks of stream 0 and stream 1.
    pub streams: [Vec<BlockAt>; 2],
    /// Length as its head tells it, which small chunks get wrong.
    pub size: Option<u64>,
    /// Where it ends in the archive.
    pub end: u64,
    /// Whether it is the last.
    pub last: bool,
    /// Where the next one begins.
    pub next: Option<Start>,
}

impl<'a> Archive<'a> {
    /// Reads the magic and, of an encrypted archive, derives the keys.
    ///
    /// # Errors
    /// See [`Magic::parse`] and [`Cipher::for_reading`].
    pub fn open(bytes: &'a dyn ReadAt, password: Option<&[u8]>) -> Result<Archive<'a>> {
        let length = bytes.length().context(|| "reading the archive".to_owned())?;
        let mut head = vec![0; MAGIC_BYTES.min(usize::try_from(length).unwrap_or(MAGIC_BYTES))];
        bytes.read_exact_at(&mut head, 0).context(|| "reading the archive".to_owned())?;
        let magic = Magic::parse(&head)?;
        let mut archive =
            Archive { bytes, length, magic, cipher: Cipher::None, first: MAGIC_BYTES as u64, single: head[23] == 1 };
        let mut description = Vec::new();
        if archive.magic.encryption == Encryption::Gcm {
            description = archive.read(archive.first, DESCRIPTION_BYTES as u64)?;
            archive.first += DESCRIPTION_BYTES as u64;
        }
        archive.cipher = Cipher::for_reading(&archive.magic, &description, password)?;
        Ok(archive)
    }

    /// The magic.
    pub fn magic(&self) -> &Magic {
        &self.magic
    }

    /// What opens its pieces.
    pub fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    /// Bytes of the archive.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Where the first chunk begins.
    pub fn first_chunk(&self) -> Start {
        Start { at: self.first, last: self.magic.streamed.then_some(self.single) }
    }

    /// Some bytes of the archive.
    ///
    /// # Errors
    /// [`Error::Damaged`] where the archive ends before they do.
    pub fn read(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            let what = format!("the archive ends at byte {}, {length} more were expected here", self.length);
            return Err(damaged(at, what));
        }
        let mut bytes = Vec::new();
        let short = Error::Memory { what: "a block", needed: length };
        bytes.try_reserve_exact(length as usize).map_err(|_| short)?;
        bytes.resize(length as usize, 0);
        self.read_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Fills a buffer.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.bytes.read_exact_at(buffer, at).context(|| "reading the archive".to_owned())
    }

    /// Reads the heads of the chunk that begins there.
    ///
    /// # Errors
    /// [`Error::Damaged`] for heads that no writer makes, [`Error::Password`] where decryption notices it.
    pub fn chunk(&self, start: Start) -> Result<Chunk> {
        let seven = self.magic.minor == Minor::Seven;
        let room = self.length.saturating_sub(start.at).min(11);
        let bytes = self.read(start.at, room)?;
        let head = ChunkHead::parse(&bytes, seven, self.cipher.encrypts())
            .ok_or_else(|| damaged(start.at, "no head of a chunk"))?;
        let origin = start.at + ChunkHead::length(head.width, seven, self.cipher.encrypts()) as u64;
        if start.last.is_some_and(|last| last != head.last) {
            return Err(damaged(start.at, "a chunk that is the last one by one head and not by the other"));
        }
        let width = if self.cipher.encrypts() { ENCRYPTED_WIDTH } else { head.width };
        let sealed = self.cipher.sealed_length(BlockHead::length(width) as u64);
        let (first, mut end) = self.stream(origin, 0, width, sealed)?;
        let (second, other) = self.stream(origin, sealed, width, sealed)?;
        end = end.max(other).max(origin + 2 * sealed);
        let next = if head.last { None } else { Some(self.after(end, start)?) };
        let streams = [first, second];
        Ok(Chunk { width: head.width, prefilter: head.prefilter, streams, size: head.size, end, last: head.last, next })
    }

    /// The chunk after one that ends there. In streamed archives a head of its own leads to it.
    fn after(&self, end: u64, start: Start) -> Result<Start> {
        if start.last.is_none() {
            return Ok(Start { at: end, last: None });
        }
        let bytes = self.read(end, StreamedHead::BYTES as u64)?;
        let head = StreamedHead::parse(bytes[..].try_into().expect("so many were read"))
            .ok_or_else(|| damaged(end, "no head of a streamed chunk"))?;
        Ok(Start { at: end + StreamedHead::BYTES as u64, last: Some(head.last) })
    }

    /// The blocks of a stream, and where the last one ends.
    fn stream(&self, origin: u64, first: u64, width: u8, sealed: u64) -> Result<(Vec<BlockAt>, u64)> {
        let mut blocks = Vec::new();
        let mut end = 0;
        let mut at = first;
        let mut next = self.head(origin + at, width, sealed)?.next;
        while next != 0 {
            // The chain runs forward, or it could run for ever.
            if next <= at || next > self.length {
                return Err(damaged(origin + at, format!("the next block is said to be {next} bytes from the chunk")));
            }
            at = next;
            let head = self.head(origin + at, width, sealed)?;
            let start = origin + at + sealed;
            let kind = Kind::from_number(head.kind)
                .filter(|kind| kind.number() <= 8 || self.magic.minor == Minor::Seven)
                .ok_or_else(|| damaged(origin + at, format!("block type {} is none that is known", head.kind)))?;
            let length = self.cipher.sealed_length(head.packed.min(self.length));
            end = start.saturating_add(length);
            if head.packed > self.length || end > self.length {
                return Err(damaged(origin + at, format!("a block of {} bytes, beyond the end", head.packed)));
            }
            if kind == Kind::Raw && head.packed < head.plain {
                return Err(damaged(origin + at, "a block as it is that is said to become larger"));
            }
            blocks.push(BlockAt { at: start, kind, packed: head.packed, plain: head.plain });
            next = head.next;
        }
        Ok((blocks, end))
    }

    fn head(&self, at: u64, width: u8, sealed: u64) -> Result<BlockHead> {
        let bytes = self.cipher.open(Part::Head, self.read(at, sealed)?, BlockHead::length(width))?;
        Ok(BlockHead::parse(&bytes, width))
    }
}
