// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of an archive.

use crate::crypto::{Cipher, Part};
use crate::error::{Context, Error, Result, damaged};
use crate::format::{BlockHead, ChunkHead, Encryption, Kind, MAGIC_BYTES, Magic, Minor, StreamedHead};
use crate::store::ReadAt;

/// Length in bytes of the encryption parameters of format 0.7.
const DESCRIPTION_BYTES: usize = 32;
/// Width in bytes of the numbers in headers of encrypted archives, whatever the chunk's width.
const ENCRYPTED_WIDTH: u8 = 8;

/// An archive with a parsed magic.
pub struct Archive<'a> {
    bytes: &'a dyn ReadAt,
    length: u64,
    magic: Magic,
    cipher: Cipher,
    first: u64,
    single: bool,
}

/// Start of a chunk. `last`: whether the preceding header declares it the last chunk, if there is such a header.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    at: u64,
    last: Option<bool>,
}

/// A block of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockAt {
    /// Offset of its data in the archive.
    pub at: u64,
    /// Back end.
    pub kind: Kind,
    /// Compressed length in bytes.
    pub packed: u64,
    /// Uncompressed length in bytes.
    pub plain: u64,
}

/// Headers of a chunk.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Width of a distance in bytes.
    pub width: u8,
    /// Filter applied to the whole chunk before the match search (0.7).
    pub prefilter: u8,
    /// Blocks of stream 0 and of stream 1.
    pub streams: [Vec<BlockAt>; 2],
    /// Uncompressed length from the chunk header, which is wrong for small chunks.
    pub size: Option<u64>,
    /// End offset in the archive.
    pub end: u64,
    /// Whether this is the last chunk.
    pub last: bool,
    /// Start of the next chunk.
    pub next: Option<Start>,
}

impl<'a> Archive<'a> {
    /// Reads the magic and derives the keys of an encrypted archive, which may take `most` rounds of hashing.
    ///
    /// # Errors
    /// See [`Magic::parse`] and [`Cipher::for_reading`].
    pub fn open(bytes: &'a dyn ReadAt, password: Option<&[u8]>, most: u64) -> Result<Archive<'a>> {
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
        archive.cipher = Cipher::for_reading(&archive.magic, &description, password, most)?;
        Ok(archive)
    }

    /// The parsed magic.
    pub fn magic(&self) -> &Magic {
        &self.magic
    }

    /// Cipher of the archive.
    pub fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    /// Length of the archive in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Start of the first chunk.
    pub fn first_chunk(&self) -> Start {
        Start { at: self.first, last: self.magic.streamed.then_some(self.single) }
    }

    /// Reads `length` bytes at `at`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the archive ends before.
    pub fn read(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.length) {
            let what = format!("the archive ends at byte {}, but {length} bytes were expected here", self.length);
            return Err(damaged(at, what));
        }
        let mut bytes = Vec::new();
        let short = Error::Memory { what: "a block", needed: length };
        bytes.try_reserve_exact(length as usize).map_err(|_| short)?;
        bytes.resize(length as usize, 0);
        self.read_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Fills a buffer from `at`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.bytes.read_exact_at(buffer, at).context(|| "reading the archive".to_owned())
    }

    /// Reads the headers of the chunk at `start`.
    ///
    /// # Errors
    /// [`Error::Damaged`] for invalid headers, [`Error::Password`] if decryption fails.
    pub fn chunk(&self, start: Start) -> Result<Chunk> {
        let seven = self.magic.minor == Minor::Seven;
        let room = self.length.saturating_sub(start.at).min(11);
        let bytes = self.read(start.at, room)?;
        let head = ChunkHead::parse(&bytes, seven, self.cipher.encrypts())
            .ok_or_else(|| damaged(start.at, "invalid chunk header"))?;
        let origin = start.at + ChunkHead::length(head.width, seven, self.cipher.encrypts()) as u64;
        if start.last.is_some_and(|last| last != head.last) {
            return Err(damaged(start.at, "the chunk's two headers disagree whether it is the last chunk"));
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

    /// Start of the chunk after one that ends at `end`. Chunks of streamed archives have an additional header.
    fn after(&self, end: u64, start: Start) -> Result<Start> {
        if start.last.is_none() {
            return Ok(Start { at: end, last: None });
        }
        let bytes = self.read(end, StreamedHead::BYTES as u64)?;
        let head = StreamedHead::parse(bytes[..].try_into().expect("so many were read"))
            .ok_or_else(|| damaged(end, "invalid header of a streamed chunk"))?;
        Ok(Start { at: end + StreamedHead::BYTES as u64, last: Some(head.last) })
    }

    /// Reads the block headers of a stream; also returns the end of the last block.
    fn stream(&self, origin: u64, first: u64, width: u8, sealed: u64) -> Result<(Vec<BlockAt>, u64)> {
        let mut blocks = Vec::new();
        let mut end = 0;
        let mut at = first;
        let mut next = self.head(origin + at, width, sealed)?.next;
        while next != 0 {
            // Offsets must increase, so that the chain terminates.
            if next <= at || next > self.length {
                return Err(damaged(
                    origin + at,
                    format!("invalid offset of the next block: {next} bytes from the chunk"),
                ));
            }
            at = next;
            let head = self.head(origin + at, width, sealed)?;
            let start = origin + at + sealed;
            let kind = Kind::from_number(head.kind)
                .filter(|kind| kind.number() <= 8 || self.magic.minor == Minor::Seven)
                .ok_or_else(|| damaged(origin + at, format!("unknown block type {}", head.kind)))?;
            let length = self.cipher.sealed_length(head.packed.min(self.length));
            end = start.saturating_add(length);
            if head.packed > self.length || end > self.length {
                return Err(damaged(origin + at, format!("a block of {} bytes exceeds the archive", head.packed)));
            }
            if kind == Kind::Raw && head.packed < head.plain {
                return Err(damaged(origin + at, "an uncompressed block is shorter than its uncompressed length"));
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
