// SPDX-License-Identifier: GPL-2.0-only
//! Recorded workloads as files. `docs/recording-format.md` describes the bytes; [`VERSION`] changes with them.
//!
//! A recording is a workload and what is known about its making. A file is a sequence of blocks, each compressed with
//! zstd and with a checksum, so neither writing nor reading needs more memory than the workload and one block; reading
//! is bounded in memory whatever the file claims, and a damaged file is an error that names a byte, never a panic.

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

/// First bytes of every recording.
const MAGIC: [u8; 8] = *b"WEIRREC\n";

/// Version of the format that is written. Version 1 can still be read.
const VERSION: u32 = 2;

/// Bytes of the magic and the version.
const VERSION_HEADER: usize = 8 + 4;

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
    /// What scheduling cost there.
    pub costs: Costs,
    /// CPU time that was taken out of what the tasks did, as it was the recorded schedule's.
    pub scheduling: Nanos,
}

/// A workload that was recorded from a real run.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// How it was made.
    pub meta: RecordingMeta,
    /// What ran. The process tree is in the scripts: a parent forks the index of its child.
    pub workload: Workload,
    /// What was observed of it beside its CPUs.
    pub observed: Observed,
}

impl Recording {
    /// The file's contents.
    ///
    /// # Errors
    /// If the workload is not valid, or has what the format does not know.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WorkloadError> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file's contents, block by block, and says how many bytes these were.
    ///
    /// # Errors
    /// If the workload is not valid, has what the format does not know (locks in shared memory, spinning barriers), or a
    /// name of more than 16 MiB; or if `out` does not take the bytes.
    pub fn write_to(&self, out: impl Write) -> Result<u64, WorkloadError> {
        self.workload.validate()?;
        let error = |problem| WorkloadError { place: self.workload.name.clone(), problem };
        if !self.workload.locks.is_empty() {
            return Err(error("it has locks in shared memory, which the format does not know".into()));
        }
        let spins = |task: &crate::TaskSpec| task.script.iter().any(|op| matches!(op, crate::Op::SpinBarrier(_)));
        if self.workload.tasks.iter().any(spins) {
            return Err(error("it has tasks that spin at a barrier, which the format does not know".into()));
        }
        let lengths: Vec<usize> = self.workload.tasks.iter().map(|task| task.script.len()).collect();
        self.observed.check(&lengths).map_err(error)?;
        let nothing: Option<Earlier<std::io::Cursor<Vec<u8>>>> = None;
        write::write(self, nothing, out).map_err(|problem| error(format!("cannot be written: {problem}")))
    }

    /// Writes the file of a recording whose scripts began `earlier`; `self` has what came after that, and all tasks. Nothing
    /// is checked here, as most of it is in memory no longer: who reads the file checks it whole.
    ///
    /// # Errors
    /// If `out` does not take the bytes, or the file of `earlier` does not give them.
    pub fn write_after<File: Read + Write + Seek>(
        &self,
        earlier: Earlier<File>,
        out: impl Write,
    ) -> Result<u64, WorkloadError> {
        write::write(self, Some(earlier), out).map_err(|problem| {
            let problem = format!("cannot be written: {problem}");
            WorkloadError { place: self.workload.name.clone(), problem }
        })
    }

    /// From a file's contents; `name` is the file's name and stands in errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Recording, WorkloadError> {
        Recording::read_from(name, bytes)
    }

    /// From a file; `name` is the file's name and stands in errors. Takes as much memory as the workload needs and some
    /// blocks; a file of version 1 is read whole.
    ///
    /// # Errors
    /// If it is not a whole recording, or its workload is not valid or too large: at most 2^20 tasks and 2^25 operations.
    pub fn read_from(name: &str, mut input: impl Read) -> Result<Recording, WorkloadError> {
        let at = |at: &dyn std::fmt::Display, problem| WorkloadError { place: format!("{name}: byte {at}"), problem };
        let unreadable = |error: std::io::Error| at(&0, format!("cannot be read: {error}"));
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

    /// Whether these are the first bytes of a recording (of any version).
    pub fn is_recording(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
}

/// The version in the first bytes of a file, if it is one that can be read.
fn version(head: &[u8]) -> Result<u32, decode::Failure> {
    if !head.starts_with(&MAGIC) {
        return Err((0, "not a recording; expected the bytes \"WEIRREC\\n\"".into()));
    }
    let Some(version) = head.get(MAGIC.len()..VERSION_HEADER) else {
        return Err((head.len(), "the file ends in its header; expected a version".into()));
    };
    match u32::from_le_bytes(version.try_into().expect("4 bytes")) {
        version @ (v1::VERSION | VERSION) => Ok(version),
        version => Err((8, format!("version {version} of the format; this program reads versions 1 and {VERSION}"))),
    }
}

#[cfg(test)]
mod tests;
