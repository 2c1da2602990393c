// SPDX-License-Identifier: GPL-2.0-only
//! The event counters of sched_ext: how often the kernel deviated from the scheduler's request.

/// Values of `struct scx_event_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// `select_cpu` returned a CPU where the task may not run.
    pub select_cpu_fallback: u64,
    /// A LOCAL_ON insert targeted an offline CPU.
    pub dispatch_local_dsq_offline: u64,
    /// The previous task was kept although its slice was used up.
    pub dispatch_keep_last: u64,
    /// An exiting task skipped `enqueue`.
    pub enq_skip_exiting: u64,
    /// A migration-disabled task skipped `enqueue`.
    pub enq_skip_migration_disabled: u64,
    /// An IMMED task that could not run at once was re-enqueued.
    pub reenq_immed: u64,
    /// A local queue was re-enqueued more than once in one operation.
    pub reenq_local_repeat: u64,
    /// The core refilled a slice.
    pub refill_slice_dfl: u64,
    /// Time in bypass, in nanoseconds.
    pub bypass_duration_ns: u64,
    /// Tasks inserted into a bypass queue.
    pub bypass_dispatch: u64,
    /// Times that bypass was entered.
    pub bypass_activate: u64,
}

impl Counters {
    /// Value of a counter by kernel name; 0 for a name that the model does not have.
    pub fn get(&self, name: &str) -> u64 {
        self.named().into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
    }

    /// All counters under their kernel names, in dump order. The last two stay 0: the model has no sub-schedulers,
    /// and the scheduler owns every task that a program can name.
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
