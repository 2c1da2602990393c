// SPDX-License-Identifier: GPL-2.0-only
//! Violations and other results of checking a run.

use ids::{CpuId, Nanos, TaskId};

/// A property that a run can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Events do not contradict each other.
    Sanity,
    /// Tasks run only on CPUs in their mask.
    Affinity,
    /// Every waiting task is in a queue, or is put into one later.
    LostWakeup,
    /// No CPU idles while a task waits that may run on it; or, for some schedulers, not permanently.
    WorkConserving,
    /// No task waits longer than promised.
    StarvationMs,
    /// Tasks receive CPU time in proportion to their weights.
    WeightedSharePercent,
    /// Queues return the smallest key first.
    KeyOrder,
    /// A woken task with an earlier key than a running task soon gets a CPU.
    PreemptionUs,
    /// Tasks leave a contested CPU when their slice ends.
    StintTicks,
    /// The tasks of a job run at the same time.
    GangCorunPercent,
    /// Enough requests meet their deadline.
    Windows,
    /// Groups stay below their hard caps.
    Caps,
    /// Warning: a task waits for long beside an idle CPU.
    IdleBesideWaiting,
    /// Warning: a task waits for long.
    Starved,
    /// Warning: equal tasks get unequal CPU time.
    UnequalTime,
    /// Warning: a heavier task gets less CPU time.
    InvertedWeights,
    /// Warning: the key of a task stands still while it runs.
    StalledVirtualTime,
}

impl Property {
    /// The warnings, which need no promise.
    pub const WARNINGS: [Property; 5] = [
        Property::IdleBesideWaiting,
        Property::Starved,
        Property::UnequalTime,
        Property::InvertedWeights,
        Property::StalledVirtualTime,
    ];

    /// Name in reports and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Property::Sanity => "sanity",
            Property::Affinity => "affinity",
            Property::LostWakeup => "lost-wakeup",
            Property::WorkConserving => "work-conserving",
            Property::StarvationMs => "starvation-ms",
            Property::WeightedSharePercent => "weighted-share-percent",
            Property::KeyOrder => "key-order",
            Property::PreemptionUs => "preemption-us",
            Property::StintTicks => "stint-ticks",
            Property::GangCorunPercent => "gang-corun-percent",
            Property::Windows => "windows",
            Property::Caps => "caps",
            Property::IdleBesideWaiting => "idle-beside-waiting",
            Property::Starved => "starved",
            Property::UnequalTime => "unequal-time",
            Property::InvertedWeights => "inverted-weights",
            Property::StalledVirtualTime => "stalled-virtual-time",
        }
    }
}

/// A period in which a property was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Violated property.
    pub property: Property,
    /// Start of the period.
    pub from: Nanos,
    /// End of the period; equal to the start for an instantaneous violation.
    pub to: Nanos,
    /// Tasks involved at the end of the period.
    pub tasks: Vec<TaskId>,
    /// CPUs involved at the end of the period.
    pub cpus: Vec<CpuId>,
    /// Measured value: nanoseconds, a key, or a number of late requests.
    pub value: u64,
    /// Limit that the value violated: nanoseconds, a number of late requests, or the key that should have been
    /// dispatched.
    pub limit: u64,
}

/// Results of checking a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Violations in the order in which they ended, at most [`MOST`] for each property.
    pub violations: Vec<Violation>,
    /// Number of all violations, including those that are not kept.
    pub count: u64,
    /// Invariants and promises that no situation in the run could have violated, so that their absence from
    /// `violations` says nothing.
    pub not_seen: Vec<Property>,
    /// Number of migrations to a runqueue with at least as many tasks as the source runqueue (invariant 3 of Lozi et
    /// al., EuroSys 2016). They are no violation: where CPUs share a dispatch queue, a waiting task belongs to no
    /// runqueue. `None` if nothing was promised.
    pub useless_migrations: Option<u64>,
}

/// Number of violations that are kept for each property. A scheduler that breaks a promise usually breaks it
/// throughout the run.
pub const MOST: usize = 100;

impl Findings {
    /// Discards the violations of a CPU between `since`, when a task of the workload last left it, and its going
    /// offline. During that time the kernel idles the CPU without an event and runs none of the tasks that the
    /// scheduler sends there.
    pub(crate) fn discard_while_going_offline(&mut self, cpu: CpuId, since: Nanos) {
        let kept = [Property::Sanity, Property::Affinity, Property::KeyOrder, Property::StarvationMs];
        let before = self.violations.len();
        self.violations.retain(|it| kept.contains(&it.property) || !it.cpus.contains(&cpu) || it.from < since);
        self.count -= (before - self.violations.len()) as u64;
    }

    pub(crate) fn add(&mut self, violation: Violation) {
        self.count += 1;
        if self.violations.iter().filter(|other| other.property == violation.property).count() < MOST {
            self.violations.push(violation);
        }
    }
}
