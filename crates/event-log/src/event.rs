// SPDX-License-Identifier: GPL-2.0-only
//! What can happen in a run, and who wants to know.

use crate::Detail;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, on the clock of the run.
    pub time: Nanos,
    /// On which CPU it was done (the waker's CPU for a wakeup, not the task's).
    pub cpu: CpuId,
    /// Whom it concerns; [`TaskId::NONE`] where no task is concerned.
    pub task: TaskId,
    /// What.
    pub kind: EventKind,
    /// The callback of the scheduler that caused it, if one did.
    pub site: CallbackSite,
}

/// Where in the scheduler's code an event was caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallbackSite {
    /// Index of the op in `struct sched_ext_ops` order plus one, 0 for none. See [`op_name`].
    pub op: u8,
    /// File of the policy's source, by the number that [`Sink::source_file`] announced; 0 if the line is unknown.
    pub file: u16,
    /// Line in it, 0 if unknown.
    pub line: u32,
}

/// A text that the scheduler printed (`bpf_printk`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Printk {
    /// When.
    pub time: Nanos,
    /// On which CPU.
    pub cpu: CpuId,
    /// Who ran there; [`TaskId::NONE`]: nobody.
    pub task: TaskId,
    /// Where in its code.
    pub site: CallbackSite,
    /// The text, without a newline at its end.
    pub text: String,
}

/// What an event says. New kinds go to the end: the discriminants are part of the log's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The task became runnable. Its wakeup latency starts here.
    Wakeup {
        /// Who or what caused it.
        waker: Waker,
        /// A synchronous wakeup: the waker says that it is about to sleep.
        sync: bool,
        /// The CPU whose runqueue it was put on.
        target: CpuId,
    },
    /// `select_cpu` (or the default search) chose a CPU.
    SelectCpu {
        /// Where the task last ran.
        prev: CpuId,
        /// What was chosen, after the kernel's corrections.
        chosen: CpuId,
    },
    /// A task went into a queue.
    Insert {
        /// Which queue.
        dsq: DsqId,
        /// Its virtual time in an ordered queue, 0 in a FIFO.
        key: u64,
        /// Slice that it was given, in nanoseconds.
        slice_ns: u64,
    },
    /// A task left a user or the global queue for a CPU's local queue.
    Dispatch {
        /// The queue that it left.
        from: DsqId,
        /// The CPU whose local queue it entered.
        to: CpuId,
    },
    /// `task` is the one that now runs on `cpu`; [`TaskId::NONE`] is the idle task.
    Switch {
        /// Who ran before.
        prev: TaskId,
        /// Why that one stopped.
        reason: SwitchReason,
    },
    /// The timer interrupt of a busy CPU.
    Tick,
    /// The scheduler (or the core on its behalf) asked another CPU to reschedule.
    Kick {
        /// Which CPU.
        target: CpuId,
        /// How.
        flags: KickFlags,
    },
    /// A runnable task changed its runqueue.
    Migrate {
        /// Runqueue that it left.
        from: CpuId,
        /// Runqueue that it joined.
        to: CpuId,
    },
    /// The running task stopped being runnable.
    Block {
        /// What it waits for.
        cause: BlockCause,
    },
    /// The running task made another; the child's own [`Sink::task`] came before.
    Fork {
        /// The new task.
        child: TaskId,
    },
    /// The running task ended.
    Exit,
    /// The CPU ran out of work (`true`) or left idle (`false`).
    Idle {
        /// Entered or left.
        entered: bool,
    },
    /// The affinity of the task changed; [`Sink::affinity`] brings the mask.
    Affinity,
    /// The nice value or the policy of the task changed.
    Priority {
        /// Nice value, -20 to 19.
        nice: i8,
    },
    /// The CPU waited for a lock.
    LockWait {
        /// Which kind of lock.
        lock: LockKind,
        /// For how long.
        waited: Nanos,
    },
    /// The CPU went online or offline.
    Hotplug {
        /// Its new state.
        online: bool,
    },
    /// The running task gave up the CPU of its own will.
    Yield,
    /// The scheduler was attached.
    Attached,
    /// The scheduler was disabled, with its exit kind (contract E2).
    Disabled {
        /// 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …
        kind: u32,
    },
}

/// Who made a task runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// Another task, by its own action.
    Task(TaskId),
    /// The timer that the task had armed.
    Timer,
    /// A device interrupt.
    Interrupt,
    /// The task is new; its parent made it.
    Fork(TaskId),
    /// Something outside what was recorded or simulated.
    External,
}

