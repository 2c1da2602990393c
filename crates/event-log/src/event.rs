// SPDX-License-Identifier: GPL-2.0-only
//! Events of a run, and the interface of their consumers.

use crate::Detail;
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId};

/// An event of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time on the clock of the run.
    pub time: Nanos,
    /// CPU on which it happened; for a wakeup the waker's CPU, not the woken task's.
    pub cpu: CpuId,
    /// Task concerned; [`TaskId::NONE`] if none is.
    pub task: TaskId,
    /// Kind of event.
    pub kind: EventKind,
    /// The scheduler callback that caused it, if one did.
    pub site: CallbackSite,
}

/// Position in the scheduler's code that caused an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallbackSite {
    /// Index of the op in the order of `struct sched_ext_ops`, plus one; 0 if none. See [`op_name`].
    pub op: u8,
    /// Source file, by the number that [`Sink::source_file`] announced; 0 if the line is unknown.
    pub file: u16,
    /// Line number; 0 if unknown.
    pub line: u32,
}

/// A text that the scheduler printed (`bpf_printk`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Printk {
    /// Time on the clock of the run.
    pub time: Nanos,
    /// CPU that ran the scheduler.
    pub cpu: CpuId,
    /// Current task of the CPU; [`TaskId::NONE`] if it was idle.
    pub task: TaskId,
    /// Position of the call in the scheduler's code.
    pub site: CallbackSite,
    /// Text without the trailing newline.
    pub text: String,
}

/// Contents of an event. New kinds are appended at the end, since the discriminants are part of the log format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The task became runnable. Its wakeup latency starts here.
    Wakeup {
        /// Cause of the wakeup.
        waker: Waker,
        /// Whether the wakeup is synchronous: the waker announces that it is about to sleep.
        sync: bool,
        /// CPU on whose runqueue the task was put.
        target: CpuId,
    },
    /// `select_cpu` (or the default search) chose a CPU.
    SelectCpu {
        /// CPU on which the task last ran.
        prev: CpuId,
        /// Chosen CPU, after the kernel's corrections.
        chosen: CpuId,
    },
    /// A task was inserted into a dispatch queue.
    Insert {
        /// The dispatch queue.
        dsq: DsqId,
        /// Virtual time in an ordered queue; 0 in a FIFO.
        key: u64,
        /// Slice of the task, in nanoseconds.
        slice_ns: u64,
    },
    /// A task moved from a user or global queue to a CPU's local queue.
    Dispatch {
        /// Queue that the task left.
        from: DsqId,
        /// CPU whose local queue the task entered.
        to: CpuId,
    },
    /// `cpu` switched to `task`; [`TaskId::NONE`] is the idle task.
    Switch {
        /// Previous task.
        prev: TaskId,
        /// Reason that the previous task stopped.
        reason: SwitchReason,
    },
    /// A timer tick on a busy CPU.
    Tick,
    /// The scheduler, or the kernel on its behalf, asked a CPU to reschedule.
    Kick {
        /// CPU that was requested to reschedule.
        target: CpuId,
        /// Kind of kick.
        flags: KickFlags,
    },
    /// A runnable task moved to another runqueue.
    Migrate {
        /// CPU of the runqueue that it left.
        from: CpuId,
        /// CPU of the runqueue that it joined.
        to: CpuId,
    },
    /// The running task blocked.
    Block {
        /// Cause of the block.
        cause: BlockCause,
    },
    /// The running task created another one; the child's [`Sink::task`] came before.
    Fork {
        /// The new task.
        child: TaskId,
    },
    /// The running task exited.
    Exit,
    /// The CPU entered or left the idle state.
    Idle {
        /// Whether the idle state was entered.
        entered: bool,
    },
    /// The affinity mask of the task changed; [`Sink::affinity`] passes the mask.
    Affinity,
    /// The nice value or the policy of the task changed.
    Priority {
        /// Nice value, -20 to 19.
        nice: i8,
    },
    /// The CPU waited for a lock.
    LockWait {
        /// The lock.
        lock: LockKind,
        /// Waiting time.
        waited: Nanos,
    },
    /// The CPU went online or offline.
    Hotplug {
        /// Whether the CPU is now online.
        online: bool,
    },
    /// The running task yielded the CPU.
    Yield,
    /// The scheduler was attached.
    Attached,
    /// The scheduler was disabled, with its exit kind (contract E2).
    Disabled {
        /// Exit kind: 64 unregistered, 1024 runtime error, 1025 `scx_bpf_error`, 1026 stall, …
        kind: u32,
    },
}

