// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for maps in benchmarks.

use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

/// Size of a huge page in bytes.
const HUGE: usize = 2 << 20;

/// Zeroed memory aligned to huge pages and, if the system has any, backed by them, so that TLB misses and page
/// placement do not affect the results.
pub struct Memory {
    map: MmapMut,
    start: usize,
    length: usize,
}

impl Memory {
    /// Allocates `length` bytes.
    pub fn new(length: usize) -> std::io::Result<Memory> {
        let map = MmapMut::map_anon(length.next_multiple_of(HUGE) + HUGE)?;
        #[cfg(target_os = "linux")]
        // Best effort: without huge pages the measurements are only a little slower.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_ptr().align_offset(HUGE);
        Ok(Memory { map, start, length })
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..self.start + self.length]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..self.start + self.length]
    }
}
