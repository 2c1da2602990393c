// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling overhead in a task's CPU time, which is not its work.
//!
//! The kernel charges everything that happens on a CPU to the current task: the second half of the switch to it and
//! the first half of the switch away, the wakeups that it causes, the ticks that interrupt it, and the recorder's own
//! programs. Another scheduler would cause other switches, and a simulated run charges its own. So the recorded
//! overhead is subtracted. The cost of each operation is measured on the recording machine just before
//! ([`crate::calibrate`]), and that of the recorder's programs while recording ([`crate::own_time`]). The events
//! contain the counts.
//!
//! Overhead is subtracted where it was incurred, but never more than the work there: the rest, which occurs because
//! costs are typical values, is subtracted from the following stretches of work. The sum is therefore right, and no
//! stretch is negative.

use ids::Nanos;

/// Costs of scheduling operations to a task, in nanoseconds of CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overheads {
    /// Cost of being switched in.
    pub switch_ns: u64,
    /// Cost of waking a task, including the preceding sleep of the wakee.
    pub wake_ns: u64,
    /// Additional cost of an IPI.
    pub interrupt_ns: u64,
    /// Additional cost of an IPI to a halted CPU.
    pub interrupt_to_halted_ns: u64,
    /// Cost of recording a transfer of bytes.
    pub pass_ns: u64,
    /// Cost of the ticks in one second of CPU time.
    pub tick_ns_in_s: u64,
}

/// Scheduling operations of a task up to some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of times it was switched in.
    pub switches: u64,
    /// Number of recorded tasks that it woke.
    pub wakes: u64,
    /// Number of IPIs to CPUs that were not halted.
    pub interrupts: u64,
    /// Number of IPIs to halted CPUs.
    pub interrupts_to_halted: u64,
    /// Number of its transfers.
    pub passes: u64,
}

impl Overheads {
    /// Overhead within `time` of a task's CPU time. The result may exceed `time`.
    pub fn of(&self, counts: Counts, time: Nanos) -> Nanos {
        let ticks = u128::from(time.0) * u128::from(self.tick_ns_in_s) / 1_000_000_000;
        let switches = counts.switches * self.switch_ns;
        let wakes = counts.wakes * self.wake_ns;
        let interrupts =
            counts.interrupts * self.interrupt_ns + counts.interrupts_to_halted * self.interrupt_to_halted_ns;
        Nanos(switches + wakes + interrupts + counts.passes * self.pass_ns + ticks as u64)
    }
}
