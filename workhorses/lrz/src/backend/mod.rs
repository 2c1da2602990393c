// SPDX-License-Identifier: MIT OR Apache-2.0
//! The back ends: each packs a block, and unpacks it as a stream.

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

/// Bytes that are read from an archive at once.
const READ_BYTES: usize = 64 << 10;

/// A back end to pack with. ZPAQ is only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packer {
    /// Nothing: what the search leaves is kept as it is.
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

/// Why a block could not be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There was no memory for it.
    Memory,
    /// It would not have become smaller.
    NotSmaller,
}

impl Packer {
    /// The back end's number in the archive.
    pub fn kind(self) -> Kind {
        match self {
            Packer::None => Kind::Raw,
            Packer::Lzo => Kind::Lzo,
            Packer::Zlib => Kind::Zlib,
            Packer::Bzip2 => Kind::Bzip2,
            Packer::Lzma => Kind::Lzma,
        }
    }

    /// Memory that packing takes beside the block and what it becomes, in bytes.
    pub fn working_memory(self, level: u8, dictionary: u32) -> u64 {
        match self {
            Packer::None => 0,
            Packer::Lzo => lzo::WORKING_MEMORY,
            Packer::Zlib => 1 << 20,
            Packer::Bzip2 => 9 * bzip2::block(level) as u64 + (1 << 20),
            Packer::Lzma => lzma::encoder_memory(dictionary),
        }
    }

    /// Packs a block so that it takes fewer bytes than before.
    ///
    /// # Errors
    /// [`Failure::NotSmaller`] where it would not, [`Failure::Memory`] where memory is short.
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

/// Room for what a block becomes: it has to be smaller than the block.
fn room_for(plain: &[u8]) -> std::result::Result<Vec<u8>, Failure> {
    let mut packed = Vec::new();
    packed.try_reserve_exact(plain.len().saturating_sub(1)).map_err(|_| Failure::Memory)?;
    Ok(packed)
}

/// A block as a stream of its `plain` unpacked bytes. What it reads from `packed` is the block's bytes; `lzma` are the
/// parameters in the archive's magic.
///
/// # Errors
/// [`Error::Unsupported`] for parameters that are none, [`Error::Memory`] where memory is short.
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

/// Memory that unpacking takes beside the block and what it becomes, in bytes.
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

/// What the filter of x86 code makes of some bytes.
#[cfg(test)]
pub fn filter_x86(plain: &[u8]) -> Vec<u8> {
    filter::forward(Filter::X86, plain)
}

/// Whether a block is worth packing: samples of it become smaller, or their bytes are not spread evenly. Where neither
/// holds no back end gains.
pub fn looks_compressible(plain: &[u8]) -> bool {
    const SAMPLE: usize = 64 << 10;
    const SAMPLES: usize = 16;
    /// Bits of a byte, by the order-0 entropy of a sample: encrypted data have 7.997 at this length.
    const EVEN_BITS: f64 = 7.98;
    let step = (plain.len() / SAMPLES).max(SAMPLE);
    plain.chunks(step).any(|stretch| {
        let sample = &stretch[..stretch.len().min(SAMPLE)];
        entropy(sample) < EVEN_BITS && sample.len() > 4096
            || lzo::pack(sample).is_ok_and(|packed| packed.len() < sample.len() - sample.len() / 128)
    })
}

/// Order-0 entropy in bits a byte.
fn entropy(sample: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in sample {
        counts[usize::from(*byte)] += 1;
    }
    let all = sample.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all).map(|p| -p * p.log2()).sum()
}

/// An error of a back end that unpacks, as the reader of the stream will see it.
fn corrupt(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned())
}

/// The error for memory that a back end did not get.
fn short_of_memory(what: &'static str, needed: u64) -> Error {
    Error::Memory { what, needed }
}
