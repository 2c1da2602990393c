// SPDX-License-Identifier: MIT OR Apache-2.0
//! A 9P client for tests.

use std::io::{Read, Write};

/// A client with at most one request in progress.
pub struct Client<S> {
    pub stream: S,
}

/// A request's fields.
#[derive(Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }
    pub fn string(self, text: &str) -> Self {
        let mut fields = self.u16(text.len() as u16);
        fields.0.extend(text.as_bytes());
        fields
    }
}

/// A request without fields.
pub fn f() -> Fields {
    Fields::default()
}

/// A message with its size and header.
pub fn frame(kind: u8, tag: u16, fields: &[u8]) -> Vec<u8> {
    let mut message = (7 + fields.len() as u32).to_le_bytes().to_vec();
    message.push(kind);
    message.extend(tag.to_le_bytes());
    message.extend(fields);
    message
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, kind: u8, tag: u16, fields: Fields) {
        self.stream.write_all(&frame(kind, tag, &fields.0)).unwrap();
    }

    pub fn receive(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).ok()?;
        let mut rest = vec![0; u32::from_le_bytes(size) as usize - 4];
        self.stream.read_exact(&mut rest).ok()?;
        Some((rest[0], u16::from_le_bytes([rest[1], rest[2]]), rest[3..].to_vec()))
    }

    /// Sends a request and returns the reply's fields, or the error number.
    pub fn call(&mut self, kind: u8, fields: Fields) -> Result<Vec<u8>, i32> {
        self.send(kind, 3, fields);
        let (reply, tag, fields) = self.receive().expect("a reply");
        assert_eq!(tag, 3);
        if reply == 7 {
            return Err(i32::from_le_bytes(fields[..4].try_into().unwrap()));
        }
        assert_eq!(reply, kind + 1);
        Ok(fields)
    }

    /// Agrees on messages of 64 KiB and attaches the root as fid 0.
    pub fn start(&mut self, uid: u32) -> Result<Vec<u8>, i32> {
        let reply = self.call(100, f().u32(65536).string("9P2000.L")).unwrap();
        assert_eq!(reply, f().u32(65536).string("9P2000.L").0);
        self.call(104, f().u32(0).u32(u32::MAX).string("user").string("").u32(uid))
    }

    pub fn walk(&mut self, fid: u32, newfid: u32, names: &[&str]) -> Result<Vec<u8>, i32> {
        let fields =
            names.iter().fold(f().u32(fid).u32(newfid).u16(names.len() as u16), |fields, name| fields.string(name));
        self.call(110, fields)
    }
}
