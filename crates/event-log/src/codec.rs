// SPDX-License-Identifier: GPL-2.0-only
//! Binary encoding of events. The encoding that is hashed is also the one that is stored.
//!
//! An event is `kind u8, op u8, cpu u32, task u32, file u16, line u32, time u64`, followed by the fields of its kind.
//! All fields are little-endian without padding, the same on every host. The kind determines the length. Tasks,
//! affinity masks, printed texts and file names are separate records, with kinds from the top of the range.

use crate::{
    BlockCause, CallbackSite, Event, EventKind, KickFlags, LockKind, Printk, Sink, SwitchReason, TaskInfo, Waker,
    modelled_pid,
};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

/// Size of the part of an event before the fields of its kind.
const HEAD: usize = 24;
/// Largest size of an event: the largest fields are those of an insert, 24 bytes.
pub(crate) const MAX_EVENT: usize = HEAD + 24;

/// Kind of a record that announces a task.
const TASK: u8 = 255;
/// Flags of a task record: the task is a kthread; its pid differs from [`modelled_pid`] and follows at the end.
const KERNEL_THREAD: u8 = 1;
const HAS_PID: u8 = 2;
/// Kind of a record that changes an affinity mask.
const AFFINITY: u8 = 254;

/// Kind of a record with a text that the scheduler printed.
const PRINTK: u8 = 252;
/// Kind of a record that names a source file.
const SOURCE_FILE: u8 = 253;

/// A record of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A task exists from this time on.
    Task(Nanos, TaskInfo),
    /// A task has this affinity mask from this time on.
    Affinity(Nanos, TaskId, CpuSet),
    /// An event.
    Event(Event),
    /// A text that the scheduler printed.
    Printk(Printk),
    /// The name of the source file with this number.
    SourceFile(u16, String),
}

/// Reason that bytes could not be decoded as a record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes end before the record does.
    #[error("the record is truncated: {0} more bytes expected")]
    Short(usize),
    /// Bytes follow after the end of the record.
    #[error("{0} bytes follow after the end of the record")]
    Long(usize),
    /// A field has a value that is not defined.
    #[error("{field} {value} is unknown")]
    Unknown {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
}

/// Writes into an array of fixed size, at offsets that the compiler evaluates.
struct Put<'a> {
    out: &'a mut [u8; MAX_EVENT],
    at: usize,
}

impl Put<'_> {
    #[inline(always)]
    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) -> &mut Self {
        self.out[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
        self
    }

    #[inline(always)]
    fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes([value])
    }

    #[inline(always)]
    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(value.to_le_bytes())
    }

    #[inline(always)]
    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(value.to_le_bytes())
    }

    #[inline(always)]
    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(value.to_le_bytes())
    }
}

/// Encodes `event` at the start of `out` and returns its length.
#[inline]
pub(crate) fn encode_event(event: &Event, out: &mut [u8; MAX_EVENT]) -> usize {
    let mut put = Put { out, at: 1 };
    encode_head(&mut put, event.site, event.cpu, event.task, event.time);
    let kind = encode_kind(&event.kind, &mut put);
    let length = put.at;
    out[0] = kind;
    length
}

#[inline(always)]
fn encode_head(put: &mut Put<'_>, site: CallbackSite, cpu: CpuId, task: TaskId, time: Nanos) {
    put.u8(site.op).u32(cpu.0).u32(task.0).u16(site.file).u32(site.line).u64(time.0);
}

#[inline(always)]
fn encode_kind(kind: &EventKind, put: &mut Put<'_>) -> u8 {
    match *kind {
        EventKind::Wakeup { waker, sync, target } => {
            let (tag, task) = waker_parts(waker);
            put.u8(tag).u8(u8::from(sync)).u32(task.0).u32(target.0);
            0
        }
        EventKind::SelectCpu { prev, chosen } => {
            put.u32(prev.0).u32(chosen.0);
            1
        }
        EventKind::Insert { dsq, key, slice_ns } => {
            put.u64(dsq.0).u64(key).u64(slice_ns);
            2
        }
        EventKind::Dispatch { from, to } => {
            put.u64(from.0).u32(to.0);
            3
        }
        EventKind::Switch { prev, reason } => {
            put.u32(prev.0).u8(reason as u8);
            4
        }
        EventKind::Tick => 5,
        EventKind::Kick { target, flags } => {
            put.u32(target.0).u8(flags.0);
            6
        }
        EventKind::Migrate { from, to } => {
            put.u32(from.0).u32(to.0);
            7
        }
        EventKind::Block { cause } => {
            put.u8(cause as u8);
            8
        }
        EventKind::Fork { child } => {
            put.u32(child.0);
            9
        }
        EventKind::Exit => 10,
        EventKind::Idle { entered } => {
            put.u8(u8::from(entered));
            11
        }
        EventKind::Affinity => 12,
        EventKind::Priority { nice } => {
            put.u8(nice as u8);
            13
        }
        EventKind::LockWait { lock, waited } => {
            let (tag, which) = lock_parts(lock);
            put.u8(tag).u64(which).u64(waited.0);
            14
        }
        EventKind::Hotplug { online } => {
            put.u8(u8::from(online));
            15
        }
        EventKind::Yield => 16,
        EventKind::Attached => 17,
        EventKind::Disabled { kind } => {
            put.u32(kind);
            18
        }
    }
}

