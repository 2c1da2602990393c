// SPDX-License-Identifier: GPL-2.0-only
//! What was found.

use ids::{CpuId, Nanos, TaskId};

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// The events do not contradict each other.
    Sanity,
    /// Tasks run where they may.
    Affinity,
    /// Who waits is in a queue.
    LostWakeup,
    /// Nobody waits beside an idle CPU, or not for ever.
    WorkConserving,
    /// Nobody waits for too long.
    StarvationMs,
    /// CPU time follows weights.
    WeightedSharePercent,
    /// Queues keep their order.
    KeyOrder,
    /// Who wakes with an earlier key gets a CPU.
    PreemptionUs,
    /// Slices end.
    StintTicks,
    /// The tasks of a job run together.
    GangCorunPercent,
    /// Enough requests are done in time.
    Windows,
    /// Groups keep below their caps.
    Caps,
}

impl Property {
    /// How reports and profiles call it.
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
        }
    }
}

/// A time in which a property was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub property: Property,
    /// From when on.
    pub from: Nanos,
    /// Until when; the same time for what happens at once.
    pub to: Nanos,
    /// Tasks that it concerns, as at its end.
    pub tasks: Vec<TaskId>,
    /// CPUs that it concerns, as at its end.
    pub cpus: Vec<CpuId>,
    /// How much it was: nanoseconds, a key, or late requests.
    pub value: u64,
    /// How much it may be, or at least has to be: nanoseconds, late requests, or the key that should have been taken.
    pub limit: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`MOST`] of each property, in the order in which they ended.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub count: u64,
    /// What was promised or is owed, and nothing in the run could have shown to be broken: it is not fine, but not seen.
    pub not_seen: Vec<Property>,
    /// Tasks that were moved to a runqueue with as many tasks as theirs had, or more (invariant 3 of Lozi et al.). It is
    /// counted and no violation: where CPUs share a queue, who belongs to which of them means nothing until it runs. `None`
    /// where nothing was promised.
    pub useless_migrations: Option<u64>,
}

/// Violations of each property that are kept: a scheduler that breaks a promise breaks it all the time.
pub const MOST: usize = 100;

impl Findings {
    /// A CPU has gone, and its last task of the workload left it at that time: from then on it was on its way. The kernel lets
    /// it idle then, does not say so, and gives it none of the tasks that a scheduler sends there.
    pub(crate) fn forgive(&mut self, cpu: CpuId, since: Nanos) {
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
