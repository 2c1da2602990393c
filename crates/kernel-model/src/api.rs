// SPDX-License-Identifier: GPL-2.0-only
//! The types of the interface between the kernel model and whoever drives it.

use bpf_machine::TimerId;
use event_log::{BlockCause, Detail, Event, Printk, SwitchReason};
use ids::{CpuId, CpuSet, DsqId, Nanos, Policy, TaskId, Topology};

/// What a kernel is built and booted with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// CPUs and their groups.
    pub topology: Topology,
    /// CONFIG_HZ.
    pub hz: u32,
    /// Version as (major, minor).
    pub version: (u16, u16),
    /// Instructions that one callback may execute.
    pub budget: u64,
    /// Seed of `bpf_get_prandom_u32`.
    pub seed: u64,
    /// How often of 1024 times a CPU that begins to idle looks for fair tasks elsewhere, when the run begins; what comes of it
    /// changes that, as in Linux since 7.0, 6.18.5 and 6.12.65. `None`: each time, as in those before.
    pub newidle_ratio: Option<u32>,
}

/// A cgroup by number: the root is 0, others follow in the order of their making.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CgroupId(pub u32);

impl CgroupId {
    /// The root, which is always there.
    pub const ROOT: CgroupId = CgroupId(0);
}

/// What the user of a machine sets of a cgroup (`cpu.weight`, `cpu.max`, `cpu.max.burst`, `cpu.idle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgroupKnobs {
    /// 1 to 10000; 100 is everybody's (CGROUP_WEIGHT_DFL).
    pub weight: u32,
    /// Length of a period of bandwidth, in microseconds.
    pub period_us: u64,
    /// CPU time for each of them, in microseconds; the largest number is no limit.
    pub quota_us: u64,
    /// How much of it can be saved for later, in microseconds.
    pub burst_us: u64,
    /// Its tasks are like those of SCHED_IDLE.
    pub idle: bool,
}

impl Default for CgroupKnobs {
    /// Those of a new cgroup (`default_bw_period_us()`).
    fn default() -> CgroupKnobs {
        CgroupKnobs { weight: 100, period_us: 100_000, quota_us: u64::MAX, burst_us: 0, idle: false }
    }
}

/// Whose a new task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// Its user; `None`: its parent's, or else root.
    pub uid: Option<u32>,
    /// Number of its session's leader; `None`: that of its parent's, or else none (0).
    pub session: Option<u32>,
    /// Its cgroup; `None`: its parent's, or else the root (`CLONE_INTO_CGROUP`).
    pub cgroup: Option<CgroupId>,
    /// A task that lives and whose process it is a thread of, though its parent is not: where nobody says who made it.
    pub process: Option<TaskId>,
}

/// What a new task is given.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAttributes {
    /// `comm`.
    pub name: String,
    /// Policy.
    pub policy: Policy,
    /// Nice value, -20 to 19.
    pub nice: i8,
    /// Where it may run; must not be empty.
    pub allowed: CpuSet,
    /// A thread of the kernel itself.
    pub kernel_thread: bool,
    /// The CPU to which a thread of the kernel belongs (KTHREAD_IS_PER_CPU): it may run nowhere else, also where there is only
    /// one CPU and any thread may run nowhere else.
    pub own_cpu: Option<CpuId>,
    /// A thread of its parent's process (`CLONE_THREAD`), whose number and leader it shares. Means nothing without a parent.
    pub thread: bool,
    /// Who forks it; `None`: from outside.
    pub parent: Option<TaskId>,
    /// Whose it is.
    pub identity: Identity,
}

/// What the driver must do next, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The scheduler wants this CPU to be so fast, 0 to 1024 (`scx_bpf_cpuperf_set`).
    Performance {
        /// Which.
        cpu: CpuId,
        /// How fast.
        target: u32,
    },
    /// `cpu` must call [`Kernel::schedule`] soon: at once if it is the CPU that made the call, else after the time
    /// that an interprocessor interrupt takes. Not repeated while one is pending.
    Resched {
        /// Which CPU.
        cpu: CpuId,
    },
    /// Call [`Kernel::timer`] with this key at `at`. Replaces an earlier one with the same key.
    ArmTimer {
        /// Which timer.
        timer: TimerKey,
        /// CPU whose interrupt it is.
        cpu: CpuId,
        /// When.
        at: Nanos,
    },
    /// Forget the timer.
    CancelTimer {
        /// Which timer.
        timer: TimerKey,
    },
    /// `cpu` may not finish its next [`Kernel::schedule`] before each of `targets` has finished one (`SCX_KICK_WAIT`).
    AwaitSwitch {
        /// Who waits.
        cpu: CpuId,
        /// For whom.
        targets: CpuSet,
    },
    /// The scheduler is bypassed and on its way out: [`Kernel::end_disable`] is for the driver to call. Only after
    /// [`Kernel::disable_in_steps`].
    Disabling,
    /// The scheduler is gone; [`Kernel::exit_info`] says why.
    Disabled,
}

