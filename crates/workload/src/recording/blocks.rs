// SPDX-License-Identifier: GPL-2.0-only
//! The frame of a recording's file: blocks, each with its type, its lengths and a checksum. Writing and reading hold one
//! block in memory, however long the file is.

use std::io::{self, Read, Write};

/// Bytes before what is stored of a block: type, flags, stored length, length, checksum.
pub(super) const HEADER: usize = 2 + 2 + 4 + 4 + 8;

/// No block is longer, compressed or not.
pub(super) const MAX_BLOCK: usize = 16 << 20;

/// A writer ends a block that has reached this length.
pub(super) const FULL_BLOCK: usize = 1 << 20;

/// A writer does not compress what is shorter.
const SHORT_BLOCK: usize = 256;

/// Files may unpack to this length whatever their own; and beyond it to so many times their own. Recordings, being times
/// above all, are compressed to a third or a tenth.
pub(super) const SMALL_CONTENT: u64 = 64 << 20;
pub(super) const MAX_RATIO: u64 = 64;

/// Flags: a reader that does not know the type goes on behind it; the content is one zstd frame.
pub(super) const SKIPPABLE: u16 = 1;
pub(super) const COMPRESSED: u16 = 2;

/// Types of blocks.
pub(super) mod kind {
    pub const METADATA: u16 = 1;
    pub const COSTS: u16 = 2;
    pub const RESOURCES: u16 = 3;
    pub const TASKS: u16 = 4;
    pub const OPERATIONS: u16 = 5;
    pub const STRETCHES: u16 = 6;
    pub const REQUESTS: u16 = 7;
    pub const END: u16 = 255;

    /// What stands in errors; reserved ones have their names already.
    pub fn name(kind: u16) -> &'static str {
        match kind {
            METADATA => "metadata",
            COSTS => "costs",
            RESOURCES => "resources",
            TASKS => "tasks",
            OPERATIONS => "operations",
            STRETCHES => "stretches of work",
            REQUESTS => "block requests",
            16 => "channels",
            17 => "channel operations",
            18 => "locks",
            END => "end",
            _ => "unknown",
        }
    }
}

