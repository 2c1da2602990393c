// SPDX-License-Identifier: MIT OR Apache-2.0
//! Back ends: each compresses a whole block, and decompresses a block as a stream.

pub mod bzip2;
mod filter;
pub mod lzma;
mod lzma_write;
mod lzo;
mod lzo_read;
mod zlib;
mod zpaq;

use crate::error::{Error, Result};
use crate::format::Kind;
use std::io::{BufReader, Read};

pub use filter::{Filter, Filtered};
pub use lzo::pack as pack_lzo;

/// Buffer size for reading an archive, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A back end that compresses. ZPAQ is missing here: it is only decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packer {
    /// No compression: the output of the match search is stored as it is.
    None,
    /// LZO1X.
    Lzo,
    /// Deflate.
    Zlib,
    /// bzip2.
    Bzip2,
    /// LZMA.
    Lzma,
}

/// Reason why a block could not be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Not enough memory.
    Memory,
    /// The output would not be smaller than the input.
    NotSmaller,
}

impl Packer {
    /// Back-end number stored in the archive.
    pub fn kind(self) -> Kind {
        match self {
            Packer::None => Kind::Raw,
            Packer::Lzo => Kind::Lzo,
            Packer::Zlib => Kind::Zlib,
            Packer::Bzip2 => Kind::Bzip2,
            Packer::Lzma => Kind::Lzma,
        }
    }

    /// Working memory of the compressor in bytes, input and output buffers excluded.
    pub fn working_memory(self, level: u8, dictionary: u32) -> u64 {
        match self {
            Packer::None => 0,
            Packer::Lzo => lzo::WORKING_MEMORY,
            Packer::Zlib => 1 << 20,
            Packer::Bzip2 => 9 * bzip2::block(level) as u64 + (1 << 20),
            Packer::Lzma => lzma::encoder_memory(dictionary),
        }
    }

    /// Compresses a block; the result is always smaller than the input.
    ///
    /// # Errors
    /// [`Failure::NotSmaller`] if the result would not be smaller, [`Failure::Memory`] if memory is short.
    pub fn pack(self, plain: &[u8], level: u8, dictionary: u32) -> std::result::Result<Vec<u8>, Failure> {
        match self {
            Packer::None => Err(Failure::NotSmaller),
            Packer::Lzo => lzo::pack(plain),
            Packer::Zlib => zlib::pack(plain, level),
            Packer::Bzip2 => bzip2::pack(plain, level),
            Packer::Lzma => lzma::pack(plain, level, dictionary),
        }
    }
}

/// Allocates an output buffer of one byte less than the block, because the result must be smaller than the block.
fn room_for(plain: &[u8]) -> std::result::Result<Vec<u8>, Failure> {
    let mut packed = Vec::new();
    packed.try_reserve_exact(plain.len().saturating_sub(1)).map_err(|_| Failure::Memory)?;
    Ok(packed)
}

/// Returns a reader of the block's `plain` decompressed bytes. `packed` supplies the block's compressed bytes; `lzma`
/// is the LZMA properties field of the archive's magic.
///
/// # Errors
/// [`Error::Unsupported`] for invalid LZMA properties, [`Error::Memory`] if memory is short.
pub fn unpacker<'a>(
    kind: Kind,
    packed: impl Read + Send + 'a,
    plain: u64,
    lzma: [u8; 5],
) -> Result<Box<dyn Read + Send + 'a>> {
    let packed = BufReader::with_capacity(READ_BYTES, packed);
    Ok(match kind {
        Kind::Raw => Box::new(packed),
        Kind::Bzip2 => Box::new(bzip2::Unpacker::new(packed)),
        Kind::Lzo => Box::new(lzo_read::Unpacker::new(packed)?),
        Kind::Lzma => Box::new(lzma::Unpacker::new(packed, plain, lzma)?),
        Kind::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(packed)),
        Kind::Zpaq => Box::new(zpaq::Unpacker::new(packed)),
        Kind::LzmaX86 => {
            Box::new(filter::Filtered::new(filter::Filter::X86, lzma::Unpacker::new(packed, plain, lzma)?)?)
        }
        Kind::LzmaArm64 => {
            Box::new(filter::Filtered::new(filter::Filter::Arm64, lzma::Unpacker::new(packed, plain, lzma)?)?)
        }
        Kind::LzmaDelta(distance) => {
            Box::new(filter::Undelta::new(distance, lzma::Unpacker::new(packed, plain, lzma)?))
        }
    })
}

/// Working memory of the decompressor in bytes, input and output buffers excluded.
pub fn unpacking_memory(kind: Kind, lzma: [u8; 5], plain: u64) -> u64 {
    match kind {
        Kind::Raw => 0,
        Kind::Bzip2 => 4 << 20,
        Kind::Lzo => lzo_read::WORKING_MEMORY,
        Kind::Zlib => 1 << 20,
        Kind::Zpaq => 112 << 20,
        Kind::Lzma | Kind::LzmaX86 | Kind::LzmaArm64 | Kind::LzmaDelta(_) => lzma::reach(lzma, plain) + (1 << 20),
    }
}

/// Applies the forward x86 filter.
#[cfg(test)]
pub fn filter_x86(plain: &[u8]) -> Vec<u8> {
    filter::forward(Filter::X86, plain)
}

/// Returns whether a block is worth compressing: LZO shrinks one of up to 16 samples by at least 1/128, or the byte
/// values in a sample are unevenly distributed (low order-0 entropy). If neither holds, no back end gains anything.
pub fn looks_compressible(plain: &[u8]) -> bool {
    const SAMPLE: usize = 64 << 10;
    const SAMPLES: usize = 16;
    /// Entropy limit in bits per byte for a 64 KiB sample; encrypted data measures 7.997 at this length.
    const EVEN_BITS: f64 = 7.98;
    let step = (plain.len() / SAMPLES).max(SAMPLE);
    plain.chunks(step).any(|stretch| {
        let sample = &stretch[..stretch.len().min(SAMPLE)];
        entropy(sample) < EVEN_BITS && sample.len() > 4096
            || lzo::pack(sample).is_ok_and(|packed| packed.len() < sample.len() - sample.len() / 128)
    })
}

/// Order-0 entropy in bits per byte.
fn entropy(sample: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in sample {
        counts[usize::from(*byte)] += 1;
    }
    let all = sample.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all).map(|p| -p * p.log2()).sum()
}

/// Builds the I/O error that a reader of a decompressed stream gets for invalid input.
fn corrupt(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned())
}

/// Builds the error for a failed allocation in a back end.
fn short_of_memory(what: &'static str, needed: u64) -> Error {
    Error::Memory { what, needed }
}
