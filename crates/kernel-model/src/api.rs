// SPDX-License-Identifier: GPL-2.0-only
//! Types of the interface between the kernel model and its driver (a simulator or a test).

use crate::guest::KernelTypes;
use bpf_machine::TimerId;
use event_log::{BlockCause, Detail, Event, Printk, SwitchReason};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId, Topology};

/// Build and boot configuration of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// CPUs, with their cores, caches and nodes.
    pub topology: Topology,
    /// CONFIG_HZ.
    pub hz: u32,
    /// Kernel version as (major, minor).
    pub version: (u16, u16),
    /// Maximum number of BPF instructions in one callback.
    pub budget: u64,
    /// Seed of `bpf_get_prandom_u32`.
    pub seed: u64,
    /// Initial newidle balance ratio: the probability, in 1024ths, that a CPU about to idle searches other CPUs for
    /// fair tasks. The success of these searches then adjusts it, as in Linux since 7.0, 6.18.5 and 6.12.65. `None`:
    /// every such CPU searches, as in earlier versions.
    pub newidle_ratio: Option<u32>,
    /// `sched_autogroup_enabled`: the fair class groups tasks of the root cgroup by session.
    pub autogroup: bool,
    /// Types of the kernel; `None`: those of its version ([`KernelTypes::of`]).
    pub types: Option<KernelTypes>,
}

impl Config {
    /// Types of the kernel.
    pub fn kernel_types(&self) -> KernelTypes {
        self.types.clone().unwrap_or_else(|| KernelTypes::of(self.version))
    }
}

/// Number of a cgroup: 0 is the root, the others are numbered in the order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CgroupId(pub u32);

impl CgroupId {
    /// The root cgroup, which always exists.
    pub const ROOT: CgroupId = CgroupId(0);
}

/// Settings of a cgroup that its user can change (`cpu.weight`, `cpu.max`, `cpu.max.burst`, `cpu.idle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgroupKnobs {
    /// `cpu.weight`, 1 to 10000; the default is 100 (CGROUP_WEIGHT_DFL).
    pub weight: u32,
    /// Bandwidth period in microseconds.
    pub period_us: u64,
    /// Bandwidth quota, in microseconds of CPU time per period; `u64::MAX` means no limit.
    pub quota_us: u64,
    /// Unused quota that can be saved for later periods, in microseconds.
    pub burst_us: u64,
    /// `cpu.idle`: the tasks of the cgroup count as SCHED_IDLE.
    pub idle: bool,
}

impl Default for CgroupKnobs {
    /// Settings of a new cgroup (`default_bw_period_us()`).
    fn default() -> CgroupKnobs {
        CgroupKnobs { weight: 100, period_us: 100_000, quota_us: u64::MAX, burst_us: 0, idle: false }
    }
}

/// User, session, cgroup and process of a new task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// User id; `None`: that of the parent task, or root without one.
    pub uid: Option<u32>,
    /// Pid of the session leader; `None`: that of the parent task, or 0 without one.
    pub session: Option<u32>,
    /// Cgroup (`CLONE_INTO_CGROUP`); `None`: that of the parent task, or the root without one.
    pub cgroup: Option<CgroupId>,
    /// A live task whose process the new task joins as a thread although that task is not its parent. For recordings
    /// that do not say which task forked it.
    pub process: Option<TaskId>,
}

/// Attributes of a new task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAttributes {
    /// Name (`comm`).
    pub name: String,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// CPUs where the task may run; must not be empty.
    pub allowed: CpuSet,
    /// Whether the task is a kthread.
    pub kernel_thread: bool,
    /// The CPU of a per-CPU kthread (KTHREAD_IS_PER_CPU). `allowed` alone does not tell: on a machine with one CPU
    /// every kthread is confined to it.
    pub own_cpu: Option<CpuId>,
    /// Whether the task is a thread of its parent's process (`CLONE_THREAD`) and shares its tgid and group leader.
    /// Ignored without a parent.
    pub thread: bool,
    /// The task that forks it; `None`: forked outside of the model.
    pub parent: Option<TaskId>,
    /// User, session, cgroup and process.
    pub identity: Identity,
}

/// Action that the driver must carry out after a call, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The scheduler asked for a performance level of this CPU (`scx_bpf_cpuperf_set`).
    Performance {
        /// The CPU.
        cpu: CpuId,
        /// Performance level, 0 to 1024.
        target: u32,
    },
    /// `cpu` must call [`Kernel::schedule`] soon: at once if it made the call, otherwise after the latency of an
    /// inter-processor interrupt. Not repeated while one is pending.
    Resched {
        /// The CPU to reschedule.
        cpu: CpuId,
    },
    /// Call [`Kernel::timer`] with this key at `at`. Replaces an earlier timer with the same key.
    ArmTimer {
        /// The timer.
        timer: TimerKey,
        /// CPU that takes the timer interrupt.
        cpu: CpuId,
        /// Expiry time.
        at: Nanos,
    },
    /// Cancel the timer.
    CancelTimer {
        /// The timer.
        timer: TimerKey,
    },
    /// `cpu` must not finish its next [`Kernel::schedule`] before each of `targets` has finished one
    /// (`SCX_KICK_WAIT`).
    AwaitSwitch {
        /// The CPU that waits.
        cpu: CpuId,
        /// The CPUs that must switch first.
        targets: CpuSet,
    },
    /// The scheduler is bypassed and about to be disabled; the driver must call [`Kernel::end_disable`]. Only after
    /// [`Kernel::disable_in_steps`].
    Disabling,
    /// The scheduler is disabled; [`Kernel::exit_info`] gives the reason.
    Disabled,
}

