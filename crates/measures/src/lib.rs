// SPDX-License-Identifier: GPL-2.0-only
//! Histograms, accounts and intervals of a run. One vocabulary for simulated and real runs.
//!
//! A [`Collector`] is a sink: it sees every event once, keeps summaries and forgets the event. [`Histogram`] holds a
//! latency in a few KB whatever its length; idle CPUs beside waiting tasks are found incrementally, never by a scan.

pub mod catalogue;
mod collector;
mod histogram;
mod idle_while_runnable;
mod load;
mod periods;
mod run;

pub use collector::{Collector, Totals};
pub use histogram::Histogram;
pub use load::LoadAverage;
pub use periods::{PeriodSummary, Periods, PeriodsOfTasks};
pub use run::{
    CpuAccount, GroupMeasures, LatencySummary, LockUse, Migrations, PartMeasures, RunMeasures, TaskAccount,
    TaskMeasures,
};
