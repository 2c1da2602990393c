// SPDX-License-Identifier: GPL-2.0-only
//! Histograms, time accounts and intervals of a run, with the same definitions for simulated and real runs.
//!
//! A [`Collector`] is a sink: it processes each event once, updates its summaries and drops the event. [`Histogram`]
//! stores a latency distribution in a few KB for any number of values; the time during which CPUs idle while tasks
//! wait is updated incrementally, never by a scan of all CPUs.

pub mod catalogue;
mod collector;
mod disks;
mod histogram;
mod idle_while_runnable;
mod load;
mod periods;
mod requests;
mod run;

pub use collector::{Collector, Totals};
pub use disks::{DeviceTotals, DiskMeasures, InterruptUse, NetworkMeasures, PageCacheMeasures};
pub use histogram::Histogram;
pub use load::LoadAverage;
pub use periods::{PeriodSummary, Periods, PeriodsOfTasks};
pub use requests::RequestMeasures;
pub use run::{
    AffinityChange, CpuAccount, GroupMeasures, Hotplug, LatencySummary, LockUse, Migrations, NodeTraffic, PartMeasures,
    RunMeasures, TaskAccount, TaskMeasures,
};
