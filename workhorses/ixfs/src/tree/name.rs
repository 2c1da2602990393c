// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name in a directory entry, in as little memory as its length allows.

use super::Result;
use rustix::io::Errno;
use std::ops::Deref;
use std::sync::Arc;

/// Longest name that needs no allocation, in bytes.
const SHORT: usize = 14;
/// Longest name in the small kind of allocation, in bytes: with the two counters of an `Arc` it fills a cache line.
const MIDDLE: usize = 48;
/// Longest name, in bytes.
const LONG: usize = super::MAX_NAME;

/// A name of at most 255 bytes. It takes 16 bytes, and an allocation if it is longer than 14.
#[derive(Clone)]
pub struct Name(Bytes);

#[derive(Clone)]
enum Bytes {
    Short(u8, [u8; SHORT]),
    Middle(u8, Arc<[u8; MIDDLE]>),
    Long(u8, Arc<[u8; LONG]>),
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

impl Name {
    /// A name of these bytes; `ENAMETOOLONG` if there are more than 255.
    pub fn new(bytes: &[u8]) -> Result<Name> {
        let len = u8::try_from(bytes.len()).map_err(|_| Errno::NAMETOOLONG)?;
        Ok(Name(match bytes.len() {
            n if n <= SHORT => Bytes::Short(len, padded(bytes)),
            n if n <= MIDDLE => Bytes::Middle(len, Arc::new(padded(bytes))),
            _ => Bytes::Long(len, Arc::new(padded(bytes))),
        }))
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Middle(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(len, bytes) => &bytes[..usize::from(*len)],
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> std::cmp::Ordering {
        (**self).cmp(&**other)
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
            let name = Name::new(&bytes[..len]).unwrap();
            assert_eq!(*name, bytes[..len]);
            assert!(name != Name::new(&bytes[1..]).unwrap(), "a name of {len} bytes");
        }
        assert!(Name::new(&[0; 256]).is_err());
    }
}
