// SPDX-License-Identifier: GPL-2.0-only
//! Writes kernel objects to guest memory.

use super::types::Layout;

/// Writer of a guest object's members, by name. Members that the kernel lacks are skipped.
pub(super) struct Writer<'a> {
    pub bytes: &'a mut [u8],
    pub layout: &'a Layout,
}

impl Writer<'_> {
    /// Stores a number or address, truncated to the size of the member.
    pub fn set(&mut self, path: &str, value: u64) {
        let place = self.layout.place(path);
        assert!(place.size <= 8, "{path} is not a number");
        place.store(self.bytes, value);
    }

    /// Stores an element of an array of addresses, which may be flexible.
    pub fn set_element(&mut self, path: &str, index: u32, value: u64) {
        let at = (self.layout.offset(path) + 8 * index) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Stores a NUL-terminated string, truncated to the size of the member.
    pub fn text(&mut self, path: &str, text: &str) {
        let place = self.layout.place(path);
        put_text(&mut self.bytes[place.offset as usize..][..place.size as usize], text);
    }
}

/// Fills `place` with a NUL-terminated string, truncated to fit.
pub(super) fn put_text(place: &mut [u8], text: &str) {
    let len = text.len().min(place.len() - 1);
    place[..len].copy_from_slice(&text.as_bytes()[..len]);
    place[len..].fill(0);
}