/// Writes blocks.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    out: W,
    level: i32,
    written: u64,
    blocks: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Behind the file's own header of so many bytes; `level` is zstd's.
    pub fn new(out: W, header: usize, level: i32) -> BlockWriter<W> {
        BlockWriter { out, level, written: header as u64, blocks: 0 }
    }

    /// Writes one block, compressed if it is long and that makes it shorter.
    pub fn write(&mut self, kind: u16, flags: u16, content: &[u8]) -> io::Result<()> {
        if content.len() > MAX_BLOCK {
            let problem = format!("a block of {} bytes; expected at most {MAX_BLOCK}", content.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let (mut flags, mut stored) = (flags, content);
        let compressed;
        if content.len() >= SHORT_BLOCK {
            compressed = zstd::bulk::compress(content, self.level)?;
            if compressed.len() < content.len() {
                (flags, stored) = (flags | COMPRESSED, &compressed);
            }
        }
        let mut head = Vec::with_capacity(HEADER);
        head.extend(kind.to_le_bytes());
        head.extend(flags.to_le_bytes());
        head.extend((stored.len() as u32).to_le_bytes());
        head.extend((content.len() as u32).to_le_bytes());
        let checksum = checksum(&head, stored);
        head.extend(checksum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(stored)?;
        self.written += (HEADER + stored.len()) as u64;
        self.blocks += 1;
        Ok(())
    }

    /// Appends so many blocks as they were written before.
    pub fn append(&mut self, blocks: u64, mut from: impl Read) -> io::Result<()> {
        self.written += io::copy(&mut from, &mut self.out)?;
        self.blocks += blocks;
        Ok(())
    }

    /// What the blocks were written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// How many blocks were written.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Length of the file so far.
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// Of the lengths, type and flags as well as of what is stored.
fn checksum(head: &[u8], stored: &[u8]) -> u64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&head[..HEADER - 8]);
    hash.update(stored);
    hash.digest()
}

/// Where, by byte of the file, and what is wrong there.
pub(super) type Failure = (u64, String);

/// What reading the next block gave.
pub(super) enum Next {
    /// The block, whose content is in [`BlockReader::content`].
    Block {
        /// Its type.
        kind: u16,
        /// Whether it may be skipped by who does not know it.
        skippable: bool,
    },
    /// The file ends here, before or within a block.
    Cut,
}

/// Reads blocks.
pub(super) struct BlockReader<R> {
    input: R,
    stored: Vec<u8>,
    content: Vec<u8>,
    /// Where the block begins that was read last, and where the next one does.
    start: u64,
    at: u64,
    /// Sum of all contents.
    unpacked: u64,
    blocks: u64,
}

impl<R: Read> BlockReader<R> {
    /// Behind the file's own header of so many bytes.
    pub fn new(input: R, header: usize) -> BlockReader<R> {
        let at = header as u64;
        BlockReader { input, stored: Vec::new(), content: Vec::new(), start: at, at, unpacked: 0, blocks: 0 }
    }

    /// The content of the last block.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Where the last block begins in the file.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// How many whole blocks were read.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Reads the next block.
    pub fn next(&mut self) -> Result<Next, Failure> {
        self.start = self.at;
        let mut head = [0; HEADER];
        if self.fill(&mut head)? < HEADER {
            return Ok(Next::Cut);
        }
        let half = |at: usize| u16::from_le_bytes(head[at..at + 2].try_into().expect("2 bytes"));
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (kind, flags, stored, length) = (half(0), half(2), word(4), word(8));
        if flags & !(SKIPPABLE | COMPRESSED) != 0 {
            return Err((self.start + 2, format!("flags {flags:#x} of a block; expected at most 0x3")));
        }
        if stored > MAX_BLOCK || length > MAX_BLOCK {
            let longest = stored.max(length);
            return Err((self.start + 4, format!("claims a block of {longest} bytes; expected at most {MAX_BLOCK}")));
        }
        // Grows as bytes come: the length is only a claim.
        self.stored.clear();
        let taken = self.input.by_ref().take(stored as u64).read_to_end(&mut self.stored);
        taken.map_err(|error| (self.at, format!("cannot be read: {error}")))?;
        self.at += self.stored.len() as u64;
        if self.stored.len() < stored {
            return Ok(Next::Cut);
        }
        if checksum(&head, &self.stored).to_le_bytes() != head[HEADER - 8..] {
            return Err((self.start, "the checksum of a block does not match: the file is damaged".into()));
        }
        self.unpack(flags & COMPRESSED != 0, length)?;
        self.blocks += 1;
        Ok(Next::Block { kind, skippable: flags & SKIPPABLE != 0 })
    }

    fn unpack(&mut self, compressed: bool, length: usize) -> Result<(), Failure> {
        let at = self.start + HEADER as u64;
        self.unpacked += length as u64;
        let most = (self.at * MAX_RATIO).max(SMALL_CONTENT);
        if self.unpacked > most {
            let problem = format!("unpacks to {} bytes in {}; expected at most {most}", self.unpacked, self.at);
            return Err((self.start + 8, problem));
        }
        self.content.clear();
        if compressed {
            let damaged = |error: io::Error| (at, format!("the compressed block is damaged: {error}"));
            let decoder = zstd::stream::read::Decoder::with_buffer(&self.stored[..]).map_err(damaged)?;
            // One byte more than claimed is enough to see that there are too many.
            decoder.take(length as u64 + 1).read_to_end(&mut self.content).map_err(damaged)?;
        } else {
            std::mem::swap(&mut self.content, &mut self.stored);
        }
        if self.content.len() != length {
            let found = self.content.len();
            return Err((at, format!("a block of {found} bytes or more; its header claims {length}")));
        }
        Ok(())
    }

    /// Whether anything follows.
    pub fn is_at_end(&mut self) -> Result<bool, Failure> {
        Ok(self.fill(&mut [0])? == 0)
    }

    /// Reads as many bytes as there are, up to the buffer's length.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((self.at, format!("cannot be read: {error}"))),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }
}
