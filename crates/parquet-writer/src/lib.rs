// SPDX-License-Identifier: GPL-2.0-only
//! Writes tables of texts and integers as Parquet files: the same rows give the same bytes.
//!
//! The libraries that write Parquet are under Apache-2.0 alone, which a program under GPL-2.0-only must not link, and
//! results need a small part of the format only: flat columns that may be null, dictionaries, run lengths, zstd. The
//! format is that of <https://parquet.apache.org/docs/file-format>, with data pages of version 1.
//!
//! 1. A [`Writer`] takes the values of each column, [`Writer::rows`] at a time, and keeps them as runs of equal values.
//! 2. After some two million values it writes a row group: one page of each column, by dictionary where that is shorter.
//! 3. [`Writer::finish`] writes the footer.

mod column;
mod levels;
mod thrift;

use column::{Chunk, Values};
use std::io::{self, Write};
use thrift::{Kind as Type, Struct};

/// First and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";
/// Version of the format's metadata.
const VERSION: i32 = 1;
/// Writer's name in the footer.
const CREATED_BY: &str = "weir parquet-writer 1";
/// Values of all columns after which a row group is written: at most some 100 MB of memory.
const GROUP: usize = 1 << 21;

/// Type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Signed 64-bit integer.
    Integer,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name. Dots have no meaning: all columns are flat.
    pub name: String,
    /// Type of its values.
    pub kind: Kind,
    /// Whether values may be null.
    pub is_optional: bool,
}

impl Column {
    /// Column without nulls.
    pub fn required(name: impl Into<String>, kind: Kind) -> Column {
        Column { name: name.into(), kind, is_optional: false }
    }

    /// Column with nulls.
    pub fn optional(name: impl Into<String>, kind: Kind) -> Column {
        Column { name: name.into(), kind, is_optional: true }
    }
}

/// A value of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// Value of a column of texts.
    Text(&'a str),
    /// Value of a column of integers.
    Integer(i64),
}

impl From<Option<u64>> for Cell<'_> {
    /// A count or time; values above `i64::MAX`, which no run reaches, are that.
    fn from(value: Option<u64>) -> Self {
        value.map_or(Cell::Null, |value| Cell::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

/// A row group in the file.
struct Group {
    chunks: Vec<Chunk>,
    rows: u64,
}

/// Writes one table.
pub struct Writer<W: Write> {
    out: W,
    /// Bytes written so far.
    at: u64,
    columns: Vec<Column>,
    values: Vec<Values>,
    /// Rows since the last row group, and their number at which it is written.
    rows: u64,
    most_rows: u64,
    groups: Vec<Group>,
    metadata: Vec<(String, String)>,
}

impl<W: Write> Writer<W> {
    /// Begins a table with these columns. `metadata` are pairs of key and value for the footer.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, columns: Vec<Column>, metadata: &[(&str, &str)]) -> io::Result<Writer<W>> {
        out.write_all(MAGIC)?;
        let values = columns.iter().map(|column| Values::new(column.kind)).collect();
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let most_rows = (GROUP / columns.len().max(1)) as u64;
        let (at, groups) = (MAGIC.len() as u64, Vec::new());
        Ok(Writer { out, at, columns, values, rows: 0, most_rows, groups, metadata })
    }

    /// Adds `count` times this value to a column.
    ///
    /// # Panics
    /// If the value is not of the column's type, or null in a column without nulls.
    pub fn push(&mut self, column: usize, value: Cell<'_>, count: u64) {
        assert!(value != Cell::Null || self.columns[column].is_optional, "{}: no value", self.columns[column].name);
        self.values[column].push(value, count);
    }

    /// Ends the given number of rows, whose values were pushed to every column.
    ///
    /// # Errors
    /// If the file cannot be written.
    ///
    /// # Panics
    /// If a column has more or fewer values than there are rows.
    pub fn rows(&mut self, count: u64) -> io::Result<()> {
        self.rows += count;
        for (column, values) in self.columns.iter().zip(&self.values) {
            assert_eq!(values.len(), self.rows, "values of the column {}", column.name);
        }
        if self.rows >= self.most_rows { self.write_group() } else { Ok(()) }
    }

    /// Writes the last rows and the footer. Returns the output.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let footer = self.footer();
        self.out.write_all(&footer)?;
        let length = u32::try_from(footer.len()).map_err(|_| io::Error::other("too many row groups"))?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let mut chunks = Vec::with_capacity(self.columns.len());
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            let (bytes, mut chunk) = values.take().encode(column.is_optional)?;
            self.out.write_all(&bytes)?;
            chunk.place(self.at);
            self.at += bytes.len() as u64;
            chunks.push(chunk);
        }
        self.groups.push(Group { chunks, rows: std::mem::take(&mut self.rows) });
        Ok(())
    }

    /// `FileMetaData`.
    fn footer(&self) -> Vec<u8> {
        let mut file = Struct::new();
        file.i32(1, VERSION);
        let root = |schema: &mut Struct| {
            schema.text(4, "table");
            schema.i32(5, self.columns.len() as i32);
        };
        let mut elements = vec![Struct::of(root)];
        elements.extend(self.columns.iter().map(schema_element));
        file.structs(2, elements);
        file.i64(3, self.groups.iter().map(|group| group.rows as i64).sum());
        file.structs(4, self.groups.iter().map(|group| self.row_group(group)).collect());
        let pair = |(key, value): &(String, String)| {
            Struct::of(|pair| {
                pair.text(1, key);
                pair.text(2, value);
            })
        };
        file.structs(5, self.metadata.iter().map(pair).collect());
        file.text(6, CREATED_BY);
        file.end()
    }

    fn row_group(&self, group: &Group) -> Struct {
        Struct::of(|out| {
            let chunks = self.columns.iter().zip(&group.chunks).map(|(column, chunk)| chunk.metadata(column));
            out.structs(1, chunks.collect());
            out.i64(2, group.chunks.iter().map(Chunk::uncompressed).sum());
            out.i64(3, group.rows as i64);
        })
    }
}

/// `SchemaElement` of a column.
fn schema_element(column: &Column) -> Struct {
    const UTF8: i32 = 0;
    const STRING: i16 = 1;
    Struct::of(|out| {
        out.i32(1, column::physical(column.kind));
        out.i32(3, i32::from(column.is_optional));
        out.text(4, &column.name);
        if column.kind == Kind::Text {
            out.i32(6, UTF8);
            let string = Struct::of(|logical| logical.field(STRING, Type::Struct, Struct::new().end()));
            out.field(10, Type::Struct, string.end());
        }
    })
}

#[cfg(test)]
mod tests;