/// A timer that the kernel arms through the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TimerKey {
    /// A `bpf_timer`.
    Bpf(TimerId),
    /// The watchdog's delayed work, which wakes its kworker.
    Watchdog,
    /// The high-resolution tick (HRTICK) of this CPU, which ends the slice of a fair task or the runtime of a deadline
    /// task.
    Hrtick(CpuId),
    /// The next period of this throttled deadline task begins.
    Replenish(TaskId),
    /// A deadline server of this CPU is due.
    Server(CpuId),
}

/// Reason why a CPU calls [`Kernel::schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Reschedule: requested by an effect, or the CPU is idle.
    Preempt,
    /// The current task blocks.
    Block(BlockCause),
    /// The current task exits.
    Exit,
    /// The current task calls `sched_yield(2)`.
    Yield,
}

/// Result of [`Kernel::schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// The task that ran before; [`TaskId::NONE`] is the idle task.
    pub prev: TaskId,
    /// The task that runs now; may be `prev` again.
    pub next: TaskId,
    /// Why `prev` stopped running, if it did.
    pub reason: SwitchReason,
}

/// Work done by the scheduler's code since the last [`Kernel::take_output`]: counts to which a machine model assigns
/// costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Callbacks entered.
    pub callbacks: u64,
    /// BPF instructions executed.
    pub instructions: u64,
    /// Calls of kfuncs and helpers by cost class: the index follows the declaration order of `machine_model::Nature`.
    pub calls: [u64; 6],
}

impl Usage {
    /// Whether the scheduler's code did no work, that is, no callback was entered.
    pub fn is_nothing(&self) -> bool {
        self.callbacks == 0
    }

    /// Whether the scheduler's code did no work between the two moments of one operation: every call takes at least
    /// one instruction.
    pub fn is_as_at(&self, other: &Usage) -> bool {
        let same = (self.callbacks, self.instructions) == (other.callbacks, other.instructions);
        debug_assert!(!same || self.calls == other.calls, "a call is an instruction");
        same
    }
}

/// A lock of the kernel or of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lock {
    /// Lock of a CPU's runqueue, which also covers its local queue.
    Runqueue(CpuId),
    /// Lock of a node's global queue.
    Global(u32),
    /// Lock of a CPU's bypass queue.
    Bypass(CpuId),
    /// Lock of a queue that the scheduler created.
    Dsq(DsqId),
    /// A `bpf_spin_lock` of the scheduler, by guest address.
    Bpf(u64),
}

/// Acquisition or release of a lock by an operation. An operation holds at most one runqueue lock and, nested in it,
/// at most one other lock, during which it waits for nothing else. Operations that wait for each other's locks
/// therefore cannot deadlock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockStep {
    /// The lock.
    pub lock: Lock,
    /// True for an acquisition, false for a release.
    pub taken: bool,
    /// Kernel operation or callback that takes or releases the lock.
    pub caller: &'static str,
    /// Work of the scheduler's code between the last [`Kernel::take_output`] and this step.
    pub used: Usage,
}

/// Output of a call besides its result.
#[derive(Debug, Default)]
pub struct Output {
    /// Effects, to be carried out by the driver.
    pub effects: Vec<Effect>,
    /// Events, to be logged.
    pub events: Vec<Event>,
    /// Lines that the scheduler printed, each with the number of events logged before it.
    pub printed: Vec<(usize, Printk)>,
    /// Details that the events leave out, each with the number of events logged before it. Empty unless
    /// [`Kernel::record_details`] was called.
    pub details: Vec<(usize, Detail)>,
    /// Work of the scheduler's code, to be charged to the CPU that made the call.
    pub usage: Usage,
    /// Lock acquisitions and releases, in order. Empty unless [`Kernel::track_locks`] was called.
    pub locks: Vec<LockStep>,
}

/// Why the scheduler was disabled (contract E2, X1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitInfo {
    /// Exit kind: 64 unregistered, 65 `scx_bpf_exit`, 66 kernel, 1024 error, 1025 `scx_bpf_error`, 1026 stall, …
    pub kind: u32,
    /// Exit code of `scx_bpf_exit` or of the kernel.
    pub code: i64,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// Debug dump; empty unless the exit is an error.
    pub dump: String,
    /// BPF fault that caused the exit, if any, with function, file and line.
    pub fault: Option<String>,
    /// Place in the scheduler's code that caused the exit, as far as it is known.
    pub cause: Cause,
}

/// A place in the scheduler's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The op, under its name in `struct sched_ext_ops`; `timer` is a timer callback.
    pub op: Option<&'static str>,
    /// The kfunc or helper that the op called.
    pub call: Option<String>,
    /// File name without directory, and line, in the scheduler's source.
    pub source: Option<(String, u32)>,
}

/// Why a scheduler could not be loaded or attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The object is not a sched_ext scheduler, or uses features that this kernel does not allow.
    #[error("{0}")]
    Unsuitable(String),
    /// The BPF machine could not load it.
    #[error(transparent)]
    Load(#[from] bpf_machine::LoadError),
    /// `bpf(2)` would have returned this errno.
    #[error("attach failed: {reason} (errno {errno})")]
    Attach {
        /// Positive errno.
        errno: i32,
        /// Why the kernel refused.
        reason: String,
    },
}
