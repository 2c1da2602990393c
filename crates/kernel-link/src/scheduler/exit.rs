// SPDX-License-Identifier: GPL-2.0-only
//! Why a scheduler ended, as the kernel told its `exit` op.

/// `SCX_ECODE_ACT_RESTART`: whoever loaded the scheduler shall load it again (contract E2).
pub(super) const ACT_RESTART: i64 = 1 << 48;
/// `SCX_ECODE_RSN_HOTPLUG`: because a CPU came or went (contract E2).
pub(super) const REASON_HOTPLUG: i64 = 1 << 32;
/// `SCX_EXIT_UNREG`: user space unregistered it (contract E2). Greater: somebody else ended it.
const UNREGISTERED: u64 = 64;

/// Why a scheduler ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelExit {
    /// `enum scx_exit_kind`: 64 unregistered, 65 `scx_bpf_exit`, 66 the kernel, 67 sysrq, 1024 error, 1025
    /// `scx_bpf_error`, 1026 stall, …; 0 if neither the object keeps a record nor the kernel's log can be read.
    pub kind: u64,
    /// Exit code of the scheduler or of the kernel.
    pub code: i64,
    /// The kernel's words for the kind.
    pub reason: String,
    /// Details; empty if there are none.
    pub message: String,
    /// The debug dump; empty if the object does not keep it, or the end needed none.
    pub dump: String,
    /// The CPU on which it was decided, from 7.2 on.
    pub exit_cpu: Option<u32>,
}

impl KernelExit {
    /// Whether the kernel, or the scheduler itself, asks to be loaded again: a CPU came or went.
    pub fn wants_restart(&self) -> bool {
        self.code & ACT_RESTART != 0
    }

    /// Whether the code gives a CPU that came or went as the reason.
    pub fn by_hotplug(&self) -> bool {
        self.code & REASON_HOTPLUG != 0
    }

    /// Whether it ended because it was unloaded, which is what its user wanted.
    pub fn is_unload(&self) -> bool {
        self.kind == UNREGISTERED
    }

    /// Whether the kernel, or the scheduler itself, ended it: neither its user did, nor a CPU that came or went. An end of
    /// which nothing is known (kind 0) is none.
    pub fn is_ejection(&self) -> bool {
        self.kind != 0 && !self.is_unload() && !self.wants_restart()
    }
}
