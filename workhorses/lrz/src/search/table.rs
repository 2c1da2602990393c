// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hash table of earlier sample positions.

use super::Sample;
use crate::error::{Error, Result};
use memmap2::{MmapMut, MmapOptions};

/// Entries per bucket: one cache line.
const BUCKET: usize = 8;
/// Key bits stored in an entry, below the position.
const CHECK_BITS: u32 = 24;
const CHECK: u64 = (1 << CHECK_BITS) - 1;
/// Number of lookups whose cache lines are loaded before the first is processed.
const AHEAD: usize = 32;
/// Maximum number of positions returned per key.
pub const PLACES: usize = 4;

/// A sample whose bytes occur at earlier positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// End of the sampled bytes within the piece.
    pub end: u32,
    /// Number of known positions, at least 1.
    pub known: u32,
    /// Ends of the earlier occurrences in the file, newest first.
    pub places: [u64; PLACES],
}

impl Found {
    /// Known positions, newest first.
    pub fn places(&self) -> &[u64] {
        &self.places[..self.known as usize]
    }
}

/// Positions of samples by key.
///
/// An entry holds a position plus 1 (40 bits) and 24 bits of the key. A full bucket drops its oldest entry. The
/// newest four positions of a key are kept.
pub struct Table {
    memory: MmapMut,
    buckets: u64,
}

impl Table {
    /// Creates a table of `bytes` bytes, at least one bucket.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory is short.
    pub fn new(bytes: u64) -> Result<Table> {
        let buckets = (bytes / (8 * BUCKET as u64)).clamp(1, u64::from(u32::MAX));
        let needed = buckets * 8 * BUCKET as u64;
        // Mapped directly: pages are zeroed on first access, and a failure is an error rather than an abort.
        let memory = MmapOptions::new()
            .len(needed as usize)
            .map_anon()
            .map_err(|_| Error::Memory { what: "the table of samples", needed })?;
        // Lookups are random accesses; huge pages avoid most TLB misses. Best effort.
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Table { memory, buckets })
    }

    /// Looks up the samples of the piece at `start` and inserts them. Positions before `from` are not returned.
    pub fn look(&mut self, samples: &[Sample], start: u64, from: u64) -> Vec<Found> {
        let entries: &mut [u64] = bytemuck::cast_slice_mut(&mut self.memory);
        let buckets = self.buckets;
        let bucket_of = |key: u64| (((key >> 32) * buckets) >> 32) as usize * BUCKET;
        let mut found = Vec::new();
        for some in samples.chunks(AHEAD) {
            // Independent loads of a batch overlap.
            let touched = some.iter().fold(0, |sum, sample| sum ^ entries[bucket_of(sample.key)]);
            std::hint::black_box(touched);
            for sample in some {
                let at = bucket_of(sample.key);
                let bucket: &mut [u64; BUCKET] = (&mut entries[at..at + BUCKET]).try_into().expect("a bucket");
                let position = start + u64::from(sample.end);
                let (known, places) = lookup_and_insert(bucket, sample.key & CHECK, position, from);
                if known > 0 {
                    found.push(Found { end: sample.end, known, places });
                }
            }
        }
        found
    }
}

/// Returns the positions with this check value in a bucket, newest first, and inserts a position.
fn lookup_and_insert(bucket: &mut [u64; BUCKET], check: u64, position: u64, from: u64) -> (u32, [u64; PLACES]) {
    // The lowest entry is the oldest one, or empty.
    let (mut lowest, mut oldest_at, mut known) = (0, 0, 0);
    let mut places = [0; PLACES];
    for (k, entry) in bucket.iter().enumerate() {
        if *entry < bucket[lowest] {
            lowest = k;
        }
        if *entry & CHECK == check && *entry >> CHECK_BITS > from && known < PLACES {
            let place = (*entry >> CHECK_BITS) - 1;
            let rank = places[..known].iter().take_while(|other| **other > place).count();
            places.copy_within(rank..known, (rank + 1).min(PLACES));
            places[rank] = place;
            if rank == known {
                oldest_at = k;
            }
            known += 1;
        }
    }
    let slot = if known == PLACES { oldest_at } else { lowest };
    bucket[slot] = (position + 1) << CHECK_BITS | check;
    (known as u32, places)
}
