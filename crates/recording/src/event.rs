// SPDX-License-Identifier: GPL-2.0-only
//! Events sent by the programs in `bpf/`. `wire.rs` parses their bytes.

use ids::{CpuId, CpuSet, Nanos, Policy};
use workload::Operation;

/// Number of a recorded task, consecutive in the order of birth. The root is 0.
pub type Number = u32;

/// An event.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Time on the kernel's monotonic clock.
    pub time: Nanos,
    /// Task that the event is about.
    pub task: Number,
    /// CPU time of the task at that moment. For a birth: CPU time of the parent, or of the task itself if its parent
    /// is not recorded.
    pub work: Nanos,
    /// Kind of event.
    pub kind: Kind,
}

/// Kinds of events.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// The task was forked.
    Birth {
        /// Parent; `None` for the root.
        parent: Option<Number>,
        /// Thread ID.
        pid: u32,
        /// Process ID.
        tgid: u32,
        /// CPU.
        cpu: CpuId,
        /// Name, inherited from its parent.
        comm: String,
    },
    /// The task slept and was woken.
    Sleep(Slept),
    /// The task executes another program.
    Exec {
        /// Tick-based CPU time, as accounted by the kernel.
        ticks: Ticks,
        /// New name.
        comm: String,
        /// Command-line arguments, as far as recorded.
        arguments: Vec<String>,
        /// Whether the arguments are truncated.
        truncated: bool,
    },
    /// Policy, nice value or affinity changed.
    Attributes {
        /// Scheduling policy.
        policy: Policy,
        /// Nice value.
        nice: i8,
        /// New affinity mask.
        cpus: CpuSet,
    },
    /// The task calls exit. Its memory is freed after this event.
    Exit {
        /// Tick-based CPU time.
        ticks: Ticks,
        /// Peak resident set size of its process, in pages.
        peak_rss_pages: u64,
        /// Final name.
        comm: String,
        /// Signal that ends the task; 0 for a normal exit.
        signal: u32,
    },
    /// Cgroup ID, session or user changed.
    Who {
        /// Cgroup in the v2 hierarchy.
        group: u64,
        /// Session ID.
        session: u32,
        /// Real UID.
        uid: u32,
        /// Tick-based CPU time.
        ticks: Ticks,
    },
    /// A signal was sent to the task, possibly not delivered yet. `Event::work` is 0.
    Signal {
        /// Signal number.
        number: u32,
        /// Task or interrupt that sent the signal.
        sender: Waker,
    },
    /// The task handles SIGALRM now.
    Alarm,
    /// Bytes were written to or read from a channel.
    Pass(Passed),
    /// Resource use of the task so far: sent at its exit, at the end of the recording, and at the start of the
    /// recording for tasks that exist then.
    Touched {
        /// Counters since its birth.
        counters: Counters,
        /// CPU on which it runs or last ran.
        cpu: CpuId,
    },
    /// Memory of the task's process, sent at the same points except the start of the recording.
    Footprint(Footprint),
    /// A block-device request of any task completed. `Event::time` is when the driver got it. The task is in the
    /// request, since it may be outside the tree.
    Request(Requested),
    /// The task sets an alarm (`alarm(2)`, `setitimer(2)` of real time).
    SetAlarm {
        /// Time until the alarm; 0 cancels it.
        after: Nanos,
        /// Interval of a repeated alarm; 0 for a single one.
        interval: Nanos,
    },
    /// The task gave its CPU to another task by `sched_yield(2)`.
    Yield(Scheduled),
    /// The task was switched out for the last time.
    End(Scheduled),
    /// The task is alive at the end of the recording.
    Last {
        /// Tick-based CPU time.
        ticks: Ticks,
        /// Scheduling counters so far.
        scheduled: Scheduled,
    },
    /// A context switch between two tasks, one of which is idle or in the tree. `Event::work` is the CPU time of the
    /// previous task. Sent by the meter, like the kinds below.
    Switch {
        /// CPU of the switch.
        cpu: CpuId,
        /// Task that was switched out.
        previous: Occupant,
        /// Task that was switched in; the task of the event, if it is in the tree.
        next: Occupant,
        /// Reason why the previous task was switched out.
        left: Left,
        /// The previous task sleeps in `io_schedule()`.
        io_wait: bool,
        /// The previous task sleeps in state D.
        uninterruptible: bool,
    },
    /// A blocked task became runnable, or already runs ([`Waker::Unseen`]). `Event::work` is 0.
    Wake {
        /// Waker.
        waker: Waker,
        /// CPU of the waker.
        waker_cpu: CpuId,
        /// CPU to whose runqueue the task was added.
        target_cpu: CpuId,
        /// The task slept in `io_schedule()`; it slept in state D.
        device: (bool, bool),
        /// The task was just forked.
        new: bool,
    },
    /// The task changed its name.
    Rename {
        /// New name.
        comm: String,
    },
    /// A CPU went offline or came online, for whatever reason.
    Hotplug {
        /// CPU.
        cpu: CpuId,
        /// Whether it came online.
        online: bool,
    },
}

