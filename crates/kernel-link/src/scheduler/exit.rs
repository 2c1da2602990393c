// SPDX-License-Identifier: GPL-2.0-only
//! Exit of a scheduler, as the kernel passes it to its `exit` op.

/// `SCX_ECODE_ACT_RESTART`: user space should load the scheduler again (contract E2).
pub(super) const ACT_RESTART: i64 = 1 << 48;
/// `SCX_ECODE_RSN_HOTPLUG`: the reason is CPU hotplug (contract E2).
pub(super) const REASON_HOTPLUG: i64 = 1 << 32;
/// `SCX_EXIT_UNREG`: unregistered by user space (contract E2). Greater kinds have other origins.
const UNREGISTERED: u64 = 64;

/// Exit of a scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelExit {
    /// `enum scx_exit_kind`: 64 unregistered by user space, 65 `scx_bpf_exit()`, 66 unregistered by the kernel, 67
    /// sysrq, 1024 error, 1025 `scx_bpf_error()`, 1026 stall, …; 0 if neither the object's record nor the kernel log
    /// is available.
    pub kind: u64,
    /// Exit code of the scheduler or of the kernel.
    pub code: i64,
    /// The kernel's text for the kind.
    pub reason: String,
    /// Details; may be empty.
    pub message: String,
    /// Debug dump; empty if the object does not keep it, or there was no error.
    pub dump: String,
    /// CPU on which the exit was triggered, since 7.2.
    pub exit_cpu: Option<u32>,
}

impl KernelExit {
    /// Whether the exit code requests a restart.
    pub fn wants_restart(&self) -> bool {
        self.code & ACT_RESTART != 0
    }

    /// Whether the exit code gives CPU hotplug as the reason.
    pub fn by_hotplug(&self) -> bool {
        self.code & REASON_HOTPLUG != 0
    }

    /// Whether user space unregistered it, as requested.
    pub fn is_unload(&self) -> bool {
        self.kind == UNREGISTERED
    }

    /// Whether the kernel or the scheduler itself ended it, not the user and not a restart after CPU hotplug. An
    /// unknown exit (kind 0) does not count as an ejection.
    pub fn is_ejection(&self) -> bool {
        self.kind != 0 && !self.is_unload() && !self.wants_restart()
    }
}
