// SPDX-License-Identifier: GPL-2.0-only
//! Campaigns: many runs described by one file, whose results become one table.
//!
//! 1. [`Campaign::from_toml`] reads the file: the values of each axis, options that all runs share, and exclusions.
//! 2. Each run has a [`RunId`], the hash of everything that its result depends on. The program computes it.
//! 3. [`Store`] keeps finished runs in a directory, so that a process may be killed at any moment, and any number of
//!    processes may add to it. [`Shard`] divides the runs between them.
//! 4. [`write_tables`] writes the finished runs as Parquet, in the order of the file: the same bytes whatever finished
//!    first.
//!
//! `docs/reference/campaigns.md` describes the file, the directory and the tables.

mod file;
mod identity;
mod store;
mod tables;
mod values;

pub use file::{Axis, Campaign, CampaignError, Exclusion, OPTIONS, Point, Setting};
pub use identity::{Digest, RunId, Shard};
pub use store::{Appender, Buckets, Finished, Store, StoreError, TaskRow};
pub use tables::{Row, SCHEMA_VERSION, write_tables, write_tasks};
pub use values::{Named, ValueError, expand, numbers};
