// SPDX-License-Identifier: GPL-2.0-only
//! The log file: a header line in JSON, records, and a trailer.
//!
//! Each record is its length as little-endian `u32`, followed by its bytes ([`Record::encode`]). The trailer is the
//! length 0, the number of records as `u64` and the run's hash as `u128`, by which truncated and damaged logs are
//! detected.

use crate::codec::{self, MAX_EVENT};
use crate::{CodecError, Event, LogHash, Printk, Record, Sink, TaskInfo};
use ids::{CpuSet, Nanos, TaskId};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// Version of the log format that this crate writes and reads.
pub const FORMAT: u32 = 2;
/// Largest length of a record. Only a task's name and a printed text have no limit of their own.
const MAX_RECORD: u32 = 1 << 20;

/// Identification of the logged run: enough to repeat it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Format version, [`FORMAT`].
    pub weir_log: u32,
    /// Version of the program that wrote the log.
    pub version: String,
    /// Scheduler as given on the command line.
    pub scheduler: String,
    /// [`hash_bytes`](crate::hash_bytes) of the scheduler's object, in hexadecimal.
    pub object_hash: String,
    /// Machine as given on the command line.
    pub machine: String,
    /// Workload as given on the command line.
    pub workload: String,
    /// Seed of the random number generator.
    pub seed: u64,
    /// Kernel version, such as `7.2`.
    pub kernel: String,
}

/// A sink that writes a log during the run. After the first error it writes nothing; [`LogWriter::finish`] reports
/// the error.
#[derive(Debug)]
pub struct LogWriter<W> {
    out: W,
    hash: LogHash,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> LogWriter<W> {
    /// Starts a log. `out` should be buffered.
    ///
    /// # Errors
    ///
    /// Fails if the header cannot be written.
    pub fn new(mut out: W, header: &Header) -> io::Result<LogWriter<W>> {
        serde_json::to_writer(&mut out, header)?;
        out.write_all(b"\n")?;
        Ok(LogWriter { out, hash: LogHash::new(), buffer: Vec::new(), failed: None })
    }

    /// Writes the trailer and returns the output.
    ///
    /// # Errors
    ///
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.write_all(&0u32.to_le_bytes())?;
        self.out.write_all(&self.hash.records().to_le_bytes())?;
        self.out.write_all(&self.hash.finish().to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn record(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.clear();
        self.buffer.extend([0; 4]);
        write(&mut self.buffer);
        let length = (self.buffer.len() - 4) as u32;
        self.buffer[..4].copy_from_slice(&length.to_le_bytes());
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
    }
}

impl<W: Write> Sink for LogWriter<W> {
    fn printk(&mut self, printk: &Printk) {
        self.hash.printk(printk);
        self.record(|out| codec::encode_printk(printk, out));
    }

    fn source_file(&mut self, file: u16, name: &str) {
        self.hash.source_file(file, name);
        self.record(|out| codec::encode_source_file(file, name, out));
    }

    fn task(&mut self, time: Nanos, info: &TaskInfo) {
        self.hash.task(time, info);
        self.record(|out| codec::encode_task(time, info, out));
    }

    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet) {
        self.hash.affinity(time, task, allowed);
        self.record(|out| codec::encode_affinity(time, task, allowed, out));
    }

    fn event(&mut self, event: &Event) {
        self.hash.event(event);
        self.record(|out| {
            let mut bytes = [0; MAX_EVENT];
            let length = codec::encode_event(event, &mut bytes);
            out.extend(&bytes[..length]);
        });
    }
}

/// Reason that a log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log ends before its trailer.
    #[error("record {record}: the log is truncated")]
    Short {
        /// Number of the record, from 0.
        record: u64,
    },
    /// Reading failed.
    #[error("record {record}: {source}")]
    Io {
        /// Number of the record, from 0.
        record: u64,
        /// Error of the reader.
        source: io::Error,
    },
    /// The first line is not the header of a log.
    #[error("the first line is not the header of a log of format {FORMAT}: {0}")]
    Header(String),
    /// A record cannot be decoded.
    #[error("record {record}: {source}")]
    Record {
        /// Number of the record, from 0.
        record: u64,
        /// Decoding error.
        source: CodecError,
    },
    /// The length of a record exceeds the limit.
    #[error("record {record} claims {length} bytes; at most {MAX_RECORD} are allowed")]
    Length {
        /// Number of the record, from 0.
        record: u64,
        /// Length that the record states.
        length: u32,
    },
    /// All records could be decoded, but they are not those that were written.
    #[error("the trailer does not match: the log is damaged")]
    Damaged,
}

fn at(record: u64, source: io::Error) -> LogError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => LogError::Short { record },
        _ => LogError::Io { record, source },
    }
}

/// Reader of a log, record by record.
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    header: Header,
    hash: LogHash,
    buffer: Vec<u8>,
    done: bool,
}

impl<R: BufRead> LogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`LogError::Header`] if the input is not a log of this format.
    pub fn new(mut input: R) -> Result<LogReader<R>, LogError> {
        let mut line = Vec::new();
        let limited = input.by_ref().take(u64::from(MAX_RECORD)).read_until(b'\n', &mut line);
        limited.map_err(|source| at(0, source))?;
        let header: Header = serde_json::from_slice(&line).map_err(|error| LogError::Header(error.to_string()))?;
        if header.weir_log != FORMAT {
            return Err(LogError::Header(format!("the log has format {}", header.weir_log)));
        }
        Ok(LogReader { input, header, hash: LogHash::new(), buffer: Vec::new(), done: false })
    }

    /// Header of the log.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next record. Returns `None` after the last one, if the trailer is correct.
    ///
    /// # Errors
    ///
    /// Any [`LogError`] except [`LogError::Header`].
    pub fn read(&mut self) -> Result<Option<Record>, LogError> {
        if self.done {
            return Ok(None);
        }
        let record = self.hash.records();
        let io = |source| at(record, source);
        let length = u32::from_le_bytes(self.array().map_err(io)?);
        match length {
            0 => {
                self.done = true;
                self.check_trailer().map(|()| None)
            }
            1..=MAX_RECORD => {
                self.buffer.resize(length as usize, 0);
                self.input.read_exact(&mut self.buffer).map_err(io)?;
                let decoded = Record::decode(&self.buffer).map_err(|source| LogError::Record { record, source })?;
                decoded.send_to(&mut self.hash);
                Ok(Some(decoded))
            }
            _ => Err(LogError::Length { record, length }),
        }
    }

    fn check_trailer(&mut self) -> Result<(), LogError> {
        let record = self.hash.records();
        let io = |source| at(record, source);
        let records = u64::from_le_bytes(self.array().map_err(io)?);
        let hash = u128::from_le_bytes(self.array().map_err(io)?);
        if records == record && hash == std::mem::take(&mut self.hash).finish() {
            Ok(())
        } else {
            Err(LogError::Damaged)
        }
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
