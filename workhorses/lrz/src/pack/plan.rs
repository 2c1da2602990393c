// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory each part of the work gets.

use super::Options;
use crate::backend::{Packer, bzip2, lzma};
use crate::window::PIECE;

const MIB: u64 = 1 << 20;
/// Largest block of literals, in bytes, for back ends whose memory ends within a block, and for LZMA.
const BLOCK: u64 = 8 * MIB;
const LZMA_BLOCK: u64 = 128 * MIB;
/// Below this a block costs LZMA more in lost context than another busy thread is worth.
const LEAST_LZMA_BLOCK: u64 = 10 * MIB;
/// Mean distance of the densest samples, as a power of 2: nine of ten repeats of 32 bytes have one. Sparsest ones: a copy
/// of 128 KiB has one almost surely.
const SPARSITY: std::ops::RangeInclusive<u32> = 2..=14;
/// Bytes of a table for each sample: buckets of 8-byte entries that are not all full.
const BYTES_A_SAMPLE: u64 = 12;
/// Largest tables, in bytes, for samples up to so sparse. Beyond, new memory and misses of caches cost more than denser
/// samples gain: on a log of 268 MB, samples every 8 bytes instead of 16 spare 2 % of the size and cost as much work again;
/// on two kernel trees of 550 MB it is so for 16 instead of 32. A sample every 32 bytes finds most of a copy of 100 bytes.
const TABLES: [(u32, u64); 2] = [(4, 64 * MIB), (5, 512 * MIB)];
/// Deflate gains from shorter repeats than others: it sees little by itself and packs well what the repeats leave.
const DEFLATE_TABLES: [(u32, u64); 2] = [(3, 64 * MIB), (5, 512 * MIB)];
/// Pieces of a file that are kept in memory, in bytes. What lies farther back is read again: the system's cache has it.
const KEPT_OF_FILE: u64 = 256 * MIB;

/// Sizes that the memory allows, and what had to be given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Threads that pack.
    pub packers: usize,
    /// LZMA's dictionary, in bytes.
    pub dictionary: u32,
    /// Longest and shortest block of literals, in bytes.
    pub block: (u64, u64),
    /// Blocks of the back end's own within a block, in bytes as it counts them: a short one at the end of each of ours would
    /// have little context.
    pub inner: Option<usize>,
    /// Pieces that are kept in memory.
    pub pieces: usize,
    /// Memory of the table of samples, in bytes.
    pub table: u64,
    /// Mean distance of samples, as a power of 2.
    pub sparsity: u32,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// What was made smaller than wished, in words.
    pub steps: Vec<String>,
}

impl Plan {
    /// For an input of `length` bytes, if that is known.
    pub fn new(options: &Options<'_>, length: Option<u64>) -> Plan {
        let memory = options.memory.bytes;
        let mut steps = Vec::new();
        let kept = (memory * 3 / 8).max(4 * PIECE as u64);
        // A stream cannot be read again: a chunk has to fit. A file's chunk need not.
        let asked = options.window.unwrap_or(u64::MAX);
        let chunk = match length {
            None => asked.min(kept),
            Some(length) if options.unlimited => length,
            Some(length) => length.min(options.window.unwrap_or((memory * 2 / 3).max(64 * MIB))),
        };
        let chunk =
            (chunk / PIECE as u64).max(1) * PIECE as u64 + if chunk % PIECE as u64 > 0 { PIECE as u64 } else { 0 };
        let chunk = if length.is_none() { chunk.min(kept / PIECE as u64 * PIECE as u64) } else { chunk };
        let (sparsity, table) = table(options, chunk, &mut steps);
        let kept = if length.is_some() { kept.min(KEPT_OF_FILE) } else { kept };
        let wanted = length.map_or(u64::MAX, |length| length.div_ceil(PIECE as u64) + 1);
        let pieces = (kept / PIECE as u64).min(wanted) as usize;
        let mut plan = Plan {
            packers: options.threads.max(1),
            dictionary: lzma::dictionary_of(options.level),
            block: match options.packer {
                Packer::Lzma => (LZMA_BLOCK, LEAST_LZMA_BLOCK),
                _ => (BLOCK, BLOCK / 2),
            },
            inner: (options.packer == Packer::Bzip2).then(|| bzip2::block(options.level)),
            pieces,
            table,
            sparsity,
            chunk,
            steps,
        };
        plan.fit(options, memory / 2);
        plan
    }

    /// Memory of packing: a block in each thread, what it becomes, one that waits, and one that is not cut yet.
    fn packing(&self, options: &Options<'_>) -> u64 {
        let working = options.packer.working_memory(options.level, self.dictionary);
        self.packers as u64 * (working + 4 * self.block.0)
    }

    /// Gives things up until packing fits: first the longest blocks, then threads, then the dictionary.
    fn fit(&mut self, options: &Options<'_>, memory: u64) {
        let (packers, dictionary, block) = (self.packers, self.dictionary, self.block.0);
        let lzma = options.packer == Packer::Lzma;
        while self.packing(options) > memory {
            let enough = if lzma { 2 * u64::from(self.dictionary) } else { BLOCK };
            if self.block.0 > enough.max(4 * MIB) {
                self.block.0 /= 2;
            } else if self.packers > 1 {
                self.packers -= 1;
            } else if lzma && self.dictionary > lzma::LEAST_DICTIONARY {
                self.dictionary /= 2;
            } else if self.block.0 > MIB {
                self.block.0 /= 2;
            } else {
                break;
            }
        }
        self.block.1 = self.block.1.min(self.block.0);
        let mut step = |what: &str, was: u64, is: u64| {
            if is < was {
                self.steps.push(format!("{}: {what} {is} instead of {was}", short(options.memory.bytes)));
            }
        };
        step("threads that pack:", packers as u64, self.packers as u64);
        step("bytes of a dictionary:", u64::from(dictionary), u64::from(self.dictionary));
        step("bytes of the longest block:", block, self.block.0);
    }
}

/// Sparsity of samples and bytes of their table for a chunk of so many bytes.
fn table(options: &Options<'_>, chunk: u64, steps: &mut Vec<String>) -> (u32, u64) {
    let most = options.memory.bytes / 8;
    let bytes = |sparsity: u32| (chunk >> sparsity) * BYTES_A_SAMPLE;
    let tables = if options.packer == Packer::Zlib { DEFLATE_TABLES } else { TABLES };
    let mut wished = *SPARSITY.start();
    for (sparsest, largest) in tables {
        while bytes(wished) > largest && wished < sparsest {
            wished += 1;
        }
    }
    let mut sparsity = wished;
    while bytes(sparsity) > most && sparsity < *SPARSITY.end() {
        sparsity += 1;
    }
    if sparsity > wished {
        let memory = short(options.memory.bytes);
        steps.push(format!("{memory}: samples every {} bytes instead of {}", 1 << sparsity, 1 << wished));
    }
    (sparsity, bytes(sparsity).clamp(64 << 10, most))
}

fn short(memory: u64) -> String {
    format!("memory is {} MB", memory / 1_000_000)
}
