// SPDX-License-Identifier: GPL-2.0-only
//! The part of Thrift's compact protocol that the metadata of Parquet need.

/// Types of fields, with their numbers in the protocol.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Kind {
    I32 = 5,
    I64 = 6,
    Binary = 8,
    List = 9,
    Struct = 12,
}

/// Lists of up to this many elements have their length in the first byte.
const SHORT: usize = 14;

/// A struct that is being written. Fields come in ascending order of their numbers.
pub struct Struct {
    bytes: Vec<u8>,
    last: i16,
}

impl Struct {
    /// A struct without fields.
    pub fn new() -> Struct {
        Struct { bytes: Vec::new(), last: 0 }
    }

    /// A struct with the fields that `fill` writes.
    pub fn of(fill: impl FnOnce(&mut Struct)) -> Struct {
        let mut made = Struct::new();
        fill(&mut made);
        made
    }

    /// The bytes of the complete struct.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    /// Writes a field whose value is already encoded.
    pub fn field(&mut self, id: i16, kind: Kind, value: Vec<u8>) {
        // All gaps between the numbers of Parquet's fields are below 16.
        self.bytes.push(((id - self.last) as u8) << 4 | kind as u8);
        self.last = id;
        self.bytes.extend(value);
    }

    pub fn i32(&mut self, id: i16, value: i32) {
        self.field(id, Kind::I32, zigzag(value.into()));
    }

    pub fn i64(&mut self, id: i16, value: i64) {
        self.field(id, Kind::I64, zigzag(value));
    }

    pub fn text(&mut self, id: i16, text: &str) {
        self.field(id, Kind::Binary, binary(text));
    }

    pub fn texts(&mut self, id: i16, texts: &[&str]) {
        self.list(id, Kind::Binary, texts.iter().map(|text| binary(text)).collect());
    }

    pub fn i32s(&mut self, id: i16, values: &[i32]) {
        self.list(id, Kind::I32, values.iter().map(|value| zigzag((*value).into())).collect());
    }

    pub fn structs(&mut self, id: i16, structs: Vec<Struct>) {
        self.list(id, Kind::Struct, structs.into_iter().map(Struct::end).collect());
    }

    fn list(&mut self, id: i16, kind: Kind, elements: Vec<Vec<u8>>) {
        let mut bytes = Vec::new();
        if elements.len() <= SHORT {
            bytes.push((elements.len() as u8) << 4 | kind as u8);
        } else {
            bytes.push(0xf0 | kind as u8);
            varint(&mut bytes, elements.len() as u64);
        }
        elements.into_iter().for_each(|element| bytes.extend(element));
        self.field(id, Kind::List, bytes);
    }
}

fn binary(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    varint(&mut bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
    bytes
}

/// Small negative and positive numbers are short.
fn zigzag(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, (value << 1 ^ value >> 63) as u64);
    bytes
}

/// Appends a number in groups of seven bits, the lowest first.
pub fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
