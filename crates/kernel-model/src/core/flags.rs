// SPDX-License-Identifier: GPL-2.0-only
//! Numbers of the sched_ext interface: slices, exit kinds and flags.

/// Default slice (contract O6).
pub(crate) const SLICE_DFL_NS: u64 = 20_000_000;
/// Slice while the scheduler is bypassed (contract B1).
pub(crate) const SLICE_BYPASS_NS: u64 = 5_000_000;
/// Infinite slice: running does not reduce it.
pub(crate) const SLICE_INF: u64 = u64::MAX;

/// Exit kinds (`enum scx_exit_kind`, contract E2).
pub(crate) mod exit_kind {
    pub const UNREGISTERED: u32 = 64;
    pub const UNREGISTERED_BPF: u32 = 65;
    pub const UNREGISTERED_KERNEL: u32 = 66;
    pub const SYSRQ: u32 = 67;
    pub const ERROR: u32 = 1024;
    pub const ERROR_BPF: u32 = 1025;
    pub const ERROR_STALL: u32 = 1026;
}

/// Bits of `ops.flags`.
pub(crate) mod ops_flags {
    pub const KEEP_BUILTIN_IDLE: u64 = 1;
    pub const ENQ_LAST: u64 = 1 << 1;
    pub const ENQ_EXITING: u64 = 1 << 2;
    pub const SWITCH_PARTIAL: u64 = 1 << 3;
    pub const ALLOW_QUEUED_WAKEUP: u64 = 1 << 5;
    pub const BUILTIN_IDLE_PER_NODE: u64 = 1 << 6;
    pub const ENQ_MIGRATION_DISABLED: u64 = 1 << 4;
    pub const ALWAYS_ENQ_IMMED: u64 = 1 << 7;
    pub const TID_TO_TASK: u64 = 1 << 8;
}

/// Bits of enqueue flags, 7.2 values (contract N1).
pub(crate) mod enq_flags {
    pub const WAKEUP: u64 = 1;
    pub const RESTORE: u64 = 2;
    pub const NOCLOCK: u64 = 8;
    pub const HEAD: u64 = 0x1_0000;
    pub const MIGRATED: u64 = 0x4_0000;
    pub const INITIAL: u64 = 0x8_0000;
    pub const CPU_SELECTED: u64 = 0x10_0000;
    pub const PREEMPT: u64 = 1 << 32;
    pub const IMMED: u64 = 1 << 33;
    pub const REENQ: u64 = 1 << 40;
    pub const LAST: u64 = 1 << 41;
    /// The top byte is reserved for the kernel.
    pub const INTERNAL: u64 = 0xff << 56;
}

/// Bits of dequeue flags.
pub(crate) mod deq_flags {
    pub const SLEEP: u64 = 1;
    pub const SAVE: u64 = 2;
    /// With SAVE: the position in the runqueue need not be kept.
    pub const MOVE: u64 = 4;
    /// The caller has updated the runqueue clock.
    pub const NOCLOCK: u64 = 8;
    /// With SAVE: the class changes too.
    pub const CLASS: u64 = 0x40;
    /// The task enters a state that an ordinary wakeup does not end, such as TASK_DEAD.
    pub const SPECIAL: u64 = 0x1_0000;
    /// Core scheduling runs a task that was not dispatched.
    pub const CORE_SCHED_EXEC: u64 = 1 << 32;
    pub const SCHED_CHANGE: u64 = 1 << 33;
}
