// SPDX-License-Identifier: GPL-2.0-only
//! Version 1 of the format, which is read but no longer written: one payload in one compressed frame.

use super::decode::{Failure, Reader};
use super::{Costs, Observed, Recording, RecordingMeta};
use crate::check::{MAX_OPS, MAX_RESOURCES, MAX_SIGNALS, MAX_TASKS};
use crate::{MutexSpec, Workload};
use std::io::Read;

/// Version number.
pub(super) const VERSION: u32 = 1;

/// Length of the header before the compressed payload, in bytes: magic, version, payload length, checksum.
pub(super) const HEADER: usize = 8 + 4 + 8 + 8;

/// Maximum length of a payload in bytes.
pub(super) const MAX_PAYLOAD: u64 = 1 << 30;

/// Limits on decompression: a payload of up to `SMALL_PAYLOAD` bytes is always allowed, a larger one up to
/// `MAX_RATIO` times the file's length.
const SMALL_PAYLOAD: u64 = 64 << 20;
const MAX_RATIO: u64 = 64;

/// Decompresses the payload and checks its length and checksum.
pub(super) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    if bytes.len() < HEADER {
        return Err((bytes.len(), format!("the file ends within its header; expected at least {HEADER} bytes")));
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (length, checksum) = (number(12), number(20));
    if length > MAX_PAYLOAD {
        return Err((12, format!("payload length {length}; expected at most {MAX_PAYLOAD}")));
    }
    let most = (bytes.len() as u64 * MAX_RATIO).max(SMALL_PAYLOAD);
    if length > most {
        let problem = format!("payload length {length} in a file of {} bytes; expected at most {most}", bytes.len());
        return Err((12, problem));
    }
    let damaged = |problem: std::io::Error| (HEADER, format!("the compressed payload is damaged: {problem}"));
    let decoder = zstd::stream::read::Decoder::with_buffer(&bytes[HEADER..]).map_err(damaged)?;
    let mut payload = Vec::new();
    // Read at most one byte more than declared, which suffices to detect excess.
    decoder.take(length + 1).read_to_end(&mut payload).map_err(damaged)?;
    if payload.len() as u64 != length {
        return Err((
            HEADER,
            format!("the payload decompresses to at least {} bytes; the header says {length}", payload.len()),
        ));
    }
    if xxhash_rust::xxh3::xxh3_64(&payload) != checksum {
        return Err((20, "the checksum does not match: the file is damaged".into()));
    }
    Ok(payload)
}

/// Decodes the recording in a payload; `name` is the workload's name.
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
        // In the order of the bytes, not of the struct's fields: mutexes, conditions, signals, references.
        locks: Vec::new(),
        mutexes: MutexSpec::unnamed(reader.resources("mutexes")? as usize),
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
        idle_exit_limit: None,
        groups: Vec::new(),
        is_grouped: false,
        caveats: Vec::new(),
        sources: Vec::new(),
        disks: Vec::new(),
        devices: Vec::new(),
        networks: Vec::new(),
        parts: Vec::new(),
    };
    match reader.bytes.len() - reader.at {
        0 => Ok(Recording { meta, workload, observed: Observed::default() }),
        rest => Err((reader.at, format!("{rest} bytes follow the last task; expected the end"))),
    }
}
