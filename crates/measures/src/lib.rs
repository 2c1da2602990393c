// SPDX-License-Identifier: GPL-2.0-only
//! Histograms, accounts and intervals of a run. One vocabulary for simulated and real runs.

mod run;

pub use run::{CpuAccount, LatencySummary, Migrations, RunMeasures, TaskAccount, TaskMeasures};
