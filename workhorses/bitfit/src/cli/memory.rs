// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for maps that are measured.

use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

/// Size of a huge page.
const HUGE: usize = 2 << 20;

/// Zeroed memory that starts at a huge page and consists of such, if the system has them to spare: translating addresses
/// then costs next to nothing, and no search is the slower for where its pages lie.
pub struct Memory {
    map: MmapMut,
    start: usize,
    length: usize,
}

impl Memory {
    /// Gets `length` bytes.
    pub fn new(length: usize) -> std::io::Result<Memory> {
        let map = MmapMut::map_anon(length.next_multiple_of(HUGE) + HUGE)?;
        #[cfg(target_os = "linux")]
        // Without huge pages everything is as true, and a little slower.
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
