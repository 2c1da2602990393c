// SPDX-License-Identifier: GPL-2.0-only
//! Checks the events of a run against invariants that hold for every run and promises of the scheduler.
//!
//! | property | violated if | checked |
//! |---|---|---|
//! | `sanity` | a task is on two CPUs, runs without being runnable, or was not where a switch says | in every run |
//! | `affinity` | a task runs on a CPU outside its mask | in every run |
//! | `lost-wakeup` | a task waits in no queue while a CPU idles that it may use, and is put into none later | in every run |
//! | `work-conserving` | a task waits while a CPU idles that it may use | if promised |
//! | `starvation-ms` | a task waits for longer than promised | if promised |
//! | `weighted-share-percent` | a task got more or less CPU time than its weight demands | if promised |
//! | `key-order` | a task was dispatched although a task with a smaller key in its queue may run there as well | if promised |
//! | `preemption-us` | a woken task waited while a CPU that it may use ran a task with a later key | if promised |
//! | `stint-ticks` | a task kept a CPU beyond its slice while others waited for it | if promised |
//! | `gang-corun-percent` | the tasks of a job ran at different times | if promised |
//! | `windows` | more of a task's consecutive requests were late than allowed | if promised |
//! | `caps` | a group used more than its hard cap | if promised |
//!
//! [`warnings`] finds what needs no promise to look wrong: a task beside an idle CPU or without CPU time for long, equal
//! tasks with unequal CPU time, weights that have the opposite effect, keys that stand still. `weir check` and
//! `weir sim --warn` ask for them.
//!
//! [`state`] follows the state of tasks and CPUs and finds contradictions; [`queues`] finds tasks dispatched out of
//! order; [`unserved`] finds tasks that wait while CPUs idle, [`lost`] those of them that are in no queue for good, and
//! [`loads`] those that balancing never helps;
//! [`shares`] compares CPU time with weights; [`preemption`] finds woken tasks that wait too long, [`run_intervals`]
//! tasks that keep a CPU too long; [`gangs`] checks jobs, [`windows`] requests and [`caps`] groups, which [`demands`]
//! describes. [`Checker`] passes the events to them and collects the violations.
//!
//! After a change of masks, online CPUs or scheduler, the checker *resets*: schedulers need time to adapt, so waits
//! count from that time on and windows restart.

mod caps;
mod checker;
mod demands;
mod displaced;
mod findings;
mod gangs;
mod ideal;
mod loads;
mod lost;
mod preemption;
mod promises;
mod queues;
mod run_intervals;
mod shares;
mod state;
mod unserved;
mod warnings;
mod windows;

pub use checker::Checker;
pub use demands::{Demands, Group, TaskDemand, Window};
pub use findings::{Findings, MOST, Property, Violation};
pub use promises::{Conditions, GangsBy, Promises, WeightedShare, Weights, WorkConserving};

#[cfg(test)]
mod tests;
