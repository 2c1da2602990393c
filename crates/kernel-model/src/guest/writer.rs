// SPDX-License-Identifier: GPL-2.0-only
//! Writes kernel objects to guest memory.

use super::layout::{Struct, Ty};

/// Writer of a guest object's members, by name.
pub(super) struct Writer<'a> {
    pub bytes: &'a mut [u8],
    pub structure: &'static Struct,
}

impl Writer<'_> {
    /// Stores a number or address, truncated to the size of the member.
    pub fn set(&mut self, path: &str, value: u64) {
        let (offset, ty) = self.structure.member(path);
        let len = ty.size() as usize;
        assert!(len <= 8, "{path} is not a number");
        self.bytes[offset as usize..][..len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Stores an element of an array of numbers or addresses.
    pub fn set_element(&mut self, path: &str, index: u32, value: u64) {
        let (offset, ty) = self.structure.member(path);
        let Ty::Array(element, count) = ty else { panic!("{path} is not an array") };
        assert!(index < count, "{path} has {count} elements");
        let len = element.size() as usize;
        let at = offset as usize + index as usize * len;
        self.bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Stores a NUL-terminated string, truncated to the size of the member.
    pub fn text(&mut self, path: &str, text: &str) {
        let (offset, ty) = self.structure.member(path);
        let Ty::Array(Ty::Char, len) = ty else { panic!("{path} is not a text") };
        put_text(&mut self.bytes[offset as usize..][..len as usize], text);
    }
}

/// Fills `place` with a NUL-terminated string, truncated to fit.
pub(super) fn put_text(place: &mut [u8], text: &str) {
    let len = text.len().min(place.len() - 1);
    place[..len].copy_from_slice(&text.as_bytes()[..len]);
    place[len..].fill(0);
}
