// SPDX-License-Identifier: GPL-2.0-only
//! Container format of saved runs, `FILE.weirrun`: named parts, each compressed and checksummed separately.
//!
//! A reader decompresses only the parts it needs: a comparison reads the runs' JSON and leaves objects and events
//! alone. `docs/reference/saved-runs.md` describes the container and the parts' contents. File contents are not
//! trusted: every length is checked against the available bytes before memory is allocated.

use std::io::Read;
use xxhash_rust::xxh3::xxh3_64;

/// Magic bytes at the start of a file.
const MAGIC: [u8; 8] = *b"WEIRRUN\n";
/// Format version.
const VERSION: u32 = 1;
/// Length of magic and version in bytes.
const HEADER: usize = 12;
/// Length of the fields after a part's name, in bytes: uncompressed length, compressed length, checksum.
const NUMBERS: usize = 24;

/// Maximum length of a part's name in bytes.
const MAX_NAME: usize = 64;
/// Maximum number of parts: enough for objects, machines and workloads of a run and the events of a thousand runs.
const MAX_PARTS: usize = 4096;
/// Maximum uncompressed length of a part in bytes: an hour of events at a million per minute.
const MAX_PART: u64 = 1 << 30;

/// Uncompressed length of a part that is accepted at any compression, in bytes.
const FREE: u64 = 4 << 20;
/// Maximum ratio of compression beyond [`FREE`], so that the memory for a file is bounded by its length. Runs as JSON
/// shrink to a fourteenth and events to a fifth.
const MAX_RATIO: u64 = 50;
/// Start of a frame that decoders skip (RFC 8878, section 3.1.2). It is followed by the length of its content.
const SKIPPABLE: [u8; 4] = 0x184d_2a50u32.to_le_bytes();

/// zstd's default level: events shrink to a fifth, and higher levels gain only a few percent.
const LEVEL: i32 = 3;

/// Error of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {problem}")]
pub struct SavedRunError {
    /// Offset in the file, in bytes.
    pub at: usize,
    /// What was found and what was expected.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    length: u64,
    checksum: u64,
    /// Offset of the compressed bytes in the file, for messages.
    at: usize,
    compressed: Vec<u8>,
}

/// A saved run and its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedRun {
    parts: Vec<Part>,
}

impl SavedRun {
    /// Creates a container without parts.
    pub fn new() -> SavedRun {
        SavedRun::default()
    }

    /// Returns whether `bytes` starts with the magic of a saved run, of any version.
    pub fn is_saved_run(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// If the part is longer than 1 GiB, or there are already 4096 parts.
    ///
    /// # Panics
    /// If the name does not consist of 1 to 64 letters, digits, `.`, `-` and `/`, or is already used.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), SavedRunError> {
        assert!(
            is_name(name.as_bytes()) && self.names().all(|other| other != name),
            "invalid or duplicate part name {name:?}"
        );
        let refuse = |problem: String| Err(SavedRunError { at: 0, problem });
        if bytes.len() as u64 > MAX_PART {
            return refuse(format!("{name} has {} bytes; the maximum is {MAX_PART}", bytes.len()));
        }
        if self.parts.len() == MAX_PARTS {
            return refuse(format!("more than {MAX_PARTS} parts"));
        }
        let mut compressed = zstd::bulk::compress(bytes, LEVEL).expect("memory is compressed into memory");
        if let Some(missing) = shortest(bytes.len() as u64).checked_sub(compressed.len() as u64) {
            compressed.extend(SKIPPABLE);
            compressed.extend((missing as u32).to_le_bytes());
            compressed.resize(compressed.len() + missing as usize, 0);
        }
        let (length, checksum) = (bytes.len() as u64, xxh3_64(bytes));
        self.parts.push(Part { name: name.to_owned(), length, checksum, at: 0, compressed });
        Ok(())
    }

