// SPDX-License-Identifier: MIT OR Apache-2.0
//! Name and type in a directory entry, in as little memory as the length of the name allows.

use super::Result;
use rustix::io::Errno;
use std::ops::Deref;
use std::sync::Arc;

/// Longest name that needs no allocation, in bytes.
const SHORT: usize = 13;
/// Longest name in the small kind of allocation, in bytes: with the two counters of an `Arc` it fills a cache line.
const MIDDLE: usize = 48;
/// Longest name, in bytes.
const LONG: usize = super::MAX_NAME;

/// A name of at most 255 bytes, and a number. It takes 16 bytes, and an allocation if the name is longer than 13 bytes.
#[derive(Clone)]
pub struct Name(Bytes);

#[derive(Clone)]
enum Bytes {
    Short(u8, u8, [u8; SHORT]),
    Middle(u8, u8, Arc<[u8; MIDDLE]>),
    Long(u8, u8, Arc<[u8; LONG]>),
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

impl Name {
    /// A name of these bytes, with a number; `ENAMETOOLONG` if there are more than 255.
    pub fn new(bytes: &[u8], number: u8) -> Result<Name> {
        let len = u8::try_from(bytes.len()).map_err(|_| Errno::NAMETOOLONG)?;
        Ok(Name(match bytes.len() {
            n if n <= SHORT => Bytes::Short(number, len, padded(bytes)),
            n if n <= MIDDLE => Bytes::Middle(number, len, Arc::new(padded(bytes))),
            _ => Bytes::Long(number, len, Arc::new(padded(bytes))),
        }))
    }

    /// The number.
    pub fn number(&self) -> u8 {
        match &self.0 {
            Bytes::Short(number, ..) | Bytes::Middle(number, ..) | Bytes::Long(number, ..) => *number,
        }
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(_, len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Middle(_, len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(_, len, bytes) => &bytes[..usize::from(*len)],
        }
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", String::from_utf8_lossy(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_keep_their_bytes_in_16_bytes() {
        assert_eq!(size_of::<Name>(), 16);
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 0..=255 {
            let name = Name::new(&bytes[..len], len as u8).unwrap();
            assert_eq!((&*name, name.number()), (&bytes[..len], len as u8));
        }
        assert!(Name::new(&[0; 256], 0).is_err());
    }
}
