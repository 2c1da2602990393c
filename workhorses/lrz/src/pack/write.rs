// SPDX-License-Identifier: MIT OR Apache-2.0
//! Archive writer for single blocks.

use super::block::Packed;
use crate::backend::lzma;
use crate::crypto::Cipher;
use crate::error::{Context, Result};
use crate::format::{BlockHead, ChunkHead, Encryption, Kind, MAGIC_BYTES, Magic, Minor};
use crate::store::Store;

/// Width in bytes of the numbers in headers of encrypted archives.
const ENCRYPTED_WIDTH: u8 = 8;

/// Writes headers and blocks.
pub struct Writer<'a> {
    archive: &'a dyn Store,
    cipher: &'a Cipher,
    encryption: Encryption,
    at: u64,
    uses_lzma: bool,
    chunk: Option<OpenChunk>,
}

/// State of the chunk being written.
struct OpenChunk {
    at: u64,
    origin: u64,
    width: u8,
    /// Offset and contents of each stream's last header, which is rewritten with the offset of the next one.
    heads: [(u64, BlockHead); 2],
}

impl<'a> Writer<'a> {
    /// Creates a writer at the start of an archive.
    pub fn new(archive: &'a dyn Store, cipher: &'a Cipher, encryption: Encryption) -> Result<Writer<'a>> {
        let mut writer = Writer { archive, cipher, encryption, at: MAGIC_BYTES as u64, uses_lzma: false, chunk: None };
        writer.put(&[0; MAGIC_BYTES], 0)?;
        Ok(writer)
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.at
    }

    fn put(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.archive.write_all_at(bytes, at).context(|| "writing the archive".to_owned())
    }

    fn head_width(&self, width: u8) -> u8 {
        if self.cipher.encrypts() { ENCRYPTED_WIDTH } else { width }
    }

    fn put_head(&mut self, at: u64, head: BlockHead, width: u8) -> Result<u64> {
        let sealed = self.cipher.seal(head.to_bytes(self.head_width(width)))?;
        self.put(&sealed, at)?;
        Ok(at + sealed.len() as u64)
    }

    /// Begins a chunk. Its header is written at its end, when its length is known.
    pub fn begin(&mut self, width: u8) -> Result<()> {
        let at = self.at;
        let origin = at + ChunkHead::length(width, false, self.cipher.encrypts()) as u64;
        self.put(&vec![0; (origin - at) as usize], at)?;
        let lead = BlockHead::leading_to(0);
        let second = self.put_head(origin, lead, width)?;
        self.at = self.put_head(second, lead, width)?;
        self.chunk = Some(OpenChunk { at, origin, width, heads: [(origin, lead), (second, lead)] });
        Ok(())
    }

    /// Appends a block.
    pub fn block(&mut self, stream: usize, plain: u64, packed: Packed) -> Result<()> {
        let chunk = self.chunk.as_mut().expect("blocks stand in chunks");
        let (at, origin, width) = (self.at, chunk.origin, chunk.width);
        let (before, mut leading) = chunk.heads[stream];
        leading.next = at - origin;
        let head = BlockHead { kind: packed.kind.number(), packed: packed.bytes.len() as u64, plain, next: 0 };
        chunk.heads[stream] = (at, head);
        self.uses_lzma |= packed.kind == Kind::Lzma;
        self.put_head(before, leading, width)?;
        let data = self.put_head(at, head, width)?;
        // The literal stream of an empty file has an empty block, which is not encrypted.
        let sealed = if packed.bytes.is_empty() && !self.cipher.encrypts() {
            Vec::new()
        } else {
            self.cipher.seal(packed.bytes)?
        };
        self.put(&sealed, data)?;
        self.at = data + sealed.len() as u64;
        Ok(())
    }

    /// Ends a chunk of `size` uncompressed bytes.
    pub fn end(&mut self, size: u64, last: bool) -> Result<()> {
        let chunk = self.chunk.take().expect("a chunk was begun");
        let size = (!self.cipher.encrypts()).then_some(size);
        let head = ChunkHead { width: chunk.width, prefilter: 0, last, size };
        self.put(&head.to_bytes(), chunk.at)
    }

    /// Ends the archive: writes the MD5 and the final magic. `dictionary` is the largest LZMA dictionary in bytes.
    /// Returns the archive's length.
    pub fn finish(mut self, size: u64, md5: [u8; 16], dictionary: u32) -> Result<u64> {
        let sealed = self.cipher.seal_md5(md5.to_vec());
        self.put(&sealed, self.at)?;
        self.at += sealed.len() as u64;
        let lzma = if self.uses_lzma { lzma::properties(dictionary) } else { [0; 5] };
        let magic = Magic {
            minor: Minor::Six,
            size: Some(size),
            lzma,
            md5: true,
            encryption: self.encryption,
            streamed: false,
        };
        self.put(&magic.to_bytes(), 0)?;
        Ok(self.at)
    }
}
