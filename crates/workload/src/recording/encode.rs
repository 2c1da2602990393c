// SPDX-License-Identifier: GPL-2.0-only
//! Encoder of numbers, texts, tasks and operations.

use super::observed::{Footprint, Request, Stretch};
use crate::{Op, Sleep, Start, Submission, TaskSpec};
use ids::{CpuSet, Nanos, Policy};

/// Tags of operations. The order is part of the format.
#[derive(Clone, Copy)]
pub(super) enum Tag {
    Work,
    CpuTime,
    Sleep,
    Timer,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broadcast,
    Sync,
    Barrier,
    Suspend,
    Resume,
    Post,
    Await,
    Yield,
    Fork,
    Change,
    Repeat,
    Children,
    ChangeOf,
    Anchor,
    Interval,
    WorkUntil,
    WorkUntilPosted,
    Timeout,
    Submit,
    AwaitRequests,
}

impl Tag {
    pub const ALL: [Tag; 28] = [
        Tag::Work,
        Tag::CpuTime,
        Tag::Sleep,
        Tag::Timer,
        Tag::Lock,
        Tag::Unlock,
        Tag::Wait,
        Tag::Signal,
        Tag::Broadcast,
        Tag::Sync,
        Tag::Barrier,
        Tag::Suspend,
        Tag::Resume,
        Tag::Post,
        Tag::Await,
        Tag::Yield,
        Tag::Fork,
        Tag::Change,
        Tag::Repeat,
        Tag::Children,
        Tag::ChangeOf,
        Tag::Anchor,
        Tag::Interval,
        Tag::WorkUntil,
        Tag::WorkUntilPosted,
        Tag::Timeout,
        Tag::Submit,
        Tag::AwaitRequests,
    ];
}