/// Scheduling counters of a task since its birth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scheduled {
    /// Number of times it was switched in.
    pub switches: u32,
    /// Number of IPIs that it sent.
    pub interrupts: u32,
    /// Number of those IPIs sent to CPUs that had idled so long that a hypervisor may have halted them.
    pub interrupts_to_halted: u32,
}

/// A completed sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slept {
    /// Time of the wakeup.
    pub wake: Nanos,
    /// Waker.
    pub waker: Waker,
    /// Whether the task slept in `io_schedule()`, that is, waited for a device.
    pub io_wait: bool,
    /// Whether the task slept in state D.
    pub uninterruptible: bool,
    /// Whether the task waited for the exit of a specific child.
    pub names_child: bool,
    /// Scheduling counters until it fell asleep.
    pub scheduled: Scheduled,
    /// CPU from which it was switched out.
    pub cpu: CpuId,
    /// Timer whose callback ended the sleep, if any.
    pub expiry: Option<Expiry>,
    /// Timeout of the sleep: a timer of its own would have ended it after this time.
    pub limit: Option<Nanos>,
    /// Resource counters.
    pub counters: Counters,
}

/// Resource counters of a task since its birth. 32-bit counters wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes read by system calls from any file.
    pub read: u64,
    /// Bytes written by system calls.
    pub written: u64,
    /// 512-byte sectors read from devices.
    pub device_read: u32,
    /// 512-byte sectors made dirty.
    pub device_written: u32,
    /// Minor page faults.
    pub minor_faults: u32,
    /// Major page faults.
    pub major_faults: u32,
    /// CPU time while the SMT sibling was busy.
    pub beside: Nanos,
}

/// Memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Private pages, resident or swapped out.
    pub private_pages: u64,
    /// Pages of files and of shared memory.
    pub shared_pages: u64,
    /// Page tables, in bytes.
    pub table_bytes: u64,
    /// Pages of a thread's kernel stack; 0 if unknown.
    pub stack_pages: u64,
    /// Number that identifies the executable.
    pub executable: u64,
}

/// Block-device request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requested {
    /// Task of the tree that submitted it itself, if any.
    pub task: Option<Number>,
    /// Service time of the device.
    pub service: Nanos,
    /// Device number of the whole device: major << 20 | minor.
    pub device: u32,
    /// Operation.
    pub operation: Operation,
    /// Size in bytes.
    pub bytes: u64,
}

/// Bytes that a task wrote to, or read from, a pipe or socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Channel: a pipe, or one direction of a connection. The same for writers and readers.
    pub channel: u64,
    /// Written rather than read.
    pub written: bool,
    /// Progress of the channel.
    pub amount: Amount,
}

/// Progress of a byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Number of bytes transferred.
    Bytes(u64),
    /// New position, of which only the low 32 bits are known: a TCP sequence number.
    Position(u32),
}

/// Expiry of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Identifies the timer among those that a task waits for at the same time.
    pub timer: u32,
    /// The sleeper started the timer for this very sleep.
    pub own: bool,
    /// Expiry time on the timer's own clock.
    pub due: Nanos,
}

/// Task on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occupant {
    /// The idle task.
    Idle,
    /// A task outside the tree.
    Other,
    /// A task of the tree.
    Task(Number),
}

/// Reason why a task was switched out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The task is still runnable: preempted, out of slice, or yielding.
    Runnable,
    /// The task is still runnable, but the next task is of a higher scheduling class.
    ForHigherClass,
    /// The task sleeps.
    Blocked,
    /// The task exited.
    Dead,
    /// Unknown: no event was seen, and the switch is inferred from the CPU time of the next task.
    Unseen,
}

/// User and system time by ticks: a whole tick is charged to the mode that it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks {
    /// User time.
    pub user: Nanos,
    /// System time.
    pub system: Nanos,
}

/// Origin of a wakeup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// A recorded task in its own context, with its CPU time at that moment.
    Task(Number, Nanos),
    /// A task outside the recording.
    Outside,
    /// A hardware interrupt: on most machines an hrtimer.
    HardInterrupt,
    /// The softirq of this number.
    SoftInterrupt(u8),
    /// A non-maskable interrupt.
    NonMaskable,
    /// Unknown: no wakeup event was seen, but the task runs again.
    Unseen,
}
