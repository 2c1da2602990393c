// SPDX-License-Identifier: GPL-2.0-only
//! Events as the programs in `bpf/` send them. `wire.rs` reads their bytes.

use ids::{CpuId, CpuSet, Nanos, Policy};
use workload::Operation;

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
    /// What the task has touched so far: where it ends, where the recording does, and for a task that is there when it
    /// begins, then.
    Touched {
        /// Since its birth.
        counters: Counters,
        /// Where it runs, or ran last.
        cpu: CpuId,
    },
    /// How much memory the task's process has, at the same places but the first.
    Footprint(Footprint),
    /// A request of a block device is done, of whomever. `Event::time` is when its driver got it; the task is said here, as
    /// it may be none of the tree.
    Request(Requested),
    /// The task wants SIGALRM (`alarm(2)`, `setitimer(2)` of real time).
    SetAlarm {
        /// After this time; 0: not any more.
        after: Nanos,
        /// And after that again and again; 0: once.
        interval: Nanos,
    },
    /// The task left its CPU for the last time.
    End(Scheduled),
    /// The task lives when the recording ends.
    Last {
        /// CPU time by ticks.
        ticks: Ticks,
        /// Until then.
        scheduled: Scheduled,
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

/// What a task's schedule has made it do since its birth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scheduled {
    /// How often it got a CPU.
    pub switches: u32,
    /// How many interrupts it sent to other CPUs.
    pub interrupts: u32,
    /// How many of these went to a CPU that had idled for so long that its hypervisor may have put it to sleep.
    pub interrupts_to_halted: u32,
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
    /// It waited for the end of a child that it named.
    pub names_child: bool,
    /// Until the task fell asleep.
    pub scheduled: Scheduled,
    /// The CPU that it left.
    pub cpu: CpuId,
    /// The timer whose function ended it, if one did.
    pub expiry: Option<Expiry>,
    /// After this time a timer of its own would have ended it.
    pub limit: Option<Nanos>,
    /// What the task had touched.
    pub counters: Counters,
}

/// What a task has touched since its birth. Numbers of 32 bits begin at 0 again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes that its system calls read, from wherever.
    pub read: u64,
    /// Bytes that they wrote.
    pub written: u64,
    /// Sectors of 512 bytes that devices read for it.
    pub device_read: u32,
    /// Sectors that it made dirty.
    pub device_written: u32,
    /// Page faults that needed no device.
    pub minor_faults: u32,
    /// And those that did.
    pub major_faults: u32,
    /// For how long it had a CPU while the other thread of its core was busy.
    pub beside: Nanos,
}

/// Memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Pages of its own, in memory or swapped out.
    pub private_pages: u64,
    /// Pages of files and of shared memory.
    pub shared_pages: u64,
    /// Bytes of page tables.
    pub table_bytes: u64,
    /// Pages of a thread's stack in the kernel, 0 if that is not known.
    pub stack_pages: u64,
    /// What it executes, as a number.
    pub executable: u64,
}

/// A request of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requested {
    /// Who submitted it, if it was a task of the tree itself.
    pub task: Option<Number>,
    /// How long the device took.
    pub service: Nanos,
    /// The whole device: its major number times 2^20, and its minor number.
    pub device: u32,
    /// What it did.
    pub operation: Operation,
    /// Bytes.
    pub bytes: u64,
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
