// SPDX-License-Identifier: GPL-2.0-only
//! File format of recorded workloads. `docs/reference/recording-format.md` describes the bytes; [`VERSION`] changes
//! with them.
//!
//! A recording is a workload with metadata. A file is a sequence of blocks, each zstd-compressed and checksummed, so
//! writing and reading need no more memory than the workload and one block. Memory is bounded whatever lengths a file
//! declares, and a damaged file gives an error that names a byte, never a panic.

mod blocks;
mod costs;
mod decode;
mod earlier;
mod encode;
mod observed;
mod read;
mod v1;
mod write;

use crate::{Workload, WorkloadError};
pub use costs::{Cost, Costs};
pub use earlier::Earlier;
use ids::Nanos;
pub use observed::{Device, Footprint, MAX_REQUESTS, Observed, Operation, Request, Stretch, Touched};
use std::io::{Read, Seek, Write};

/// Magic bytes at the start of every recording.
const MAGIC: [u8; 8] = *b"WEIRREC\n";

/// Format version written. Version 1 can still be read.
const VERSION: u32 = 2;

/// Length of magic and version in bytes.
const VERSION_HEADER: usize = 8 + 4;

/// Where, when and how a recording was made. Informational: no run depends on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordingMeta {
    /// Recorded command with its arguments.
    pub command: String,
    /// Start of the recording in seconds since 1970 (UTC); 0 if unknown.
    pub recorded_at_unix_s: u64,
    /// Kernel, as printed by `uname -sr`.
    pub kernel: String,
    /// CPU model from `/proc/cpuinfo`.
    pub cpu_model: String,
    /// Number of CPUs of the machine.
    pub cpus: u32,
    /// Elapsed time of the command.
    pub elapsed: Nanos,
    /// Number of events lost by the recorder; if nonzero, times and causes may be wrong.
    pub lost_events: u64,
    /// Other notes, such as the commands that prepared the run; may be empty.
    pub notes: String,
    /// Scheduling costs of the machine.
    pub costs: Costs,
    /// CPU time removed from the tasks' work because it was caused by the recorded schedule.
    pub scheduling: Nanos,
}

/// A workload recorded from a real run.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// Metadata.
    pub meta: RecordingMeta,
    /// Recorded tasks. The process tree is in the scripts: a parent's fork operation holds the index of its child.
    pub workload: Workload,
    /// Observations that are not replayed.
    pub observed: Observed,
}

impl Recording {
    /// Encodes the file.
    ///
    /// # Errors
    /// If the workload is not valid, or contains something the format cannot represent.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WorkloadError> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file block by block; returns its length in bytes.
    ///
    /// # Errors
    /// If the workload is not valid, contains something the format cannot represent (locks in shared memory,
    /// sources of requests, requests to disks, calls over networks, spinning barriers, priority inheritance, use of
    /// memory) or a name of more than 16 MiB; or if writing fails.
    pub fn write_to(&self, out: impl Write) -> Result<u64, WorkloadError> {
        self.workload.validate()?;
        let error = |problem| WorkloadError { place: self.workload.name.clone(), problem };
        if !self.workload.locks.is_empty() {
            return Err(error("the recording format does not support locks in shared memory".into()));
        }
        if !self.workload.disks.is_empty() {
            return Err(error("the recording format does not support requests to disks".into()));
        }
        if self.workload.unmaps() {
            return Err(error("the recording format does not support shrinking address spaces".into()));
        }
        if !self.workload.networks.is_empty() {
            return Err(error("the recording format does not support calls over networks".into()));
        }
        if !self.workload.sources.is_empty() {
            return Err(error("the recording format does not support sources of requests".into()));
        }
        if self.workload.uses_memory() {
            return Err(error("the recording format does not support descriptions of the use of memory".into()));
        }
        if self.workload.mutexes.iter().any(|mutex| mutex.inherits_priority) {
            return Err(error("the recording format does not support priority inheritance".into()));
        }
        let spins = |task: &crate::TaskSpec| task.script.iter().any(|op| matches!(op, crate::Op::SpinBarrier(_)));
        if self.workload.tasks.iter().any(spins) {
            return Err(error("the recording format does not support spinning barriers".into()));
        }
        let lengths: Vec<usize> = self.workload.tasks.iter().map(|task| task.script.len()).collect();
        self.observed.check(&lengths).map_err(error)?;
        let nothing: Option<Earlier<std::io::Cursor<Vec<u8>>>> = None;
        write::write(self, nothing, out).map_err(|problem| error(format!("write error: {problem}")))
    }

    /// Writes the file of a recording whose scripts begin in `earlier`; `self` holds the rest and all tasks. Nothing
    /// is validated, as most of the data is no longer in memory; readers validate the file.
    ///
    /// # Errors
    /// If writing, or reading `earlier`, fails.
    pub fn write_after<File: Read + Write + Seek>(
        &self,
        earlier: Earlier<File>,
        out: impl Write,
    ) -> Result<u64, WorkloadError> {
        write::write(self, Some(earlier), out).map_err(|problem| {
            let problem = format!("write error: {problem}");
            WorkloadError { place: self.workload.name.clone(), problem }
        })
    }

    /// Decodes a file; `name` is the file name for errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Recording, WorkloadError> {
        Recording::read_from(name, bytes)
    }

    /// Reads a file; `name` is the file name for errors. Needs as much memory as the workload and some blocks; a
    /// version 1 file is read as a whole.
    ///
    /// # Errors
    /// If the recording is incomplete, or its workload is not valid or too large: at most 2^20 tasks and
    /// 2^25 operations.
    pub fn read_from(name: &str, mut input: impl Read) -> Result<Recording, WorkloadError> {
        let at = |at: &dyn std::fmt::Display, problem| WorkloadError { place: format!("{name}: byte {at}"), problem };
        let unreadable = |error: std::io::Error| at(&0, format!("read error: {error}"));
        let mut head = Vec::with_capacity(VERSION_HEADER);
        input.by_ref().take(VERSION_HEADER as u64).read_to_end(&mut head).map_err(unreadable)?;
        let recording = match version(&head).map_err(|(byte, problem)| at(&byte, problem))? {
            v1::VERSION => {
                input.read_to_end(&mut head).map_err(unreadable)?;
                let payload = v1::decompress(&head).map_err(|(byte, problem)| at(&byte, problem))?;
                v1::recording(crate::script::stem(name), &payload)
                    .map_err(|(byte, problem)| at(&format_args!("{byte} of the payload"), problem))?
            }
            _ => read::read(crate::script::stem(name), input).map_err(|(byte, problem)| at(&byte, problem))?,
        };
        let checked = recording.workload.validate();
        checked.map_err(|error| WorkloadError { place: format!("{name}: {}", error.place), ..error })?;
        Ok(recording)
    }

    /// Returns whether `bytes` starts with the magic of a recording, of any version.
    pub fn is_recording(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
}

/// Parses the version in a file's first bytes and checks that it is supported.
fn version(head: &[u8]) -> Result<u32, decode::Failure> {
    if !head.starts_with(&MAGIC) {
        return Err((0, "not a recording; expected the bytes \"WEIRREC\\n\"".into()));
    }
    let Some(version) = head.get(MAGIC.len()..VERSION_HEADER) else {
        return Err((head.len(), "the file ends within its header; expected a version".into()));
    };
    match u32::from_le_bytes(version.try_into().expect("4 bytes")) {
        version @ (v1::VERSION | VERSION) => Ok(version),
        version => Err((8, format!("format version {version} is not supported; expected 1 or {VERSION}"))),
    }
}

#[cfg(test)]
mod tests;
