// SPDX-License-Identifier: GPL-2.0-only
//! Little-endian reader for section contents of untrusted files. Its errors name the section and the byte offset.

use crate::ObjectError;
use std::cell::Cell;

/// Reads one section sequentially.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    section: &'static str,
    data: &'a [u8],
    at: usize,
    /// Offset of `data` from the start of the section, for error messages.
    base: usize,
}

impl<'a> Reader<'a> {
    pub fn new(section: &'static str, data: &'a [u8]) -> Reader<'a> {
        Reader { section, data, at: 0, base: 0 }
    }

    /// Offset of the next byte from the start of the section.
    pub fn offset(&self) -> usize {
        self.base + self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    /// Number of bytes not yet read.
    pub fn left(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    pub fn error(&self, problem: impl Into<String>) -> ObjectError {
        malformed(self.section, self.offset(), problem)
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ObjectError> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.data.len());
        let Some(end) = end else {
            return Err(self.error(format!("{len} bytes expected, {} left", self.left())));
        };
        let bytes = &self.data[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    pub fn u16(&mut self) -> Result<u16, ObjectError> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("2 bytes")))
    }

    pub fn u32(&mut self) -> Result<u32, ObjectError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    /// Returns a reader of the `len` bytes at `offset` of this reader's data, whether read already or not.
    pub fn window(&self, offset: usize, len: usize) -> Result<Reader<'a>, ObjectError> {
        let data = offset.checked_add(len).and_then(|end| self.data.get(offset..end)).ok_or_else(|| {
            malformed(
                self.section,
                offset,
                format!("part of {len} bytes exceeds the section of {} bytes", self.data.len()),
            )
        })?;
        Ok(Reader { section: self.section, data, at: 0, base: self.base + offset })
    }

    /// All bytes of this reader, whether read already or not.
    pub fn all(&self) -> &'a [u8] {
        self.data
    }
}

/// Error for a section whose contents contradict its format.
pub(crate) fn malformed(section: &str, offset: usize, problem: impl Into<String>) -> ObjectError {
    ObjectError::Malformed { section: section.to_string(), offset, problem: problem.into() }
}

/// The string table of BTF. The total number of bytes copied out of it is limited: otherwise a hostile file could
/// refer to one long string from each of its records and so use memory quadratic in its size.
#[derive(Debug)]
pub(crate) struct Strings<'a> {
    data: &'a [u8],
    budget: Cell<usize>,
}

impl<'a> Strings<'a> {
    /// Creates a table from which at most `budget` bytes can be copied.
    pub fn new(data: &'a [u8], budget: usize) -> Strings<'a> {
        Strings { data, budget: Cell::new(budget) }
    }

    /// Returns the same table with a separate budget.
    pub fn with_budget(&self, budget: usize) -> Strings<'a> {
        Strings::new(self.data, budget)
    }

    /// Returns the string at `offset`; bytes that are not UTF-8 are replaced.
    pub fn get(&self, offset: u32) -> Result<String, ObjectError> {
        let bad = |problem: String| Err(malformed(".BTF", offset as usize, problem));
        let Some(rest) = self.data.get(offset as usize..) else {
            return bad(format!("string offset {offset} lies outside of the {} bytes of strings", self.data.len()));
        };
        let Some(len) = rest.iter().position(|byte| *byte == 0) else {
            return bad(format!("the string at offset {offset} has no end"));
        };
        let Some(left) = self.budget.get().checked_sub(len) else {
            return bad("names are repeated more often than any compiler does".to_string());
        };
        self.budget.set(left);
        Ok(String::from_utf8_lossy(&rest[..len]).into_owned())
    }
}
