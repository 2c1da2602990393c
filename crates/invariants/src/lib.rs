// SPDX-License-Identifier: GPL-2.0-only
//! What every run owes and what a scheduler promises, held against the events of a run.
//!
//! | property | broken if | |
//! |---|---|---|
//! | `sanity` | a task is on two CPUs, runs without being runnable, or was not where a switch says | every run |
//! | `affinity` | a task runs where it may not | every run |
//! | `lost-wakeup` | a waiting task is in no queue, while CPUs idle that it may use | every run |
//! | `work-conserving` | a task waits, while CPUs idle that it may use | if promised |
//! | `starvation-ms` | a task waits for longer than that | if promised |
//! | `weighted-share-percent` | a task got more or less than its weight says | if promised |
//! | `key-order` | a queue gave a task while one with a smaller key was in it that may run there as well | if promised |
//! | `preemption-us` | a task waited after waking up, while a CPU that it may use ran a later key | if promised |
//! | `stint-ticks` | a task kept a CPU beyond its slice while others waited for it | if promised |
//! | `gang-corun-percent` | the tasks of a job ran one without the other | if promised |
//! | `windows` | more of a task's requests in a row were late than may be | if promised |
//! | `caps` | a group used more than its hard cap | if promised |
//!
//! [`state`] follows who runs, who waits and in which queue, and finds what contradicts itself; [`unserved`] finds waiting
//! beside idling, [`loads`] the kind that balancing never mends; [`queues`] finds what leaves a queue out of order, [`shares`]
//! who got too much, [`preemption`] who should have got a CPU at once, and [`stints`] who kept one; [`gangs`] look at jobs,
//! [`windows`] at requests, [`caps`] at groups, of which [`demands`] tell. [`Checker`] feeds them and keeps what they find.
//!
//! Whoever changes a mask, takes a CPU away or attaches a scheduler disturbs: waiting counts anew from there on.

mod caps;
mod checker;
mod demands;
mod findings;
mod gangs;
mod ideal;
mod loads;
mod preemption;
mod promises;
mod queues;
mod shares;
mod state;
mod stints;
mod unserved;
mod windows;

pub use checker::Checker;
pub use demands::{Demands, Group, TaskDemand, Window};
pub use findings::{Findings, MOST, Property, Violation};
pub use promises::{Conditions, GangsBy, Promises, WeightedShare, Weights, WorkConserving};

#[cfg(test)]
mod tests;
