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

    /// All of them under their kernel names.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("SCX_EV_SELECT_CPU_FALLBACK", self.select_cpu_fallback),
            ("SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE", self.dispatch_local_dsq_offline),
            ("SCX_EV_DISPATCH_KEEP_LAST", self.dispatch_keep_last),
            ("SCX_EV_ENQ_SKIP_EXITING", self.enq_skip_exiting),
            ("SCX_EV_REFILL_SLICE_DFL", self.refill_slice_dfl),
            ("SCX_EV_BYPASS_DURATION", self.bypass_duration_ns),
            ("SCX_EV_BYPASS_DISPATCH", self.bypass_dispatch),
            ("SCX_EV_BYPASS_ACTIVATE", self.bypass_activate),
        ]
    }
}