fn waker_parts(waker: Waker) -> (u8, TaskId) {
    match waker {
        Waker::Task(task) => (0, task),
        Waker::Timer => (1, TaskId::NONE),
        Waker::Interrupt => (2, TaskId::NONE),
        Waker::Fork(parent) => (3, parent),
        Waker::External => (4, TaskId::NONE),
    }
}

fn lock_parts(lock: LockKind) -> (u8, u64) {
    match lock {
        LockKind::Runqueue(cpu) => (0, u64::from(cpu.0)),
        LockKind::Dsq(dsq) => (1, dsq.0),
        LockKind::Bpf(address) => (2, address),
    }
}

/// Appends a record that announces a task.
pub(crate) fn encode_task(time: Nanos, info: &TaskInfo, out: &mut Vec<u8>) {
    out.push(TASK);
    out.extend(time.0.to_le_bytes());
    out.extend(info.id.0.to_le_bytes());
    out.extend(info.parent.unwrap_or(TaskId::NONE).0.to_le_bytes());
    let pid = Some(info.pid).filter(|pid| *pid != modelled_pid(info.id));
    let kernel_thread = if info.kernel_thread { KERNEL_THREAD } else { 0 };
    out.extend([info.nice as u8, kernel_thread | if pid.is_some() { HAS_PID } else { 0 }]);
    encode_policy(info.policy, out);
    encode_mask(&info.allowed, out);
    out.extend((info.name.len() as u32).to_le_bytes());
    out.extend(info.name.as_bytes());
    out.extend(pid.into_iter().flat_map(u32::to_le_bytes));
}

/// Appends a record that changes an affinity mask.
pub(crate) fn encode_affinity(time: Nanos, task: TaskId, allowed: &CpuSet, out: &mut Vec<u8>) {
    out.push(AFFINITY);
    out.extend(time.0.to_le_bytes());
    out.extend(task.0.to_le_bytes());
    encode_mask(allowed, out);
}

/// Appends a record with a printed text: the common part of an event, then the text.
pub(crate) fn encode_printk(printk: &Printk, out: &mut Vec<u8>) {
    let mut head = [0; MAX_EVENT];
    head[0] = PRINTK;
    encode_head(&mut Put { out: &mut head, at: 1 }, printk.site, printk.cpu, printk.task, printk.time);
    out.extend(&head[..HEAD]);
    out.extend((printk.text.len() as u32).to_le_bytes());
    out.extend(printk.text.as_bytes());
}

/// Appends a record with the name of a source file.
pub(crate) fn encode_source_file(file: u16, name: &str, out: &mut Vec<u8>) {
    out.push(SOURCE_FILE);
    out.extend(file.to_le_bytes());
    out.extend((name.len() as u32).to_le_bytes());
    out.extend(name.as_bytes());
}

fn encode_policy(policy: Policy, out: &mut Vec<u8>) {
    match policy {
        Policy::Other => out.push(0),
        Policy::Batch => out.push(1),
        Policy::Idle => out.push(2),
        Policy::Ext => out.push(3),
        Policy::Fifo(priority) => out.extend([4, priority]),
        Policy::RoundRobin(priority) => out.extend([5, priority]),
        Policy::Deadline { runtime, deadline, period } => {
            out.push(6);
            [runtime, deadline, period].iter().for_each(|time| out.extend(time.0.to_le_bytes()));
        }
    }
}

/// Appends a mask without its trailing zero words, so that equal sets have equal encodings.
fn encode_mask(mask: &CpuSet, out: &mut Vec<u8>) {
    let words = mask.words();
    let significant = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    out.extend((significant as u32).to_le_bytes());
    words[..significant].iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// Reads fields from the front of a record.
struct Take<'a> {
    rest: &'a [u8],
}

