// SPDX-License-Identifier: GPL-2.0-only
//! The hash of a run, which is equal for two runs if and only if they have the same events in the same order.

use crate::codec::{self, MAX_EVENT};
use crate::{Event, Printk, Sink, TaskInfo};
use ids::{CpuSet, Nanos, TaskId};
use xxhash_rust::xxh3::Xxh3;

/// Size of the buffer: about 100 events, since hashing is fastest over long inputs.
const BUFFER: usize = 4096;

/// A sink that hashes all records with 128-bit XXH3, in the encoding of the log. Every run computes it.
pub struct LogHash {
    hash: Box<Xxh3>,
    buffer: Box<[u8; BUFFER]>,
    used: usize,
    records: u64,
}

impl LogHash {
    /// Creates a hash without records.
    pub fn new() -> LogHash {
        LogHash { hash: Box::new(Xxh3::new()), buffer: Box::new([0; BUFFER]), used: 0, records: 0 }
    }

    /// Returns the hash of all records.
    pub fn finish(mut self) -> u128 {
        self.flush();
        self.hash.digest128()
    }

    /// Number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn flush(&mut self) {
        self.hash.update(&self.buffer[..self.used]);
        self.used = 0;
    }

    /// Hashes a record of any length.
    fn long(&mut self, bytes: &[u8]) {
        self.records += 1;
        self.flush();
        self.hash.update(bytes);
    }
}

impl Default for LogHash {
    fn default() -> Self {
        LogHash::new()
    }
}

impl std::fmt::Debug for LogHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogHash").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Sink for LogHash {
    fn printk(&mut self, printk: &Printk) {
        let mut bytes = Vec::new();
        codec::encode_printk(printk, &mut bytes);
        self.long(&bytes);
    }

    /// Hashes the file name without its directory, since the place of compilation is no property of a run.
    fn source_file(&mut self, file: u16, name: &str) {
        let (mut bytes, name) = (Vec::new(), name.rsplit('/').next().unwrap_or(name));
        codec::encode_source_file(file, name, &mut bytes);
        self.long(&bytes);
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        let mut bytes = Vec::new();
        codec::encode_task(time, info, &mut bytes);
        self.long(&bytes);
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        let mut bytes = Vec::new();
        codec::encode_affinity(time, task, allowed, &mut bytes);
        self.long(&bytes);
    }

    #[inline(always)]
    fn event(&mut self, event: &Event) {
        if self.used > BUFFER - MAX_EVENT {
            self.flush();
        }
        self.records += 1;
        let room = self.buffer[self.used..].first_chunk_mut().expect("flushed when short of room");
        self.used += codec::encode_event(event, room);
    }
}

/// Hashes plain bytes in the same way, to identify an input file in the header of a log.
pub fn hash_bytes(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}