    /// Names of the parts, in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str())
    }

    /// Decompresses a part; `None` if there is no such part.
    ///
    /// # Errors
    /// If the part is damaged.
    pub fn part(&self, name: &str) -> Result<Option<Vec<u8>>, SavedRunError> {
        self.parts.iter().find(|part| part.name == name).map(Part::decompress).transpose()
    }

    /// Encodes the file.
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

    /// Parses a file. Parts are decompressed on access.
    ///
    /// # Errors
    /// If it is not a saved run, of another version, or truncated.
    pub fn from_bytes(bytes: &[u8]) -> Result<SavedRun, SavedRunError> {
        let refuse = |at: usize, problem: String| Err(SavedRunError { at, problem });
        if !Self::is_saved_run(bytes) {
            return refuse(0, "not a saved run; expected the bytes \"WEIRRUN\\n\"".to_owned());
        }
        let Some(version) = bytes.get(MAGIC.len()..HEADER) else {
            return refuse(bytes.len(), format!("the file ends within its header of {HEADER} bytes"));
        };
        let version = u32::from_le_bytes(version.try_into().expect("4 bytes"));
        if version != VERSION {
            return refuse(MAGIC.len(), format!("format version {version} is not supported; expected {VERSION}"));
        }
        let (mut saved, mut at) = (SavedRun::new(), HEADER);
        while at < bytes.len() {
            let part = Part::read(bytes, at)?;
            at = part.at + part.compressed.len();
            if saved.names().any(|name| name == part.name) {
                return refuse(part.at, format!("duplicate part {:?}", part.name));
            }
            if saved.parts.len() == MAX_PARTS {
                return refuse(at, format!("more than {MAX_PARTS} parts"));
            }
            saved.parts.push(part);
        }
        Ok(saved)
    }
}

/// Minimum compressed length of a part with this uncompressed length.
fn shortest(length: u64) -> u64 {
    length.saturating_sub(FREE).div_ceil(MAX_RATIO)
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.iter().all(|c| c.is_ascii_alphanumeric() || b".-/".contains(c))
}

impl Part {
    /// Reads the part at offset `start`.
    fn read(bytes: &[u8], start: usize) -> Result<Part, SavedRunError> {
        let refuse = |at: usize, problem: String| Err(SavedRunError { at, problem });
        let numbers = start + 1 + usize::from(bytes[start]);
        let at = numbers + NUMBERS;
        if at > bytes.len() {
            return refuse(start, "the file ends within the header of a part".to_owned());
        }
        let name = &bytes[start + 1..numbers];
        if !is_name(name) {
            return refuse(start, format!("invalid part name {:?}", String::from_utf8_lossy(name)));
        }
        let number = |index: usize| {
            let from = numbers + 8 * index;
            u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8 bytes"))
        };
        let (length, compressed, checksum) = (number(0), number(1), number(2));
        if length > MAX_PART {
            return refuse(numbers, format!("part length {length} exceeds the maximum of {MAX_PART} bytes"));
        }
        let rest = &bytes[at..];
        if compressed > rest.len() as u64 {
            return refuse(
                numbers + 8,
                format!("compressed length {compressed} exceeds the remaining {} bytes", rest.len()),
            );
        }
        if compressed < shortest(length) {
            return refuse(
                numbers,
                format!("part length {length} is more than {MAX_RATIO} times the compressed length {compressed}"),
            );
        }
        let name = String::from_utf8(name.to_vec()).expect("part names are ASCII");
        Ok(Part { name, length, checksum, at, compressed: rest[..compressed as usize].to_vec() })
    }

    fn decompress(&self) -> Result<Vec<u8>, SavedRunError> {
        let refuse = |problem: String| SavedRunError { at: self.at, problem: format!("{}: {problem}", self.name) };
        let damaged = |error: std::io::Error| refuse(format!("damaged: {error}"));
        let decoder = zstd::stream::read::Decoder::with_buffer(&self.compressed[..]).map_err(damaged)?;
        let mut bytes = Vec::new();
        // Read at most one byte more than declared, which suffices to detect excess.
        decoder.take(self.length + 1).read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != self.length {
            return Err(refuse(format!(
                "decompresses to at least {} bytes, the header says {}",
                bytes.len(),
                self.length
            )));
        }
        if xxh3_64(&bytes) != self.checksum {
            return Err(refuse("the checksum does not match: the file is damaged".to_owned()));
        }
        Ok(bytes)
    }
}
