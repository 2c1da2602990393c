// SPDX-License-Identifier: GPL-2.0-only
//! Version 1 of the format, which is read and not written: one payload, in one compressed frame.

use super::decode::{Failure, Reader};
use super::{Costs, Observed, Recording, RecordingMeta};
use crate::Workload;
use crate::check::{MAX_OPS, MAX_RESOURCES, MAX_SIGNALS, MAX_TASKS};
use std::io::Read;

/// Its number.
pub(super) const VERSION: u32 = 1;

/// Bytes before the compressed payload: magic, version, payload length, checksum.
pub(super) const HEADER: usize = 8 + 4 + 8 + 8;

/// No payload is longer.
pub(super) const MAX_PAYLOAD: u64 = 1 << 30;

/// A payload up to this size may come out of any file. Of a larger one a file must have its part.
const SMALL_PAYLOAD: u64 = 64 << 20;
const MAX_RATIO: u64 = 64;

/// The payload of a file, checked by length and checksum.
pub(super) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    if bytes.len() < HEADER {
        return Err((bytes.len(), format!("the file ends in its header; expected at least {HEADER} bytes")));
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (length, checksum) = (number(12), number(20));
    if length > MAX_PAYLOAD {
        return Err((12, format!("claims {length} bytes of payload; expected at most {MAX_PAYLOAD}")));
    }
    let most = (bytes.len() as u64 * MAX_RATIO).max(SMALL_PAYLOAD);
    if length > most {
        let problem = format!("claims {length} bytes of payload in a file of {}; expected at most {most}", bytes.len());
        return Err((12, problem));
    }
    let damaged = |problem: std::io::Error| (HEADER, format!("the compressed payload is damaged: {problem}"));
    let decoder = zstd::stream::read::Decoder::with_buffer(&bytes[HEADER..]).map_err(damaged)?;
    let mut payload = Vec::new();
    // One byte more than claimed is enough to see that there are too many.
    decoder.take(length + 1).read_to_end(&mut payload).map_err(damaged)?;
    if payload.len() as u64 != length {
        return Err((HEADER, format!("payload of {} bytes or more; the header claims {length}", payload.len())));
    }
    if xxhash_rust::xxh3::xxh3_64(&payload) != checksum {
        return Err((20, "the checksum does not match: the file is damaged".into()));
    }
    Ok(payload)
}

/// The recording in a payload; `name` is the workload's.
pub(super) fn recording(name: &str, payload: &[u8]) -> Result<Recording, Failure> {
    let mut reader = Reader { bytes: payload, at: 0, whole: "payload" };
    let mut ops_left = MAX_OPS;
    let meta = RecordingMeta {
        command: reader.text("command")?,
        recorded_at_unix_s: reader.number("time of the recording")?,
        kernel: reader.text("kernel")?,
        cpu_model: reader.text("CPU model")?,
        cpus: reader.small("number of CPUs")?,
        elapsed: reader.time("elapsed time")?,
        lost_events: reader.number("lost events")?,
        notes: reader.text("notes")?,
        costs: Costs::default(),
        scheduling: ids::Nanos::ZERO,
    };
    let workload = Workload {
        name: name.to_owned(),
        duration: reader.option("duration", |reader| reader.time("duration"))?,
        // Declared in the order of the bytes, not of the struct's fields: mutexes, conditions, signals, references.
        locks: Vec::new(),
        mutexes: reader.resources("mutexes")?,
        conditions: reader.resources("conditions")?,
        signals: reader.up_to("signals", MAX_SIGNALS.into())? as u32,
        references: reader.resources("references")?,
        barriers: reader.list("barriers", MAX_RESOURCES as usize, |reader| reader.small("users of a barrier"))?,
        tasks: reader.list("tasks", MAX_TASKS, |reader| {
            let mut task = reader.task()?;
            task.script = reader.list("script", ops_left, Reader::op)?;
            ops_left -= task.script.len();
            Ok(task)
        })?,
        groups: Vec::new(),
        is_grouped: false,
        parts: Vec::new(),
    };
    match reader.bytes.len() - reader.at {
        0 => Ok(Recording { meta, workload, observed: Observed::default() }),
        rest => Err((reader.at, format!("{rest} bytes follow the last task; expected the end"))),
    }
}
