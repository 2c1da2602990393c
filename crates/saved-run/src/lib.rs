// SPDX-License-Identifier: GPL-2.0-only
//! The container of saved runs, `FILE.weirrun`: named parts, each compressed and checked by itself.
//!
//! A reader takes what it needs: a comparison decompresses the runs' JSON and leaves objects and events alone. What the
//! parts hold is the matter of those who write them; `docs/saved-runs.md` describes both. Nothing in a file is trusted:
//! every length is checked against the bytes that are there before memory is taken for it.

use std::io::Read;
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of a file.
const MAGIC: [u8; 8] = *b"WEIRRUN\n";
/// The version of the format.
const VERSION: u32 = 1;
/// Magic and version.
const HEADER: usize = 12;
/// Length, length compressed, checksum: what follows a part's name.
const NUMBERS: usize = 24;

/// The longest name of a part.
const MAX_NAME: usize = 64;
/// The most parts of a file: objects, machines and workloads of a run, and the events of a thousand runs.
const MAX_PARTS: usize = 4096;
/// The most bytes of a part, not compressed: an hour of events at a million a minute.
const MAX_PART: u64 = 1 << 30;

/// zstd's default: events shrink to a fifth of their size, and harder work gains a few percent.
const LEVEL: i32 = 3;

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {problem}")]
pub struct SavedRunError {
    /// Where.
    pub at: usize,
    /// What was found there and what was expected.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    length: u64,
    checksum: u64,
    /// Where its compressed bytes begin, for messages.
    at: usize,
    compressed: Vec<u8>,
}

/// A container and its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedRun {
    parts: Vec<Part>,
}

impl SavedRun {
    /// A container without parts.
    pub fn new() -> SavedRun {
        SavedRun::default()
    }

    /// Whether these are the first bytes of such a file, of any version.
    pub fn is_saved_run(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// If it is larger than a reader would take (1 GiB), or there are 4096 parts already.
    ///
    /// # Panics
    /// If the name is not of 1 to 64 letters, digits, `.`, `-` and `/`, or there is such a part.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), SavedRunError> {
        assert!(is_name(name.as_bytes()) && self.names().all(|other| other != name), "{name:?} cannot name a part");
        let refuse = |problem: String| Err(SavedRunError { at: 0, problem });
        if bytes.len() as u64 > MAX_PART {
            return refuse(format!("{name} has {} bytes; a part has at most {MAX_PART}", bytes.len()));
        }
        if self.parts.len() == MAX_PARTS {
            return refuse(format!("more than {MAX_PARTS} parts"));
        }
        let compressed = zstd::bulk::compress(bytes, LEVEL).expect("memory is compressed into memory");
        let (length, checksum) = (bytes.len() as u64, xxh3_64(bytes));
        self.parts.push(Part { name: name.to_owned(), length, checksum, at: 0, compressed });
        Ok(())
    }

    /// The names of the parts, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str())
    }

    /// The bytes of a part; `None` if there is no such part.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn part(&self, name: &str) -> Result<Option<Vec<u8>>, SavedRunError> {
        self.parts.iter().find(|part| part.name == name).map(Part::decompress).transpose()
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        for part in &self.parts {
            bytes.push(part.name.len() as u8);
            bytes.extend(part.name.as_bytes());
            for number in [part.length, part.compressed.len() as u64, part.checksum] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(&part.compressed);
        }
        bytes
    }

    /// From a file. Parts are decompressed when somebody asks for them.
    ///
    /// # Errors
    /// If it is no such file, of another version, or cut short.
    pub fn from_bytes(bytes: &[u8]) -> Result<SavedRun, SavedRunError> {
        let refuse = |at: usize, problem: String| Err(SavedRunError { at, problem });
        if !Self::is_saved_run(bytes) {
            return refuse(0, "not a saved run; expected the bytes \"WEIRRUN\\n\"".to_owned());
        }
        let Some(version) = bytes.get(MAGIC.len()..HEADER) else {
            return refuse(bytes.len(), format!("the file ends in its header of {HEADER} bytes"));
        };
        let version = u32::from_le_bytes(version.try_into().expect("4 bytes"));
        if version != VERSION {
            return refuse(MAGIC.len(), format!("version {version} of the format; this program reads {VERSION}"));
        }
        let (mut saved, mut at) = (SavedRun::new(), HEADER);
        while at < bytes.len() {
            let part = Part::read(bytes, at)?;
            at = part.at + part.compressed.len();
            if saved.names().any(|name| name == part.name) {
                return refuse(part.at, format!("a second part {:?}", part.name));
            }
            if saved.parts.len() == MAX_PARTS {
                return refuse(at, format!("more than {MAX_PARTS} parts"));
            }
            saved.parts.push(part);
        }
        Ok(saved)
    }
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.iter().all(|c| c.is_ascii_alphanumeric() || b".-/".contains(c))
}

impl Part {
    /// The part that begins at `start`.
    fn read(bytes: &[u8], start: usize) -> Result<Part, SavedRunError> {
        let refuse = |at: usize, problem: String| Err(SavedRunError { at, problem });
        let numbers = start + 1 + usize::from(bytes[start]);
        let at = numbers + NUMBERS;
        if at > bytes.len() {
            return refuse(start, "the file ends in the head of a part".to_owned());
        }
        let name = &bytes[start + 1..numbers];
        if !is_name(name) {
            return refuse(start, format!("{:?} is no name of a part", String::from_utf8_lossy(name)));
        }
        let number = |index: usize| {
            let from = numbers + 8 * index;
            u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8 bytes"))
        };
        let (length, compressed, checksum) = (number(0), number(1), number(2));
        if length > MAX_PART {
            return refuse(numbers, format!("claims {length} bytes; a part has at most {MAX_PART}"));
        }
        let rest = &bytes[at..];
        if compressed > rest.len() as u64 {
            return refuse(numbers + 8, format!("claims {compressed} bytes; {} are left", rest.len()));
        }
        let name = String::from_utf8(name.to_vec()).expect("it is ASCII");
        Ok(Part { name, length, checksum, at, compressed: rest[..compressed as usize].to_vec() })
    }

    fn decompress(&self) -> Result<Vec<u8>, SavedRunError> {
        let refuse = |problem: String| SavedRunError { at: self.at, problem: format!("{}: {problem}", self.name) };
        let damaged = |error: std::io::Error| refuse(format!("damaged: {error}"));
        let decoder = zstd::stream::read::Decoder::with_buffer(&self.compressed[..]).map_err(damaged)?;
        let mut bytes = Vec::new();
        // One byte more than claimed is enough to see that there are too many.
        decoder.take(self.length + 1).read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != self.length {
            return Err(refuse(format!("{} bytes or more; its head claims {}", bytes.len(), self.length)));
        }
        if xxh3_64(&bytes) != self.checksum {
            return Err(refuse("the checksum does not match: the file is damaged".to_owned()));
        }
        Ok(bytes)
    }
}
