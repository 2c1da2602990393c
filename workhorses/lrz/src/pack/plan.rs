// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distribution of the memory limit over the stages.

use super::Options;
use crate::backend::{Packer, bzip2, lzma};
use crate::window::PIECE;

const MIB: u64 = 1 << 20;
/// Largest block of literals in bytes: for LZMA, and for back ends whose context is shorter than a block.
const BLOCK: u64 = 8 * MIB;
const LZMA_BLOCK: u64 = 128 * MIB;
/// Smaller blocks cost LZMA more in lost context than an additional busy thread gains.
const LEAST_LZMA_BLOCK: u64 = 10 * MIB;
/// Mean distance between samples, as a power of two. With the densest sampling, nine of ten 32-byte repeats contain a
/// sample; with the sparsest, a 128 KiB copy almost certainly does.
const SPARSITY: std::ops::RangeInclusive<u32> = 2..=14;
/// Table bytes per sample: 8-byte entries in buckets that are not all full.
const BYTES_A_SAMPLE: u64 = 12;
/// Largest table in bytes up to a given sparsity. A larger table costs more in page faults and cache misses than
/// denser samples gain: for a log of 268 MB, sampling every 8 instead of 16 bytes saves 2 % of the size but doubles
/// the work; for two kernel trees of 550 MB the same holds for 16 instead of 32. Sampling every 32 bytes finds most
/// 100-byte copies.
const TABLES: [(u32, u64); 2] = [(4, 64 * MIB), (5, 512 * MIB)];
/// Deflate gains from shorter matches than the other back ends: its own window is small, and it compresses the
/// remaining literals well.
const DEFLATE_TABLES: [(u32, u64); 2] = [(3, 64 * MIB), (5, 512 * MIB)];
/// Bytes of a file kept in memory. Older input is read again, usually from the page cache.
const KEPT_OF_FILE: u64 = 256 * MIB;

/// Sizes chosen for a memory limit, and the reductions made to fit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Number of compressing threads.
    pub packers: usize,
    /// LZMA dictionary size in bytes.
    pub dictionary: u32,
    /// Longest and shortest block of literals in bytes.
    pub block: (u64, u64),
    /// Length in bytes of the back end's internal blocks, if it has any. Our blocks end where internal ones do,
    /// because a short internal block has little context.
    pub inner: Option<usize>,
    /// Number of input pieces kept in memory.
    pub pieces: usize,
    /// Size of the sample table in bytes.
    pub table: u64,
    /// Mean distance between samples, as a power of two.
    pub sparsity: u32,
    /// Chunk length in bytes.
    pub chunk: u64,
    /// Messages about sizes reduced below the requested ones.
    pub steps: Vec<String>,
}

impl Plan {
    /// Creates the plan for an input of `length` bytes, if the length is known.
    pub fn new(options: &Options<'_>, length: Option<u64>) -> Plan {
        let memory = options.memory.bytes;
        let mut steps = Vec::new();
        let kept = (memory * 3 / 8).max(4 * PIECE as u64);
        // A stream cannot be read again, so its chunk must fit in memory. A file's chunk need not.
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

    /// Memory of compression in bytes. Per thread: a block, its output, a queued block and a block not yet cut.
    fn packing(&self, options: &Options<'_>) -> u64 {
        let working = options.packer.working_memory(options.level, self.dictionary);
        self.packers as u64 * (working + 4 * self.block.0)
    }

    /// Reduces sizes until compression fits: first the longest block, then the number of threads, then the
    /// dictionary.
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
        step("compressing threads:", packers as u64, self.packers as u64);
        step("bytes of dictionary:", u64::from(dictionary), u64::from(self.dictionary));
        step("bytes of the longest block:", block, self.block.0);
    }
}

/// Returns the sampling sparsity and the table size in bytes for a chunk of `chunk` bytes.
fn table(options: &Options<'_>, chunk: u64, steps: &mut Vec<String>) -> (u32, u64) {
    let most = options.memory.bytes / 8;
    let bytes = |sparsity: u32| (chunk >> sparsity) * BYTES_A_SAMPLE;
    let tables = if options.packer == Packer::Zlib { DEFLATE_TABLES } else { TABLES };
    let mut desired = *SPARSITY.start();
    for (sparsest, largest) in tables {
        while bytes(desired) > largest && desired < sparsest {
            desired += 1;
        }
    }
    let mut sparsity = desired;
    while bytes(sparsity) > most && sparsity < *SPARSITY.end() {
        sparsity += 1;
    }
    if sparsity > desired {
        let memory = short(options.memory.bytes);
        steps.push(format!("{memory}: samples every {} bytes instead of {}", 1 << sparsity, 1 << desired));
    }
    (sparsity, bytes(sparsity).clamp(64 << 10, most))
}

fn short(memory: u64) -> String {
    format!("memory is {} MB", memory / 1_000_000)
}
