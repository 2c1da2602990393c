// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packing one block, whatever memory there is.

use super::{Options, Plan};
use crate::backend::{Failure, Packer, looks_compressible, lzma};
use crate::error::{Error, Result};
use crate::format::Kind;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Blocks below this are kept as they are: their head is as long as what could be gained.
const LEAST: usize = 64;
/// How often memory is asked for, and how long it is waited for in between, before it counts as not there.
const PATIENCE: u32 = 300;
const PAUSE: Duration = Duration::from_millis(10);

/// Asks for memory until another thread has given some back.
pub fn patiently<T>(what: &'static str, needed: u64, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    for _ in 0..PATIENCE {
        if let Some(memory) = ask() {
            return Ok(memory);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Error::Memory { what, needed })
}

/// Packs blocks, each in whatever way works.
pub struct BlockPacker<'a> {
    options: &'a Options<'a>,
    dictionary: u32,
    /// Held by the one thread that packs while memory is short.
    alone: Mutex<()>,
}

/// A block as it goes into the archive.
pub struct Packed {
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

impl<'a> BlockPacker<'a> {
    /// By these options.
    pub fn new(options: &'a Options<'a>, plan: &Plan) -> BlockPacker<'a> {
        BlockPacker { options, dictionary: plan.dictionary, alone: Mutex::new(()) }
    }

    fn log(&self, what: &str) {
        if let Some(log) = self.options.log {
            log(what);
        }
    }

    /// Packs a block. Memory that is short makes it larger, never fail.
    pub fn pack(&self, plain: Vec<u8>) -> Packed {
        let options = self.options;
        if plain.len() < LEAST || options.packer == Packer::None {
            return Packed { kind: Kind::Raw, bytes: plain };
        }
        // LZO and Deflate take hardly longer than a trial.
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
                    self.log(&format!("no memory for {name} at level {level} with a dictionary of {dictionary} bytes"));
                    if turn.is_none() {
                        turn = Some(self.alone.lock().unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        }
        self.log("no memory for any back end: the block is kept as it is");
        Packed { kind: Kind::Raw, bytes: plain }
    }

    /// Ways to pack a block, each with less memory than those before. The first one twice: the second time no other
    /// thread that had no memory packs.
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
