// SPDX-License-Identifier: GPL-2.0-only
//! Reader of `.BTF.ext`, which lists the instructions at which functions start, their source lines and their CO-RE
//! relocations.

use crate::ObjectError;
use crate::bytes::{Reader, Strings};

const SECTION: &str = ".BTF.ext";

/// A `.BTF.ext` record with the instruction that it describes.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    /// ELF section of the instruction.
    pub section: String,
    /// Offset of the instruction from the start of that section, in bytes.
    pub offset: u32,
    /// Contents of the record.
    pub record: T,
}

/// A source line: its file name, text, number and column.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub file: String,
    pub text: String,
    pub line: u32,
    pub column: u32,
}

/// A CO-RE relocation as stored in the file.
#[derive(Clone, Debug)]
pub(crate) struct CoreRecord {
    pub type_id: u32,
    pub access: String,
    pub kind: u32,
}

/// All records of the section in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct BtfExt {
    /// Starts of functions, each with the BTF type number of its [`super::Type::Func`].
    pub functions: Vec<At<u32>>,
    pub lines: Vec<At<Line>>,
    pub core: Vec<At<CoreRecord>>,
}

impl BtfExt {
    /// Reads the section; `strings` is the string table of `.BTF`.
    pub fn parse(bytes: &[u8], strings: &Strings<'_>) -> Result<BtfExt, ObjectError> {
        // Bounds the copied strings to 64 bytes per byte of the section: a line record takes 16 bytes, and its text
        // and file name together rarely exceed 300.
        let strings = strings.with_budget(bytes.len().saturating_mul(64) + 65_536);
        let whole = Reader::new(SECTION, bytes);
        let mut head = whole.clone();
        let magic = head.u16()?;
        if magic != super::read::MAGIC {
            return Err(whole.error(format!("magic number {:#06x} expected, {magic:#06x} found", super::read::MAGIC)));
        }
        let version = head.take(2)?[0];
        if version != 1 {
            return Err(head.error(format!("version 1 expected, {version} found")));
        }
        let header_len = head.u32()? as usize;
        let mut part = |from: usize| -> Result<Reader<'_>, ObjectError> {
            if header_len < from + 8 {
                return whole.window(0, 0);
            }
            let (offset, len) = (head.u32()? as usize, head.u32()? as usize);
            whole.window(header_len.checked_add(offset).ok_or_else(|| whole.error("header offsets overflow"))?, len)
        };
        let (functions, lines, core) = (part(8)?, part(16)?, part(24)?);
        Ok(BtfExt {
            functions: records(functions, &strings, 8, |r, _| r.u32())?,
            lines: records(lines, &strings, 16, read_line)?,
            core: records(core, &strings, 16, |r, strings| {
                Ok(CoreRecord { type_id: r.u32()?, access: strings.get(r.u32()?)?, kind: r.u32()? })
            })?,
        })
    }
}

fn read_line(reader: &mut Reader<'_>, strings: &Strings<'_>) -> Result<Line, ObjectError> {
    let file = strings.get(reader.u32()?)?;
    let text = strings.get(reader.u32()?)?;
    let place = reader.u32()?;
    // The upper 22 bits hold the line, the lower 10 the column.
    Ok(Line { file, text, line: place >> 10, column: place & 0x3ff })
}

/// Reads one of the three subsections: a record size, then for each ELF section its name, the number of records and
/// the records.
fn records<T>(
    mut reader: Reader<'_>,
    strings: &Strings<'_>,
    expected: usize,
    read: impl Fn(&mut Reader<'_>, &Strings<'_>) -> Result<T, ObjectError>,
) -> Result<Vec<At<T>>, ObjectError> {
    let mut all = Vec::new();
    if reader.is_empty() {
        return Ok(all);
    }
    let size = reader.u32()? as usize;
    if size < expected {
        return Err(reader.error(format!("records of at least {expected} bytes expected, {size} found")));
    }
    while !reader.is_empty() {
        let section = reader.u32()?;
        let count = reader.u32()?;
        for _ in 0..count {
            let start = reader.clone();
            reader.take(size)?;
            let mut record = start;
            let offset = record.u32()?;
            all.push(At { section: strings.get(section)?, offset, record: read(&mut record, strings)? });
        }
    }
    Ok(all)
}
