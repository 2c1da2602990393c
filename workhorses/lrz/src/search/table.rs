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
/// Places that are kept of one key.
pub const PLACES: usize = 4;

/// A sample that stood elsewhere before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where the sampled bytes end in the piece.
    pub end: u32,
    /// How many places of the same bytes are known, at least 1.
    pub known: u32,
    /// Where they ended in the file, the newest place first.
    pub places: [u64; PLACES],
}

impl Found {
    /// The known places, the newest first.
    pub fn places(&self) -> &[u64] {
        &self.places[..self.known as usize]
    }
}

/// Positions of samples by their keys.
///
/// An entry is a position (40 bits, plus 1) and a part of the key. Buckets drop their oldest entry when they are
/// full. Of places with the same key the newest four are kept.
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
                let (known, places) = visit(bucket, sample.key & CHECK, position, from);
                if known > 0 {
                    found.push(Found { end: sample.end, known, places });
                }
            }
        }
        found
    }
}

/// Finds the places with this check in a bucket, the newest first, and adds a position.
fn visit(bucket: &mut [u64; BUCKET], check: u64, position: u64, from: u64) -> (u32, [u64; PLACES]) {
    // The lowest entry is the oldest, or empty.
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
