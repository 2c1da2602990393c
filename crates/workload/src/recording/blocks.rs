// SPDX-License-Identifier: GPL-2.0-only
//! Block layer of a recording file: blocks with type, lengths and checksum. Reader and writer hold one block in
//! memory, whatever the file's length.

use std::io::{self, Read, Write};

/// Length of a block header in bytes: type, flags, stored length, uncompressed length, checksum.
pub(super) const HEADER: usize = 2 + 2 + 4 + 4 + 8;

/// Maximum length of a block in bytes, compressed and uncompressed.
pub(super) const MAX_BLOCK: usize = 16 << 20;

/// Length in bytes at which a writer ends a block.
pub(super) const FULL_BLOCK: usize = 1 << 20;

/// Minimum length in bytes for compression.
const SHORT_BLOCK: usize = 256;

/// Limits on decompression: any file may decompress to `SMALL_CONTENT` bytes, and beyond that to `MAX_RATIO` times
/// its own length. Recordings, which are mostly times, compress to between a third and a tenth.
pub(super) const SMALL_CONTENT: u64 = 64 << 20;
pub(super) const MAX_RATIO: u64 = 64;

/// Flags: `SKIPPABLE`, a reader that does not know the type skips the block; `COMPRESSED`, the content is one zstd
/// frame.
pub(super) const SKIPPABLE: u16 = 1;
pub(super) const COMPRESSED: u16 = 2;

/// Block types.
pub(super) mod kind {
    pub const METADATA: u16 = 1;
    pub const COSTS: u16 = 2;
    pub const RESOURCES: u16 = 3;
    pub const TASKS: u16 = 4;
    pub const OPERATIONS: u16 = 5;
    pub const STRETCHES: u16 = 6;
    pub const REQUESTS: u16 = 7;
    pub const DEVICES: u16 = 8;
    pub const END: u16 = 255;

    /// Name of a block type in errors; reserved types are included.
    pub fn name(kind: u16) -> &'static str {
        match kind {
            METADATA => "metadata",
            COSTS => "costs",
            RESOURCES => "resources",
            TASKS => "tasks",
            OPERATIONS => "operations",
            STRETCHES => "pieces of work",
            REQUESTS => "block requests",
            DEVICES => "devices",
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
    /// Creates a writer that continues after a file header of `header` bytes; `level` is the compression level of zstd.
    pub fn new(out: W, header: usize, level: i32) -> BlockWriter<W> {
        BlockWriter { out, level, written: header as u64, blocks: 0 }
    }

    /// Writes a block, compressed if it is long and compression makes it shorter.
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

    /// Appends `blocks` blocks that have already been encoded.
    pub fn append(&mut self, blocks: u64, mut from: impl Read) -> io::Result<()> {
        self.written += io::copy(&mut from, &mut self.out)?;
        self.blocks += blocks;
        Ok(())
    }

    /// Returns the underlying output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Number of blocks written.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Length of the file so far, in bytes.
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// Checksum over the header fields and the stored content.
fn checksum(head: &[u8], stored: &[u8]) -> u64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&head[..HEADER - 8]);
    hash.update(stored);
    hash.digest()
}

/// Offset in the file and error message.
pub(super) type Failure = (u64, String);

/// Result of reading the next block.
pub(super) enum Next {
    /// A block, whose content is in [`BlockReader::content`].
    Block {
        /// Block type.
        kind: u16,
        /// Whether a reader that does not know the type may skip it.
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
    /// Offset of the last block, and of the next one.
    start: u64,
    at: u64,
    /// Sum of the uncompressed lengths.
    unpacked: u64,
    blocks: u64,
}

impl<R: Read> BlockReader<R> {
    /// Creates a reader behind the file header, which has `header` bytes.
    pub fn new(input: R, header: usize) -> BlockReader<R> {
        let at = header as u64;
        BlockReader { input, stored: Vec::new(), content: Vec::new(), start: at, at, unpacked: 0, blocks: 0 }
    }

    /// Content of the last block.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Offset of the last block in the file.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of complete blocks read.
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
            return Err((self.start + 4, format!("a block of {longest} bytes; expected at most {MAX_BLOCK}")));
        }
        // The buffer grows with the input, because the declared length is not trusted.
        self.stored.clear();
        let taken = self.input.by_ref().take(stored as u64).read_to_end(&mut self.stored);
        taken.map_err(|error| (self.at, format!("read error: {error}")))?;
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
            let problem = format!(
                "decompresses to {} bytes after {} bytes of the file; expected at most {most}",
                self.unpacked, self.at
            );
            return Err((self.start + 8, problem));
        }
        self.content.clear();
        if compressed {
            let damaged = |error: io::Error| (at, format!("the compressed block is damaged: {error}"));
            let decoder = zstd::stream::read::Decoder::with_buffer(&self.stored[..]).map_err(damaged)?;
            // Read at most one byte more than declared, which suffices to detect excess.
            decoder.take(length as u64 + 1).read_to_end(&mut self.content).map_err(damaged)?;
        } else {
            std::mem::swap(&mut self.content, &mut self.stored);
        }
        if self.content.len() != length {
            let found = self.content.len();
            return Err((at, format!("a block decompresses to at least {found} bytes; its header says {length}")));
        }
        Ok(())
    }

    /// Returns whether the input is at its end.
    pub fn is_at_end(&mut self) -> Result<bool, Failure> {
        Ok(self.fill(&mut [0])? == 0)
    }

    /// Reads up to the buffer's length.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err((self.at, format!("read error: {error}"))),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }
}
