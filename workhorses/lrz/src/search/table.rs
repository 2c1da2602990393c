// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where samples stood before.

use super::Sample;
use crate::error::{Error, Result};
use memmap2::{MmapMut, MmapOptions};

/// Entries of a bucket: what a cache line holds.
const BUCKET: usize = 8;
/// Bits of an entry that are compared, below the position.
const CHECK_BITS: u32 = 24;
const CHECK: u64 = (1 << CHECK_BITS) - 1;
/// Lookups whose memory is asked for before any of them is done.
const AHEAD: usize = 32;

/// A sample that stood elsewhere before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where the sampled bytes end in the piece.
    pub end: u32,
    /// Where the same bytes ended most recently in the file.
    pub newest: u64,
    /// Where they ended first, as far as is known; the same as `newest` if only one place is known.
    pub oldest: u64,
}

/// Positions of samples by their keys.
///
/// An entry is a position (40 bits, plus 1) and a part of the key. Buckets drop their oldest entry when they are
/// full. Of places with the same key two are kept: the first, and the newest.
pub struct Table {
    memory: MmapMut,
    buckets: u64,
}

impl Table {
    /// With `bytes` of memory, at least a bucket.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is not so much.
    pub fn new(bytes: u64) -> Result<Table> {
        let buckets = (bytes / (8 * BUCKET as u64)).clamp(1, u64::from(u32::MAX));
        let needed = buckets * 8 * BUCKET as u64;
        // Straight from the system: zeroed when touched, and a refusal is no abort.
        let memory = MmapOptions::new()
            .len(needed as usize)
            .map_anon()
            .map_err(|_| Error::Memory { what: "the table of samples", needed })?;
        // Every lookup is at random: large pages spare most of the misses of the address translation. Where the system
        // has none it works as well.
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Table { memory, buckets })
    }

    /// Looks up the samples of the piece that begins at `start`, and keeps them. What stood before `from` is not found.
    pub fn look(&mut self, samples: &[Sample], start: u64, from: u64) -> Vec<Found> {
        let entries: &mut [u64] = bytemuck::cast_slice_mut(&mut self.memory);
        let buckets = self.buckets;
        let bucket_of = |key: u64| (((key >> 32) * buckets) >> 32) as usize * BUCKET;
        let mut found = Vec::new();
        for some in samples.chunks(AHEAD) {
            // The loads do not wait for each other.
            let touched = some.iter().fold(0, |sum, sample| sum ^ entries[bucket_of(sample.key)]);
            std::hint::black_box(touched);
            for sample in some {
                let at = bucket_of(sample.key);
                let bucket: &mut [u64; BUCKET] = (&mut entries[at..at + BUCKET]).try_into().expect("a bucket");
                let position = start + u64::from(sample.end);
                if let Some((newest, oldest)) = visit(bucket, sample.key & CHECK, position, from) {
                    found.push(Found { end: sample.end, newest, oldest });
                }
            }
        }
        found
    }
}

/// Finds the newest and the oldest place with this check in a bucket, and adds a position.
fn visit(bucket: &mut [u64; BUCKET], check: u64, position: u64, from: u64) -> Option<(u64, u64)> {
    // The lowest entry is the oldest, or empty.
    let (mut lowest, mut newest, mut oldest, mut known) = (0, 0, u64::MAX, 0);
    let mut newest_at = 0;
    for (k, entry) in bucket.iter().enumerate() {
        if *entry < bucket[lowest] {
            lowest = k;
        }
        if *entry & CHECK == check && *entry >> CHECK_BITS > from {
            known += 1;
            let place = (*entry >> CHECK_BITS) - 1;
            if place >= newest {
                newest = place;
                newest_at = k;
            }
            oldest = oldest.min(place);
        }
    }
    let slot = if known > 1 { newest_at } else { lowest };
    bucket[slot] = (position + 1) << CHECK_BITS | check;
    (known > 0).then_some((newest, oldest))
}
