// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thread pool that decompresses blocks ahead of their use.

use super::archive::{Archive, BlockAt, Chunk};
use crate::backend::{unpacker, unpacking_memory};
use crate::budget::{Budget, Lease};
use crate::error::{Error, Result, damaged};
use crate::trace::{Stage, Trace};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Block identifier: chunk, stream, index.
pub type Id = (usize, usize, usize);

/// State of a block.
enum Progress<'a> {
    Waiting,
    Running,
    Done(Result<(Vec<u8>, Lease<'a>)>),
    /// Memory was short; the block is decompressed as a stream when it is used.
    Deferred,
}

struct Job<'a> {
    id: Id,
    block: BlockAt,
    progress: Progress<'a>,
}

#[derive(Default)]
struct State<'a> {
    /// Jobs in the expected order of use.
    jobs: BTreeMap<usize, Job<'a>>,
    added: usize,
    closed: bool,
}

/// Pool of blocks to be decompressed ahead.
pub struct Pool<'a> {
    archive: &'a Archive<'a>,
    budget: &'a Budget,
    trace: &'a Trace,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

/// A block being read.
pub enum Opened<'a> {
    /// A decompressed block and its memory lease.
    Whole(Cursor<Vec<u8>>, #[allow(dead_code, reason = "held until the block is used up")] Lease<'a>),
    /// A block decompressed while it is read.
    Stream(BufReader<Box<dyn Read + Send + 'a>>),
}

impl Opened<'_> {
    /// Returns the next bytes; empty at the end.
    pub fn fill(&mut self) -> io::Result<&[u8]> {
        match self {
            Opened::Whole(bytes, _) => bytes.fill_buf(),
            Opened::Stream(stream) => stream.fill_buf(),
        }
    }

    /// Marks bytes as consumed.
    pub fn consume(&mut self, bytes: usize) {
        match self {
            Opened::Whole(whole, _) => whole.consume(bytes),
            Opened::Stream(stream) => stream.consume(bytes),
        }
    }
}

/// A byte range of the archive as a stream.
struct Section<'a> {
    archive: &'a Archive<'a>,
    at: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = buffer.len().min((self.end - self.at) as usize);
        self.archive.read_at(&mut buffer[..part], self.at).map_err(io::Error::other)?;
        self.at += part as u64;
        Ok(part)
    }
}

impl<'a> Pool<'a> {
    /// Creates a pool for an archive and a memory budget.
    pub fn new(archive: &'a Archive<'a>, budget: &'a Budget, trace: &'a Trace) -> Pool<'a> {
        Pool { archive, budget, trace, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the blocks of a chunk in archive order; the first block of each stream comes first, because no output is
    /// possible without it.
    pub fn add(&self, number: usize, chunk: &Chunk) {
        let mut blocks: Vec<(u64, Id, BlockAt)> = Vec::new();
        for (stream, list) in chunk.streams.iter().enumerate() {
            for (index, block) in list.iter().enumerate() {
                let rank = if index == 0 { 0 } else { block.at };
                blocks.push((rank, (number, stream, index), *block));
            }
        }
        blocks.sort_by_key(|(rank, id, _)| (*rank, *id));
        let mut state = self.state();
        for (_, id, block) in blocks {
            let key = state.added;
            state.added += 1;
            state.jobs.insert(key, Job { id, block, progress: Progress::Waiting });
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Discards all remaining blocks and ends the workers.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.jobs.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Decompresses blocks until the pool is closed; the body of a worker thread.
    pub fn work(&self, lane: usize) {
        let mut state = self.state();
        while !state.closed {
            let waiting = state.jobs.iter().find(|(_, job)| matches!(job.progress, Progress::Waiting));
            let found = waiting.and_then(|(key, job)| {
                let memory = job.block.plain.saturating_add(self.memory(&job.block));
                Some((*key, job.id, job.block, self.budget.try_take(memory)?))
            });
            let Some((key, id, block, lease)) = found else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.jobs.get_mut(&key).expect("just found").progress = Progress::Running;
            drop(state);
            let result = self.trace.span(Stage::Unpack, lane, id.0, block.packed, || self.whole(&block));
            state = self.state();
            if let Some(job) = state.jobs.get_mut(&key) {
                job.progress = match result {
                    Ok(bytes) => Progress::Done(Ok((bytes, lease))),
                    Err(Error::Memory { .. }) => Progress::Deferred,
                    Err(error) => Progress::Done(Err(error)),
                };
            }
            self.changed.notify_all();
        }
    }

    /// Opens a block: the decompressed bytes, or a stream if it was not decompressed ahead.
    pub fn open(&self, id: Id, block: &BlockAt) -> Result<Opened<'a>> {
        let mut state = self.state();
        loop {
            let key = state.jobs.iter().find(|(_, job)| job.id == id).map(|(key, _)| *key).ok_or(Error::Stopped)?;
            if matches!(state.jobs[&key].progress, Progress::Running) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let job = state.jobs.remove(&key).expect("just found");
            drop(state);
            // The memory of the previous block may be free now.
            self.changed.notify_all();
            return match job.progress {
                Progress::Done(done) => done.map(|(bytes, lease)| Opened::Whole(Cursor::new(bytes), lease)),
                _ => Ok(Opened::Stream(BufReader::with_capacity(64 << 10, self.stream(block)?))),
            };
        }
    }

    fn memory(&self, block: &BlockAt) -> u64 {
        let sealed = if self.archive.cipher().encrypts() { block.packed } else { 0 };
        sealed + unpacking_memory(block.kind, self.archive.magic().lzma, block.plain)
    }

    fn stream(&self, block: &BlockAt) -> Result<Box<dyn Read + Send + 'a>> {
        let magic = self.archive.magic();
        let plain = block.plain;
        let unpacked = if self.archive.cipher().encrypts() {
            unpacker(block.kind, Cursor::new(self.archive.open_block(block)?), plain, magic.lzma)?
        } else {
            let section = Section { archive: self.archive, at: block.at, end: block.at + block.packed };
            unpacker(block.kind, section, plain, magic.lzma)?
        };
        Ok(Box::new(unpacked.take(plain)))
    }

    fn whole(&self, block: &BlockAt) -> Result<Vec<u8>> {
        let short = || Error::Memory { what: "an unpacked block", needed: block.plain };
        let mut bytes = Vec::new();
        let length = usize::try_from(block.plain).map_err(|_| short())?;
        bytes.try_reserve_exact(length).map_err(|_| short())?;
        self.stream(block)?.read_to_end(&mut bytes).map_err(|error| read_error(error, block))?;
        if bytes.len() < length {
            let what = format!("the block decompresses to {} bytes, its header says {length}", bytes.len());
            return Err(damaged(block.at, what));
        }
        Ok(bytes)
    }
}

/// Converts an error of a back end into an archive error.
pub fn read_error(error: io::Error, block: &BlockAt) -> Error {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Error::Memory { what: block.kind.name(), needed: block.plain },
        _ if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
            *error.into_inner().expect("just seen").downcast().expect("just seen")
        }
        _ => damaged(block.at, format!("{}: {error}", block.kind.name())),
    }
}
