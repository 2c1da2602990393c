// SPDX-License-Identifier: GPL-2.0-only
//! Events as the programs in `bpf/` send them: fixed layouts in the machine's byte order, parsed by hand.

use ids::{CpuId, CpuSet, Nanos, Policy};

/// Number of a recorded task, dense in the order of birth. The root is 0.
pub type Number = u32;

/// One event.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// When, on the kernel's monotonic clock.
    pub time: Nanos,
    /// Whom it is about.
    pub task: Number,
    /// Its CPU time at that moment; of its parent's for a birth, and its own if it has no parent here.
    pub work: Nanos,
    /// What happened.
    pub kind: Kind,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// The task was forked.
    Birth {
        /// By whom; `None` for the root.
        parent: Option<Number>,
        /// Its thread id.
        pid: u32,
        /// Its process id.
        tgid: u32,
        /// On which CPU.
        cpu: CpuId,
        /// Its name, that of its parent.
        comm: String,
    },
    /// The task left its CPU to sleep, and was woken later.
    Sleep(Slept),
    /// The task executes another program.
    Exec {
        /// CPU time by ticks, as the kernel counts it.
        ticks: Ticks,
        /// The new name.
        comm: String,
        /// The command line, in arguments, as far as it was kept.
        arguments: Vec<String>,
        /// Whether more followed.
        truncated: bool,
    },
    /// Policy, nice value or affinity are new.
    Attributes {
        /// The policy.
        policy: Policy,
        /// The nice value.
        nice: i8,
        /// The affinity.
        cpus: CpuSet,
    },
    /// The task calls exit. Its memory is freed after this.
    Exit {
        /// CPU time by ticks.
        ticks: Ticks,
        /// Largest resident set of its process, in pages.
        peak_rss_pages: u64,
        /// Its name at the end.
        comm: String,
        /// The signal that ends it; 0 if it ends by itself.
        signal: u32,
    },
    /// Its control group (the kernel's number for it), session or user are new.
    Who {
        /// The control group in the one hierarchy of version 2.
        group: u64,
        /// The session.
        session: u32,
        /// The real user.
        uid: u32,
        /// CPU time by ticks.
        ticks: Ticks,
    },
    /// A signal was sent to the task, which it may not have noticed yet. `Event::work` is 0.
    Signal {
        /// Which.
        number: u32,
        /// By whom.
        sender: Waker,
    },
    /// The task handles SIGALRM now.
    Alarm,
    /// Bytes passed through a channel.
    Pass(Passed),
    /// The task wants SIGALRM (`alarm(2)`, `setitimer(2)` of real time).
    SetAlarm {
        /// After this time; 0: not any more.
        after: Nanos,
        /// And after that again and again; 0: once.
        interval: Nanos,
    },
    /// The task left its CPU for the last time.
    End {
        /// How often it had got a CPU.
        switches: u32,
        /// How many interrupts it had sent to other CPUs.
        interrupts: u32,
    },
    /// The task lives when the recording ends.
    Last {
        /// CPU time by ticks.
        ticks: Ticks,
        /// How often it had got a CPU.
        switches: u32,
        /// How many interrupts it had sent to other CPUs.
        interrupts: u32,
    },
    /// A CPU went from one task to another, one of which is idle or in the tree. `Event::work` is the CPU time of the
    /// one that left. From the meter, as all that follow.
    Switch {
        /// Where.
        cpu: CpuId,
        /// Who left.
        previous: Occupant,
        /// Who runs now; the task of the event, if it is in the tree.
        next: Occupant,
        /// How the previous one left.
        left: Left,
        /// `io_schedule()`, if it sleeps.
        io_wait: bool,
        /// State D, if it sleeps.
        uninterruptible: bool,
    },
    /// The task was blocked and is runnable again; [`Waker::Unseen`]: it even runs. `Event::work` is 0.
    Wake {
        /// By whom.
        waker: Waker,
        /// On which CPU that was.
        waker_cpu: CpuId,
        /// The CPU to whose runqueue the task went.
        target_cpu: CpuId,
        /// It slept in `io_schedule()`, or in state D.
        device: (bool, bool),
        /// It is new.
        new: bool,
    },
    /// The task has another name.
    Rename {
        /// The new one.
        comm: String,
    },
    /// A CPU went or came, whoever wanted that.
    Hotplug {
        /// Which.
        cpu: CpuId,
        /// It came.
        online: bool,
    },
}

