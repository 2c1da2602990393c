// SPDX-License-Identifier: GPL-2.0-only
//! The interface between the kernel model and whoever drives it.

use bpf_machine::TimerId;
use bpf_object::LinkedObject;
use event_log::{BlockCause, Event, LockKind, SwitchReason, Waker};
use ids::{CpuId, CpuSet, Nanos, Policy, TaskId};

/// The machine as the kernel sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Core of each CPU.
    pub core: Vec<u32>,
    /// Last-level cache of each CPU.
    pub llc: Vec<u32>,
    /// NUMA node of each CPU.
    pub node: Vec<u32>,
    /// SLIT distances between nodes.
    pub distances: Vec<Vec<u32>>,
}

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
    /// Who forks it; `None`: from outside.
    pub parent: Option<TaskId>,
}

/// What the driver must do next, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
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
    /// The balancer of the bypass queues.
    BypassBalance,
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Callbacks entered.
    pub callbacks: u64,
    /// BPF instructions executed.
    pub instructions: u64,
    /// Calls of kfuncs and helpers by nature: the index is `machine_model::Nature`'s declaration order.
    pub calls: [u64; 6],
    /// Locks taken, in order.
    pub locks: Vec<LockKind>,
}

/// What a call produced besides its result.
#[derive(Debug, Default)]
pub struct Output {
    /// To be carried out.
    pub effects: Vec<Effect>,
    /// To be logged.
    pub events: Vec<Event>,
    /// To be priced and charged to the CPU that made the call.
    pub usage: Usage,
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

/// A kernel: tasks, runqueues, and at most one sched_ext scheduler. Its boot CPU is CPU 0; time starts at 0.
#[derive(Debug)]
pub struct Kernel {
    /// What the calls since the last [`Kernel::take_output`] produced.
    output: Output,
}

impl Kernel {
    /// A kernel with idle CPUs and no tasks.
    pub fn new(config: Config) -> Kernel {
        todo!("{config:?}")
    }

    /// The types, kfuncs and kconfig that objects are linked against.
    pub fn target(config: &Config) -> Box<dyn bpf_object::Target> {
        todo!("{config:?}")
    }

    /// Loads a linked object with its profile applied: checks struct_ops members, kfuncs by op, maps.
    pub fn load(&mut self, object: &LinkedObject) -> Result<(), LaunchError> {
        todo!("{object:?}")
    }

    /// Attaches the loaded scheduler, on `cpu`. A failure after the first checks is reported by [`Kernel::exit_info`],
    /// as in the kernel.
    pub fn attach(&mut self, cpu: CpuId) -> Result<(), LaunchError> {
        todo!("{cpu}")
    }

    /// Detaches it (`kind` 64).
    pub fn detach(&mut self, cpu: CpuId) {
        todo!("{cpu}")
    }

    /// The time from now on.
    pub fn set_now(&mut self, now: Nanos) {
        todo!("{now}")
    }

    /// What the calls since the last time produced; `into` is overwritten, its allocations reused.
    pub fn take_output(&mut self, into: &mut Output) {
        std::mem::swap(&mut self.output, into);
    }

    /// Makes a task, not yet runnable. Numbers are dense from 0. The error is a negative errno from `init_task`.
    pub fn fork(&mut self, cpu: CpuId, attributes: TaskAttributes) -> Result<TaskId, i32> {
        todo!("{cpu} {attributes:?}")
    }

    /// Names the kworker that runs the watchdog's work: it is woken by [`TimerKey::Watchdog`], and when it has run for
    /// a moment the driver calls [`Kernel::watchdog_work`] and blocks it again. To be called before attach.
    pub fn set_watchdog_worker(&mut self, task: TaskId) {
        todo!("{task}")
    }

    /// The watchdog's work, done by its kworker as current task of `cpu`: looks for stalled tasks, arms the timer anew.
    pub fn watchdog_work(&mut self, cpu: CpuId) {
        todo!("{cpu}")
    }

    /// Makes a new task runnable for the first time (`wake_up_new_task`), on behalf of its parent on `cpu`.
    pub fn wake_new(&mut self, cpu: CpuId, task: TaskId) {
        todo!("{cpu} {task}")
    }

    /// Wakes a sleeping task from `cpu` (`try_to_wake_up`). No effect on one that is runnable.
    pub fn wake(&mut self, cpu: CpuId, task: TaskId, waker: Waker, sync: bool) {
        todo!("{cpu} {task} {waker:?} {sync}")
    }

    /// Picks the next task of `cpu` (`__schedule`).
    pub fn schedule(&mut self, cpu: CpuId, leave: Leave) -> Switch {
        todo!("{cpu} {leave:?}")
    }

    /// The timer interrupt of `cpu` (`sched_tick`).
    pub fn tick(&mut self, cpu: CpuId) {
        todo!("{cpu}")
    }

    /// A timer that an effect armed has fired on `cpu`.
    pub fn timer(&mut self, cpu: CpuId, timer: TimerKey) {
        todo!("{cpu} {timer:?}")
    }

    /// Changes the affinity of a task, asked for on `cpu`. Fails with -EINVAL if the set is empty.
    pub fn set_affinity(&mut self, cpu: CpuId, task: TaskId, allowed: &CpuSet) -> Result<(), i32> {
        todo!("{cpu} {task} {allowed}")
    }

    /// Changes policy and nice value of a task.
    pub fn set_policy(&mut self, cpu: CpuId, task: TaskId, policy: Policy, nice: i8) -> Result<(), i32> {
        todo!("{cpu} {task} {policy:?} {nice}")
    }

    /// `sched_yield_to`-like call from the current task of `cpu`; whether the scheduler agreed.
    pub fn yield_to(&mut self, cpu: CpuId, to: TaskId) -> bool {
        todo!("{cpu} {to}")
    }

    /// Who runs on `cpu`; [`TaskId::NONE`]: idle.
    pub fn current(&self, cpu: CpuId) -> TaskId {
        todo!("{cpu}")
    }

    /// CPU of a task: where it runs, waits or last ran.
    pub fn task_cpu(&self, task: TaskId) -> CpuId {
        todo!("{task}")
    }

    /// Why the scheduler is gone, once it is.
    pub fn exit_info(&self) -> Option<&ExitInfo> {
        todo!()
    }

    /// Whether a tick of `cpu` at any time before `until` could do anything but account time: drivers may then skip
    /// it. False answers are always safe.
    pub fn tick_is_idle_until(&self, cpu: CpuId, until: Nanos) -> bool {
        todo!("{cpu} {until}")
    }
}
