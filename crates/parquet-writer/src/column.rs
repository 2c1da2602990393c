// SPDX-License-Identifier: GPL-2.0-only
//! The values of a column between two row groups, and their pages.

use crate::levels;
use crate::thrift::{Kind as Type, Struct};
use crate::{Cell, Column, Kind};
use std::collections::BTreeMap;
use std::io;

/// Numbers of the format: page types, encodings, codec.
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const ZSTD: i32 = 6;
/// Level of compression: higher ones save 5 % and take three times as long.
const LEVEL: i32 = 3;
/// Place of a null.
const NULL: u32 = u32::MAX;
/// Fewest distinct values of a column that is stored without a dictionary, if most of its values are distinct.
const MIN_DISTINCT_FOR_PLAIN: usize = 1 << 10;
/// Entries of the table of recent integers; a power of two.
const RECENT: usize = 1 << 12;

/// Number of a type in the format.
pub fn physical(kind: Kind) -> i32 {
    match kind {
        Kind::Text => 6,
        Kind::Integer => 2,
    }
}

/// Values of a column: their distinct ones in order of appearance, and runs of places among these.
pub struct Values {
    distinct: Distinct,
    /// Place and length of each run.
    runs: Vec<(u32, u64)>,
    rows: u64,
    /// Too many values were distinct: each further value gets a place of its own.
    is_plain: bool,
}

enum Distinct {
    Texts {
        all: Vec<String>,
        places: BTreeMap<String, u32>,
    },
    Integers {
        all: Vec<i64>,
        places: BTreeMap<i64, u32>,
        /// Place of a recent value by its hash, in front of the search in `places`.
        recent: Vec<(i64, u32)>,
    },
}