impl Take<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| CodecError::Short(N - self.rest.len()))?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, CodecError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, CodecError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<Nanos, CodecError> {
        self.u64().map(Nanos)
    }

    fn cpu(&mut self) -> Result<CpuId, CodecError> {
        self.u32().map(CpuId)
    }

    fn task(&mut self) -> Result<TaskId, CodecError> {
        self.u32().map(TaskId)
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, CodecError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(unknown(field, value)),
        }
    }

    /// Reads a variant; `all` lists the variants in the order of their numbers.
    fn variant<T: Copy>(&mut self, field: &'static str, all: &[T]) -> Result<T, CodecError> {
        let value = self.u8()?;
        all.get(usize::from(value)).copied().ok_or_else(|| unknown(field, value))
    }

    /// Reads a 32-bit count and that many units of `unit` bytes. Fails before any allocation if they are not there.
    fn length_prefixed(&mut self, unit: usize) -> Result<&[u8], CodecError> {
        let length = self.u32()? as usize * unit;
        let (bytes, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| CodecError::Short(length - self.rest.len()))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, CodecError> {
        Ok(String::from_utf8_lossy(self.length_prefixed(1)?).into_owned())
    }

    fn mask(&mut self) -> Result<CpuSet, CodecError> {
        let bytes = self.length_prefixed(8)?;
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("chunks of 8"));
        Ok(CpuSet::from_words(&bytes.chunks_exact(8).map(word).collect::<Vec<_>>()))
    }
}

fn unknown(field: &'static str, value: impl Into<u64>) -> CodecError {
    CodecError::Unknown { field, value: value.into() }
}

const REASONS: [SwitchReason; 8] = [
    SwitchReason::Idle,
    SwitchReason::Block,
    SwitchReason::Exit,
    SwitchReason::Yield,
    SwitchReason::SliceEnd,
    SwitchReason::Preempt,
    SwitchReason::HigherClass,
    SwitchReason::Change,
];

const CAUSES: [BlockCause; 5] =
    [BlockCause::Timer, BlockCause::Io, BlockCause::Task, BlockCause::Child, BlockCause::External];

impl Record {
    /// Time of the record; source files have time 0.
    pub fn time(&self) -> Nanos {
        match self {
            Record::Task(time, _) | Record::Affinity(time, ..) => *time,
            Record::Event(event) => event.time,
            Record::Printk(printk) => printk.time,
            Record::SourceFile(..) => Nanos::ZERO,
        }
    }

    /// Passes the record to a sink, as it was passed to the log.
    pub fn send_to(&self, sink: &mut dyn Sink) {
        match self {
            Record::Task(time, info) => sink.task(*time, info),
            Record::Affinity(time, task, allowed) => sink.affinity(*time, *task, allowed),
            Record::Event(event) => sink.event(event),
            Record::Printk(printk) => sink.printk(printk),
            Record::SourceFile(file, name) => sink.source_file(*file, name),
        }
    }

    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::Task(time, info) => encode_task(*time, info, out),
            Record::Affinity(time, task, allowed) => encode_affinity(*time, *task, allowed, out),
            Record::Printk(printk) => encode_printk(printk, out),
            Record::SourceFile(file, name) => encode_source_file(*file, name, out),
            Record::Event(event) => {
                let mut buffer = [0; MAX_EVENT];
                let length = encode_event(event, &mut buffer);
                out.extend(&buffer[..length]);
            }
        }
    }

    /// Decodes the record that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Record, CodecError> {
        let mut take = Take { rest: bytes };
        let record = match take.u8()? {
            TASK => decode_task(&mut take)?,
            AFFINITY => Record::Affinity(take.time()?, take.task()?, take.mask()?),
            SOURCE_FILE => Record::SourceFile(take.u16()?, take.text()?),
            PRINTK => decode_printk(&mut take)?,
            kind => decode_event(kind, &mut take)?,
        };
        if take.rest.is_empty() { Ok(record) } else { Err(CodecError::Long(take.rest.len())) }
    }
}