/// Cause of a wakeup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waker {
    /// Another task.
    Task(TaskId),
    /// A timer that the task had armed.
    Timer,
    /// A device interrupt.
    Interrupt,
    /// The task is new and was created by this parent.
    Fork(TaskId),
    /// A cause outside the recorded or simulated system.
    External,
}

/// Reason that the previous task of a CPU stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchReason {
    /// The CPU was idle.
    Idle,
    /// The task blocked.
    Block,
    /// The task exited.
    Exit,
    /// The task yielded.
    Yield,
    /// The task used up its slice.
    SliceEnd,
    /// The scheduler preempted the task before the end of its slice.
    Preempt,
    /// A task of a higher scheduling class preempted it.
    HigherClass,
    /// The affinity, class or scheduler of the task changed, or active balancing moved it to another CPU.
    Change,
}

/// Event that a blocked task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockCause {
    /// A timer that the task armed.
    Timer,
    /// A device.
    Io,
    /// An action of another task: unlock, signal of a condition, write to a pipe, signal.
    Task,
    /// The exit of a child.
    Child,
    /// A cause outside the recorded or simulated system.
    External,
}

/// Kind of a kick, in the bits of `SCX_KICK_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KickFlags(pub u8);

impl KickFlags {
    /// Kick only if the CPU is idle.
    pub const IDLE: u8 = 1;
    /// End the slice of the running task.
    pub const PREEMPT: u8 = 2;
    /// Wait until the target CPU has rescheduled.
    pub const WAIT: u8 = 4;
}

/// A lock for which a CPU can wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// The lock of a CPU's runqueue.
    Runqueue(CpuId),
    /// The lock of a dispatch queue.
    Dsq(DsqId),
    /// A lock word of the scheduler (`bpf_spin_lock`), by guest address.
    Bpf(u64),
}

/// Properties of a task when it is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// Number in the run, dense from 0 in the order of creation.
    pub id: TaskId,
    /// Pid in the kernel, by which the kernel and the scheduler identify the task.
    pub pid: u32,
    /// Name. The kernel keeps at most 15 bytes (`comm`); here longer names are kept in full.
    pub name: String,
    /// Task that forked it.
    pub parent: Option<TaskId>,
    /// Affinity mask.
    pub allowed: CpuSet,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Whether the task is a kthread (such as the worker of the watchdog), not part of the workload.
    pub kernel_thread: bool,
}

/// Pid of the first task of a simulated run; lower pids belong to the system.
const FIRST_PID: u32 = 100;

/// Pid of a task in the modelled kernel (`p->pid`).
pub fn modelled_pid(task: TaskId) -> u32 {
    FIRST_PID.wrapping_add(task.0)
}

/// Consumer of the events of a run.
///
/// Calls come in the order of time. A task is announced before the first event that names it.
pub trait Sink {
    /// Announces the source file with this number, by name without directory. Called before the first event.
    fn source_file(&mut self, _file: u16, _name: &str) {}
    /// Announces a task that exists from `time` on.
    fn task(&mut self, time: Nanos, info: &TaskInfo);
    /// Announces a new name of a known task. Logs do not record it; a report uses each task's last name.
    fn renamed(&mut self, _time: Nanos, _task: TaskId, _name: &str) {}
    /// Changes the affinity mask of a known task to `allowed`; the [`EventKind::Affinity`] event follows.
    fn affinity(&mut self, time: Nanos, task: TaskId, allowed: &CpuSet);
    /// Passes a text that the scheduler printed.
    fn printk(&mut self, _printk: &Printk) {}
    /// Passes an event.
    fn event(&mut self, event: &Event);
    /// Whether [`Sink::detail`] is to be called. The answer must not change.
    fn wants_details(&self) -> bool {
        false
    }
    /// Passes a detail, after the events that precede it.
    fn detail(&mut self, _detail: &Detail) {}
}

/// The ops of `struct sched_ext_ops`, in the order of [`CallbackSite::op`].
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

/// Name of the op with this number in [`CallbackSite::op`]. "timer" is a `bpf_timer` callback, "program" a program in
/// section `syscall` that user space calls.
pub fn op_name(op: u8) -> Option<&'static str> {
    OPS.get(usize::from(op).checked_sub(1)?).copied()
}
