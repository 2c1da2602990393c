// SPDX-License-Identifier: GPL-2.0-only
//! A payload to its recording. Trusts nothing: every count is checked against the bytes that are left before memory is
//! taken for it.

use super::encode::Tag;
use super::{HEADER, MAGIC, MAX_PAYLOAD, MAX_RATIO, Recording, RecordingMeta, SMALL_PAYLOAD, VERSION};
use crate::check::{MAX_OPS, MAX_RESOURCES, MAX_SIGNALS, MAX_TASKS};
use crate::{BarrierId, ConditionId, MutexId, Op, Reference, SignalId, Sleep, Start, TaskSpec, Workload};
use ids::{CpuSet, MAX_CPUS, Nanos, Policy};
use std::io::Read;

/// Byte offset and what is wrong there.
pub(super) type Failure = (usize, String);

/// The payload of a file, checked by length and checksum.
pub(super) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    if !bytes.starts_with(&MAGIC) {
        return Err((0, "not a recording; expected the bytes \"WEIRREC\\n\"".into()));
    }
    if bytes.len() < HEADER {
        return Err((bytes.len(), format!("the file ends in its header; expected at least {HEADER} bytes")));
    }
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let version = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    if version != VERSION {
        return Err((8, format!("version {version} of the format; this program reads version {VERSION}")));
    }
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
    let mut reader = Reader { bytes: payload, at: 0, ops_left: MAX_OPS };
    let meta = RecordingMeta {
        command: reader.text("command")?,
        recorded_at_unix_s: reader.number("time of the recording")?,
        kernel: reader.text("kernel")?,
        cpu_model: reader.text("CPU model")?,
        cpus: reader.small("number of CPUs")?,
        elapsed: reader.time("elapsed time")?,
        lost_events: reader.number("lost events")?,
        notes: reader.text("notes")?,
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
        tasks: reader.list("tasks", MAX_TASKS, Reader::task)?,
        parts: Vec::new(),
    };
    match reader.bytes.len() - reader.at {
        0 => Ok(Recording { meta, workload }),
        rest => Err((reader.at, format!("{rest} bytes follow the last task; expected the end"))),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many operations the rest may still have.
    ops_left: usize,
}