fn decode_task(take: &mut Take<'_>) -> Result<Record, CodecError> {
    let time = take.time()?;
    let (id, parent) = (take.task()?, take.task()?.some());
    let nice = take.u8()? as i8;
    let bits = take.u8()?;
    if bits & !(KERNEL_THREAD | HAS_PID) != 0 {
        return Err(unknown("task flags", bits));
    }
    let kernel_thread = bits & KERNEL_THREAD != 0;
    let policy = decode_policy(take)?;
    let allowed = take.mask()?;
    let name = take.text()?;
    let pid = if bits & HAS_PID != 0 { take.u32()? } else { modelled_pid(id) };
    Ok(Record::Task(time, TaskInfo { id, pid, name, parent, allowed, policy, nice, kernel_thread }))
}

fn decode_policy(take: &mut Take<'_>) -> Result<Policy, CodecError> {
    Ok(match take.u8()? {
        0 => Policy::Other,
        1 => Policy::Batch,
        2 => Policy::Idle,
        3 => Policy::Ext,
        4 => Policy::Fifo(take.u8()?),
        5 => Policy::RoundRobin(take.u8()?),
        6 => Policy::Deadline { runtime: take.time()?, deadline: take.time()?, period: take.time()? },
        value => return Err(unknown("policy", value)),
    })
}

fn decode_event(kind: u8, take: &mut Take<'_>) -> Result<Record, CodecError> {
    let (site, cpu, task, time) = decode_head(take)?;
    let kind = decode_kind(kind, take)?;
    Ok(Record::Event(Event { time, cpu, task, kind, site }))
}

fn decode_head(take: &mut Take<'_>) -> Result<(CallbackSite, CpuId, TaskId, Nanos), CodecError> {
    let op = take.u8()?;
    let (cpu, task, file, line) = (take.cpu()?, take.task()?, take.u16()?, take.u32()?);
    Ok((CallbackSite { op, file, line }, cpu, task, take.time()?))
}

fn decode_printk(take: &mut Take<'_>) -> Result<Record, CodecError> {
    let (site, cpu, task, time) = decode_head(take)?;
    Ok(Record::Printk(Printk { time, cpu, task, site, text: take.text()? }))
}

fn decode_kind(kind: u8, take: &mut Take<'_>) -> Result<EventKind, CodecError> {
    Ok(match kind {
        0 => {
            let (tag, sync, task, target) = (take.u8()?, take.flag("sync")?, take.task()?, take.cpu()?);
            EventKind::Wakeup { waker: decode_waker(tag, task)?, sync, target }
        }
        1 => EventKind::SelectCpu { prev: take.cpu()?, chosen: take.cpu()? },
        2 => EventKind::Insert { dsq: DsqId(take.u64()?), key: take.u64()?, slice_ns: take.u64()? },
        3 => EventKind::Dispatch { from: DsqId(take.u64()?), to: take.cpu()? },
        4 => EventKind::Switch { prev: take.task()?, reason: take.variant("switch reason", &REASONS)? },
        5 => EventKind::Tick,
        6 => EventKind::Kick { target: take.cpu()?, flags: KickFlags(take.u8()?) },
        7 => EventKind::Migrate { from: take.cpu()?, to: take.cpu()? },
        8 => EventKind::Block { cause: take.variant("block cause", &CAUSES)? },
        9 => EventKind::Fork { child: take.task()? },
        10 => EventKind::Exit,
        11 => EventKind::Idle { entered: take.flag("idle")? },
        12 => EventKind::Affinity,
        13 => EventKind::Priority { nice: take.u8()? as i8 },
        14 => EventKind::LockWait { lock: decode_lock(take)?, waited: take.time()? },
        15 => EventKind::Hotplug { online: take.flag("online")? },
        16 => EventKind::Yield,
        17 => EventKind::Attached,
        18 => EventKind::Disabled { kind: take.u32()? },
        value => return Err(unknown("event kind", value)),
    })
}

fn decode_waker(tag: u8, task: TaskId) -> Result<Waker, CodecError> {
    Ok(match tag {
        0 => Waker::Task(task),
        1 => Waker::Timer,
        2 => Waker::Interrupt,
        3 => Waker::Fork(task),
        4 => Waker::External,
        value => return Err(unknown("waker", value)),
    })
}

fn decode_lock(take: &mut Take<'_>) -> Result<LockKind, CodecError> {
    let (tag, which) = (take.u8()?, take.u64()?);
    Ok(match tag {
        0 => LockKind::Runqueue(CpuId(u32::try_from(which).map_err(|_| unknown("CPU", which))?)),
        1 => LockKind::Dsq(DsqId(which)),
        2 => LockKind::Bpf(which),
        value => return Err(unknown("lock kind", value)),
    })
}
