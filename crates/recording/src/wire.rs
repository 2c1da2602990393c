// SPDX-License-Identifier: GPL-2.0-only
//! Wire format of events: fixed layouts in native byte order, parsed by hand.

use crate::event::{
    Amount, Counters, Event, Expiry, Footprint, Kind, Left, Occupant, Passed, Requested, Scheduled, Slept, Ticks, Waker,
};
use ids::{CpuId, CpuSet, Nanos, Policy};
use workload::Operation;

/// Kinds and flags, as in `tree.bpf.h`, `record.bpf.c`, `touched.bpf.h` and `meter.bpf.c`.
mod layout {
    pub const BIRTH: u32 = 1;
    pub const SLEEP: u32 = 2;
    pub const EXEC: u32 = 3;
    pub const ATTRIBUTES: u32 = 4;
    pub const EXIT: u32 = 5;
    pub const END: u32 = 6;
    pub const SWITCH: u32 = 7;
    pub const WAKE: u32 = 8;
    pub const RENAME: u32 = 9;
    pub const HOTPLUG: u32 = 10;
    pub const WHO: u32 = 11;
    pub const SIGNAL: u32 = 12;
    pub const DELIVERY: u32 = 13;
    pub const ALARM: u32 = 14;
    pub const LAST: u32 = 15;
    pub const PASS: u32 = 16;
    pub const TOUCHED: u32 = 17;
    pub const FOOTPRINT: u32 = 18;
    pub const REQUEST: u32 = 19;
    pub const YIELD: u32 = 20;
    pub const PASS_WRITTEN: u32 = 1 << 0;
    pub const PASS_SEQUENCE: u32 = 1 << 1;
    pub const NOBODY: u32 = u32::MAX;
    pub const IDLE_TASK: u32 = u32::MAX;
    pub const OTHER_TASK: u32 = u32::MAX - 1;
    pub const COMM_LENGTH: usize = 16;
    pub const IO_WAIT: u32 = 1 << 0;
    pub const UNINTERRUPTIBLE: u32 = 1 << 1;
    pub const HARDIRQ: u32 = 1 << 2;
    pub const NMI: u32 = 1 << 3;
    pub const SOFTIRQ: u32 = 1 << 4;
    pub const NEW: u32 = 1 << 5;
    pub const WAKE_UNSEEN: u32 = 1 << 6;
    pub const WAKE_TIMER: u32 = 1 << 7;
    pub const WAKE_OWN_TIMER: u32 = 1 << 16;
    pub const NAMES_CHILD: u32 = 1 << 17;
    pub const LEFT_BLOCKED: u32 = 1 << 8;
    pub const LEFT_DEAD: u32 = 1 << 9;
    pub const LEFT_FOR_HIGHER_CLASS: u32 = 1 << 10;
    pub const LEFT_UNSEEN: u32 = 1 << 12;
    pub const SOFTIRQ_SHIFT: u32 = 8;
    /// Length of an exec event before its arguments, in bytes.
    pub const EXEC_FIXED: usize = 24 + 16 + COMM_LENGTH + 8;
}

/// Kind of an event as needed before parsing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glance {
    /// A task was forked.
    Birth,
    /// A task ended.
    End,
    /// A sleep.
    Sleep,
    /// A transfer through a channel.
    Pass,
    /// A block-device request.
    Request,
    /// Any other kind.
    Other,
}

/// Reads only the kind of a raw event.
pub fn glance(raw: &[u8]) -> Glance {
    match Reader(raw).skip(8).and_then(|mut rest| rest.u32()) {
        Some(layout::BIRTH) => Glance::Birth,
        Some(layout::END) => Glance::End,
        Some(layout::SLEEP) => Glance::Sleep,
        Some(layout::PASS) => Glance::Pass,
        Some(layout::REQUEST) => Glance::Request,
        _ => Glance::Other,
    }
}