/// Why the previous task of a CPU stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchReason {
    /// The CPU was idle.
    Idle,
    /// It went to sleep.
    Block,
    /// It ended.
    Exit,
    /// It yielded.
    Yield,
    /// Its slice was used up.
    SliceEnd,
    /// The scheduler took the CPU away with slice left.
    Preempt,
    /// A higher scheduling class wanted the CPU.
    HigherClass,
    /// Its affinity, class or scheduler changed.
    Change,
}

/// What a sleeping task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockCause {
    /// A timer that it armed.
    Timer,
    /// A device.
    Io,
    /// Another task's progress: lock, condition, pipe, signal.
    Task,
    /// The exit of a child.
    Child,
    /// Something outside what was recorded or simulated.
    External,
}

/// How a CPU was kicked; the bits of `SCX_KICK_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KickFlags(pub u8);

impl KickFlags {
    /// Only if the CPU is idle.
    pub const IDLE: u8 = 1;
    /// Take the slice of the running task.
    pub const PREEMPT: u8 = 2;
    /// The kicking CPU waits until the target has rescheduled.
    pub const WAIT: u8 = 4;
}

/// A lock that somebody can wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// The lock of a CPU's runqueue.
    Runqueue(CpuId),
    /// The lock of a dispatch queue.
    Dsq(DsqId),
    /// A lock word of the scheduler (`bpf_spin_lock`), by guest address.
    Bpf(u64),
}

/// What a run knows of a task from its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// Its number in the run: 0 for the first, one more for each that comes.
    pub id: TaskId,
    /// Its number in the kernel, which is what the kernel and a scheduler call it by.
    pub pid: u32,
    /// At most 15 bytes are shown in the kernel (`comm`); longer names are kept whole here.
    pub name: String,
    /// Who forked it.
    pub parent: Option<TaskId>,
    /// Where it may run.
    pub allowed: CpuSet,
    /// Its policy.
    pub policy: Policy,
    /// Its nice value, -20 to 19.
    pub nice: i8,
    /// A thread of the kernel itself (the watchdog's worker), not of the workload.
    pub kernel_thread: bool,
}

/// Number in the kernel of the first task of a simulated run; those below belong to the system.
const FIRST_PID: u32 = 100;

/// The number by which the modelled kernel, and a scheduler in it, calls a task (`p->pid`).
pub fn modelled_pid(task: TaskId) -> u32 {
    FIRST_PID.wrapping_add(task.0)
}

/// Whoever wants to know what happens in a run.
///
/// Calls come in order of time. A task is announced before the first event that names it.
pub trait Sink {
    /// The scheduler's source file with this number, without its directory. Announced before the first event.
    fn source_file(&mut self, _file: u16, _name: &str) {}
    /// A task exists from `time` on.
    fn task(&mut self, time: Nanos, info: &TaskInfo);
    /// A known task has another name from now on. Logs do not keep that: a report has each task's last name.
    fn renamed(&mut self, _time: Nanos, _task: TaskId, _name: &str) {}
    /// The affinity of a known task is now `allowed`; the [`EventKind::Affinity`] event follows.
    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet);
    /// The scheduler printed something.
    fn printk(&mut self, _printk: &Printk) {}
    /// Something happened.
    fn event(&mut self, event: &Event);
    /// Whether [`Sink::detail`] shall be called. The answer does not change.
    fn wants_details(&self) -> bool {
        false
    }
    /// What the events leave out. After the events before it.
    fn detail(&mut self, _detail: &Detail) {}
}

/// The ops of `struct sched_ext_ops`, in the order that [`CallbackSite::op`] counts them.
const OPS: [&str; 37] = [
    "select_cpu",
    "enqueue",
    "dequeue",
    "dispatch",
    "tick",
    "runnable",
    "running",
    "stopping",
    "quiescent",
    "yield",
    "core_sched_before",
    "set_weight",
    "set_cpumask",
    "update_idle",
    "cpu_acquire",
    "cpu_release",
    "init_task",
    "exit_task",
    "enable",
    "disable",
    "dump",
    "dump_cpu",
    "dump_task",
    "cgroup_init",
    "cgroup_exit",
    "cgroup_prep_move",
    "cgroup_move",
    "cgroup_cancel_move",
    "cgroup_set_weight",
    "cgroup_set_bandwidth",
    "cgroup_set_idle",
    "cpu_online",
    "cpu_offline",
    "init",
    "exit",
    "timer",
    "program",
];

/// Name of the op that [`CallbackSite::op`] numbers; "timer" is a `bpf_timer` callback, "program" one in section
/// `syscall` that user space calls.
pub fn op_name(op: u8) -> Option<&'static str> {
    OPS.get(usize::from(op).checked_sub(1)?).copied()
}
