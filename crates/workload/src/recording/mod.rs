// SPDX-License-Identifier: GPL-2.0-only
//! Recorded workloads as files. `docs/recording-format.md` describes the bytes; [`VERSION`] changes with them.
//!
//! A recording is a workload and what is known about its making. Numbers are varints, the payload is compressed with
//! zstd and has a checksum; reading is bounded in memory whatever the file claims, and a damaged file is an error that
//! names a byte, never a panic.

mod decode;
mod encode;

use crate::{Workload, WorkloadError};
use ids::Nanos;

/// First bytes of every recording.
pub(crate) const MAGIC: [u8; 8] = *b"WEIRREC\n";

/// Version of the format. A reader refuses any other.
pub(crate) const VERSION: u32 = 1;

/// Bytes before the compressed payload: magic, version, payload length, checksum.
pub(crate) const HEADER: usize = 8 + 4 + 8 + 8;

/// No payload is longer. A recorded build of some hundred compilations has a few MB; the most operations that a workload may
/// have, at 11 bytes for the longest kind that a recorder uses, have a third of this.
pub(crate) const MAX_PAYLOAD: u64 = 1 << 30;

/// A payload up to this size may come out of any file. Of a larger one a file must have its part: recordings, being times
/// above all, are compressed to a third or a tenth.
pub(crate) const SMALL_PAYLOAD: u64 = 64 << 20;
pub(crate) const MAX_RATIO: u64 = 64;

/// zstd level: recordings are written once and kept. But 19 takes half a second for each MB.
const COMPRESSION_LEVEL: i32 = 19;
const LARGE_PAYLOAD: usize = 16 << 20;
const LARGE_COMPRESSION_LEVEL: i32 = 6;

/// Where, when and how a recording was made. For people: nothing in a run depends on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordingMeta {
    /// The command that was recorded, with its arguments.
    pub command: String,
    /// When the recording began, in seconds since 1970 (UTC); 0 if unknown.
    pub recorded_at_unix_s: u64,
    /// The kernel, as `uname -sr` names it.
    pub kernel: String,
    /// The CPU, as `/proc/cpuinfo` names it.
    pub cpu_model: String,
    /// How many CPUs the machine had.
    pub cpus: u32,
    /// How long the command took there.
    pub elapsed: Nanos,
    /// Events that the recorder lost; with any, times and causes may be wrong.
    pub lost_events: u64,
    /// Anything else worth knowing, such as the commands that prepared the run; may be empty.
    pub notes: String,
}

/// A workload that was recorded from a real run.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// How it was made.
    pub meta: RecordingMeta,
    /// What ran. The process tree is in the scripts: a parent forks the index of its child.
    pub workload: Workload,
}

impl Recording {
    /// The file's contents.
    ///
    /// # Errors
    /// If the workload is not valid, or too long for the format (1 GiB before compression).
    pub fn to_bytes(&self) -> Result<Vec<u8>, WorkloadError> {
        self.workload.validate()?;
        let error = |problem| WorkloadError { place: self.workload.name.clone(), problem };
        if !self.workload.locks.is_empty() {
            return Err(error("it has locks in shared memory, which the format does not know".into()));
        }
        let payload = encode::payload(self);
        if payload.len() as u64 > MAX_PAYLOAD {
            return Err(error(format!("{} bytes of payload; expected at most {MAX_PAYLOAD}", payload.len())));
        }
        let level = if payload.len() > LARGE_PAYLOAD { LARGE_COMPRESSION_LEVEL } else { COMPRESSION_LEVEL };
        let compressed = zstd::bulk::compress(&payload, level);
        let compressed = compressed.map_err(|problem| error(format!("cannot be compressed: {problem}")))?;
        let mut bytes = Vec::with_capacity(HEADER + compressed.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(xxhash_rust::xxh3::xxh3_64(&payload).to_le_bytes());
        bytes.extend(compressed);
        Ok(bytes)
    }

    /// From a file's contents; `name` is the file's name and stands in errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Recording, WorkloadError> {
        let payload = decode::decompress(bytes)
            .map_err(|(at, problem)| WorkloadError { place: format!("{name}: byte {at}"), problem })?;
        let recording = decode::recording(crate::script::stem(name), &payload)
            .map_err(|(at, problem)| WorkloadError { place: format!("{name}: byte {at} of the payload"), problem })?;
        let checked = recording.workload.validate();
        checked.map_err(|error| WorkloadError { place: format!("{name}: {}", error.place), ..error })?;
        Ok(recording)
    }

    /// Whether these are the first bytes of a recording (of any version).
    pub fn is_recording(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
}

#[cfg(test)]
mod tests;