/// A sleep that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slept {
    /// When it was woken.
    pub wake: Nanos,
    /// By whom.
    pub waker: Waker,
    /// `io_schedule()`: it waited for a device.
    pub io_wait: bool,
    /// State D.
    pub uninterruptible: bool,
    /// How often the task had got a CPU when it fell asleep.
    pub switches: u32,
    /// How many interrupts it had sent to other CPUs.
    pub interrupts: u32,
    /// The CPU that it left.
    pub cpu: CpuId,
    /// The timer whose function ended it, if one did.
    pub expiry: Option<Expiry>,
    /// After this time a timer of its own would have ended it.
    pub limit: Option<Nanos>,
}

/// Bytes that a task wrote to a pipe or socket, or read from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Which: a pipe, or one direction of a connection. Equal for those who write and those who read.
    pub channel: u64,
    /// Written, not read.
    pub written: bool,
    /// How far.
    pub amount: Amount,
}

/// How far bytes have come in a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many more than before.
    Bytes(u64),
    /// Up to this position, of which only the lower bits are known: the sequence number of TCP.
    Position(u32),
}

/// A timer that expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Which: two that one task waits for at a time differ.
    pub timer: u32,
    /// The sleeper started it to end this very sleep.
    pub own: bool,
    /// When that was to be, on the timer's own clock.
    pub due: Nanos,
}

/// Who has a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occupant {
    /// Nobody: the idle task.
    Idle,
    /// A task outside the tree.
    Other,
    /// A task of the tree.
    Task(Number),
}

/// How a task left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// It can go on: preempted, out of its slice, or yielding.
    Runnable,
    /// So can it, but the next one is of a higher scheduling class.
    ForHigherClass,
    /// It sleeps.
    Blocked,
    /// For ever.
    Dead,
    /// Nobody knows: the kernel was silent, and the switch is inferred from the CPU time of the one that came.
    Unseen,
}

/// User and system time as the kernel's tick counts them: a whole tick for whatever mode the tick interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks {
    /// In user mode.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

/// Where a wakeup came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// A recorded task, itself, when it had got so much CPU time.
    Task(Number, Nanos),
    /// A task outside the recording.
    Outside,
    /// A hardware interrupt: on most machines a high-resolution timer.
    HardInterrupt,
    /// The softirq of this number.
    SoftInterrupt(u8),
    /// A non-maskable interrupt.
    NonMaskable,
    /// Nobody knows: the kernel was silent, but the task runs again.
    Unseen,
}

/// Kinds and flags, as in `tree.bpf.h`, `record.bpf.c` and `meter.bpf.c`.
mod wire {
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
    pub const LEFT_BLOCKED: u32 = 1 << 8;
    pub const LEFT_DEAD: u32 = 1 << 9;
    pub const LEFT_FOR_HIGHER_CLASS: u32 = 1 << 10;
    pub const LEFT_UNSEEN: u32 = 1 << 12;
    pub const SOFTIRQ_SHIFT: u32 = 8;
    /// Bytes of an exec event before its arguments.
    pub const EXEC_FIXED: usize = 24 + 16 + COMM_LENGTH + 8;
}

/// What the consumer needs to know at once, without parsing the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glance {
    /// One task more.
    Birth,
    /// One task less.
    End,
    /// A sleep.
    Sleep,
    /// Bytes that passed through a channel.
    Pass,
    /// Anything else.
    Other,
}

/// Looks at the kind of a raw event only.
pub fn glance(raw: &[u8]) -> Glance {
    match Reader(raw).skip(8).and_then(|mut rest| rest.u32()) {
        Some(wire::BIRTH) => Glance::Birth,
        Some(wire::END) => Glance::End,
        Some(wire::SLEEP) => Glance::Sleep,
        Some(wire::PASS) => Glance::Pass,
        _ => Glance::Other,
    }
}

/// The part of a raw event that carries information: command lines have a fixed room that is mostly empty.
pub fn used(raw: &[u8]) -> &[u8] {
    let kind = Reader(raw).skip(8).and_then(|mut rest| rest.u32());
    let kept = Reader(raw).skip(wire::EXEC_FIXED - 4).and_then(|mut rest| rest.u32());
    match (kind, kept) {
        (Some(wire::EXEC), Some(kept)) => raw.get(..wire::EXEC_FIXED + kept as usize).unwrap_or(raw),
        _ => raw,
    }
}