/// A timer that the kernel arms through the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TimerKey {
    /// A `bpf_timer`.
    Bpf(TimerId),
    /// The watchdog's delayed work: wakes its kworker.
    Watchdog,
    /// The end of a fair task's turn on this CPU.
    Hrtick(CpuId),
}

/// How a CPU comes to call [`Kernel::schedule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Rescheduled: an effect asked for it, or it is idle.
    Preempt,
    /// The current task sleeps.
    Block(BlockCause),
    /// The current task ends.
    Exit,
    /// The current task calls `sched_yield(2)`.
    Yield,
}

/// What [`Kernel::schedule`] decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Who ran; [`TaskId::NONE`]: idle.
    pub prev: TaskId,
    /// Who runs now; may be `prev` again.
    pub next: TaskId,
    /// Why `prev` stopped, if it did.
    pub reason: SwitchReason,
}

/// What the scheduler's code used since the last [`Kernel::take_output`]: raw counts that a machine model prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Callbacks entered.
    pub callbacks: u64,
    /// BPF instructions executed.
    pub instructions: u64,
    /// Calls of kfuncs and helpers by nature: the index is `machine_model::Nature`'s declaration order.
    pub calls: [u64; 6],
}

impl Usage {
    /// Nothing was used: all is used in callbacks.
    pub fn is_nothing(&self) -> bool {
        self.callbacks == 0
    }

    /// Whether nothing was used between this moment of an operation and another one: each use takes an instruction.
    pub fn is_as_at(&self, other: &Usage) -> bool {
        let same = (self.callbacks, self.instructions) == (other.callbacks, other.instructions);
        debug_assert!(!same || self.calls == other.calls, "a call is an instruction");
        same
    }
}

/// A lock of the kernel, or one of the scheduler's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lock {
    /// That of a CPU's runqueue, which covers its local queue.
    Runqueue(CpuId),
    /// That of a node's global queue.
    Global(u32),
    /// That of a CPU's bypass queue.
    Bypass(CpuId),
    /// That of a queue that the scheduler made.
    Dsq(DsqId),
    /// A lock word of the scheduler (`bpf_spin_lock`), by guest address.
    Bpf(u64),
}

/// An operation takes a lock, or gives it back. It holds at most one runqueue's lock at a time, and within that at most
/// one other, for which it waits for nobody else: so operations that wait for each other's locks always go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockStep {
    /// Which.
    pub lock: Lock,
    /// Taken or given back.
    pub taken: bool,
    /// The operation of the kernel, or the callback, that does it.
    pub caller: &'static str,
    /// What had been used since the last [`Kernel::take_output`] when it did.
    pub used: Usage,
}

/// What a call produced besides its result.
#[derive(Debug, Default)]
pub struct Output {
    /// To be carried out.
    pub effects: Vec<Effect>,
    /// To be logged.
    pub events: Vec<Event>,
    /// What the scheduler printed, each with the number of events before it.
    pub printed: Vec<(usize, Printk)>,
    /// What the events leave out, each with the number of events before it. Empty unless [`Kernel::tell_details`] was called.
    pub details: Vec<(usize, Detail)>,
    /// To be priced and charged to the CPU that made the call.
    pub usage: Usage,
    /// Locks taken and given back, in order. Empty unless [`Kernel::track_locks`] was called.
    pub locks: Vec<LockStep>,
}

/// Why the scheduler is gone (contract E2, X1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitInfo {
    /// 64 unregistered, 65 `scx_bpf_exit`, 66 kernel, 1024 error, 1025 `scx_bpf_error`, 1026 stall, …
    pub kind: u32,
    /// Exit code of `scx_bpf_exit` or of the kernel.
    pub code: i64,
    /// Short reason, in the kernel's wording.
    pub reason: String,
    /// Message, in the kernel's wording.
    pub message: String,
    /// Debug dump; empty unless an error.
    pub dump: String,
    /// The BPF fault behind it, with function, file and line, if one was.
    pub fault: Option<String>,
    /// Where in the scheduler's code it came from, as far as it came from there.
    pub cause: Cause,
}

/// A place in the scheduler's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The op, as the struct names it; `timer` is the callback of a timer.
    pub op: Option<&'static str>,
    /// The kfunc or helper that it called.
    pub call: Option<String>,
    /// File, without its directory, and line of the policy's own source.
    pub source: Option<(String, u32)>,
}

/// Why a scheduler could not be loaded or attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The object is not a sched_ext scheduler, or uses what this kernel does not allow.
    #[error("{0}")]
    Unsuitable(String),
    /// The machine could not load it.
    #[error(transparent)]
    Load(#[from] bpf_machine::LoadError),
    /// `bpf(2)` would have returned this errno.
    #[error("attach failed: {reason} (errno {errno})")]
    Attach {
        /// Positive errno.
        errno: i32,
        /// What the kernel objected to.
        reason: String,
    },
}
