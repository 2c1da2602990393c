// SPDX-License-Identifier: MIT OR Apache-2.0
//! Heads of chunks, streams and blocks.

use super::number;

/// Back end of a block, by its number in the head of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it is.
    Raw,
    /// bzip2.
    Bzip2,
    /// LZO1X.
    Lzo,
    /// LZMA without a header; its parameters stand in the magic.
    Lzma,
    /// Deflate with the head and the checksum of zlib.
    Zlib,
    /// ZPAQ, level 1 of its format.
    Zpaq,
    /// LZMA over x86 code whose jumps were made absolute (0.7).
    LzmaX86,
    /// LZMA over ARM64 code whose jumps were made absolute (0.7).
    LzmaArm64,
    /// LZMA over differences to the byte so many places before, 1 to 4 (0.7).
    LzmaDelta(u8),
}

impl Kind {
    /// The back end of a number, if it is one.
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

    /// Its number.
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

    /// Its name.
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

/// What stands before the streams of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// Bytes of each number in the chunk, 1 to 8.
    pub width: u8,
    /// Filter over the whole chunk before the search (0.7): 0 none, 1 x86, 2 arm64.
    pub prefilter: u8,
    /// Whether it is the last chunk.
    pub last: bool,
    /// Length of what it holds. Not there in encrypted archives, and wrong in chunks below a page.
    pub size: Option<u64>,
}

impl ChunkHead {
    /// Bytes of a head with these properties.
    pub fn length(width: u8, seven: bool, encrypted: bool) -> usize {
        2 + usize::from(seven) + if encrypted { 0 } else { usize::from(width) }
    }

    /// Reads a head; `bytes` begins with it and goes on for 11 bytes or to the end of the archive. `None` where it is
    /// not one.
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

    /// The bytes of a head of version 0.6.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.width, u8::from(self.last)];
        if let Some(size) = self.size {
            bytes.extend_from_slice(&size.to_le_bytes()[..usize::from(self.width)]);
        }
        bytes
    }
}

/// What stands before a block, and before the first block of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Number of the back end, see [`Kind`].
    pub kind: u8,
    /// Bytes of the block as it is packed.
    pub packed: u64,
    /// Bytes of the block when it is unpacked.
    pub plain: u64,
    /// Where the next head of the stream stands, from the chunk's first one; 0 if there is none.
    pub next: u64,
}

impl BlockHead {
    /// A head that only leads to another one.
    pub fn leading_to(next: u64) -> BlockHead {
        BlockHead { kind: Kind::Raw.number(), packed: 0, plain: 0, next }
    }

    /// Bytes of a head whose numbers have `width` bytes.
    pub const fn length(width: u8) -> usize {
        1 + 3 * width as usize
    }

    /// Reads a head of [`BlockHead::length`] bytes.
    pub fn parse(bytes: &[u8], width: u8) -> BlockHead {
        let field = |k: usize| number(&bytes[1 + k * usize::from(width)..1 + (k + 1) * usize::from(width)]);
        BlockHead { kind: bytes[0], packed: field(0), plain: field(1), next: field(2) }
    }

    /// The bytes of the head.
    pub fn to_bytes(self, width: u8) -> Vec<u8> {
        let mut bytes = vec![self.kind];
        for value in [self.packed, self.plain, self.next] {
            bytes.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
        }
        bytes
    }
}

/// What stands before each chunk of a streamed archive of 0.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedHead {
    /// Bytes that the chunk unpacks to; 0 if encrypted.
    pub plain: u64,
    /// Bytes up to the next such head, or to the MD5.
    pub packed: u64,
    /// Whether it is the last one.
    pub last: bool,
}

impl StreamedHead {
    /// Bytes of such a head.
    pub const BYTES: usize = 24;

    /// Reads one; `None` where it is not one.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<StreamedHead> {
        if &bytes[..4] != b"LRZC" || bytes[20] > 1 || bytes[21..] != [0; 3] {
            return None;
        }
        Some(StreamedHead { plain: number(&bytes[4..12]), packed: number(&bytes[12..20]), last: bytes[20] == 1 })
    }
}