/// The used part of a raw event: the fixed space for command lines is mostly empty.
pub fn used(raw: &[u8]) -> &[u8] {
    let kind = Reader(raw).skip(8).and_then(|mut rest| rest.u32());
    let kept = Reader(raw).skip(layout::EXEC_FIXED - 4).and_then(|mut rest| rest.u32());
    match (kind, kept) {
        (Some(layout::EXEC), Some(kept)) => raw.get(..layout::EXEC_FIXED + kept as usize).unwrap_or(raw),
        _ => raw,
    }
}

/// Parses a raw event.
///
/// # Errors
/// A description, if the kind is unknown or the length is wrong.
pub fn parse(raw: &[u8]) -> Result<Event, String> {
    let mut reader = Reader(raw);
    let event = reader.event();
    event.ok_or_else(|| {
        let kind = Reader(raw).skip(8).and_then(|mut rest| rest.u32());
        format!("event of kind {kind:?} with {} bytes", raw.len())
    })
}

/// The innermost context decides: an interrupt runs in the context of an unrelated task.
fn waker_of(flags: u32, waker: u32, waker_work: Nanos) -> Waker {
    if flags & layout::WAKE_UNSEEN != 0 {
        Waker::Unseen
    } else if flags & layout::NMI != 0 {
        Waker::NonMaskable
    } else if flags & layout::HARDIRQ != 0 {
        Waker::HardInterrupt
    } else if flags & layout::SOFTIRQ != 0 {
        Waker::SoftInterrupt((flags >> layout::SOFTIRQ_SHIFT) as u8)
    } else if waker == layout::NOBODY {
        Waker::Outside
    } else {
        Waker::Task(waker, waker_work)
    }
}

fn occupant(task: u32) -> Occupant {
    match task {
        layout::IDLE_TASK => Occupant::Idle,
        layout::OTHER_TASK => Occupant::Other,
        number => Occupant::Task(number),
    }
}

