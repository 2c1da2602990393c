// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of chunks, streams and blocks.

use super::number;

/// Back end of a block, as numbered in the block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stored uncompressed.
    Raw,
    /// bzip2.
    Bzip2,
    /// LZO1X.
    Lzo,
    /// Headerless LZMA; its properties are in the magic.
    Lzma,
    /// Deflate in the zlib format.
    Zlib,
    /// ZPAQ level 1.
    Zpaq,
    /// LZMA after an x86 branch filter (0.7).
    LzmaX86,
    /// LZMA after an ARM64 branch filter (0.7).
    LzmaArm64,
    /// LZMA after a delta filter of distance 1 to 4 bytes (0.7).
    LzmaDelta(u8),
}

impl Kind {
    /// The back end with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            3 => Kind::Raw,
            4 => Kind::Bzip2,
            5 => Kind::Lzo,
            6 => Kind::Lzma,
            7 => Kind::Zlib,
            8 => Kind::Zpaq,
            9 => Kind::LzmaX86,
            10 => Kind::LzmaArm64,
            11..=14 => Kind::LzmaDelta(number - 10),
            _ => return None,
        })
    }

    /// Number in the block header.
    pub fn number(self) -> u8 {
        match self {
            Kind::Raw => 3,
            Kind::Bzip2 => 4,
            Kind::Lzo => 5,
            Kind::Lzma => 6,
            Kind::Zlib => 7,
            Kind::Zpaq => 8,
            Kind::LzmaX86 => 9,
            Kind::LzmaArm64 => 10,
            Kind::LzmaDelta(distance) => 10 + distance,
        }
    }

    /// Name shown to the user.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Raw => "none",
            Kind::Bzip2 => "bzip2",
            Kind::Lzo => "lzo",
            Kind::Lzma => "lzma",
            Kind::Zlib => "gzip",
            Kind::Zpaq => "zpaq",
            Kind::LzmaX86 => "lzma+x86",
            Kind::LzmaArm64 => "lzma+arm64",
            Kind::LzmaDelta(_) => "lzma+delta",
        }
    }
}

/// Header of a chunk, in front of its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// Width in bytes of the numbers in the chunk, 1 to 8.
    pub width: u8,
    /// Filter applied to the whole chunk before the match search (0.7): 0 none, 1 x86, 2 ARM64.
    pub prefilter: u8,
    /// Whether this is the last chunk.
    pub last: bool,
    /// Uncompressed length in bytes. Absent in encrypted archives; wrong in chunks smaller than a page.
    pub size: Option<u64>,
}

impl ChunkHead {
    /// Length in bytes of a header with these properties.
    pub fn length(width: u8, seven: bool, encrypted: bool) -> usize {
        2 + usize::from(seven) + if encrypted { 0 } else { usize::from(width) }
    }

    /// Parses the header at the start of `bytes`, which must hold 11 bytes or reach the end of the archive. Returns
    /// `None` if it is invalid.
    pub fn parse(bytes: &[u8], seven: bool, encrypted: bool) -> Option<ChunkHead> {
        let width = *bytes.first()?;
        if !(1..=8).contains(&width) || bytes.len() < Self::length(width, seven, encrypted) {
            return None;
        }
        let (prefilter, rest) = if seven { (bytes[1], &bytes[2..]) } else { (0, &bytes[1..]) };
        if prefilter > 2 || rest[0] > 1 {
            return None;
        }
        let size = (!encrypted).then(|| number(&rest[1..=usize::from(width)]));
        Some(ChunkHead { width, prefilter, last: rest[0] == 1, size })
    }

    /// Encodes the header for format 0.6.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.width, u8::from(self.last)];
        if let Some(size) = self.size {
            bytes.extend_from_slice(&size.to_le_bytes()[..usize::from(self.width)]);
        }
        bytes
    }
}

/// Header of a block; the same layout starts each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Back-end number, see [`Kind`].
    pub kind: u8,
    /// Compressed length in bytes.
    pub packed: u64,
    /// Uncompressed length in bytes.
    pub plain: u64,
    /// Offset of the stream's next block header, relative to the chunk's first block header; 0 if there is none.
    pub next: u64,
}

impl BlockHead {
    /// Creates a stream's start header, which holds only the offset of the first block header.
    pub fn leading_to(next: u64) -> BlockHead {
        BlockHead { kind: Kind::Raw.number(), packed: 0, plain: 0, next }
    }

    /// Length in bytes of a header whose numbers have `width` bytes.
    pub const fn length(width: u8) -> usize {
        1 + 3 * width as usize
    }

    /// Parses a header of [`BlockHead::length`] bytes.
    pub fn parse(bytes: &[u8], width: u8) -> BlockHead {
        let field = |k: usize| number(&bytes[1 + k * usize::from(width)..1 + (k + 1) * usize::from(width)]);
        BlockHead { kind: bytes[0], packed: field(0), plain: field(1), next: field(2) }
    }

    /// Encodes the header.
    pub fn to_bytes(self, width: u8) -> Vec<u8> {
        let mut bytes = vec![self.kind];
        for value in [self.packed, self.plain, self.next] {
            bytes.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
        }
        bytes
    }
}

/// Header in front of each chunk of a streamed 0.7 archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedHead {
    /// Uncompressed length of the chunk in bytes; 0 if encrypted.
    pub plain: u64,
    /// Bytes up to the next such header or the MD5.
    pub packed: u64,
    /// Whether this is the last chunk.
    pub last: bool,
}

impl StreamedHead {
    /// Length of the header in bytes.
    pub const BYTES: usize = 24;

    /// Parses a header; returns `None` if it is invalid.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<StreamedHead> {
        if &bytes[..4] != b"LRZC" || bytes[20] > 1 || bytes[21..] != [0; 3] {
            return None;
        }
        Some(StreamedHead { plain: number(&bytes[4..12]), packed: number(&bytes[12..20]), last: bytes[20] == 1 })
    }
}