impl Reader<'_> {
    fn number(&mut self, what: &str) -> Result<u64, Failure> {
        let start = self.at;
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let &byte = self.bytes.get(self.at).ok_or_else(|| (self.at, format!("the payload ends in: {what}")))?;
            self.at += 1;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err((start, format!("{what}: a number of more than 64 bits")))
    }

    fn up_to(&mut self, what: &str, largest: u64) -> Result<u64, Failure> {
        let start = self.at;
        let number = self.number(what)?;
        if number > largest {
            return Err((start, format!("{what}: {number}; expected at most {largest}")));
        }
        Ok(number)
    }

    fn small(&mut self, what: &str) -> Result<u32, Failure> {
        self.up_to(what, u32::MAX.into()).map(|number| number as u32)
    }

    fn resources(&mut self, what: &str) -> Result<u32, Failure> {
        self.up_to(what, MAX_RESOURCES.into()).map(|number| number as u32)
    }

    fn time(&mut self, what: &str) -> Result<Nanos, Failure> {
        self.number(what).map(Nanos)
    }

    fn flag(&mut self, what: &str) -> Result<bool, Failure> {
        self.up_to(what, 1).map(|number| number == 1)
    }

    /// A length of something whose elements take a byte at least.
    fn length(&mut self, what: &str, most: usize) -> Result<usize, Failure> {
        let start = self.at;
        let length = self.up_to(what, most as u64)?;
        let left = self.bytes.len() - self.at;
        if length > left as u64 {
            return Err((start, format!("{what}: {length} elements in {left} bytes")));
        }
        Ok(length as usize)
    }

    fn text(&mut self, what: &str) -> Result<String, Failure> {
        let length = self.length(what, usize::MAX)?;
        let start = self.at;
        self.at += length;
        let text = std::str::from_utf8(&self.bytes[start..self.at]);
        text.map(str::to_owned).map_err(|error| (start + error.valid_up_to(), format!("{what}: not UTF-8")))
    }

    fn option<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }

    fn list<T>(
        &mut self,
        what: &str,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let length = self.length(what, most)?;
        // Grows as elements come: an element may be larger in memory than its bytes.
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn cpus(&mut self) -> Result<CpuSet, Failure> {
        let words = self.list("words of CPUs", MAX_CPUS / 64, |reader| reader.number("word of CPUs"))?;
        Ok(CpuSet::from_words(&words))
    }

    fn policy(&mut self) -> Result<Policy, Failure> {
        let tag = self.up_to("policy", 6)?;
        Ok(match tag {
            0 => Policy::Other,
            1 => Policy::Batch,
            2 => Policy::Idle,
            3 => Policy::Ext,
            4 => Policy::Fifo(self.up_to("real-time priority", 99)? as u8),
            5 => Policy::RoundRobin(self.up_to("real-time priority", 99)? as u8),
            _ => Policy::Deadline {
                runtime: self.time("runtime")?,
                deadline: self.time("deadline")?,
                period: self.time("period")?,
            },
        })
    }

    fn nice(&mut self) -> Result<i8, Failure> {
        Ok(self.up_to("nice value + 20", 39)? as i8 - 20)
    }

    fn task(&mut self) -> Result<TaskSpec, Failure> {
        Ok(TaskSpec {
            name: self.text("task's name")?,
            command: self.option("task's command", |reader| reader.text("task's command"))?,
            start: match self.flag("task's start")? {
                true => Start::At(self.time("task's start")?),
                false => Start::Forked,
            },
            policy: self.policy()?,
            nice: self.nice()?,
            cpus: self.option("task's CPUs", Reader::cpus)?,
            peak_rss_bytes: self.number("peak RSS")?,
            script: self.script()?,
        })
    }

    fn script(&mut self) -> Result<Vec<Op>, Failure> {
        let script = self.list("script", self.ops_left, Reader::op)?;
        self.ops_left -= script.len();
        Ok(script)
    }

    fn op(&mut self) -> Result<Op, Failure> {
        let start = self.at;
        let byte = self.up_to("operation", u64::from(u8::MAX))? as usize;
        let Some(&tag) = Tag::ALL.get(byte) else {
            return Err((start, format!("operation {byte}; expected at most {}", Tag::ALL.len() - 1)));
        };
        Ok(match tag {
            Tag::Work => Op::Work { user: self.time("user work")?, system: self.time("system work")? },
            Tag::CpuTime => Op::CpuTime(self.time("CPU time")?),
            Tag::Sleep => {
                let cause = match self.up_to("cause of a sleep", 2)? {
                    0 => Sleep::Timer,
                    1 => Sleep::Io,
                    _ => Sleep::External,
                };
                Op::Sleep(self.time("sleep")?, cause)
            }
            Tag::Timer => Op::Timer {
                reference: Reference(self.small("reference")?),
                period: self.time("period")?,
                absolute: self.flag("absolute")?,
            },
            Tag::Lock => Op::Lock(MutexId(self.small("mutex")?)),
            Tag::Unlock => Op::Unlock(MutexId(self.small("mutex")?)),
            Tag::Wait => Op::Wait(ConditionId(self.small("condition")?), MutexId(self.small("mutex")?)),
            Tag::Signal => Op::Signal(ConditionId(self.small("condition")?)),
            Tag::Broadcast => Op::Broadcast(ConditionId(self.small("condition")?)),
            Tag::Sync => Op::Sync(ConditionId(self.small("condition")?), MutexId(self.small("mutex")?)),
            Tag::Barrier => Op::Barrier(BarrierId(self.small("barrier")?)),
            Tag::Suspend => Op::Suspend,
            Tag::Resume => Op::Resume(self.list("resumed tasks", MAX_TASKS, |reader| reader.small("resumed task"))?),
            Tag::Post => Op::Post(SignalId(self.small("signal")?)),
            Tag::Await => Op::Await(SignalId(self.small("signal")?)),
            Tag::Yield => Op::Yield,
            Tag::Fork => Op::Fork(self.small("forked task")?),
            Tag::Children => Op::Children(self.small("children")?),
            Tag::Change => Op::Change {
                cpus: self.option("new CPUs", Reader::cpus)?,
                policy: self.option("new policy", |reader| Ok((reader.policy()?, reader.nice()?)))?,
            },
            Tag::ChangeOf => Op::ChangeOf {
                spec: self.small("changed task")?,
                cpus: self.option("new CPUs", Reader::cpus)?,
                policy: self.option("new policy", |reader| Ok((reader.policy()?, reader.nice()?)))?,
            },
            Tag::Repeat => Op::Repeat {
                from: self.small("first operation of a loop")?,
                times: self.option("times", |reader| reader.number("times"))?,
            },
        })
    }
}
