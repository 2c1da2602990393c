// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's event counters of sched_ext: how often it did something other than it was told.

/// `struct scx_event_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// `select_cpu` returned a CPU where the task may not run.
    pub select_cpu_fallback: u64,
    /// A LOCAL_ON insert met an offline CPU.
    pub dispatch_local_dsq_offline: u64,
    /// The previous task was kept although its slice was used up.
    pub dispatch_keep_last: u64,
    /// An exiting task skipped `enqueue`.
    pub enq_skip_exiting: u64,
    /// A task that may not migrate skipped `enqueue`.
    pub enq_skip_migration_disabled: u64,
    /// A task that had to have its CPU at once was enqueued again.
    pub reenq_immed: u64,
    /// A local queue was enqueued again more than once in one go.
    pub reenq_local_repeat: u64,
    /// A slice was refilled by the core.
    pub refill_slice_dfl: u64,
    /// Time in bypass, in nanoseconds.
    pub bypass_duration_ns: u64,
    /// Tasks that went into a bypass queue.
    pub bypass_dispatch: u64,
    /// Times that bypass began.
    pub bypass_activate: u64,
}

impl Counters {
    /// By the kernel's name; 0 for one that does not exist here.
    pub fn get(&self, name: &str) -> u64 {
        self.named().into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
    }

    /// All of them under their kernel names, in the order of the dump. Nothing is a sub-scheduler
    /// here, and every task that a program can name is the scheduler's: those stay 0.
    pub fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("SCX_EV_SELECT_CPU_FALLBACK", self.select_cpu_fallback),
            ("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", self.dispatch_local_dsq_offline),
            ("SCX_EV_DISPATCH_KEEP_LAST", self.dispatch_keep_last),
            ("SCX_EV_ENQ_SKIP_EXITING", self.enq_skip_exiting),
            ("SCX_EV_ENQ_SKIP_MIGRATION_DISABLED", self.enq_skip_migration_disabled),
            ("SCX_EV_REENQ_IMMED", self.reenq_immed),
            ("SCX_EV_REENQ_LOCAL_REPEAT", self.reenq_local_repeat),
            ("SCX_EV_REFILL_SLICE_DFL", self.refill_slice_dfl),
            ("SCX_EV_BYPASS_DURATION", self.bypass_duration_ns),
            ("SCX_EV_BYPASS_DISPATCH", self.bypass_dispatch),
            ("SCX_EV_BYPASS_ACTIVATE", self.bypass_activate),
            ("SCX_EV_INSERT_NOT_OWNED", 0),
            ("SCX_EV_SUB_BYPASS_DISPATCH", 0),
        ]
    }
}
