// SPDX-License-Identifier: GPL-2.0-only
//! Little-endian reading of untrusted section contents, with errors that name section and byte.

use crate::ObjectError;
use std::cell::Cell;

/// Reads forward through one section.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    section: &'static str,
    data: &'a [u8],
    at: usize,
    /// Where `data` starts in the section, for error messages.
    base: usize,
}

impl<'a> Reader<'a> {
    pub fn new(section: &'static str, data: &'a [u8]) -> Reader<'a> {
        Reader { section, data, at: 0, base: 0 }
    }

    /// Where the next byte lies in the section.
    pub fn offset(&self) -> usize {
        self.base + self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    /// Bytes that are left.
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

    /// A reader of `len` bytes at `offset` of the whole section that `self` reads.
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

    /// All bytes of this reader, read or not.
    pub fn all(&self) -> &'a [u8] {
        self.data
    }
}

/// A section whose contents contradict its format.
pub(crate) fn malformed(section: &str, offset: usize, problem: impl Into<String>) -> ObjectError {
    ObjectError::Malformed { section: section.to_string(), offset, problem: problem.into() }
}

/// The string table of BTF. Copies out of it are bounded in sum: a hostile file could otherwise refer to one long
/// string from each of its records and so ask for the square of its size.
#[derive(Debug)]
pub(crate) struct Strings<'a> {
    data: &'a [u8],
    budget: Cell<usize>,
}

impl<'a> Strings<'a> {
    /// `budget` bytes may be copied out in all.
    pub fn new(data: &'a [u8], budget: usize) -> Strings<'a> {
        Strings { data, budget: Cell::new(budget) }
    }

    /// The same table with a budget of its own.
    pub fn with_budget(&self, budget: usize) -> Strings<'a> {
        Strings::new(self.data, budget)
    }

    /// The string at `offset`; bytes that are not UTF-8 are replaced.
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
