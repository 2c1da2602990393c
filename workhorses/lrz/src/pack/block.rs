// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compression of one block within the available memory.

use super::{Options, Plan};
use crate::backend::{Failure, Packer, looks_compressible, lzma};
use crate::error::{Error, Result};
use crate::format::Kind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Smaller blocks are stored: their header is as long as the possible gain.
const LEAST: usize = 64;
/// Number of allocation attempts, and the pause between them, before memory counts as unavailable.
const PATIENCE: u32 = 300;
const PAUSE: Duration = Duration::from_millis(10);

/// Retries an allocation while other threads release memory; fails after 3 s.
pub fn patiently<T>(what: &'static str, needed: u64, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    for _ in 0..PATIENCE {
        if let Some(memory) = ask() {
            return Ok(memory);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Error::Memory { what, needed })
}

/// Compresses blocks and falls back to settings that need less memory.
pub struct BlockPacker<'a> {
    options: &'a Options<'a>,
    dictionary: u32,
    /// Lock held by the one thread that compresses while memory is short.
    alone: Mutex<()>,
}

/// A compressed block as stored in the archive.
pub struct Packed {
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

impl<'a> BlockPacker<'a> {
    /// Creates a block packer.
    pub fn new(options: &'a Options<'a>, plan: &Plan) -> BlockPacker<'a> {
        BlockPacker { options, dictionary: plan.dictionary, alone: Mutex::new(()) }
    }

    fn log(&self, what: &str) {
        if let Some(log) = self.options.log {
            log(what);
        }
    }

    /// Compresses a block. A memory shortage makes the output larger but never fails.
    pub fn pack(&self, plain: Vec<u8>) -> Packed {
        let options = self.options;
        if plain.len() < LEAST || options.packer == Packer::None {
            return Packed { kind: Kind::Raw, bytes: plain };
        }
        // LZO and Deflate take hardly longer than the compressibility check.
        let trial = options.threshold && matches!(options.packer, Packer::Lzma | Packer::Bzip2);
        if trial && !looks_compressible(&plain) {
            return Packed { kind: Kind::Raw, bytes: plain };
        }
        let mut turn = None;
        for (packer, level, dictionary) in self.ways() {
            match packer.pack(&plain, level, dictionary) {
                Ok(bytes) => return Packed { kind: packer.kind(), bytes },
                Err(Failure::NotSmaller) => return Packed { kind: Kind::Raw, bytes: plain },
                Err(Failure::Memory) => {
                    let name = packer.kind().name();
                    self.log(&format!(
                        "not enough memory for {name} at level {level} with a dictionary of {dictionary} bytes"
                    ));
                    if turn.is_none() {
                        turn = Some(self.alone.lock().unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        }
        self.log("not enough memory for any back end: the block is stored uncompressed");
        Packed { kind: Kind::Raw, bytes: plain }
    }

    /// Settings to try in turn, each with less memory than the one before. The first appears twice: its second
    /// attempt runs with the `alone` lock held, after other threads short of memory have finished.
    fn ways(&self) -> Vec<(Packer, u8, u32)> {
        let Options { packer, level, .. } = *self.options;
        let mut ways = vec![(packer, level, self.dictionary); 2];
        if packer == Packer::Lzma {
            let mut dictionary = self.dictionary / 2;
            while dictionary >= lzma::LEAST_DICTIONARY {
                ways.push((packer, level, dictionary));
                dictionary /= 4;
            }
            ways.push((packer, 1, lzma::LEAST_DICTIONARY));
            ways.push((Packer::Bzip2, level, 0));
        }
        if packer != Packer::Lzo {
            ways.push((Packer::Bzip2, 1, 0));
        }
        ways
    }
}
