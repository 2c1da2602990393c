// SPDX-License-Identifier: GPL-2.0-only
//! Decoder of numbers, texts, tasks and operations. Input is not trusted: every count is checked against the
//! remaining bytes before memory is allocated.

use super::encode::Tag;
use super::observed::{Footprint, Operation, Request, Stretch, Touched};
use crate::check::{MAX_RESOURCES, MAX_TASKS};
use crate::{
    BarrierId, ConditionId, DeviceId, MutexId, Op, Reference, SignalId, Sleep, Start, Submission, TaskSpec, Who,
};
use ids::{CpuId, CpuSet, MAX_CPUS, Nanos, Policy};

/// Byte offset and error message.
pub(super) type Failure = (usize, String);

/// Bytes with a read position.
pub(super) struct Reader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    /// Name of the byte range, for errors.
    pub whole: &'static str,
}

impl Reader<'_> {
    pub fn number(&mut self, what: &str) -> Result<u64, Failure> {
        let start = self.at;
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let &byte =
                self.bytes.get(self.at).ok_or_else(|| (self.at, format!("the {} ends within: {what}", self.whole)))?;
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
        Err((start, format!("{what}: number exceeds 64 bits")))
    }

    pub fn up_to(&mut self, what: &str, largest: u64) -> Result<u64, Failure> {
        let start = self.at;
        let number = self.number(what)?;
        if number > largest {
            return Err((start, format!("{what}: {number}; expected at most {largest}")));
        }
        Ok(number)
    }

    pub fn small(&mut self, what: &str) -> Result<u32, Failure> {
        self.up_to(what, u32::MAX.into()).map(|number| number as u32)
    }

    pub fn resources(&mut self, what: &str) -> Result<u32, Failure> {
        self.up_to(what, MAX_RESOURCES.into()).map(|number| number as u32)
    }

    pub fn time(&mut self, what: &str) -> Result<Nanos, Failure> {
        self.number(what).map(Nanos)
    }

    fn flag(&mut self, what: &str) -> Result<bool, Failure> {
        self.up_to(what, 1).map(|number| number == 1)
    }

    /// Reads a length whose elements take at least one byte each.
    pub fn length(&mut self, what: &str, most: usize) -> Result<usize, Failure> {
        let start = self.at;
        let length = self.up_to(what, most as u64)?;
        let left = self.bytes.len() - self.at;
        if length > left as u64 {
            return Err((start, format!("{what}: {length} elements in {left} bytes")));
        }
        Ok(length as usize)
    }

    pub fn text(&mut self, what: &str) -> Result<String, Failure> {
        let length = self.length(what, usize::MAX)?;
        let start = self.at;
        self.at += length;
        let text = std::str::from_utf8(&self.bytes[start..self.at]);
        text.map(str::to_owned).map_err(|error| (start + error.valid_up_to(), format!("{what}: not UTF-8")))
    }

    pub fn option<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }

    pub fn list<T>(
        &mut self,
        what: &str,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let length = self.length(what, most)?;
        // Grows element by element, because an element may be larger in memory than in the file.
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

    /// Reads a task without its script and without the fields missing in version 1.
    pub fn task(&mut self) -> Result<TaskSpec, Failure> {
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
            who: Who::default(),
            window: None,
            memory: None,
            lends: None,
            script: Vec::new(),
        })
    }

    pub fn who(&mut self) -> Result<Who, Failure> {
        Ok(Who {
            tgid: self.option("process", |reader| reader.small("process"))?,
            session: self.option("session", |reader| reader.small("session"))?,
            uid: self.option("user", |reader| reader.small("user"))?,
            group: self.option("control group", |reader| reader.text("control group"))?,
            process: None,
        })
    }

    /// The footprint of a task; older versions of the format end before it.
    pub fn footprint(&mut self) -> Result<Option<Footprint>, Failure> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        self.option("footprint", |reader| {
            Ok(Footprint {
                private: reader.number("private memory")?,
                shared: reader.number("shared memory")?,
                kernel: reader.number("memory of the kernel")?,
                executable: reader.number("executable")?,
            })
        })
    }

    /// Reads a stretch of work that begins at operation `from` or later.
    pub fn stretch(&mut self, from: u32) -> Result<Stretch, Failure> {
        let start = self.at;
        let length = self.number("operations of a piece of work")?;
        let until = u64::from(from).checked_add(length).and_then(|until| u32::try_from(until).ok());
        let until = until
            .ok_or_else(|| (start, format!("a piece of work of {length} operations ends beyond operation 2^32 - 1")))?;
        let cpu = CpuId(self.up_to("CPU of a piece of work", MAX_CPUS as u64 - 1)? as u32);
        let mask = self.number("what was touched")?;
        let mut touched = Touched::default();
        let known = touched.numbers_mut();
        let bits = known.len();
        for (bit, number) in known.into_iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1) {
            *number = self.number("what was touched")?;
            if *number == 0 {
                return Err((
                    self.at - 1,
                    format!("counter {bit} of a piece of work is present but 0; expected more than 0"),
                ));
            }
        }
        // Skip counters added by later versions of the format.
        for _ in 0..(mask >> bits).count_ones() {
            self.number("what was touched")?;
        }
        Ok(Stretch { until, cpu, touched })
    }

    /// Reads a request issued at or after `after`, for one of `devices`.
    pub fn request(&mut self, after: Nanos, devices: &[u32]) -> Result<Request, Failure> {
        let start = self.at;
        let since = self.time("time of a request")?;
        let time = after.0.checked_add(since.0).map(Nanos);
        let time = time
            .ok_or_else(|| (start, format!("time of a request overflows 64 bits ({since} after the previous one)")))?;
        let task = self.up_to("task of a request", MAX_TASKS as u64)?.checked_sub(1).map(|task| task as u32);
        let start = self.at;
        let device = self.number("device of a request")?;
        let known = usize::try_from(device).ok().and_then(|device| devices.get(device));
        let unknown = || (start, format!("device {device}, but this block lists {} devices", devices.len()));
        let device = *known.ok_or_else(unknown)?;
        let operation = Operation::ALL[self.up_to("operation of a device", Operation::ALL.len() as u64 - 1)? as usize];
        let (bytes, service) = (self.number("bytes of a request")?, self.time("service time")?);
        Ok(Request { time, task, device, operation, bytes, service })
    }

    fn submission(&mut self) -> Result<Op, Failure> {
        Ok(Op::Submit(Box::new(Submission {
            device: DeviceId(self.small("device")?),
            write: self.flag("direction of a request")?,
            bytes: self.number("bytes of a request")?,
            service: self.time("service time")?,
        })))
    }

    fn await_requests(&mut self) -> Result<Op, Failure> {
        Ok(Op::AwaitRequests {
            device: DeviceId(self.small("device")?),
            most: self.small("requests in progress")?,
            slept: self.time("sleep")?,
        })
    }

    pub fn op(&mut self) -> Result<Op, Failure> {
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
            Tag::Resume => {
                let tasks = self.list("resumed tasks", MAX_TASKS, |reader| reader.small("resumed task"))?;
                Op::Resume(tasks.into())
            }
            Tag::Post => Op::Post(SignalId(self.small("signal")?)),
            Tag::Await => Op::Await(SignalId(self.small("signal")?)),
            Tag::Yield => Op::Yield,
            Tag::Fork => Op::Fork(self.small("forked task")?),
            Tag::Children => Op::Children(self.small("children")?),
            Tag::Change => Op::Change {
                cpus: self.option("new CPUs", Reader::cpus)?.map(Box::new),
                policy: self.option("new policy", |reader| Ok(Box::new((reader.policy()?, reader.nice()?))))?,
            },
            Tag::ChangeOf => Op::ChangeOf {
                spec: self.small("changed task")?,
                cpus: self.option("new CPUs", Reader::cpus)?.map(Box::new),
                policy: self.option("new policy", |reader| Ok(Box::new((reader.policy()?, reader.nice()?))))?,
            },
            Tag::Anchor => Op::Anchor(Reference(self.small("reference")?)),
            Tag::Interval => {
                Op::Interval { reference: Reference(self.small("reference")?), period: self.time("period")? }
            }
            Tag::WorkUntil => {
                Op::WorkUntil { reference: Reference(self.small("reference")?), after: self.time("end of work")? }
            }
            Tag::WorkUntilPosted => Op::WorkUntilPosted(SignalId(self.small("signal")?)),
            Tag::Timeout => Op::Timeout(self.time("timeout")?),
            Tag::Submit => self.submission()?,
            Tag::AwaitRequests => self.await_requests()?,
            Tag::Repeat => Op::Repeat {
                from: self.small("first operation of a loop")?,
                times: self.option("times", |reader| reader.number("times"))?,
            },
        })
    }
}
