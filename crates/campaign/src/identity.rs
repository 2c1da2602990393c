// SPDX-License-Identifier: GPL-2.0-only
//! What identifies a run, and how runs are divided between processes.

use std::fmt::{self, Debug, Write};
use std::str::FromStr;
use xxhash_rust::xxh3::Xxh3;

/// Hash of everything that the result of a run depends on, its names included. Runs with the same identity have the
/// same results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RunId(pub u128);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl RunId {
    /// Reads the 32 hexadecimal digits of [`RunId::to_string`].
    pub fn parse(text: &str) -> Option<RunId> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| u128::from_str_radix(text, 16).ok().map(RunId)).flatten()
    }
}

/// Hash of several parts.
pub struct Digest(Xxh3);

impl Digest {
    /// Hash of nothing yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Digest {
        Digest(Xxh3::new())
    }

    /// Adds bytes as a part of their own.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Digest {
        self.0.update(bytes);
        self.end_part(bytes.len() as u64)
    }

    /// Adds everything that a value's `Debug` form has, without keeping that text. It must have no hash maps, whose
    /// order is random.
    #[must_use]
    pub fn with_all_of(mut self, value: &impl Debug) -> Digest {
        struct Sink<'a>(&'a mut Xxh3, u64);
        impl Write for Sink<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text.as_bytes());
                self.1 += text.len() as u64;
                Ok(())
            }
        }
        let mut sink = Sink(&mut self.0, 0);
        write!(sink, "{value:?}").expect("a hash takes any text");
        let length = sink.1;
        self.end_part(length)
    }

    /// Lengths keep apart parts whose bytes are the same one after the other.
    fn end_part(mut self, length: u64) -> Digest {
        self.0.update(&length.to_le_bytes());
        self
    }

    /// The hash.
    pub fn finish(self) -> RunId {
        RunId(self.0.digest128())
    }
}

/// One of several equal parts of a campaign: runs I, I + N, I + 2 N, … in the order of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Number of this part, from 1.
    pub number: u64,
    /// Number of parts.
    pub of: u64,
}

impl Shard {
    /// Whether the run at this place, counted from 0, belongs to this part.
    pub fn has(self, place: u64) -> bool {
        place % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = parts.map(|(number, of)| Shard { number, of });
        let shard = shard.filter(|shard| (1..=shard.of).contains(&shard.number));
        shard.ok_or_else(|| "expected a part and the number of parts, such as 1/4".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_keeps_parts_apart_and_is_the_same_on_every_host() {
        let of = |parts: &[&str]| parts.iter().fold(Digest::new(), |sum, part| sum.with(part.as_bytes())).finish();
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        assert_eq!(of(&["weir"]).to_string(), "4a81c3089eea5eb49ad61275300ae9cf");
        assert_eq!(Digest::new().with_all_of(&"a").finish(), Digest::new().with(b"\"a\"").finish());
        assert_eq!(RunId::parse(&of(&["weir"]).to_string()), Some(of(&["weir"])));
        assert_eq!(RunId::parse("+a81c3089eea5eb49ad61275300ae9cf"), None);
    }

    #[test]
    fn shards_divide_all_runs_without_overlap() {
        for of in 1..8 {
            for place in 0..40 {
                assert_eq!((1..=of).filter(|&number| Shard { number, of }.has(place)).count(), 1);
            }
        }
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        for wrong in ["", "0/4", "5/4", "1", "1/0", "a/4", "1/4/2", "-1/4"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