/// Reads a raw event from its start.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn skip(mut self, count: usize) -> Option<Reader<'a>> {
        self.bytes(count)?;
        Some(self)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn nanos(&mut self) -> Option<Nanos> {
        self.u64().map(Nanos)
    }

    fn ticks(&mut self) -> Option<Ticks> {
        Some(Ticks { user: self.nanos()?, system: self.nanos()? })
    }

    fn comm(&mut self) -> Option<String> {
        let bytes = self.bytes(layout::COMM_LENGTH)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn event(&mut self) -> Option<Event> {
        let time = self.nanos()?;
        let kind = self.u32()?;
        let task = self.u32()?;
        let work = self.nanos()?;
        let kind = match kind {
            layout::BIRTH => self.birth()?,
            layout::SLEEP => self.sleep()?,
            layout::EXEC => self.exec()?,
            layout::ATTRIBUTES => self.attributes()?,
            layout::EXIT => self.exit()?,
            layout::WHO => self.who()?,
            layout::SIGNAL => self.signal()?,
            layout::DELIVERY => Kind::Alarm,
            layout::ALARM => Kind::SetAlarm { after: self.nanos()?, interval: self.nanos()? },
            layout::END => Kind::End(self.scheduled()?),
            layout::LAST => self.last()?,
            layout::PASS => self.pass()?,
            layout::TOUCHED => Kind::Touched { counters: self.counters()?, cpu: CpuId(self.u32()?) },
            layout::FOOTPRINT => self.footprint()?,
            layout::YIELD => Kind::Yield(self.scheduled()?),
            layout::REQUEST => self.request(task)?,
            layout::SWITCH => self.switch(task)?,
            layout::WAKE => self.wake()?,
            layout::RENAME => Kind::Rename { comm: self.comm()? },
            layout::HOTPLUG => Kind::Hotplug { cpu: CpuId(self.u32()?), online: self.u32()? != 0 },
            _ => return None,
        };
        Some(Event { time, task, work, kind })
    }

    fn birth(&mut self) -> Option<Kind> {
        let parent = self.u32()?;
        let (pid, tgid, cpu) = (self.u32()?, self.u32()?, CpuId(self.u32()?));
        Some(Kind::Birth { parent: (parent != layout::NOBODY).then_some(parent), pid, tgid, cpu, comm: self.comm()? })
    }

    fn who(&mut self) -> Option<Kind> {
        Some(Kind::Who { group: self.u64()?, session: self.u32()?, uid: self.u32()?, ticks: self.ticks()? })
    }

    fn last(&mut self) -> Option<Kind> {
        let scheduled = self.scheduled()?;
        Some(Kind::Last { scheduled, ticks: self.ticks()? })
    }

    fn scheduled(&mut self) -> Option<Scheduled> {
        let (switches, interrupts, interrupts_to_halted) = (self.u32()?, self.u32()?, self.u32()?);
        let _unused = self.u32()?;
        Some(Scheduled { switches, interrupts, interrupts_to_halted })
    }

    fn pass(&mut self) -> Option<Kind> {
        let (channel, amount, flags, _unused) = (self.u64()?, self.u64()?, self.u32()?, self.u32()?);
        let sequence = flags & layout::PASS_SEQUENCE != 0;
        let amount = if sequence { Amount::Position(amount as u32) } else { Amount::Bytes(amount) };
        Some(Kind::Pass(Passed { channel, written: flags & layout::PASS_WRITTEN != 0, amount }))
    }

    fn counters(&mut self) -> Option<Counters> {
        Some(Counters {
            read: self.u64()?,
            written: self.u64()?,
            device_read: self.u32()?,
            device_written: self.u32()?,
            minor_faults: self.u32()?,
            major_faults: self.u32()?,
            beside: self.nanos()?,
        })
    }

    fn footprint(&mut self) -> Option<Kind> {
        let (private_pages, shared_pages, table_bytes) = (self.u64()?, self.u64()?, self.u64()?);
        let (stack_pages, executable) = (self.u64()?, self.u64()?);
        // A sum of per-CPU counters may be transiently negative because of unfolded deltas.
        let [private_pages, shared_pages, table_bytes] =
            [private_pages, shared_pages, table_bytes].map(|count| (count as i64).max(0) as u64);
        Some(Kind::Footprint(Footprint { private_pages, shared_pages, table_bytes, stack_pages, executable }))
    }

    /// `task` is the task of the event.
    fn request(&mut self, task: u32) -> Option<Kind> {
        let (service, device, operation, bytes) = (self.nanos()?, self.u32()?, self.u32()?, self.u64()?);
        // Numbers of include/linux/blk_types.h.
        let operation = match operation {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            _ => Operation::Other,
        };
        let task = (task != layout::NOBODY).then_some(task);
        Some(Kind::Request(Requested { task, service, device, operation, bytes }))
    }

    fn exit(&mut self) -> Option<Kind> {
        let (ticks, peak_rss_pages, comm) = (self.ticks()?, self.u64()?, self.comm()?);
        Some(Kind::Exit { ticks, peak_rss_pages, comm, signal: self.u32()? })
    }

    fn signal(&mut self) -> Option<Kind> {
        let (work, sender, flags, number) = (self.nanos()?, self.u32()?, self.u32()?, self.u32()?);
        Some(Kind::Signal { number, sender: waker_of(flags, sender, work) })
    }

    fn sleep(&mut self) -> Option<Kind> {
        let wake = self.nanos()?;
        let waker_work = self.nanos()?;
        let waker = self.u32()?;
        let flags = self.u32()?;
        let has = |flag| flags & flag != 0;
        let (scheduled, cpu) = (self.scheduled()?, CpuId(self.u32()?));
        let (timer, due, limit) = (self.u32()?, self.nanos()?, self.nanos()?);
        let counters = self.counters()?;
        Some(Kind::Sleep(Slept {
            wake,
            waker: waker_of(flags, waker, waker_work),
            io_wait: has(layout::IO_WAIT),
            uninterruptible: has(layout::UNINTERRUPTIBLE),
            names_child: has(layout::NAMES_CHILD),
            scheduled,
            cpu,
            expiry: has(layout::WAKE_TIMER).then(|| Expiry { timer, own: has(layout::WAKE_OWN_TIMER), due }),
            limit: (limit > Nanos::ZERO).then_some(limit),
            counters,
        }))
    }

    /// `next` is the task of the event.
    fn switch(&mut self, next: u32) -> Option<Kind> {
        let (previous, cpu, flags, _unused) = (self.u32()?, CpuId(self.u32()?), self.u32()?, self.u32()?);
        let has = |flag| flags & flag != 0;
        let left = if has(layout::LEFT_DEAD) {
            Left::Dead
        } else if has(layout::LEFT_BLOCKED) {
            Left::Blocked
        } else if has(layout::LEFT_FOR_HIGHER_CLASS) {
            Left::ForHigherClass
        } else if has(layout::LEFT_UNSEEN) {
            Left::Unseen
        } else {
            Left::Runnable
        };
        let (io_wait, uninterruptible) = (has(layout::IO_WAIT), has(layout::UNINTERRUPTIBLE));
        Some(Kind::Switch { cpu, previous: occupant(previous), next: occupant(next), left, io_wait, uninterruptible })
    }

    fn wake(&mut self) -> Option<Kind> {
        let (waker, waker_cpu, target_cpu) = (self.u32()?, CpuId(self.u32()?), CpuId(self.u32()?));
        let flags = self.u32()?;
        let has = |flag| flags & flag != 0;
        let waker = waker_of(flags, waker, Nanos::ZERO);
        let device = (has(layout::IO_WAIT), has(layout::UNINTERRUPTIBLE));
        Some(Kind::Wake { waker, waker_cpu, target_cpu, device, new: has(layout::NEW) })
    }

    fn exec(&mut self) -> Option<Kind> {
        let ticks = self.ticks()?;
        let comm = self.comm()?;
        let (length, kept) = (self.u32()?, self.u32()?);
        let bytes = self.bytes(kept as usize)?;
        // Every argument ends with a zero byte; the last one does not if truncated.
        let whole = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let arguments = match kept {
            0 => Vec::new(),
            _ => whole.split(|byte| *byte == 0).map(|one| String::from_utf8_lossy(one).into_owned()).collect(),
        };
        Some(Kind::Exec { ticks, comm, arguments, truncated: length > kept })
    }

    fn attributes(&mut self) -> Option<Kind> {
        let (policy, priority, nice, words) = (self.u32()?, self.u32()?, self.u32()? as i32, self.u32()?);
        let (runtime, deadline, period) = (self.nanos()?, self.nanos()?, self.nanos()?);
        let cpus: Vec<u64> = (0..words).map(|_| self.u64()).collect::<Option<_>>()?;
        let priority = priority.min(99) as u8;
        // Numbers of include/uapi/linux/sched.h.
        let policy = match policy {
            0 => Policy::Other,
            1 => Policy::Fifo(priority),
            2 => Policy::RoundRobin(priority),
            3 => Policy::Batch,
            5 => Policy::Idle,
            6 => Policy::Deadline { runtime, deadline, period },
            7 => Policy::Ext,
            _ => return None,
        };
        Some(Kind::Attributes { policy, nice: nice.clamp(-20, 19) as i8, cpus: CpuSet::from_words(&cpus) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A raw event of this kind with this content after the header.
    fn raw(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = 1_000u64.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(500u64.to_ne_bytes());
        bytes.extend(parts.concat());
        bytes
    }

    fn sleep(waker: u32, flags: u32) -> Waker {
        let parts = [2_000u64.to_ne_bytes(), 300u64.to_ne_bytes()].concat();
        let rest = [waker, flags, 9, 4, 3, 0, 1, 77, 5, 0, 6, 0].map(u32::to_ne_bytes).concat();
        let (bytes, numbers) =
            ([8u64, 7].map(u64::to_ne_bytes).concat(), [6u32, 5, 4, 3].map(u32::to_ne_bytes).concat());
        let counters = [bytes, numbers, 2u64.to_ne_bytes().to_vec()].concat();
        let event = parse(&raw(2, &[&parts, &rest, &counters])).expect("complete");
        assert_eq!((event.time, event.task, event.work), (Nanos(1_000), 7, Nanos(500)));
        match event.kind {
            Kind::Sleep(Slept { wake: Nanos(2_000), waker, scheduled, cpu: CpuId(1), counters, .. }) => {
                assert_eq!(scheduled, Scheduled { switches: 9, interrupts: 4, interrupts_to_halted: 3 });
                let Counters { read, written, device_read, device_written, minor_faults, major_faults, beside } =
                    counters;
                assert_eq!((read, written, device_read, device_written), (8, 7, 6, 5));
                assert_eq!((minor_faults, major_faults, beside), (4, 3, Nanos(2)));
                waker
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wakeup_from_an_interrupt_is_not_attributed_to_the_interrupted_task() {
        assert_eq!(sleep(3, 0), Waker::Task(3, Nanos(300)));
        assert_eq!(sleep(u32::MAX, 0), Waker::Outside);
        assert_eq!(sleep(u32::MAX, 1 << 2), Waker::HardInterrupt);
        assert_eq!(sleep(u32::MAX, 1 << 4 | 3 << 8), Waker::SoftInterrupt(3));
        assert_eq!(sleep(u32::MAX, 1 << 4 | 3 << 8 | 1 << 2), Waker::HardInterrupt, "the innermost context decides");
        assert_eq!(sleep(u32::MAX, 1 << 3 | 1 << 2), Waker::NonMaskable);
        assert_eq!(sleep(u32::MAX, 1 << 6), Waker::Unseen);
    }

    #[test]
    fn command_lines_keep_empty_arguments_and_mark_truncation() {
        let exec = |length: u32, kept: &[u8]| {
            let kept_bytes = (kept.len() as u32).to_ne_bytes();
            let parts: [&[u8]; 5] =
                [&[0; 16], b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0", &length.to_ne_bytes(), &kept_bytes, kept];
            let mut bytes = raw(3, &parts);
            let useful = bytes.len();
            bytes.resize(useful + 100, 0xaa);
            assert_eq!(used(&bytes).len(), useful);
            match parse(used(&bytes)).expect("complete").kind {
                Kind::Exec { arguments, truncated, comm, .. } => (comm, arguments.join("|"), truncated),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(exec(9, b"cc1\0\0-O2\0"), ("cc1".into(), "cc1||-O2".into(), false));
        assert_eq!(exec(900, b"cc1\0-O"), ("cc1".into(), "cc1|-O".into(), true));
        assert_eq!(exec(9, b""), ("cc1".into(), "".into(), true));
    }

    #[test]
    fn cpu_hotplug_event_is_parsed() {
        for (word, online) in [(0u32, false), (1, true)] {
            let event = parse(&raw(10, &[&5u32.to_ne_bytes(), &word.to_ne_bytes()])).expect("complete");
            assert_eq!((event.time, event.kind), (Nanos(1_000), Kind::Hotplug { cpu: CpuId(5), online }));
        }
        assert!(parse(&raw(10, &[&5u32.to_ne_bytes()])).is_err());
    }

    #[test]
    fn truncated_or_unknown_events_are_errors() {
        let end = raw(6, &[&[0; 16]]);
        assert!(parse(&end).is_ok());
        for length in 0..end.len() {
            assert!(parse(&end[..length]).is_err(), "{length}");
        }
        assert_eq!(parse(&raw(9, &[])).unwrap_err(), "event of kind Some(9) with 24 bytes");
        assert_eq!(glance(&end), Glance::End);
        assert_eq!(glance(&raw(1, &[])), Glance::Birth);
        assert_eq!(glance(&end[..9]), Glance::Other);
    }
}
