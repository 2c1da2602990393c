// SPDX-License-Identifier: GPL-2.0-only
//! A run as it passes, as frames for a terminal.
//!
//! 1. A [`Follower`] is a sink. It hears the same events as the measures do, and keeps sums and the state of each task:
//!    its memory grows with the number of tasks, not with that of events.
//! 2. From time to time somebody asks it for a [`Snapshot`]: what a frame shows, as numbers.
//! 3. [`draw`] makes a frame of a snapshot. It knows no clock and no terminal, so tests see what people see.

mod follower;
mod frame;
mod latency;
mod snapshot;

pub use follower::Follower;
pub use frame::{Head, draw};
pub use latency::Latencies;
pub use snapshot::{CpuShare, HISTORY, Snapshot, Waiter};
