// SPDX-License-Identifier: GPL-2.0-only
//! Live view of a run as frames for a terminal.
//!
//! 1. A [`Follower`] is an event sink. It receives the same events as the measures and keeps sums and the state of
//!    each task, so its memory grows with the number of tasks, not with the number of events.
//! 2. The screen periodically takes a [`Snapshot`]: the numbers shown in a frame.
//! 3. [`draw`] renders a snapshot. It uses neither clock nor terminal, so tests can check the exact frame.

mod follower;
mod frame;
mod latency;
mod snapshot;
mod table;

pub use follower::Follower;
pub use frame::{Head, draw};
pub use latency::Latencies;
pub use snapshot::{CpuShare, HISTORY, Snapshot, Waiter};
pub use table::draw_table;