impl Values {
    pub fn new(kind: Kind) -> Values {
        let distinct = match kind {
            Kind::Text => Distinct::Texts { all: Vec::new(), places: BTreeMap::new() },
            Kind::Integer => {
                Distinct::Integers { all: Vec::new(), places: BTreeMap::new(), recent: vec![(0, NULL); RECENT] }
            }
        };
        Values { distinct, runs: Vec::new(), rows: 0, is_plain: false }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Returns the values, and leaves none.
    pub fn take(&mut self) -> Values {
        let kind = match self.distinct {
            Distinct::Texts { .. } => Kind::Text,
            Distinct::Integers { .. } => Kind::Integer,
        };
        std::mem::replace(self, Values::new(kind))
    }

    pub fn push(&mut self, value: Cell<'_>, count: u64) {
        if count == 0 {
            return;
        }
        let place = match (value, &mut self.distinct) {
            (Cell::Null, _) => NULL,
            (Cell::Text(text), Distinct::Texts { all, .. }) if self.is_plain => {
                all.push(text.to_owned());
                all.len() as u32 - 1
            }
            (Cell::Integer(value), Distinct::Integers { all, .. }) if self.is_plain => {
                all.push(value);
                all.len() as u32 - 1
            }
            (Cell::Text(text), Distinct::Texts { all, places }) => match places.get(text) {
                Some(place) => *place,
                None => {
                    all.push(text.to_owned());
                    places.insert(text.to_owned(), all.len() as u32 - 1);
                    all.len() as u32 - 1
                }
            },
            (Cell::Integer(value), Distinct::Integers { all, places, recent }) => {
                let slot = &mut recent[(value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 52];
                if *slot != (value, slot.1) || slot.1 == NULL {
                    let place = *places.entry(value).or_insert_with(|| {
                        all.push(value);
                        all.len() as u32 - 1
                    });
                    *slot = (value, place);
                }
                slot.1
            }
            (value, _) => panic!("{value:?} in a column of another type"),
        };
        self.rows += count;
        match self.runs.last_mut() {
            Some((last, length)) if *last == place => *length += count,
            _ => self.runs.push((place, count)),
        }
        if !self.is_plain && self.distinct.len() >= MIN_DISTINCT_FOR_PLAIN && self.distinct.len() as u64 * 2 > self.rows
        {
            self.is_plain = true;
            self.distinct.forget();
        }
    }

    /// The pages of all values, and their description.
    ///
    /// # Errors
    /// If they cannot be compressed.
    pub fn encode(&self, is_optional: bool) -> io::Result<(Vec<u8>, Chunk)> {
        let known = || self.runs.iter().copied().filter(|(place, _)| *place != NULL);
        let count: u64 = known().map(|(_, length)| length).sum();
        let by_dictionary = !self.is_plain && self.distinct.len() as u64 * 2 <= count;
        let (mut bytes, mut uncompressed, mut dictionary) = (Vec::new(), 0, None);
        if by_dictionary {
            let all = 0..self.distinct.len() as u32;
            let header = Struct::of(|header| {
                header.i32(1, self.distinct.len() as i32);
                header.i32(2, PLAIN);
            });
            uncompressed += page(&mut bytes, DICTIONARY_PAGE, &self.distinct.plain(all), header)?;
            dictionary = Some(bytes.len() as u64);
        }
        let mut body = Vec::new();
        if is_optional {
            let levels = self.runs.iter().map(|(place, length)| (u32::from(*place != NULL), *length));
            let levels = levels::encode(levels, 1);
            body.extend((levels.len() as u32).to_le_bytes());
            body.extend(levels);
        }
        if by_dictionary {
            let width = levels::width((self.distinct.len() as u32).saturating_sub(1));
            body.push(width as u8);
            body.extend(levels::encode(known(), width));
        } else {
            body.extend(self.distinct.plain(known().flat_map(|(place, length)| (0..length).map(move |_| place))));
        }
        let encoding = if by_dictionary { RLE_DICTIONARY } else { PLAIN };
        let header = Struct::of(|header| {
            header.i32(1, self.rows as i32);
            header.i32(2, encoding);
            header.i32(3, RLE);
            header.i32(4, RLE);
        });
        uncompressed += page(&mut bytes, DATA_PAGE, &body, header)?;
        let compressed = bytes.len() as i64;
        Ok((bytes, Chunk { rows: self.rows as i64, encoding, uncompressed, compressed, dictionary, at: 0 }))
    }
}

impl Distinct {
    fn len(&self) -> usize {
        match self {
            Distinct::Texts { all, .. } => all.len(),
            Distinct::Integers { all, .. } => all.len(),
        }
    }

    /// Forgets the places, which no value is searched in any more.
    fn forget(&mut self) {
        match self {
            Distinct::Texts { places, .. } => places.clear(),
            Distinct::Integers { places, recent, .. } => {
                places.clear();
                *recent = Vec::new();
            }
        }
    }

    /// Values one after the other.
    fn plain(&self, places: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for place in places {
            match self {
                Distinct::Texts { all, .. } => {
                    let text = all[place as usize].as_bytes();
                    bytes.extend((text.len() as u32).to_le_bytes());
                    bytes.extend(text);
                }
                Distinct::Integers { all, .. } => bytes.extend(all[place as usize].to_le_bytes()),
            }
        }
        bytes
    }
}

/// Appends a page. Returns its length without compression.
fn page(bytes: &mut Vec<u8>, kind: i32, body: &[u8], header: Struct) -> io::Result<i64> {
    let compressed = zstd::bulk::compress(body, LEVEL)?;
    let length = |bytes: &[u8]| i32::try_from(bytes.len()).map_err(|_| io::Error::other("a page of more than 2 GiB"));
    let (long, short) = (length(body)?, length(&compressed)?);
    let head = Struct::of(|page| {
        page.i32(1, kind);
        page.i32(2, long);
        page.i32(3, short);
        page.field(if kind == DATA_PAGE { 5 } else { 7 }, Type::Struct, header.end());
    });
    let head = head.end();
    bytes.extend(&head);
    bytes.extend(compressed);
    Ok(head.len() as i64 + i64::from(long))
}

/// A written column of a row group.
pub struct Chunk {
    rows: i64,
    encoding: i32,
    uncompressed: i64,
    compressed: i64,
    /// Length of the dictionary's page, which comes first, if there is one.
    dictionary: Option<u64>,
    /// Place in the file.
    at: u64,
}

impl Chunk {
    /// Sets the place in the file.
    pub fn place(&mut self, at: u64) {
        self.at = at;
    }

    /// Length without compression, in bytes.
    pub fn uncompressed(&self) -> i64 {
        self.uncompressed
    }

    /// `ColumnChunk`.
    pub fn metadata(&self, column: &Column) -> Struct {
        let metadata = Struct::of(|out| {
            out.i32(1, physical(column.kind));
            match self.dictionary {
                Some(_) => out.i32s(2, &[PLAIN, RLE, self.encoding]),
                None => out.i32s(2, &[RLE, self.encoding]),
            }
            out.texts(3, &[&column.name]);
            out.i32(4, ZSTD);
            out.i64(5, self.rows);
            out.i64(6, self.uncompressed);
            out.i64(7, self.compressed);
            out.i64(9, (self.at + self.dictionary.unwrap_or(0)) as i64);
            if self.dictionary.is_some() {
                out.i64(11, self.at as i64);
            }
        });
        Struct::of(|out| {
            out.i64(2, self.at as i64);
            out.field(3, Type::Struct, metadata.end());
        })
    }
}