/// Output buffer.
#[derive(Default)]
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    /// Writes seven bits per byte, lowest first; the high bit is set if more bytes follow (LEB128).
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn time(&mut self, time: Nanos) {
        self.number(time.0);
    }

    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    /// Writes 0, or 1 and the value.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.number(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Writes the length and the elements.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn cpus(&mut self, cpus: &CpuSet) {
        let words = cpus.words();
        let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        self.list(&words[..used], |writer, &word| writer.number(word));
    }

    fn policy(&mut self, policy: Policy) {
        match policy {
            Policy::Other => self.number(0),
            Policy::Batch => self.number(1),
            Policy::Idle => self.number(2),
            Policy::Ext => self.number(3),
            Policy::Fifo(priority) => {
                self.number(4);
                self.number(priority.into());
            }
            Policy::RoundRobin(priority) => {
                self.number(5);
                self.number(priority.into());
            }
            Policy::Deadline { runtime, deadline, period } => {
                self.number(6);
                [runtime, deadline, period].into_iter().for_each(|time| self.time(time));
            }
        }
    }

    /// Writes a nice value plus 20, so that it takes one byte.
    fn nice(&mut self, nice: i8) {
        self.number((i64::from(nice) + 20) as u64);
    }

    /// Writes a task without its script, preceded by its length in bytes.
    pub fn task(&mut self, task: &TaskSpec, footprint: Option<&Footprint>) {
        let mut fields = Writer::default();
        fields.text(&task.name);
        fields.option(task.command.as_deref(), Writer::text);
        match task.start {
            Start::Forked => fields.number(0),
            Start::At(time) => {
                fields.number(1);
                fields.time(time);
            }
        }
        fields.policy(task.policy);
        fields.nice(task.nice);
        fields.option(task.cpus.as_ref(), Writer::cpus);
        fields.number(task.peak_rss_bytes);
        let who = &task.who;
        for id in [who.tgid, who.session, who.uid] {
            fields.option(id, |fields, id| fields.number(id.into()));
        }
        fields.option(who.group.as_deref(), Writer::text);
        fields.option(footprint, |fields, footprint| {
            let Footprint { private, shared, kernel, executable } = *footprint;
            [private, shared, kernel, executable].into_iter().for_each(|number| fields.number(number));
        });
        self.number(fields.0.len() as u64);
        self.0.extend(fields.0);
    }

    /// Writes a stretch of work that begins at operation `from` or later.
    pub fn stretch(&mut self, stretch: &Stretch, from: u32) {
        self.number(u64::from(stretch.until - from));
        self.number(stretch.cpu.0.into());
        let numbers = stretch.touched.numbers();
        let some = numbers.iter().zip(0..).filter(|(number, _)| **number > 0);
        self.number(some.clone().fold(0, |mask, (_, bit)| mask | 1 << bit));
        some.for_each(|(number, _)| self.number(*number));
    }

    /// Writes a request issued `after` the previous one.
    pub fn request(&mut self, request: &Request, after: Nanos) {
        self.time(after);
        self.number(request.task.map_or(0, |task| u64::from(task) + 1));
        self.number(request.device.into());
        self.number(request.operation as u64);
        self.number(request.bytes);
        self.time(request.service);
    }

    /// Writes the tag and its numbers.
    pub fn numbers(&mut self, tag: Tag, numbers: &[u64]) {
        self.0.push(tag as u8);
        numbers.iter().for_each(|&number| self.number(number));
    }

    pub fn op(&mut self, op: &Op) {
        match op {
            Op::Work { user, system } => self.numbers(Tag::Work, &[user.0, system.0]),
            Op::CpuTime(time) => self.numbers(Tag::CpuTime, &[time.0]),
            Op::Sleep(time, cause) => {
                let cause = match cause {
                    Sleep::Timer => 0,
                    Sleep::Io => 1,
                    Sleep::External => 2,
                };
                self.numbers(Tag::Sleep, &[cause, time.0]);
            }
            Op::Timer { reference, period, absolute } => {
                self.numbers(Tag::Timer, &[reference.0.into(), period.0, u64::from(*absolute)]);
            }
            Op::Lock(mutex) => self.numbers(Tag::Lock, &[mutex.0.into()]),
            Op::Unlock(mutex) => self.numbers(Tag::Unlock, &[mutex.0.into()]),
            Op::Wait(condition, mutex) => self.numbers(Tag::Wait, &[condition.0.into(), mutex.0.into()]),
            Op::Signal(condition) => self.numbers(Tag::Signal, &[condition.0.into()]),
            Op::Broadcast(condition) => self.numbers(Tag::Broadcast, &[condition.0.into()]),
            Op::Sync(condition, mutex) => self.numbers(Tag::Sync, &[condition.0.into(), mutex.0.into()]),
            Op::Barrier(barrier) => self.numbers(Tag::Barrier, &[barrier.0.into()]),
            Op::Suspend => self.numbers(Tag::Suspend, &[]),
            Op::Resume(specs) => {
                self.numbers(Tag::Resume, &[]);
                self.list(specs, |writer, &spec| writer.number(spec.into()));
            }
            Op::Post(signal) => self.numbers(Tag::Post, &[signal.0.into()]),
            Op::Await(signal) => self.numbers(Tag::Await, &[signal.0.into()]),
            Op::SpinBarrier(_) => unreachable!("checked before: recordings contain no spinning barriers"),
            Op::Io(_) => unreachable!("checked before: recordings contain no requests to disks"),
            Op::Fsync(_) => unreachable!("checked before: recordings contain no requests to disks"),
            Op::Unmap(_) => unreachable!("checked before: recordings contain no unmapping"),
            Op::Call(_) => unreachable!("checked before: recordings contain no calls over networks"),
            Op::Submit(request) => {
                let Submission { device, write, bytes, service } = **request;
                self.numbers(Tag::Submit, &[device.0.into(), u64::from(write), bytes, service.0]);
            }
            Op::AwaitRequests { device, most, slept } => {
                self.numbers(Tag::AwaitRequests, &[device.0.into(), (*most).into(), slept.0]);
            }
            Op::TakeRequest(_) | Op::Serve(_) => unreachable!("checked before: recordings contain no sources"),
            Op::CriticalSections(_) => unreachable!("checked before: recordings contain no shared locks"),
            Op::Yield => self.numbers(Tag::Yield, &[]),
            Op::Fork(spec) => self.numbers(Tag::Fork, &[(*spec).into()]),
            Op::Children(most) => self.numbers(Tag::Children, &[(*most).into()]),
            Op::Change { cpus, policy } => {
                self.numbers(Tag::Change, &[]);
                self.change(cpus.as_deref(), policy.as_deref().copied());
            }
            Op::ChangeOf { spec, cpus, policy } => {
                self.numbers(Tag::ChangeOf, &[(*spec).into()]);
                self.change(cpus.as_deref(), policy.as_deref().copied());
            }
            Op::Anchor(reference) => self.numbers(Tag::Anchor, &[reference.0.into()]),
            Op::Interval { reference, period } => self.numbers(Tag::Interval, &[reference.0.into(), period.0]),
            Op::WorkUntil { reference, after } => self.numbers(Tag::WorkUntil, &[reference.0.into(), after.0]),
            Op::WorkUntilPosted(signal) => self.numbers(Tag::WorkUntilPosted, &[signal.0.into()]),
            Op::Timeout(time) => self.numbers(Tag::Timeout, &[time.0]),
            Op::Repeat { from, times } => {
                self.numbers(Tag::Repeat, &[(*from).into()]);
                self.option(*times, Writer::number);
            }
        }
    }

    fn change(&mut self, cpus: Option<&CpuSet>, policy: Option<(Policy, i8)>) {
        self.option(cpus, Writer::cpus);
        self.option(policy, |writer, (policy, nice)| {
            writer.policy(policy);
            writer.nice(nice);
        });
    }
}