/// Parses one raw event.
///
/// # Errors
/// Says what is wrong with an event of unknown kind or of the wrong length.
pub fn parse(raw: &[u8]) -> Result<Event, String> {
    let mut reader = Reader(raw);
    let event = reader.event();
    event.ok_or_else(|| {
        let kind = Reader(raw).skip(8).and_then(|mut rest| rest.u32());
        format!("event of kind {kind:?} with {} bytes", raw.len())
    })
}

/// The innermost context counts: an interrupt borrows whoever runs.
fn waker_of(flags: u32, waker: u32, waker_work: Nanos) -> Waker {
    if flags & wire::WAKE_UNSEEN != 0 {
        Waker::Unseen
    } else if flags & wire::NMI != 0 {
        Waker::NonMaskable
    } else if flags & wire::HARDIRQ != 0 {
        Waker::HardInterrupt
    } else if flags & wire::SOFTIRQ != 0 {
        Waker::SoftInterrupt((flags >> wire::SOFTIRQ_SHIFT) as u8)
    } else if waker == wire::NOBODY {
        Waker::Outside
    } else {
        Waker::Task(waker, waker_work)
    }
}

fn occupant(task: u32) -> Occupant {
    match task {
        wire::IDLE_TASK => Occupant::Idle,
        wire::OTHER_TASK => Occupant::Other,
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
        let bytes = self.bytes(wire::COMM_LENGTH)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn event(&mut self) -> Option<Event> {
        let time = self.nanos()?;
        let kind = self.u32()?;
        let task = self.u32()?;
        let work = self.nanos()?;
        let kind = match kind {
            wire::BIRTH => self.birth()?,
            wire::SLEEP => self.sleep()?,
            wire::EXEC => self.exec()?,
            wire::ATTRIBUTES => self.attributes()?,
            wire::EXIT => self.exit()?,
            wire::WHO => self.who()?,
            wire::SIGNAL => self.signal()?,
            wire::DELIVERY => Kind::Alarm,
            wire::ALARM => Kind::SetAlarm { after: self.nanos()?, interval: self.nanos()? },
            wire::END => Kind::End { switches: self.u32()?, interrupts: self.u32()? },
            wire::LAST => self.last()?,
            wire::PASS => self.pass()?,
            wire::SWITCH => self.switch(task)?,
            wire::WAKE => self.wake()?,
            wire::RENAME => Kind::Rename { comm: self.comm()? },
            wire::HOTPLUG => Kind::Hotplug { cpu: CpuId(self.u32()?), online: self.u32()? != 0 },
            _ => return None,
        };
        Some(Event { time, task, work, kind })
    }

    fn birth(&mut self) -> Option<Kind> {
        let parent = self.u32()?;
        let (pid, tgid, cpu) = (self.u32()?, self.u32()?, CpuId(self.u32()?));
        Some(Kind::Birth { parent: (parent != wire::NOBODY).then_some(parent), pid, tgid, cpu, comm: self.comm()? })
    }

    fn who(&mut self) -> Option<Kind> {
        Some(Kind::Who { group: self.u64()?, session: self.u32()?, uid: self.u32()?, ticks: self.ticks()? })
    }

    fn last(&mut self) -> Option<Kind> {
        let (switches, interrupts) = (self.u32()?, self.u32()?);
        Some(Kind::Last { switches, interrupts, ticks: self.ticks()? })
    }

    fn pass(&mut self) -> Option<Kind> {
        let (channel, amount, flags, _unused) = (self.u64()?, self.u64()?, self.u32()?, self.u32()?);
        let sequence = flags & wire::PASS_SEQUENCE != 0;
        let amount = if sequence { Amount::Position(amount as u32) } else { Amount::Bytes(amount) };
        Some(Kind::Pass(Passed { channel, written: flags & wire::PASS_WRITTEN != 0, amount }))
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
        let (switches, interrupts, cpu) = (self.u32()?, self.u32()?, CpuId(self.u32()?));
        let (timer, due, limit) = (self.u32()?, self.nanos()?, self.nanos()?);
        Some(Kind::Sleep(Slept {
            wake,
            waker: waker_of(flags, waker, waker_work),
            io_wait: has(wire::IO_WAIT),
            uninterruptible: has(wire::UNINTERRUPTIBLE),
            switches,
            interrupts,
            cpu,
            expiry: has(wire::WAKE_TIMER).then(|| Expiry { timer, own: has(wire::WAKE_OWN_TIMER), due }),
            limit: (limit > Nanos::ZERO).then_some(limit),
        }))
    }

    /// `next` is the event's own task.
    fn switch(&mut self, next: u32) -> Option<Kind> {
        let (previous, cpu, flags, _unused) = (self.u32()?, CpuId(self.u32()?), self.u32()?, self.u32()?);
        let has = |flag| flags & flag != 0;
        let left = if has(wire::LEFT_DEAD) {
            Left::Dead
        } else if has(wire::LEFT_BLOCKED) {
            Left::Blocked
        } else if has(wire::LEFT_FOR_HIGHER_CLASS) {
            Left::ForHigherClass
        } else if has(wire::LEFT_UNSEEN) {
            Left::Unseen
        } else {
            Left::Runnable
        };
        let (io_wait, uninterruptible) = (has(wire::IO_WAIT), has(wire::UNINTERRUPTIBLE));
        Some(Kind::Switch { cpu, previous: occupant(previous), next: occupant(next), left, io_wait, uninterruptible })
    }

    fn wake(&mut self) -> Option<Kind> {
        let (waker, waker_cpu, target_cpu) = (self.u32()?, CpuId(self.u32()?), CpuId(self.u32()?));
        let flags = self.u32()?;
        let has = |flag| flags & flag != 0;
        let waker = waker_of(flags, waker, Nanos::ZERO);
        let device = (has(wire::IO_WAIT), has(wire::UNINTERRUPTIBLE));
        Some(Kind::Wake { waker, waker_cpu, target_cpu, device, new: has(wire::NEW) })
    }

    fn exec(&mut self) -> Option<Kind> {
        let ticks = self.ticks()?;
        let comm = self.comm()?;
        let (length, kept) = (self.u32()?, self.u32()?);
        let bytes = self.bytes(kept as usize)?;
        // Every argument ends with a zero byte, the last one too unless it was cut.
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
        // Numbers from include/uapi/linux/sched.h.
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

    /// A raw event with this kind and this after the head.
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
        let rest = [waker, flags, 9, 4, 1, 77, 5, 0, 6, 0].map(u32::to_ne_bytes).concat();
        let event = parse(&raw(2, &[&parts, &rest])).expect("complete");
        assert_eq!((event.time, event.task, event.work), (Nanos(1_000), 7, Nanos(500)));
        match event.kind {
            Kind::Sleep(Slept { wake: Nanos(2_000), waker, switches: 9, interrupts: 4, cpu: CpuId(1), .. }) => waker,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_interrupt_is_never_its_victim() {
        assert_eq!(sleep(3, 0), Waker::Task(3, Nanos(300)));
        assert_eq!(sleep(u32::MAX, 0), Waker::Outside);
        assert_eq!(sleep(u32::MAX, 1 << 2), Waker::HardInterrupt);
        assert_eq!(sleep(u32::MAX, 1 << 4 | 3 << 8), Waker::SoftInterrupt(3));
        assert_eq!(sleep(u32::MAX, 1 << 4 | 3 << 8 | 1 << 2), Waker::HardInterrupt, "the innermost context counts");
        assert_eq!(sleep(u32::MAX, 1 << 3 | 1 << 2), Waker::NonMaskable);
        assert_eq!(sleep(u32::MAX, 1 << 6), Waker::Unseen);
    }

    #[test]
    fn command_lines_keep_empty_arguments_and_say_when_they_are_cut() {
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
    fn a_cpu_goes_and_comes() {
        for (word, online) in [(0u32, false), (1, true)] {
            let event = parse(&raw(10, &[&5u32.to_ne_bytes(), &word.to_ne_bytes()])).expect("complete");
            assert_eq!((event.time, event.kind), (Nanos(1_000), Kind::Hotplug { cpu: CpuId(5), online }));
        }
        assert!(parse(&raw(10, &[&5u32.to_ne_bytes()])).is_err());
    }

    #[test]
    fn short_or_unknown_events_are_errors() {
        let end = raw(6, &[&[0; 8]]);
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
