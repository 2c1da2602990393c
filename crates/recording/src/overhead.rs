// SPDX-License-Identifier: GPL-2.0-only
//! What of a task's CPU time is its schedule's and not its work.
//!
//! The kernel counts as a task's time whatever is done while it has the CPU: the second half of the switch to it and the
//! first half of the switch away, the wakeups that it causes, the ticks that interrupt it, and the recorder's own programs.
//! Another scheduler would make other switches, and a simulated run charges for its own; so the recorded ones are taken
//! out. What one of each costs is measured on the machine that records, just before ([`crate::calibrate`]), and what the
//! recorder's programs take of it while they record ([`crate::own_time`]). How many there were is in the events.
//!
//! It is taken out where it was spent, but never more than there is: what a short piece of work cannot pay, because costs
//! are those of a typical switch and not of each single one, the next pieces do. So the sum is right, and no piece negative.

use ids::Nanos;

/// What recorded tasks paid for their schedule, in nanoseconds of CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Overheads {
    /// For getting a CPU from another task or from idling.
    pub switch_ns: u64,
    /// For waking a task; falling asleep, which goes before it, is counted here.
    pub wake_ns: u64,
    /// For an interrupt sent to another CPU, beyond that.
    pub interrupt_ns: u64,
    /// The same to a CPU that is halted.
    pub interrupt_to_halted_ns: u64,
    /// For being seen to write or read bytes.
    pub pass_ns: u64,
    /// For ticks, in each second of its own time.
    pub tick_ns_in_s: u64,
}

/// What a task has done until some moment of its life that its schedule is to blame for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How often it got a CPU.
    pub switches: u64,
    /// Wakeups that it caused, of recorded tasks.
    pub wakes: u64,
    /// Interrupts that it sent to other CPUs that were not halted.
    pub interrupts: u64,
    /// And to others.
    pub interrupts_to_halted: u64,
    /// How often bytes passed that it wrote or read.
    pub passes: u64,
}

impl Overheads {
    /// How much of `time`, the CPU time of a task in which this happened, was not its own work. It may be more than `time`.
    pub fn of(&self, counts: Counts, time: Nanos) -> Nanos {
        let ticks = u128::from(time.0) * u128::from(self.tick_ns_in_s) / 1_000_000_000;
        let switches = counts.switches * self.switch_ns;
        let wakes = counts.wakes * self.wake_ns;
        let interrupts =
            counts.interrupts * self.interrupt_ns + counts.interrupts_to_halted * self.interrupt_to_halted_ns;
        Nanos(switches + wakes + interrupts + counts.passes * self.pass_ns + ticks as u64)
    }
}
